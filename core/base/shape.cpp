#include "keel/core/base/shape.h"

#include <algorithm>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

void require_axis(size_t axis, size_t count, const Shape& shape) {
  if (axis < count) return;
  throw Error({.op = "shape",
               .argument = "axis",
               .expected = "one of the " + std::to_string(count) + " axes of " + to_string(shape),
               .got = std::to_string(axis)});
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims, CallSite site)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size()), site) {}

Shape::Shape(const std::vector<int64_t>& dims, CallSite site)
    : Shape(std::span<const int64_t>(dims), site) {}

Shape::Shape(std::span<const int64_t> dims, CallSite site) {
  for (const int64_t dim : dims) push_back(dim, site);
}

void Shape::push_back(int64_t dim, CallSite site) {
  if (rank_ == kMaxRank) {
    throw Error({.op = "shape",
                 .expected = "rank of at most " + std::to_string(kMaxRank),
                 .got = "more dimensions than that",
                 .fix = "merge dimensions with reshape",
                 .site = site});
  }
  if (dim < kUnknownDim) {
    throw Error({.op = "shape",
                 .expected = "dimensions >= 0, or -1 for unknown",
                 .got = std::to_string(dim),
                 .site = site});
  }
  dims_[rank_++] = dim;
}

bool Shape::known() const noexcept {
  return std::all_of(begin(), end(), [](int64_t d) { return d >= 0; });
}

int64_t Shape::num_elements() const {
  // A zero anywhere makes the product zero, but the others must not overflow on the way.
  int64_t product = 1;
  bool empty = false;
  for (const int64_t dim : dims()) {
    if (dim < 0) {
      throw Error({.op = "shape",
                   .expected = "known dimensions",
                   .got = to_string(*this),
                   .fix = "give each dimension a number"});
    }
    if (dim == 0)
      empty = true;
    else
      product = checked_mul(product, dim, "number of elements");
  }
  return empty ? 0 : product;
}

size_t Shape::num_bytes(DType dtype) const {
  return static_cast<size_t>(
      checked_mul(num_elements(), static_cast<int64_t>(size_of(dtype)), "number of bytes"));
}

std::array<int64_t, Shape::kMaxRank> Shape::strides() const {
  std::array<int64_t, kMaxRank> result{};
  int64_t stride = 1;
  for (size_t i = rank_; i-- > 0;) {
    result[i] = stride;
    stride = checked_mul(stride, std::max<int64_t>(dims_[i], 1), "stride");
  }
  return result;
}

Shape Shape::with_dim(size_t axis, int64_t dim) const {
  require_axis(axis, rank_, *this);
  std::vector<int64_t> dims(begin(), end());
  dims[axis] = dim;
  return Shape(dims);
}

Shape Shape::without_dim(size_t axis) const {
  require_axis(axis, rank_, *this);
  std::vector<int64_t> dims(begin(), end());
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return Shape(dims);
}

Shape Shape::with_inserted(size_t axis, int64_t dim) const {
  require_axis(axis, rank_ + 1, *this);
  std::vector<int64_t> dims(begin(), end());
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), dim);
  return Shape(dims);
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i != 0) text += ", ";
    text += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return text + "]";
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.rank(), b.rank());
  std::array<int64_t, Shape::kMaxRank> dims{};
  for (size_t i = 0; i < rank; ++i) {
    const size_t from_end = rank - i;
    const int64_t x = from_end <= a.rank() ? a[a.rank() - from_end] : 1;
    const int64_t y = from_end <= b.rank() ? b[b.rank() - from_end] : 1;
    // NOLINTBEGIN(bugprone-branch-clone): one rule after the other.
    if (x == y)
      dims[i] = x;
    else if (x == 1)
      dims[i] = y;
    else if (y == 1)
      dims[i] = x;
    else if (x < 0)
      dims[i] = y;
    else if (y < 0)
      dims[i] = x;
    else
      return std::nullopt;
    // NOLINTEND(bugprone-branch-clone)
  }
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

bool matches(const Shape& expected, const Shape& got) noexcept {
  if (expected.rank() != got.rank()) return false;
  for (size_t i = 0; i < got.rank(); ++i) {
    if (expected[i] >= 0 && expected[i] != got[i]) return false;
  }
  return true;
}

std::string to_string(const Type& type) { return name_of(type.dtype) + to_string(type.shape); }

}  // namespace keel
