// Arrays of indices in any integer dtype, as kernels that read or write by index get them. Pure;
// any thread.
#ifndef KEEL_BACKENDS_COMMON_INDICES_H
#define KEEL_BACKENDS_COMMON_INDICES_H

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/base/dtype.h"
#include "keel/core/base/error.h"

namespace keel {

// Calls f with the indices as an array of their own type.
template <class F>
void with_indices(DType dtype, const void* indices, F&& f) {
  if (dtype == i64)
    f(static_cast<const int64_t*>(indices));
  else if (dtype == i32)
    f(static_cast<const int32_t*>(indices));
  else
    f(static_cast<const uint8_t*>(indices));
}

// Throws Error for an index outside [0, size); called before anything is written. `axis` is the one
// that is indexed, `argument` the op's name for the indices.
template <class Index>
void check_indices(const Index* indices, int64_t count, int64_t size, const std::string& op,
                   std::optional<int64_t> axis = {}, const char* argument = "indices") {
  // The extremes first, which takes no branch for each.
  Index lowest = 0, highest = 0;
  for (int64_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, indices[i]);
    highest = std::max(highest, indices[i]);
  }
  if (count == 0 || (static_cast<int64_t>(lowest) >= 0 && static_cast<int64_t>(highest) < size)) {
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<int64_t>(indices[i]);
    if (index >= 0 && index < size) continue;
    throw Error({.op = op,
                 .argument = argument + (axis ? " along axis " + std::to_string(*axis) : ""),
                 .expected = size == 0 ? "none, since the axis is empty"
                                       : "indices from 0 to " + std::to_string(size - 1),
                 .got = std::to_string(index) + " at position " + std::to_string(i)});
  }
}

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_INDICES_H
