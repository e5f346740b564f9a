// Products of matrices, convolutions, pooling, softmax and norms.
#include <algorithm>
#include <numeric>
#include <optional>

#include "keel/ops/conv_rules.h"
#include "keel/ops/exchange/onnx/export_rules.h"
#include "keel/ops/matmul.h"
#include "keel/ops/normalization.h"
#include "keel/ops/pool_rules.h"

namespace keel::onnx {
namespace {

using Context = ExportContext;

ExportNames write_matmul(Context& c) {
  const auto& a = c.as<MatmulAttributes>();
  const auto operand = [&](size_t i, bool transpose) {
    if (!transpose) return c.in(i);
    std::vector<int64_t> perm(c.rank(i));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return c.transposed(c.in(i), perm);
  };
  return {c.op("MatMul", {operand(0, a.transpose_a), operand(1, a.transpose_b)})};
}

// ---- images

bool has_elements(const Node& node) {
  return node.type().shape.num_elements() > 0 && node.input(0).shape().num_elements() > 0;
}

std::string only_floats_of_32_bits(const Node& node) {
  const DType dtype = node.input(0).dtype();
  if (dtype == f64 || !is_float(dtype)) return "ONNX runtimes compute it in f32 alone";
  return has_elements(node) ? "" : "ONNX leaves images without elements open";
}

// ONNX has the channels in front: NHWC goes there and back.
std::string channels_first(Context& c, const std::string& layout) {
  return layout == kChannelsFirst ? c.in(0) : c.transposed(c.in(0), {0, 3, 1, 2});
}
std::string channels_back(Context& c, const std::string& layout, const std::string& result) {
  return layout == kChannelsFirst ? result : c.transposed(result, {0, 2, 3, 1});
}

// Returns how an axis of the first input follows the batch; nothing where ONNX cannot say it.
std::optional<ExportDimension> dimension_of_axis(const Context& c, size_t axis) {
  std::vector<int64_t> sizes;
  for (const Node* twin : c.twins()) sizes.push_back(twin->input(0).shape()[axis]);
  return dimension_of(sizes);
}

// The padding "same" fills up the last window, by how much follows from what strides leave of an
// axis. Files have one number for it.
template <class A>
void require_pads_of_every_batch(const Context& c, const A& a, const Windows& windows) {
  if (a.padding != "same") return;
  const ImageAxes axes = image_axes(a.layout);
  for (size_t i = 0; i < windows.size(); ++i) {
    const WindowAxis& window = windows[i];
    if (window.stride == 1 || window.taps == 1) continue;
    const auto size = dimension_of_axis(c, axes.spatial[i]);
    if (size && size->per_batch % window.stride == 0) continue;
    c.refuse(
        "its padding \"same\" depends on the size of the batch; export it for one size: "
        "SaveOptions::batch, or --batch");
  }
}

// Pads as ONNX has them: those in front of all axes, then those behind.
std::vector<int64_t> pads_of(const Windows& windows) {
  return {windows[0].low, windows[1].low, windows[0].high, windows[1].high};
}

ExportNames write_conv2d(Context& c) {
  const auto& a = c.as<Conv2dAttributes>();
  const Node& node = c.node();
  const ConvGeometry geometry(a, node.input(0).shape(), node.input(1).shape());
  const Windows& windows = geometry.windows;
  require_pads_of_every_batch(c, a, windows);
  const std::string weights =
      a.layout == kChannelsFirst ? c.in(1) : c.transposed(c.in(1), {3, 2, 0, 1});
  const std::string result =
      c.op("Conv", {channels_first(c, a.layout), weights},
           {{"kernel_shape", std::vector<int64_t>{windows[0].taps, windows[1].taps}},
            {"strides", a.stride},
            {"dilations", a.dilation},
            {"pads", pads_of(windows)},
            {"group", a.groups}});
  return {channels_back(c, a.layout, result)};
}

template <class A>
ExportNames write_pool(Context& c, const std::string& type, const A& a,
                       WrittenAttributes attributes) {
  const PoolGeometry geometry(a, c.node().input(0).shape());
  require_pads_of_every_batch(c, a, geometry.windows);
  attributes.emplace_back("kernel_shape", a.window);
  attributes.emplace_back("strides", a.stride);
  attributes.emplace_back("pads", pads_of(geometry.windows));
  const std::string result = c.op(type, {channels_first(c, a.layout)}, std::move(attributes));
  return {channels_back(c, a.layout, result)};
}

ExportNames write_max_pool2d(Context& c) {
  return write_pool(c, "MaxPool", c.as<MaxPool2dAttributes>(), {});
}

ExportNames write_avg_pool2d(Context& c) {
  const auto& a = c.as<AvgPool2dAttributes>();
  return write_pool(c, "AveragePool", a, {{"count_include_pad", int64_t{a.count_padding}}});
}

// ---- rows

ExportRule softmax(const std::string& op, const std::string& type) {
  return {.op = op,
          .write =
              [type](Context& c) {
                return ExportNames{c.op(type, {c.in(0)}, {{"axis", int64_t{-1}}})};
              },
          .dtypes = ExportDtypes::kWide};
}

// Returns a scale of ones, computed from the batch where the length of a row follows it.
std::string scale_of_ones(Context& c) {
  const auto length = dimension_of_axis(c, c.rank(0) - 1);
  if (!length) c.refuse("the length of its rows is no multiple of the batch plus a constant");
  if (length->fixed()) return c.constant(Tensor::full(c.dtype(0), {length->size}, 1));
  return c.op("Expand", {c.number(c.dtype(0), 1), c.dimensions({*length})});
}

ExportNames write_layer_norm(Context& c) {
  const auto& options = c.as<NormOptions>();
  ExportNames inputs{c.in(0)};
  for (size_t i = 1; i < c.inputs(); ++i) inputs.push_back(c.in(i));
  // ONNX has no norm without a scale.
  if (inputs.size() == 1) inputs.push_back(scale_of_ones(c));
  return {c.op("LayerNormalization", inputs,
               {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(options.epsilon)}})};
}

}  // namespace

void register_export_products(ExportRules& rules) {
  using enum ExportDtypes;
  rules.add({.op = "matmul", .write = write_matmul, .dtypes = kWide});
  rules.add(
      {.op = "conv2d", .write = write_conv2d, .dtypes = kWide, .refuses = only_floats_of_32_bits});
  rules.add({.op = "max_pool2d",
             .write = write_max_pool2d,
             .dtypes = kWide,
             .refuses = only_floats_of_32_bits});
  rules.add({.op = "avg_pool2d",
             .write = write_avg_pool2d,
             .dtypes = kWide,
             .refuses = only_floats_of_32_bits});
  rules.add(softmax("softmax", "Softmax"));
  rules.add(softmax("log_softmax", "LogSoftmax"));
  rules.add({.op = "layer_norm",
             .write = write_layer_norm,
             .dtypes = kWide,
             .refuses = only_floats_of_32_bits});
}

}  // namespace keel::onnx
