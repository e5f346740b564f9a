// Which axis of a reshaped value has the parts that lay along an axis before. Internal to
// ops/parts. Pure functions; any thread.
#ifndef KEEL_OPS_PARTS_PART_AXES_H
#define KEEL_OPS_PARTS_PART_AXES_H

#include <cstddef>
#include <cstdint>
#include <optional>

#include "keel/core/base/shape.h"

namespace keel {

inline int64_t elements_before(const Shape& shape, size_t axis) {
  int64_t count = 1;
  for (size_t i = 0; i < axis; ++i) count *= shape[i];
  return count;
}

// Returns the axis of `to` along which a value of all parts goes on as it did along `axis` of
// `from`, both being shapes of one part's elements in row-major order. Parts lie side by side
// behind as many elements of the axes before. Nothing where no axis of `to` begins there.
inline std::optional<size_t> axis_of_view(const Shape& from, size_t axis, const Shape& to) {
  const int64_t before = elements_before(from, axis);
  std::optional<size_t> found;
  for (size_t i = 0; i < to.rank(); ++i) {
    if (elements_before(to, i) != before) continue;
    if (to[i] == from[axis]) return i;
    found = i;
  }
  return found;
}

}  // namespace keel

#endif  // KEEL_OPS_PARTS_PART_AXES_H
