#include "keel/backends/common/window_copy.h"

#include <algorithm>
#include <cstring>

namespace keel {
namespace {

// Runs are short: a call of the library's copy costs as much as they do.
constexpr int64_t kShortRun = 8;

template <class T>
void copy_run(const T* from, int64_t count, T* to) {
  if (count <= kShortRun) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  }
}
template <class T>
void clear_run(int64_t count, T* to) {
  if (count > 0) std::memset(to, 0, static_cast<size_t>(count) * sizeof(T));
}

template <class T>
class WindowCopy {
 public:
  WindowCopy(const WindowRows& windows, const MatrixPart& part)
      : down_(windows.axes[0]),
        across_(windows.axes[1]),
        windows_(windows),
        part_(part),
        line_(windows.line()),
        first_tap_(part.column / line_),
        first_in_line_(part.column % line_),
        in_line_(across_.tap_step == 1 && across_.pitch == windows.channels) {}

  void run(const T* images, T* to, size_t stride) const {
    const int64_t of_image = down_.windows * across_.windows;
    const T* image = images + part_.row / of_image * windows_.image_pitch;
    int64_t i = part_.row % of_image / across_.windows, j = part_.row % across_.windows;
    for (int64_t row = 0; row < part_.rows; ++row, to += stride) {
      copy_row(image, down_.position(i, 0), across_.position(j, 0), to);
      if (++j < across_.windows) continue;
      j = 0;
      if (++i < down_.windows) continue;
      i = 0;
      image += windows_.image_pitch;
    }
  }

 private:
  // One window, whose tap 0 lies on (y, x).
  void copy_row(const T* image, int64_t y, int64_t x, T* to) const {
    int64_t tap = first_tap_, at = first_in_line_;
    for (int64_t left = part_.columns; left > 0;) {
      const int64_t count = std::min(left, line_ - at);
      copy_line(image, y + tap * down_.tap_step, x, at, count, to);
      to += count;
      left -= count;
      at = 0;
      ++tap;
    }
  }

  // Columns [at, at + count) of a line of taps, of which tap 0 lies on (y, x).
  void copy_line(const T* image, int64_t y, int64_t x, int64_t at, int64_t count, T* to) const {
    if (!down_.inside(y)) return clear_run(count, to);
    const T* line = image + y * down_.pitch;
    if (!in_line_) return copy_taps(line, x, at, count, to);
    const int64_t from = x * windows_.channels + at;
    const int64_t begin = std::clamp<int64_t>(-from, 0, count);
    const int64_t end = std::clamp<int64_t>(across_.size * windows_.channels - from, begin, count);
    clear_run(begin, to);
    if (end > begin) copy_run(line + from + begin, end - begin, to + begin);
    clear_run(count - end, to + end);
  }

  // The same where the taps do not lie side by side.
  void copy_taps(const T* line, int64_t x, int64_t at, int64_t count, T* to) const {
    int64_t tap = at / windows_.channels, channel = at % windows_.channels;
    for (int64_t left = count; left > 0; ++tap, channel = 0) {
      const int64_t run = std::min(left, windows_.channels - channel);
      const int64_t position = x + tap * across_.tap_step;
      if (across_.inside(position)) {
        copy_run(line + position * across_.pitch + channel, run, to);
      } else {
        clear_run(run, to);
      }
      to += run;
      left -= run;
    }
  }

  const WindowRows::Axis &down_, &across_;
  const WindowRows& windows_;
  const MatrixPart& part_;
  const int64_t line_;
  // Where the part's first column lies in each window: its line of taps, and the column there.
  const int64_t first_tap_, first_in_line_;
  const bool in_line_;  // whether taps across lie side by side
};

}  // namespace

void copy_windows(const WindowRows& windows, const void* images, size_t element_size,
                  const MatrixPart& part, void* to, size_t stride) {
  const auto copy = [&]<class T>(T* typed) {
    WindowCopy<T>(windows, part).run(static_cast<const T*>(images), typed, stride);
  };
  switch (element_size) {
    case 1:
      return copy(static_cast<uint8_t*>(to));
    case 2:
      return copy(static_cast<uint16_t*>(to));
    case 4:
      return copy(static_cast<uint32_t*>(to));
    default:
      return copy(static_cast<uint64_t*>(to));
  }
}

}  // namespace keel
