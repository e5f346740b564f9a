// Convolutions and transposed ones, over one, two or three axes.
#include "keel/ops/conv.h"

#include <algorithm>

#include "keel/ops/composed/convolutions.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_quantized.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/exchange/onnx/import_windows.h"
#include "keel/ops/slice.h"

namespace keel::onnx {
namespace {

using Ints = std::vector<int64_t>;

std::vector<int64_t> kernel_of(NodeContext& c, const Value& weights) {
  const Shape shape = c.known_shape(weights, "its weights");
  return {shape.begin() + std::min<size_t>(2, shape.rank()), shape.end()};
}

// The attributes of a convolution over the last two axes.
Conv2dAttributes attributes_of(const SpatialWindows& windows, int64_t groups) {
  Conv2dAttributes a{.padding = "explicit", .groups = groups, .layout = "NCHW"};
  a.stride.clear();
  a.dilation.clear();
  for (size_t i = windows.size() - 2; i < windows.size(); ++i) {
    a.stride.push_back(windows[i].stride);
    a.dilation.push_back(windows[i].dilation);
    a.pads.push_back(windows[i].low);
    a.pads.push_back(windows[i].high);
  }
  return a;
}

// x [batch, channels, depth, height, width] as images [batch * depth, channels, height, width], and
// back with a given batch.
Value as_images(NodeContext& c, const Value& x) {
  const Shape s = c.known_shape(x, "its input");
  return reshape(transpose(x, {0, 2, 1, 3, 4}, {}), Shape{s[0] * s[2], s[1], s[3], s[4]}, {});
}
Value as_volumes(const Value& images, int64_t batch, int64_t depth) {
  const Shape& s = images.shape({});
  return transpose(reshape(images, Shape{batch, depth, s[1], s[2], s[3]}, {}), {0, 2, 1, 3, 4}, {});
}

// Slice k of the weights along their depth.
Value depth_slice(const Value& weights, int64_t k) {
  return squeeze(slice(weights, {0, 0, k}, {kToEnd, kToEnd, k + 1}, {}, {}), {2}, {});
}

// A convolution of volumes: the sum over the slices of the weights of convolutions of images.
Value conv3d(NodeContext& c, const Value& x, const Value& weights, SpatialWindows windows,
             int64_t groups) {
  SpatialWindows depth{windows[0], {}, {}};
  depth[1].in = windows[1].in;
  depth[2].in = windows[2].in;
  const Shape shape = c.known_shape(x, "its input");
  const Values slices = taps_along(padded(x, depth, 0), depth, 0);
  Value total;
  for (size_t k = 0; k < slices.size(); ++k) {
    const Value images =
        conv2d(as_images(c, slices[k]), depth_slice(weights, static_cast<int64_t>(k)),
               attributes_of(windows, groups), {});
    total = total.valid() ? add(total, images, {}) : images;
  }
  return as_volumes(total, shape[0], windows[0].out());
}

// One axis more, of size 1, in front of the spatial ones.
Value with_row(const Value& x) { return expand_dims(x, {2}, {}); }

Value convolution(NodeContext& c, const Value& x, const Value& weights, SpatialWindows windows,
                  int64_t groups) {
  if (windows.size() == 2) return conv2d(x, weights, attributes_of(windows, groups), {});
  if (windows.size() == 3) return conv3d(c, x, weights, windows, groups);
  if (windows.size() != 1) c.refuse("it has more than three spatial axes");
  windows.insert(windows.begin(), SpatialWindow{.in = 1});
  return squeeze(conv2d(with_row(x), with_row(weights), attributes_of(windows, groups), {}), {2},
                 {});
}

Value with_bias(NodeContext& c, const Value& y, size_t input) {
  if (!c.has(input)) return y;
  require_of_channels(c, c.in(input), y, "its bias is");
  return add(y, along_axis(c.in(input), 1, y.shape({}).rank()), {});
}

Values conv(NodeContext& c) {
  const Value x = c.in(0), weights = c.in(1);
  const int64_t groups = c.attribute("group", int64_t{1});
  const SpatialWindows windows = read_windows(c, x.shape({}), kernel_of(c, weights));
  return {with_bias(c, convolution(c, x, weights, windows, groups), 2)};
}

Values integer_conv(NodeContext& c) {
  const Value x = less_zero_point(c, c.in(0), 2, kOneNumber);
  const Value weights = less_zero_point(c, c.in(1), 3, 0);
  const int64_t groups = c.attribute("group", int64_t{1});
  const SpatialWindows windows = read_windows(c, x.shape({}), kernel_of(c, weights));
  return {convolution(c, x, weights, windows, groups)};
}

// ---- the other way round

// Sizes of the result; pads follow from them where the node says the sizes.
Ints transposed_sizes(NodeContext& c, SpatialWindows& windows) {
  const size_t count = windows.size();
  const Ints beyond = c.attribute("output_padding", Ints(count, 0));
  const Ints wanted = c.attribute("output_shape", Ints{});
  const std::string automatic = c.attribute("auto_pad", "NOTSET");
  if (beyond.size() != count || (!wanted.empty() && wanted.size() < count))
    c.refuse("its output_padding or output_shape does not fit its spatial axes");
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const Ints* sizes : {&beyond, &wanted}) {
    for (const int64_t size : *sizes)
      if (size < 0 || size > kMost) c.refuse("its output_padding or output_shape is out of range");
  }
  Ints sizes;
  for (size_t i = 0; i < count; ++i) {
    SpatialWindow& w = windows[i];
    const int64_t whole = (w.in - 1) * w.stride + w.extent() + beyond[i];
    if (wanted.empty() && automatic != "SAME_UPPER" && automatic != "SAME_LOWER") {
      sizes.push_back(whole - w.low - w.high);
      if (sizes.back() < 0) {
        c.refuse("its pads " + std::to_string(w.low) + " and " + std::to_string(w.high) +
                 " take off more than the " + std::to_string(whole) + " elements that there are");
      }
      continue;
    }
    sizes.push_back(wanted.empty() ? w.in * w.stride : wanted[wanted.size() - count + i]);
    // What the windows do not reach stays 0, at the end.
    const int64_t pads = std::max<int64_t>(whole - sizes.back(), 0);
    w.low = automatic == "SAME_UPPER" ? pads / 2 : pads - pads / 2;
    w.high = pads - w.low;
  }
  return sizes;
}

// The whole result, [batch, channels, ...], of which the pads are cut off: a convolution of the
// other way round with no padding at all.
Value whole_transposed(NodeContext& c, const Value& x, const Value& weights, SpatialWindows windows,
                       int64_t groups) {
  for (SpatialWindow& w : windows) w.low = w.high = 0;
  if (windows.size() == 2)
    return conv_transpose2d(x, weights, attributes_of(windows, groups), {}, {});
  if (windows.size() == 1) {
    windows.insert(windows.begin(), SpatialWindow{.in = 1});
    return squeeze(
        conv_transpose2d(with_row(x), with_row(weights), attributes_of(windows, groups), {}, {}),
        {2}, {});
  }
  if (windows.size() != 3) c.refuse("it has more than three spatial axes");
  const SpatialWindow& depth = windows[0];
  const Shape shape = c.known_shape(x, "its input");
  const int64_t out = (depth.in - 1) * depth.stride + depth.extent();
  Value total;
  for (int64_t k = 0; k < depth.taps; ++k) {
    const Value images = conv_transpose2d(as_images(c, x), depth_slice(weights, k),
                                          attributes_of(windows, groups), {}, {});
    const Value volumes = as_volumes(images, shape[0], shape[2]);
    const int64_t low = k * depth.dilation;
    const int64_t high = out - low - ((depth.in - 1) * depth.stride + 1);
    const Value put = pad_interior(volumes, {0, 0, low, 0, 0}, {0, 0, high, 0, 0},
                                   {0, 0, depth.stride - 1, 0, 0}, 0, {});
    total = total.valid() ? add(total, put, {}) : put;
  }
  return total;
}

Values conv_transpose(NodeContext& c) {
  const Value x = c.in(0), weights = c.in(1);
  const int64_t groups = c.attribute("group", int64_t{1});
  SpatialWindows windows = read_windows(c, c.known_shape(x, "its input"), kernel_of(c, weights));
  const Ints sizes = transposed_sizes(c, windows);
  Value y = whole_transposed(c, x, weights, windows, groups);
  // Pads cut off, and what is missing at the end is zeros.
  Ints begin{0, 0}, end{kToEnd, kToEnd}, none(sizes.size() + 2, 0), behind{0, 0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t low = windows[i].low;
    begin.push_back(low);
    end.push_back(low + sizes[i]);
    behind.push_back(std::max<int64_t>(low + sizes[i] - y.shape({})[i + 2], 0));
  }
  y = pad(y, none, behind, 0, {});
  return {with_bias(c, slice(y, begin, end, {}, {}), 2)};
}

}  // namespace

void register_import_conv(ImportRules& rules) {
  rules.add("Conv", conv);
  rules.add("ConvInteger", integer_conv);
  rules.add("ConvTranspose", conv_transpose);
}

}  // namespace keel::onnx
