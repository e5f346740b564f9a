// ImageAugmentation: which random changes Dataset::augment makes to images. A plain value.
//
//   train.augment({.image = {32, 32, 3}, .shift = 4, .flip = true, .cutout = 8}, seed)
//
// The changes are made in the order of the fields below. What an image becomes depends on the seed,
// its number in the pass and the pass alone, so a resumed training sees the images that an
// uninterrupted one would have seen.
#ifndef KEEL_DATA_PIPELINE_IMAGE_AUGMENTATION_H
#define KEEL_DATA_PIPELINE_IMAGE_AUGMENTATION_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/shape.h"

namespace keel {

struct ImageAugmentation {
  std::string field = "image";  // u8 or f32
  // [height, width] or [height, width, channels] of what the field holds. Needed where the field's
  // own shape does not say it, as for rows of height * width bytes; the result has the field's
  // shape, unless `crop` changes it.
  Shape image{};
  // The value of pixels from outside of the image, and of those that cutout erases; before
  // `mean` and `deviation`.
  double fill = 0;

  // Moves the image by up to this many pixels up or down, and left or right, each way as likely.
  int64_t shift = 0;
  // [height, width] of a window anywhere in the image. An image crops to [height, width] or
  // [height, width, channels].
  Shape crop{};
  // Mirrors left and right, or not, each as likely.
  bool flip = false;
  // Erases a square with this side around a random pixel; what lies beyond an edge is cut off.
  int64_t cutout = 0;
  // Makes f32 of the pixels: (x / 255 - mean) / deviation of u8, (x - mean) / deviation of f32. One
  // number for all channels or one for each; both or none.
  std::vector<double> mean{};
  std::vector<double> deviation{};
};

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_IMAGE_AUGMENTATION_H
