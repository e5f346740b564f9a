// Rules of convolutions, pooling and norms share this: the layout of images, and windows as
// TensorFlow says them, as lists along all four axes. Internal to the import; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_IMAGE_RULES_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_IMAGE_RULES_H

#include <string>
#include <vector>

#include "keel/ops/conv.h"
#include "keel/ops/exchange/onnx/import_rules.h"

namespace keel::graphdef {

// "NHWC" or "NCHW", of the attribute data_format. Throws RefusedNode for another.
std::string image_layout(onnx::NodeContext& c);

// The entries of height and width of a list along all axes. Throws RefusedNode where those of the
// batch and the channels are not `elsewhere`, or the attribute is missing.
std::vector<int64_t> along_height_and_width(onnx::NodeContext& c, const char* name,
                                            const std::string& layout, int64_t elsewhere);

struct WindowPadding {
  std::string padding;        // "valid", "same" or "explicit"
  std::vector<int64_t> pads;  // top, bottom, left, right
};
WindowPadding window_padding(onnx::NodeContext& c, const std::string& layout);

// The attributes of a convolution of that many groups.
Conv2dAttributes convolution_attributes(onnx::NodeContext& c, int64_t groups);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_IMAGE_RULES_H
