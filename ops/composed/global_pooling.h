// Pooling of whole images: a reduction over height and width. Images are [batch, height, width,
// channels] ("NHWC") or [batch, channels, height, width] ("NCHW"). Errors and printed graphs name
// `site`, or where that is not given the line that made the operand.
#ifndef KEEL_OPS_COMPOSED_GLOBAL_POOLING_H
#define KEEL_OPS_COMPOSED_GLOBAL_POOLING_H

#include <string>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Returns the largest element or the mean of each channel of each image: [batch, channels], or with
// `keepdims` an image of one element.
KEEL_API Value global_max_pool2d(Operand x, const std::string& layout = "NHWC",
                                 bool keepdims = false, CallSite site = {});
KEEL_API Value global_avg_pool2d(Operand x, const std::string& layout = "NHWC",
                                 bool keepdims = false, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_GLOBAL_POOLING_H
