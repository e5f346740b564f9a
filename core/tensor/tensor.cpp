#include "keel/core/tensor/tensor.h"

#include <utility>

#include "keel/core/tensor/convert.h"

namespace keel {
namespace {

// Returns the number of elements, where a tensor may have this type at all.
int64_t checked_elements(DType dtype, const Shape& shape, CallSite site) {
  if (size_of(dtype) == 0) {
    throw Error({.op = "tensor",
                 .argument = "dtype",
                 .expected = "a dtype with elements",
                 .got = name_of(dtype),
                 .site = site});
  }
  if (!shape.known()) {
    throw Error({.op = "tensor",
                 .argument = "shape",
                 .expected = "known dimensions",
                 .got = to_string(shape),
                 .fix = "give each dimension a number; only inputs of a graph may leave one open",
                 .site = site});
  }
  try {
    static_cast<void>(shape.num_bytes(dtype));
    return shape.num_elements();
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

}  // namespace

Tensor::Tensor(DType dtype, const Shape& shape, CallSite site)
    : type_{dtype, shape}, num_elements_(checked_elements(dtype, shape, site)) {
  buffer_ = allocate_host_buffer(shape.num_bytes(dtype));
  address_ = buffer_->address();
}

Tensor::Tensor(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer, size_t offset)
    : type_{dtype, shape},
      num_elements_(checked_elements(dtype, shape, {})),
      buffer_(std::move(buffer)) {
  const size_t bytes = shape.num_bytes(dtype);
  if (buffer_ == nullptr || !buffer_->host_accessible()) {
    throw Error({.op = "tensor",
                 .argument = "buffer",
                 .expected = "host memory",
                 .got = "device memory",
                 .fix = "copy it to the host through a stream"});
  }
  if (offset > buffer_->size() || bytes > buffer_->size() - offset) {
    throw Error(
        {.op = "tensor",
         .argument = "buffer",
         .expected = std::to_string(bytes) + " bytes for " + to_string(type_),
         .got = std::to_string(buffer_->size()) + " bytes, offset " + std::to_string(offset)});
  }
  address_ = static_cast<char*>(buffer_->address()) + offset;
}

Tensor Tensor::full(DType dtype, const Shape& shape, double value, CallSite site) {
  Tensor t(dtype, shape, site);
  visit_dtype(dtype, [&]<class T>() {
    const T element = convert_element<T>(value);
    for (T& e : t.data<T>()) e = element;
  });
  return t;
}

double Tensor::at(int64_t index, CallSite site) const {
  if (index < 0 || index >= num_elements_) {
    throw Error(
        {.op = "tensor",
         .argument = "index",
         .expected = num_elements_ == 0 ? "a tensor with elements"
                                        : "0 to " + std::to_string(num_elements_ - 1),
         .got = empty() ? "an empty Tensor" : std::to_string(index) + " in " + to_string(type_),
         .site = site});
  }
  return visit_dtype(dtype(), [&]<class T>() {
    return convert_element<double>(data<T>()[static_cast<size_t>(index)]);
  });
}

void Tensor::set(int64_t index, double value, CallSite site) {
  static_cast<void>(at(index, site));
  visit_dtype(dtype(), [&]<class T>() {
    data<T>()[static_cast<size_t>(index)] = convert_element<T>(value);
  });
}

Tensor Tensor::reshaped(const Shape& shape, CallSite site) const {
  if (empty() || checked_elements(type_.dtype, shape, site) != num_elements_) {
    throw Error({.op = "tensor reshape",
                 .argument = "shape",
                 .expected = empty() ? "a tensor"
                                     : "the " + std::to_string(num_elements_) + " elements of " +
                                           to_string(type_),
                 .got = empty() ? "an empty Tensor" : to_string(shape),
                 .site = site});
  }
  Tensor t = *this;
  t.type_.shape = shape;
  return t;
}

Tensor Tensor::clone() const {
  if (empty()) return {};
  Tensor t(dtype(), shape());
  if (num_bytes() != 0) std::memcpy(t.raw(), raw(), num_bytes());
  return t;
}

Tensor Tensor::cast(DType to, CallSite site) const {
  require_dtype(type_.dtype, site);
  Tensor t(to, shape(), site);
  visit_dtype(dtype(), [&]<class From>() {
    visit_dtype(to, [&]<class To>() {
      const auto from = data<From>();
      const auto out = t.data<To>();
      for (size_t i = 0; i < from.size(); ++i) out[i] = convert_element<To>(from[i]);
    });
  });
  return t;
}

void Tensor::require_dtype(DType dtype, CallSite site) const {
  if (!empty() && dtype == type_.dtype) return;
  throw Error({.op = "tensor",
               .argument = "element type",
               .expected = empty() ? "a tensor" : name_of(type_.dtype),
               .got = empty() ? "an empty Tensor" : name_of(dtype),
               .fix = empty() ? "give it a dtype and a shape first"
                              : "ask for the tensor's own dtype, or cast it first",
               .site = site});
}

void Tensor::require_values(size_t count, CallSite site) const {
  if (static_cast<size_t>(num_elements_) == count) return;
  throw Error({.op = "tensor",
               .argument = "values",
               .expected = std::to_string(num_elements_) + " for " + to_string(type_),
               .got = std::to_string(count),
               .site = site});
}

void Tensor::require_one(CallSite site) const {
  if (!empty() && num_elements_ == 1) return;
  throw Error({.op = "tensor item",
               .expected = "a tensor of one element",
               .got = empty() ? "an empty Tensor"
                              : std::to_string(num_elements_) + " in " + to_string(type_),
               .fix = empty() ? "give it a dtype and a shape first"
                              : "use at(index) or data<T>() for one of several",
               .site = site});
}

bool bit_equal(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty()) return a.empty() == b.empty();
  return a.type() == b.type() &&
         (a.num_bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0);
}

}  // namespace keel
