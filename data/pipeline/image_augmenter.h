// ImageAugmenter: an ImageAugmentation checked against the items that it is for. Immutable; apply
// may be called by several threads at once. Internal to data.
#ifndef KEEL_DATA_PIPELINE_IMAGE_AUGMENTER_H
#define KEEL_DATA_PIPELINE_IMAGE_AUGMENTER_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/data/pipeline/image_augmentation.h"
#include "keel/data/pipeline/item.h"

namespace keel {

class ImageAugmenter {
 public:
  // Throws Error, without a site, for a field that the items lack or that holds no such images, and
  // for changes that are out of range.
  ImageAugmenter(const ElementSpec& items, const ImageAugmentation& changes);

  const ElementSpec& output() const noexcept { return output_; }
  // Fields but the images' are copied.
  void apply(const ItemView& in, const ItemSlot& out, uint64_t key) const;

 private:
  // The change of one image: pixel (y, x) of the result is (y + top, x + left) of the image, or
  // counted from the right where it is mirrored.
  struct Draw {
    int64_t top = 0, left = 0;
    bool mirrored = false;
    int64_t erased_top = 0, erased_left = 0;
  };
  Draw draw(uint64_t key) const;
  // Columns [begin, end) of a result's row.
  struct Columns {
    int64_t begin, end;
  };
  template <class Out>
  void fill(Out* row, const Columns& columns) const;
  template <class In, class Out>
  void bring(const In* from, int64_t step, int64_t pixels, Out* to) const;
  template <class In, class Out>
  void change(const In* in, Out* out, const Draw& draw) const;
  void check_ranges(const ImageAugmentation& changes) const;

  size_t field_ = 0;
  ElementSpec output_;
  std::vector<size_t> bytes_;  // of each field of the items
  DType from_{};
  int64_t height_ = 0, width_ = 0, channels_ = 1;  // of the images
  int64_t rows_ = 0, columns_ = 0;                 // of the results
  int64_t shift_ = 0;
  bool flip_ = false;
  int64_t cutout_ = 0;
  bool normalises_ = false;
  // One each for a channel: a pixel x becomes x * scale + offset, and one from outside `filled`.
  std::vector<float> scale_, offset_, filled_;
};

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_IMAGE_AUGMENTER_H
