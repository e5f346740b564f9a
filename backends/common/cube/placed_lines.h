// PlacedLines: where rows of C begin whose lines have places of their own (CubeArgs::c_lines), in
// elements from C. Internal to this folder; a view of the arguments; any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_PLACED_LINES_H
#define KEEL_BACKENDS_COMMON_CUBE_PLACED_LINES_H

#include <algorithm>
#include <cstddef>

#include "keel/backends/common/cube/cube.h"

namespace keel {

class PlacedLines {
 public:
  // A line has `rows` rows. REQUIRES that args.c_row is the first one of a line.
  PlacedLines(const CubeArgs& args, size_t rows)
      : lines_(args.c_lines), rows_(rows), first_(args.c_row / rows), stride_(args.c_stride) {}

  size_t operator()(size_t row) const {
    return lines_[row / rows_ - first_] + row % rows_ * stride_;
  }

  // Writes the places of `count` rows from `first` on, and for those behind, up to `all`, that of
  // the last one.
  void list(size_t first, size_t count, size_t all, size_t* places) const {
    for (size_t done = 0; done < count;) {
      const size_t row = first + done, of_line = std::min(rows_ - row % rows_, count - done);
      const size_t place = (*this)(row);
      for (size_t r = 0; r < of_line; ++r) places[done + r] = place + r * stride_;
      done += of_line;
    }
    std::fill(places + count, places + all, places[count - 1]);
  }

 private:
  const size_t* lines_;
  size_t rows_, first_, stride_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_PLACED_LINES_H
