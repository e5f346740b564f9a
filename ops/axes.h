// Axes in attributes are counted from the front, so that kernels need not resolve them; builders
// turn the user's negative axes into that form, and inference refuses what is left. Pure functions;
// any thread.
#ifndef KEEL_OPS_AXES_H
#define KEEL_OPS_AXES_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/graph/ir/op_def.h"

namespace keel {

// Returns a negative axis of a value of that rank counted from the front; one that is out of range
// as it is, for inference to report.
inline int64_t axis_from_front(int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  return axis < 0 && axis >= -n ? axis + n : axis;
}

inline std::vector<int64_t> axes_from_front(std::vector<int64_t> axes, size_t rank) {
  for (int64_t& axis : axes) axis = axis_from_front(axis, rank);
  return axes;
}

// Returns whether reshape could not tell the unknown dimension of `shape`: beside a 0 any number
// would do.
inline bool is_undetermined(const Shape& shape) {
  bool unknown = false, empty = false;
  for (const int64_t dim : shape) {
    unknown = unknown || dim < 0;
    empty = empty || dim == 0;
  }
  return unknown && empty;
}

// Throws Error unless `axis` is one of 0 to rank - 1. Its text is right for attributes, which may
// have been read from a file, as well as for the arguments of builders.
inline size_t require_axis(const InferContext& c, const std::string& argument, int64_t axis,
                           size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  if (axis < 0 || axis >= n) {
    if (rank == 0) c.fail(argument, "a value with at least one axis", std::to_string(axis));
    c.fail(argument, "an axis from 0 to " + std::to_string(n - 1) + ", counted from the front",
           std::to_string(axis),
           "functions that build ops also take " + std::to_string(-n) +
               " to -1, counted from the back");
  }
  return static_cast<size_t>(axis);
}

// Marks which of `rank` axes are listed. Throws Error for one that is out of range or listed twice.
inline std::vector<bool> require_axes(const InferContext& c, const std::vector<int64_t>& axes,
                                      size_t rank) {
  std::vector<bool> listed(rank, false);
  for (const int64_t axis : axes) {
    const size_t i = require_axis(c, "axes", axis, rank);
    if (listed[i]) c.fail("axes", "each axis once", "axis " + std::to_string(axis) + " twice");
    listed[i] = true;
  }
  return listed;
}

}  // namespace keel

#endif  // KEEL_OPS_AXES_H
