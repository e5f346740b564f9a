// Convolutions and their gradients. Filters are [height, width, in, out] in both layouts, and
// [height, width, channels, multiplier] of depthwise ones; Keel's of images NCHW are [out, in,
// height, width].
#include "keel/ops/conv.h"

#include "keel/ops/exchange/graphdef/image_rules.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

// [height, width, in, out] in the order of a layout, and back.
Value as_weights(const Value& filter, const std::string& layout) {
  return layout == "NHWC" ? filter : transpose(filter, {3, 2, 0, 1}, {});
}
Value as_filter(const Value& weights, const std::string& layout) {
  return layout == "NHWC" ? weights : transpose(weights, {2, 3, 1, 0}, {});
}

// A convolution of each channel by filters of its own: as many groups as channels.
Value grouped_filter(NodeContext& c, const Value& filter) {
  c.require_rank(filter, 4, 4, "its filter is");
  const Shape s = c.known_shape(filter, "its filter");
  return reshape(filter, Shape{s[0], s[1], 1, s[2] * s[3]}, {});
}

Values convolution(NodeContext& c) {
  const Value x = c.in(0), filter = c.in(1);
  c.require_rank(x, 4, 4, "its images are");
  c.require_rank(filter, 4, 4, "its filter is");
  const std::string layout = image_layout(c);
  const int64_t channels = x.shape({})[layout == "NHWC" ? 3 : 1], inner = filter.shape({})[2];
  const int64_t groups = channels > 0 && inner > 0 && channels % inner == 0 ? channels / inner : 1;
  return {conv2d(x, as_weights(filter, layout), convolution_attributes(c, groups), {})};
}

Values depthwise(NodeContext& c) {
  const Value x = c.in(0), filter = c.in(1);
  const Value grouped = grouped_filter(c, filter);
  const Conv2dAttributes attributes = convolution_attributes(c, filter.shape({})[2]);
  return {conv2d(x, as_weights(grouped, attributes.layout), attributes, {})};
}

// ---- gradients; the second one of a size that is [4] numbers

// Height and width in the shape of images that an input says.
std::vector<int64_t> image_size(NodeContext& c, size_t input, const std::string& layout) {
  const onnx::SizeNumbers shape = c.sizes(input, "the shape of the images");
  // The newer form says height and width alone.
  const bool alone = shape.values.size() == 2;
  if (!alone && shape.values.size() != 4) c.refuse("the shape of the images is not four numbers");
  const size_t height = alone ? 0 : layout == "NHWC" ? 1 : 2;
  return {c.fixed(shape, height), c.fixed(shape, height + 1)};
}

Values input_gradient_of(NodeContext& c, const Value& filter, int64_t groups) {
  const Conv2dAttributes attributes = convolution_attributes(c, groups);
  return {conv2d_input_gradient(c.in(2), as_weights(filter, attributes.layout), attributes,
                                image_size(c, 0, attributes.layout), {})};
}

// As many as the filter's channels go into those of the images.
int64_t groups_of(NodeContext& c, int64_t channels, int64_t inner) {
  if (channels <= 0 || inner <= 0 || channels % inner != 0)
    c.refuse("its filter of " + std::to_string(inner) + " channels does not fit images of " +
             std::to_string(channels));
  return channels / inner;
}

Values input_gradient(NodeContext& c) {
  const Value filter = c.in(1);
  c.require_rank(filter, 4, 4, "its filter is");
  const onnx::SizeNumbers shape = c.sizes(0, "the shape of the images");
  // Height and width alone leave the channels to the filter.
  if (shape.values.size() == 2) return input_gradient_of(c, filter, 1);
  if (shape.values.size() != 4) c.refuse("the shape of the images is not four numbers");
  const int64_t channels = c.fixed(shape, image_layout(c) == "NHWC" ? 3 : 1);
  return input_gradient_of(c, filter, groups_of(c, channels, filter.shape({})[2]));
}
Values depthwise_input_gradient(NodeContext& c) {
  const Value filter = c.in(1);
  const Value grouped = grouped_filter(c, filter);
  return input_gradient_of(c, grouped, filter.shape({})[2]);
}

std::vector<int64_t> filter_shape(NodeContext& c) {
  std::vector<int64_t> shape = c.integers(1, "the shape of the filter");
  if (shape.size() != 4) c.refuse("the shape of its filter is not four numbers");
  return shape;
}

Values filter_gradient(NodeContext& c) {
  const std::vector<int64_t> shape = filter_shape(c);
  const Value x = c.in(0);
  c.require_rank(x, 4, 4, "its images are");
  const int64_t channels = x.shape({})[image_layout(c) == "NHWC" ? 3 : 1];
  const Conv2dAttributes attributes = convolution_attributes(c, groups_of(c, channels, shape[2]));
  const Value gradient = conv2d_weight_gradient(x, c.in(2), {shape[0], shape[1]}, attributes, {});
  return {as_filter(gradient, attributes.layout)};
}

Values depthwise_filter_gradient(NodeContext& c) {
  const std::vector<int64_t> shape = filter_shape(c);
  const Conv2dAttributes attributes = convolution_attributes(c, shape[2]);
  const Value gradient =
      conv2d_weight_gradient(c.in(0), c.in(2), {shape[0], shape[1]}, attributes, {});
  return {reshape(as_filter(gradient, attributes.layout), Shape(shape), {})};
}

}  // namespace

void register_graphdef_conv(OpRules& rules) {
  rules.add("Conv2D", {.make = convolution, .weights = {1}});
  rules.add("Conv2DBackpropInput", {.make = input_gradient, .weights = {1}});
  rules.add("Conv2DBackpropFilter", filter_gradient);
  rules.add("DepthwiseConv2dNative", {.make = depthwise, .weights = {1}});
  rules.add("DepthwiseConv2dNativeBackpropInput",
            {.make = depthwise_input_gradient, .weights = {1}});
  rules.add("DepthwiseConv2dNativeBackpropFilter", depthwise_filter_gradient);
}

}  // namespace keel::graphdef
