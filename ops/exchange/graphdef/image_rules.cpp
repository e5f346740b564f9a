#include "keel/ops/exchange/graphdef/image_rules.h"

namespace keel::graphdef {

using onnx::NodeContext;

std::string image_layout(NodeContext& c) { return c.choice("data_format", {"NHWC", "NCHW"}); }

std::vector<int64_t> along_height_and_width(NodeContext& c, const char* name,
                                            const std::string& layout, int64_t elsewhere) {
  const std::vector<int64_t> all = c.attribute(name, std::vector<int64_t>{});
  const size_t height = layout == "NHWC" ? 1 : 2, channel = layout == "NHWC" ? 3 : 1;
  if (all.size() != 4) c.refuse(std::string("its ") + name + " are not four numbers");
  if (all[0] != elsewhere || all[channel] != elsewhere)
    c.refuse(std::string("its ") + name + " go along the batch or the channels");
  return {all[height], all[height + 1]};
}

WindowPadding window_padding(NodeContext& c, const std::string& layout) {
  WindowPadding result;
  const std::string padding = c.choice("padding", {"VALID", "SAME", "EXPLICIT"});
  const std::vector<int64_t> all = c.attribute("explicit_paddings", std::vector<int64_t>{});
  result.padding = padding == "VALID" ? "valid" : padding == "SAME" ? "same" : "explicit";
  if (padding != "EXPLICIT") return result;
  const size_t height = layout == "NHWC" ? 2 : 4;
  if (all.size() != 8) c.refuse("its explicit_paddings are not eight numbers");
  result.pads.assign(all.begin() + static_cast<std::ptrdiff_t>(height),
                     all.begin() + static_cast<std::ptrdiff_t>(height) + 4);
  return result;
}

Conv2dAttributes convolution_attributes(NodeContext& c, int64_t groups) {
  Conv2dAttributes attributes;
  attributes.layout = image_layout(c);
  attributes.stride = along_height_and_width(c, "strides", attributes.layout, 1);
  if (c.has_attribute("dilations"))
    attributes.dilation = along_height_and_width(c, "dilations", attributes.layout, 1);
  const WindowPadding padding = window_padding(c, attributes.layout);
  attributes.padding = padding.padding;
  attributes.pads = padding.pads;
  attributes.groups = groups;
  return attributes;
}

}  // namespace keel::graphdef
