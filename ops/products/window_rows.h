// WindowRows: a matrix whose rows are windows over images, as a description of where its elements
// lie: nobody writes such a matrix out as a whole. Products of convolutions read operands this way.
// A value; any thread.
#ifndef KEEL_OPS_PRODUCTS_WINDOW_ROWS_H
#define KEEL_OPS_PRODUCTS_WINDOW_ROWS_H

#include <array>
#include <cstdint>

namespace keel {

// Rows count images, then windows along both axes; columns count taps along both axes, then
// channels, which lie side by side. A tap outside of the image is zero.
struct WindowRows {
  struct Axis {
    int64_t windows = 1;
    int64_t taps = 1;
    int64_t size = 1;      // positions of the image
    int64_t first = 0;     // the position of tap 0 of window 0
    int64_t step = 1;      // positions from a window to the next
    int64_t tap_step = 1;  // positions from a tap to the next; may be negative
    int64_t pitch = 0;     // elements from a position to the next

    int64_t position(int64_t window, int64_t tap) const {
      return first + window * step + tap * tap_step;
    }
    bool inside(int64_t position) const { return position >= 0 && position < size; }
    bool reaches_outside() const {
      const int64_t last = windows - 1, end = taps - 1;
      return !inside(position(0, 0)) || !inside(position(0, end)) || !inside(position(last, 0)) ||
             !inside(position(last, end));
    }
  };
  std::array<Axis, 2> axes;  // down, across
  int64_t image_pitch = 0;   // elements from an image to the next
  int64_t channels = 1;

  // Columns of one line of taps.
  int64_t line() const { return axes[1].taps * channels; }
  bool has_padding() const { return axes[0].reaches_outside() || axes[1].reaches_outside(); }
};

}  // namespace keel

#endif  // KEEL_OPS_PRODUCTS_WINDOW_ROWS_H
