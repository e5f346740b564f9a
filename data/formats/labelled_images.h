// LabelledImages: a set of images, or of rows of numbers, with their classes, in memory; what
// loaders and generators of such sets return. A plain value: copies share the tensors' memory,
// which nobody writes.
#ifndef KEEL_DATA_FORMATS_LABELLED_IMAGES_H
#define KEEL_DATA_FORMATS_LABELLED_IMAGES_H

#include <cstdint>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

struct LabelledImages {
  Tensor images;  // u8 [count, height * width * channels], a pixel's channels side by side; or f32
  Tensor labels;  // u8 [count], each < classes
  int64_t height = 0;  // 1: a row of `width` numbers
  int64_t width = 0;
  int64_t channels = 1;  // 1 grey, 3 red, green, blue
  int64_t classes = 10;

  int64_t count() const noexcept { return labels.num_elements(); }
};

struct LabelledSplits {
  LabelledImages train;
  LabelledImages test;
  std::string origin;  // in words, for the user: which data this is and where it came from
};

// Throws Error naming the first of `labels` (u8 [count], of the file `labels_name`) that is not
// below `classes`.
KEEL_API void require_labels_below(const Tensor& labels, int64_t classes,
                                   const std::string& labels_name);

// Images of rank 3 [count, height, width] and labels of rank 1 [count], both u8, checked against
// each other. `images_name` and `labels_name` (file names) stand in errors: counts that differ, no
// images, a label that is not below `classes`.
KEEL_API LabelledImages label_images(const Tensor& images, const Tensor& labels, int64_t classes,
                                     const std::string& images_name,
                                     const std::string& labels_name);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_LABELLED_IMAGES_H
