// Pooling of images with its gradients, and resizing.
#include "keel/ops/pool.h"

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/image_rules.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/resize.h"

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
  const std::vector<int64_t> shape = c.integers(0, "the shape of the images");
  if (shape.size() != 4) c.refuse("the shape of its images is not four numbers");
  const size_t height = attributes.layout == "NHWC" ? 1 : 2;
  return {avg_pool2d_gradient(c.in(1), {shape[height], shape[height + 1]}, attributes, {})};
}

// Keel's positions are those of half-pixel centres; where sizes do not change all are the same.
Values resize_as(NodeContext& c, const Value& x, const char* mode) {
  c.require_rank(x, 4, 4, "its images are");
  const std::vector<int64_t> size = c.integers(1, "the size");
  if (size.size() != 2) c.refuse("its size is not two numbers");
  const bool corners = c.attribute("align_corners", int64_t{0}) != 0;
  const bool half_pixel = c.attribute("half_pixel_centers", int64_t{0}) != 0;
  const bool same = x.shape({})[1] == size[0] && x.shape({})[2] == size[1];
  // Repeating each element is the same with and without half pixels.
  const bool repeats = std::string(mode) == "nearest" && x.shape({})[1] > 0 && x.shape({})[2] > 0 &&
                       size[0] % x.shape({})[1] == 0 && size[1] % x.shape({})[2] == 0;
  if (!same && (corners || (!half_pixel && !repeats)))
    c.refuse("it takes other positions than those of half-pixel centres");
  return {resize(x, {.size = size, .mode = mode}, {})};
}
// The result of the bilinear op is f32, whatever the images are.
Values resize_bilinear(NodeContext& c) {
  const Value x = c.in(0);
  return resize_as(c, x.dtype({}) == f32 ? x : cast(x, f32, {}), "bilinear");
}
Values resize_nearest(NodeContext& c) { return resize_as(c, c.in(0), "nearest"); }

}  // namespace

void register_graphdef_pool(OpRules& rules) {
  rules.add("MaxPool", max_pool);
  rules.add("AvgPool", average_pool);
  rules.add("MaxPoolGrad", max_pool_gradient);
  rules.add("AvgPoolGrad", average_pool_gradient);
  rules.add("ResizeBilinear", resize_bilinear);
  rules.add("ResizeNearestNeighbor", resize_nearest);
}

}  // namespace keel::graphdef
