// WinogradTerms: which weights of a convolution meet numbers other than 0, so that the gradient of
// one that does not is 0, and not what is left of a tile's roundings: optimizers that divide by the
// size of a gradient would make a whole step of that. Keeps a bit for each element of the images
// and of the gradient of the results, eight images to a byte. A weight has a term where two bytes
// that its tap brings together have a bit in common; that is looked for until all weights of a row
// have one. Internal to this folder; immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_TERMS_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_TERMS_H

#include <cstddef>
#include <cstdint>

#include "keel/backends/common/products/float_operand.h"
#include "keel/backends/common/vector/winograd.h"
#include "keel/ops/products/winograd.h"

namespace keel {

// Channels [begin, end) of the images.
struct WinogradChannels {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

class WinogradTerms {
 public:
  // An operand's elements from the first one on.
  struct Elements {
    const FloatOperand& operand;
    const void* from;
  };

  // `most_channels`: how many are cleared at once.
  WinogradTerms(const WinogradForm& form, int64_t most_channels);

  // Returns the bytes that the bits of one part need, aligned to 64, and the scratch of clear().
  size_t bytes() const { return right_at_ + right_bytes_; }
  size_t scratch_bytes() const;

  int64_t groups() const { return groups_; }  // of images
  static int64_t group_of(int64_t image);
  // Makes the bits of a group. `images` and `upstream` begin with the part's first image;
  // `scratch` has bring_bytes() for operands of 16 bits.
  void bring(const Elements& images, const Elements& upstream, int64_t group, uint8_t* bits,
             float* scratch) const;
  static size_t bring_bytes();
  // Sets values of the gradient of one tap to 0 where they have no term: `values` has a row of
  // columns for each of `channels`. Numbers that are not finite stay. REQUIRES the bits of all
  // groups.
  void clear(const uint8_t* bits, int64_t tap, const WinogradChannels& channels, float* values,
             uint8_t* scratch) const;

 private:
  // Makes the bits of `count` elements of each image of the group, which lie `step` apart.
  void mark(const Elements& elements, int64_t group, int64_t step, int64_t count, uint8_t* to,
            float* scratch) const;
  // Windows [begin, end) of an axis whose tap is inside of the images.
  struct Inside {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  static Inside inside(const WindowRows::Axis& axis, int64_t tap);

  size_t met_row() const;  // bytes of the scratch for each channel

  WindowRows windows_;
  int64_t columns_, images_, groups_, most_channels_;
  int64_t image_, result_;                 // elements of an image, of its results
  size_t right_at_ = 0, right_bytes_ = 0;  // bytes of the bits
  vector::NonzeroMarksInstruction mark_;
  vector::CommonMarksInstruction find_common_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_WINOGRAD_TERMS_H
