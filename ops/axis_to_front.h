// Permutations that put axes in front, where scatter_add adds rows, and back. Internal to ops.
#ifndef KEEL_OPS_AXIS_TO_FRONT_H
#define KEEL_OPS_AXIS_TO_FRONT_H

#include <cstdint>
#include <vector>

namespace keel {

// Returns the permutation of `rank` axes that puts `count` of them, from `axis` on, in front.
inline std::vector<int64_t> axes_to_front(int64_t axis, int64_t count, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < count; ++i) axes.push_back(axis + i);
  for (int64_t i = 0; i < rank; ++i) {
    if (i < axis || i >= axis + count) axes.push_back(i);
  }
  return axes;
}

// Returns the permutation of `rank` axes that puts the first one back to where `axis` is.
inline std::vector<int64_t> front_to_axis(int64_t axis, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i == axis ? 0 : (i < axis ? i + 1 : i));
  return axes;
}

}  // namespace keel

#endif  // KEEL_OPS_AXIS_TO_FRONT_H
