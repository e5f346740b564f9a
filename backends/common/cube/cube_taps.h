// CubeTaps: operand A as the transposed matrix of windows, multiplied tap by tap on the images
// where they lie. The rows of a tap are the channels side by side; its k are the windows whose tap
// is inside of the image. A tap outside is zero and is left out, so nothing is copied or padded. A
// value; any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_CUBE_TAPS_H
#define KEEL_BACKENDS_COMMON_CUBE_CUBE_TAPS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "keel/backends/common/cube/cube_kernels.h"

namespace keel {

class CubeTaps {
 public:
  // Returns null where A is no such matrix, where its images are not f32, and where tiles of the
  // plan's kernels would have rows of several taps.
  static std::shared_ptr<const CubeTaps> of(const CubePlan& plan);

  // Elements of A from a window of a line to the next.
  size_t k_step() const { return static_cast<size_t>(axes()[1].step * axes()[1].pitch); }
  // Rows of A that are one tap's, and which of them `row` is; where it lies from the tap on.
  size_t rows_of_tap() const { return static_cast<size_t>(windows_.channels); }
  size_t tap_of(size_t row) const { return row / rows_of_tap(); }
  size_t place_of(size_t row) const;
  // Writes the runs of windows [first, first + count) whose tap is inside; returns how many runs,
  // at most `count`. Their k of B are counted from `first` on.
  size_t list_runs(size_t tap, size_t first, size_t count, TapRun* runs) const;
  // Windows of which the elements of A and as many rows of `columns` of B stay in L1.
  size_t windows_at_once(size_t columns) const;

 private:
  explicit CubeTaps(const WindowRows& windows);
  const std::array<WindowRows::Axis, 2>& axes() const { return windows_.axes; }

  WindowRows windows_;
  // By tap across, the windows [begin, end) of a line in which it is inside.
  struct Inside {
    int64_t begin = 0, end = 0;
  };
  std::vector<Inside> across_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_CUBE_TAPS_H
