// PaddedImages: a copy of some images with zeros around each, as far as several matrices of windows
// over them reach together, so that one copy serves them all. It describes the copy; memory is the
// caller's. A value; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_PADDED_IMAGES_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_PADDED_IMAGES_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/ops/products/window_rows.h"

namespace keel {

class PaddedImages {
 public:
  // REQUIRES one matrix at least, all over the same images, and with taps that
  // follow each other upwards.
  explicit PaddedImages(const std::vector<WindowRows>& matrices);

  // Says whether any window reaches beyond an image.
  bool has_padding() const { return whole_.has_padding(); }

  // Lines of the copy of one image, and elements of a line.
  int64_t lines() const { return whole_.axes[0].taps; }
  int64_t line_elements() const { return whole_.line(); }
  // Elements from the copy of image 0 to line `line` of that of `image`.
  int64_t place(int64_t image, int64_t line) const {
    return (image * lines() + line) * line_elements();
  }

  // Returns one of the matrices with its windows over the copies of all images.
  WindowRows over_copy(const WindowRows& matrix) const;

  // Part of the copy: some lines of one image, or all lines of several.
  struct Part {
    int64_t image = 0, images = 0;
    int64_t line = 0, lines = 0;
  };
  // Writes a part, whose lines then lie side by side.
  void copy(const void* images, size_t element_size, const Part& part, void* to) const;

 private:
  WindowRows whole_;  // an image with its padding as a single window
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_PADDED_IMAGES_H
