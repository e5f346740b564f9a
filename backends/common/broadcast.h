// BroadcastReader: copies a range of the elements of an input as they appear when broadcast to a
// larger shape, so that what comes behind sees contiguous elements only. Immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_BROADCAST_H
#define KEEL_BACKENDS_COMMON_BROADCAST_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/core/base/shape.h"

namespace keel {

class BroadcastReader {
 public:
  // REQUIRES that `from` broadcasts to `to`, and an element size of 1, 2, 4 or 8.
  BroadcastReader(const Shape& from, const Shape& to, size_t element_size);

  // Elements [begin, begin + count) of the broadcast, row-major, into dst.
  void read(const void* source, void* dst, int64_t begin, int64_t count) const;

 private:
  // Dimensions of the larger shape, neighbours merged where the source's strides allow; the last is
  // the run that is copied (stride 1) or filled (stride 0) at once.
  size_t rank_ = 0;
  std::array<int64_t, Shape::kMaxRank> dims_{};
  std::array<int64_t, Shape::kMaxRank> strides_{};
  size_t element_size_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_BROADCAST_H
