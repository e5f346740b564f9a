#include "keel/data/formats/labelled_images.h"

#include <algorithm>

namespace keel {

void require_labels_below(const Tensor& labels, int64_t classes, const std::string& labels_name) {
  const auto values = labels.data<uint8_t>();
  const auto wrong =
      std::find_if(values.begin(), values.end(), [&](uint8_t v) { return v >= classes; });
  if (wrong == values.end()) return;
  throw Error({.op = labels_name,
               .argument = "label " + std::to_string(wrong - values.begin()),
               .expected = "a class from 0 to " + std::to_string(classes - 1),
               .got = std::to_string(static_cast<int>(*wrong))});
}

LabelledImages label_images(const Tensor& images, const Tensor& labels, int64_t classes,
                            const std::string& images_name, const std::string& labels_name) {
  const Shape& shape = images.shape();
  if (images.dtype() != u8 || shape.rank() != 3 || labels.dtype() != u8 ||
      labels.shape().rank() != 1) {
    throw Error({.op = images_name,
                 .expected = "u8[count, height, width] with labels u8[count]",
                 .got = to_string(images.type()) + " with " + to_string(labels.type())});
  }
  if (shape[0] != labels.shape()[0]) {
    throw Error(
        {.op = labels_name,
         .expected = std::to_string(shape[0]) + " labels, one for each image of " + images_name,
         .got = std::to_string(labels.shape()[0])});
  }
  if (images.num_elements() == 0)
    throw Error({.op = images_name, .message = "there are no images in it"});
  require_labels_below(labels, classes, labels_name);
  return {.images = images.reshaped({shape[0], shape[1] * shape[2]}),
          .labels = labels,
          .height = shape[1],
          .width = shape[2],
          .classes = classes};
}

}  // namespace keel
