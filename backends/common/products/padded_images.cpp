#include "keel/backends/common/products/padded_images.h"

#include <algorithm>

#include "keel/backends/common/window_copy.h"

namespace keel {
namespace {

using Axis = WindowRows::Axis;

// The axis of one window that covers the image and what all matrices reach to.
Axis covering(const std::vector<WindowRows>& matrices, size_t number) {
  Axis all = matrices.front().axes[number];
  int64_t lowest = 0, highest = all.size - 1;
  for (const WindowRows& matrix : matrices) {
    const Axis& axis = matrix.axes[number];
    lowest = std::min(lowest, axis.first);
    highest = std::max(highest, axis.position(axis.windows - 1, axis.taps - 1));
  }
  all.first = lowest;
  all.taps = highest - lowest + 1;
  all.windows = all.step = all.tap_step = 1;
  return all;
}

}  // namespace

PaddedImages::PaddedImages(const std::vector<WindowRows>& matrices) : whole_(matrices.front()) {
  whole_.axes = {covering(matrices, 0), covering(matrices, 1)};
}

WindowRows PaddedImages::over_copy(const WindowRows& matrix) const {
  WindowRows result = matrix;
  for (size_t i = 0; i < result.axes.size(); ++i) {
    result.axes[i].first -= whole_.axes[i].first;
    result.axes[i].size = whole_.axes[i].taps;
  }
  result.axes[1].pitch = whole_.channels;
  result.axes[0].pitch = line_elements();
  result.image_pitch = place(1, 0);
  return result;
}

void PaddedImages::copy(const void* images, size_t element_size, const Part& part, void* to) const {
  const int64_t columns = part.lines * line_elements();
  copy_windows(whole_, images, element_size,
               {part.image, part.images, part.line * line_elements(), columns}, to,
               static_cast<size_t>(columns));
}

}  // namespace keel
