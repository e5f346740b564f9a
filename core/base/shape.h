// Shape: the dimensions of a tensor, stored inline, rank <= 8. A dimension of -1 is one not known
// until the run; only graphs before specialisation have those. Type: dtype and shape together.
// Plain values; any thread.
#ifndef KEEL_CORE_BASE_SHAPE_H
#define KEEL_CORE_BASE_SHAPE_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel {

inline constexpr int64_t kUnknownDim = -1;

class KEEL_API Shape {
 public:
  static constexpr size_t kMaxRank = 8;

  Shape() = default;  // rank 0: a scalar
  // Throws Error for a rank above kMaxRank or a dimension below -1. A braced list is written where
  // the mistake is, so it brings its line along; computed dimensions name one only if it is given.
  Shape(std::initializer_list<int64_t> dims, CallSite site = CallSite::here());
  explicit Shape(std::span<const int64_t> dims, CallSite site = {});
  explicit Shape(const std::vector<int64_t>& dims, CallSite site = {});

  size_t rank() const noexcept { return rank_; }
  // REQUIRES axis < rank().
  int64_t operator[](size_t axis) const noexcept { return dims_[axis]; }
  std::span<const int64_t> dims() const noexcept { return {dims_.data(), rank_}; }
  const int64_t* begin() const noexcept { return dims_.data(); }
  const int64_t* end() const noexcept { return dims_.data() + rank_; }
  // REQUIRES rank() > 0.
  int64_t back() const noexcept { return dims_[rank_ - 1]; }

  // Returns whether every dimension is known.
  bool known() const noexcept;
  // Product of the dimensions (1 for rank 0); throws Error on overflow or an unknown dimension.
  int64_t num_elements() const;
  // num_elements times the element size, checked.
  size_t num_bytes(DType dtype) const;
  // Row-major strides in elements; REQUIRES known(). Throws Error on overflow.
  std::array<int64_t, kMaxRank> strides() const;

  // Throw Error for an axis that is not there.
  Shape with_dim(size_t axis, int64_t dim) const;
  Shape without_dim(size_t axis) const;
  Shape with_inserted(size_t axis, int64_t dim) const;
  void push_back(int64_t dim, CallSite site = {});

  // Inline: passes compare shapes by the ten thousand.
  bool operator==(const Shape& other) const noexcept {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

// "[128, 784]"; unknown dimensions print as "?".
KEEL_API std::string to_string(const Shape& shape);

// Returns the NumPy broadcast of two shapes; -1 with 1 or -1 stays -1, -1 with n is n. nullopt
// where they do not broadcast.
KEEL_API std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// Returns whether a value of shape `got` can stand where `expected` (with unknown dimensions) is
// declared.
KEEL_API bool matches(const Shape& expected, const Shape& got) noexcept;

struct Type {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const Type&) const = default;
};

// "f32[128, 784]".
KEEL_API std::string to_string(const Type& type);

}  // namespace keel

#endif  // KEEL_CORE_BASE_SHAPE_H
