// Tensor: dtype, shape and a shared host Buffer; contiguous, row-major. Copies share the memory;
// clone() does not. What graphs take as constants and initial values, what feeds and fetches are.
// Device memory is not a Tensor: it belongs to Sessions and queues as Buffers. Reading from several
// threads is fine; writing needs the caller's order.
#ifndef KEEL_CORE_TENSOR_TENSOR_H
#define KEEL_CORE_TENSOR_TENSOR_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/error.h"
#include "keel/core/base/shape.h"
#include "keel/core/tensor/buffer.h"

namespace keel {

class KEEL_API Tensor {
 public:
  Tensor() = default;  // empty(): no type, no memory
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  // One that was moved from is empty.
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor taken(std::move(other));
    swap(taken);
    return *this;
  }
  // Zero-filled. Throws Error where the size overflows, a dimension is unknown, or memory is short.
  Tensor(DType dtype, const Shape& shape, CallSite site = CallSite::here());
  // A view of `buffer` from `offset` bytes on; REQUIRES host-accessible memory; throws when it is
  // too small.
  Tensor(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer, size_t offset = 0);

  // Makes a tensor from values in row-major order; throws when their number differs from the
  // shape's.
  template <class T>
  static Tensor of(const Shape& shape, std::span<const T> values,
                   CallSite site = CallSite::here()) {
    Tensor t(dtype_of<T>, shape, site);
    t.require_values(values.size(), site);
    if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
    return t;
  }
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values,
                   CallSite site = CallSite::here()) {
    return of(shape, std::span<const T>(values.begin(), values.size()), site);
  }
  template <class T>
  static Tensor of(const Shape& shape, const std::vector<T>& values,
                   CallSite site = CallSite::here()) {
    return of(shape, std::span<const T>(values), site);
  }
  template <class T>
  static Tensor scalar(T value) {
    return of<T>(Shape{}, {value});
  }
  // Returns every element `value`, rounded to dtype.
  static Tensor full(DType dtype, const Shape& shape, double value,
                     CallSite site = CallSite::here());

  bool empty() const noexcept { return buffer_ == nullptr; }
  DType dtype() const noexcept { return type_.dtype; }
  const Shape& shape() const noexcept { return type_.shape; }
  const Type& type() const noexcept { return type_; }
  int64_t num_elements() const noexcept { return num_elements_; }
  size_t num_bytes() const noexcept {
    return static_cast<size_t>(num_elements_) * size_of(type_.dtype);
  }

  void* raw() noexcept { return address_; }
  const void* raw() const noexcept { return address_; }

  // Returns the elements; throws Error when T is not the tensor's dtype.
  template <class T>
  std::span<T> data(CallSite site = CallSite::here()) {
    require_dtype(dtype_of<T>, site);
    return {static_cast<T*>(raw()), static_cast<size_t>(num_elements_)};
  }
  template <class T>
  std::span<const T> data(CallSite site = CallSite::here()) const {
    require_dtype(dtype_of<T>, site);
    return {static_cast<const T*>(raw()), static_cast<size_t>(num_elements_)};
  }
  // Returns the only element; throws unless there is exactly one of type T.
  template <class T>
  T item(CallSite site = CallSite::here()) const {
    require_one(site);
    return data<T>(site)[0];
  }
  // Element `index` (row-major) as a double; i64 beyond 2^53 loses digits. Throws Error for an
  // index out of range.
  double at(int64_t index, CallSite site = CallSite::here()) const;
  void set(int64_t index, double value, CallSite site = CallSite::here());

  // Returns the same memory under another shape of as many elements.
  Tensor reshaped(const Shape& shape, CallSite site = CallSite::here()) const;
  Tensor clone() const;
  // Returns each element converted as the `cast` op does.
  Tensor cast(DType dtype, CallSite site = CallSite::here()) const;

  const std::shared_ptr<Buffer>& buffer() const noexcept { return buffer_; }

 private:
  void require_dtype(DType dtype, CallSite site) const;
  void require_values(size_t count, CallSite site) const;
  void require_one(CallSite site) const;
  void swap(Tensor& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(num_elements_, other.num_elements_);
    std::swap(address_, other.address_);
    buffer_.swap(other.buffer_);
  }

  Type type_;
  int64_t num_elements_ = 0;
  std::shared_ptr<Buffer> buffer_;
  void* address_ = nullptr;
};

// Same dtype, shape and bytes.
KEEL_API bool bit_equal(const Tensor& a, const Tensor& b);

// Laid out like NumPy prints: nested brackets, aligned columns, "..." in the middle of more than
// 1000 elements.
KEEL_API std::string to_string(const Tensor& tensor);

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_TENSOR_H
