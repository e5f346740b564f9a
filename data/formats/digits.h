// Digits: the built-in data set. 28 x 28 grey images of the ten digits, drawn by a procedure: a few
// strokes with jittered control points, a random affine map, random thickness and noise. Item i
// depends on the seed and i alone (counter-based random numbers; only exactly rounded arithmetic),
// so the set is the same everywhere. Pure functions; any thread.
#ifndef KEEL_DATA_FORMATS_DIGITS_H
#define KEEL_DATA_FORMATS_DIGITS_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/data/formats/labelled_images.h"

namespace keel {

struct DigitsOptions {
  uint64_t seed = 0;
  int64_t train_count = 60000;
  int64_t test_count = 10000;
};

// Throws Error for counts below 1 or above 2^24.
KEEL_API LabelledSplits make_digits(const DigitsOptions& options = {});

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_DIGITS_H
