// Pooling of images with its gradients.
#include "keel/ops/pool.h"

#include "keel/ops/exchange/graphdef/image_rules.h"
#include "keel/ops/exchange/graphdef/op_rules.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

template <class Attributes>
Attributes pooling_attributes(NodeContext& c) {
  Attributes attributes;
  attributes.layout = image_layout(c);
  attributes.window = along_height_and_width(c, "ksize", attributes.layout, 1);
  attributes.stride = along_height_and_width(c, "strides", attributes.layout, 1);
  const WindowPadding padding = window_padding(c, attributes.layout);
  attributes.padding = padding.padding;
  attributes.pads = padding.pads;
  return attributes;
}

Values max_pool(NodeContext& c) {
  return {max_pool2d(c.in(0), pooling_attributes<MaxPool2dAttributes>(c), {})};
}

// A mean counts the elements of the image alone.
Values average_pool(NodeContext& c) {
  return {avg_pool2d(c.in(0), pooling_attributes<AvgPool2dAttributes>(c), {})};
}

// Its operands are the images, the result and its slope; of elements that tie the first one gets
// all.
Values max_pool_gradient(NodeContext& c) {
  c.ignore(1);
  return {max_pool2d_gradient(c.in(0), c.in(2), pooling_attributes<MaxPool2dAttributes>(c), {})};
}

Values average_pool_gradient(NodeContext& c) {
  const auto attributes = pooling_attributes<AvgPool2dAttributes>(c);
  const onnx::SizeNumbers shape = c.sizes(0, "the shape of the images");
  if (shape.values.size() != 4) c.refuse("the shape of its images is not four numbers");
  const size_t height = attributes.layout == "NHWC" ? 1 : 2;
  return {avg_pool2d_gradient(c.in(1), {c.fixed(shape, height), c.fixed(shape, height + 1)},
                              attributes, {})};
}

}  // namespace

void register_graphdef_pool(OpRules& rules) {
  rules.add("MaxPool", max_pool);
  rules.add("AvgPool", average_pool);
  rules.add("MaxPoolGrad", max_pool_gradient);
  rules.add("AvgPoolGrad", average_pool_gradient);
}

}  // namespace keel::graphdef
