#include "keel/ops/conv.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/conv_products.h"
#include "keel/ops/conv_rules.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/sums/part_sums.h"

namespace keel {
namespace {

// ---- inference

// Checks what all three ops ask of their operands and attributes.
void require_convolution(const InferContext& c, const Conv2dAttributes& a) {
  c.require_same_dtype();
  require_dtypes(c, 0, kNumbers);
  c.require_rank(0, 4, 4);
  c.require_rank(1, 4, 4);
  require_layout(c, a.layout);
  require_window_settings(c, window_settings(a));
  if (a.groups < 1) c.fail("groups", "at least 1", std::to_string(a.groups));
  if (a.algorithm != kAutoAlgorithm && a.algorithm != kDirectAlgorithm) {
    c.fail("algorithm", "auto or direct", '"' + a.algorithm + '"');
  }
  if (a.wide) {
    const DType dtype = c.inputs[0].dtype;
    c.require(0, dtype == f16 || dtype == bf16, "f16 or bf16 for a wide convolution");
  }
}

DType result_dtype(const InferContext& c, const Conv2dAttributes& a) {
  return a.wide ? f32 : c.inputs[0].dtype;
}

std::string in_groups(const Conv2dAttributes& a) {
  return a.groups == 1 ? "" : " in " + std::to_string(a.groups) + " groups";
}

const char* weight_layout(const Conv2dAttributes& a) {
  return a.layout == kChannelsFirst ? "OIHW, beside NCHW" : "HWIO, beside NHWC";
}

// Throws Error unless the groups divide the channels that axis `axis` of an input counts.
void require_divided(const InferContext& c, const Conv2dAttributes& a, size_t input, size_t axis,
                     const char* what) {
  const int64_t channels = c.inputs[input].shape[axis];
  if (channels < 0 || channels % a.groups == 0) return;
  c.fail(c.input_name(input),
         "a multiple of " + std::to_string(a.groups) + " " + what + ", one part for each group",
         to_string(c.inputs[input].shape));
}

// Height and width of weights, each at least 1 or unknown.
Pair require_kernel(const InferContext& c, size_t input, const WeightAxes& axes) {
  const Shape& weights = c.inputs[input].shape;
  const Pair kernel{weights[axes.spatial[0]], weights[axes.spatial[1]]};
  c.require(input, kernel[0] != 0 && kernel[1] != 0, "a kernel of at least one element");
  return kernel;
}

// Windows of which neither the image nor the kernel need be known.
Windows inferred_windows(const Conv2dAttributes& a, Pair in, Pair kernel) {
  Windows windows;
  for (size_t i = 0; i < 2; ++i) {
    if (kernel[i] > 0) {
      windows[i] = window_axis(window_settings(a), i, in[i], kernel[i]);
    } else if (a.padding == "same") {
      windows[i] = window_axis(window_settings(a), i, in[i], 1);
    }
  }
  return windows;
}

std::vector<Type> infer_conv2d(const InferContext& c) {
  const auto& a = c.as<Conv2dAttributes>();
  require_convolution(c, a);
  const ImageAxes image = image_axes(a.layout);
  const WeightAxes weight = weight_axes(a);
  const Shape &x = c.inputs[0].shape, &weights = c.inputs[1].shape;
  require_divided(c, a, 0, image.channel, "channels");
  require_divided(c, a, 1, weight.out, "channels out");
  const Pair kernel = require_kernel(c, 1, weight);
  const int64_t channels = x[image.channel], in = weights[weight.in];
  if (channels >= 0 && in >= 0 && channels != in * a.groups) {
    c.fail("weights",
           "shape " +
               to_string(weight_shape(weight, kernel, channels / a.groups, weights[weight.out])) +
               " (" + weight_layout(a) + "), for " + std::to_string(channels) + " channels of x" +
               in_groups(a),
           to_string(weights), "check the weights' layout, and groups");
  }
  const Windows windows = inferred_windows(a, spatial_dims(x, image), kernel);
  require_windows_fit(c, window_settings(a), windows, "x", x);
  return {{result_dtype(c, a),
           image_shape(image, x[0], {windows[0].out, windows[1].out}, weights[weight.out])}};
}

// The size of an image whose windows are `out` many: what is asked for, or the smallest.
int64_t image_size(const Conv2dGradientAttributes& a, size_t axis, int64_t out, int64_t taps) {
  if (!a.size.empty()) return a.size[axis];
  if (out < 0 || taps < 0) return kUnknownDim;
  if (a.padding == "same") return checked_mul(out, a.stride[axis], "conv2d");
  const WindowAxis w = window_axis(window_settings(a), axis, kUnknownDim, taps);
  const int64_t reach = checked_add(checked_mul(out - 1, w.stride, "conv2d"), w.extent(), "conv2d");
  return reach - checked_add(w.low, w.high, "conv2d");
}

std::vector<Type> infer_input_gradient(const InferContext& c) {
  const auto& a = c.as<Conv2dGradientAttributes>();
  require_convolution(c, a);
  if (!a.size.empty()) require_list(c, "size", a.size, 2, 0);
  const ImageAxes image = image_axes(a.layout);
  const WeightAxes weight = weight_axes(a);
  const Shape &dy = c.inputs[0].shape, &weights = c.inputs[1].shape;
  require_divided(c, a, 1, weight.out, "channels out");
  const Pair kernel = require_kernel(c, 1, weight);
  const int64_t channels = dy[image.channel], out = weights[weight.out];
  if (channels >= 0 && out >= 0 && channels != out) {
    c.fail("weights",
           std::to_string(channels) + " channels out (" + weight_layout(a) + "), as many as " +
               c.input_name(0) + " has",
           to_string(weights), "weights are those of the conv2d that is gone back through");
  }
  Pair size{};
  const Pair windows = spatial_dims(dy, image);
  for (size_t i = 0; i < 2; ++i) {
    if (windows[i] == 0 && a.size.empty() && a.padding != "same") {
      c.fail("size", "a height and a width, which no window tells", "none");
    }
    size[i] = image_size(a, i, windows[i], kernel[i]);
    if (a.size.empty() && windows[i] > 0 && kernel[i] >= 0 && size[i] < 1) {
      c.fail("pads", "pads that leave something of the result",
             "a size of " + std::to_string(size[i]));
    }
    if (size[i] < 0 || windows[i] < 0 || kernel[i] < 0) continue;
    const int64_t expected = window_axis(window_settings(a), i, size[i], kernel[i]).out;
    if (expected == windows[i]) continue;
    c.fail("size",
           std::string("a ") + (i == 0 ? "height" : "width") + " that conv2d makes " +
               std::to_string(windows[i]) + " of, which " + c.input_name(0) + " has",
           std::to_string(size[i]) + ", of which it makes " + std::to_string(expected));
  }
  const int64_t in = weights[weight.in];
  return {{result_dtype(c, a),
           image_shape(image, dy[0], size,
                       in < 0 ? kUnknownDim : checked_mul(in, a.groups, "conv2d"))}};
}

std::vector<Type> infer_weight_gradient(const InferContext& c) {
  const auto& a = c.as<Conv2dGradientAttributes>();
  require_convolution(c, a);
  require_list(c, "size", a.size, 2, 1);
  const ImageAxes image = image_axes(a.layout);
  const WeightAxes weight = weight_axes(a);
  const Shape &x = c.inputs[0].shape, &dy = c.inputs[1].shape;
  require_divided(c, a, 0, image.channel, "channels");
  require_divided(c, a, 1, image.channel, "channels");
  const Pair kernel{a.size[0], a.size[1]};
  const Windows windows = windows_of(window_settings(a), spatial_dims(x, image), kernel);
  require_windows_fit(c, window_settings(a), windows, "x", x);
  const Shape expected =
      image_shape(image, x[0], {windows[0].out, windows[1].out}, dy[image.channel]);
  bool fits = true;
  for (size_t i = 0; i < 4; ++i) {
    fits = fits && (expected[i] < 0 || dy[i] < 0 || expected[i] == dy[i]);
  }
  if (!fits) {
    c.fail("dy", "shape " + to_string(expected) + ", which conv2d makes of x", to_string(dy));
  }
  require_parts(c, a.parts, result_dtype(c, a));
  // Such a sum is one part of several, whoever has the others.
  if (a.rows_alone) require_part_sums(c, result_dtype(c, a));
  const int64_t channels = x[image.channel];
  return {{result_dtype(c, a),
           weight_shape(weight, kernel, channels < 0 ? kUnknownDim : channels / a.groups,
                        dy[image.channel])}};
}

// ---- references

// The tensor `result`, as the sum of products of the other two.
void reference_convolution(const ReferenceContext& c, const ConvGeometry& geometry,
                           std::array<ConvTensor, 2> operands, ConvTensor result) {
  visit_dtype(c.inputs[0].dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      const T* a = c.inputs[0].data<T>().data();
      const T* b = c.inputs[1].data<T>().data();
      std::vector<Computed<T>> sums(static_cast<size_t>(c.outputs[0].num_elements()), 0);
      for_each_term(geometry, [&](const std::array<int64_t, 3>& at) {
        auto& sum = sums[static_cast<size_t>(at[result])];
        sum = scalar::add(sum, scalar::mul(load(a, at[operands[0]]), load(b, at[operands[1]])));
      });
      const auto store_all = [&](auto* out) {
        for (size_t i = 0; i < sums.size(); ++i) store(out, static_cast<int64_t>(i), sums[i]);
      };
      if constexpr (!std::is_same_v<T, float>) {
        if (c.outputs[0].dtype() == f32) return store_all(c.outputs[0].data<float>().data());
      }
      store_all(c.outputs[0].data<T>().data());
    }
  });
}

void reference_conv2d(const ReferenceContext& c) {
  const ConvGeometry geometry(c.as<Conv2dAttributes>(), c.inputs[0].shape(), c.inputs[1].shape());
  reference_convolution(c, geometry, {kImages, kWeights}, kResults);
}
void reference_input_gradient(const ReferenceContext& c) {
  const ConvGeometry geometry(c.as<Conv2dGradientAttributes>(), c.outputs[0].shape(),
                              c.inputs[1].shape());
  reference_convolution(c, geometry, {kResults, kWeights}, kImages);
}
void reference_of_weight_gradient(const ReferenceContext& c) {
  const ConvGeometry geometry(c.as<Conv2dGradientAttributes>(), c.inputs[0].shape(),
                              c.outputs[0].shape());
  reference_convolution(c, geometry, {kImages, kResults}, kWeights);
}

void reference_weight_gradient(const ReferenceContext& c) {
  reference_of_parts(c, c.as<Conv2dGradientAttributes>().parts, reference_of_weight_gradient);
}

// ---- gradients

// A convolution is linear in each operand, so the three ops are each other's gradients. Of wide
// ones all are wide, the upstream gradient rounded to the operands' dtype, as for matmul.
class ConvGradient {
 public:
  ConvGradient(const BuildContext& c, Conv2dAttributes a) : c_(c), a_(std::move(a)) {}

  Value upstream() const {
    return a_.wide ? cast(c_.output_gradients[0], c_.inputs[0].dtype(), c_.site)
                   : c_.output_gradients[0];
  }
  Value result(const Value& images, const Value& weights) const {
    return narrowed(conv2d(images, weights, a_, c_.site));
  }
  Value images(const Value& results, const Value& weights, const Shape& like) const {
    const Pair size = spatial_dims(like, image_axes(a_.layout));
    return narrowed(conv2d_input_gradient(results, weights, a_, {size[0], size[1]}, c_.site));
  }
  Value weights(const Value& images, const Value& results, const Shape& like) const {
    const WeightAxes axes = weight_axes(a_);
    // Sums over all images have no rows but as parts, which 16-bit results do not have.
    Conv2dAttributes own = a_;
    own.rows_alone = a_.rows_alone && has_part_sums(a_.wide ? f32 : images.dtype());
    return narrowed(conv2d_weight_gradient(
        images, results, {like[axes.spatial[0]], like[axes.spatial[1]]}, own, c_.site));
  }

 private:
  Value narrowed(const Value& value) const {
    return a_.wide ? cast(value, c_.inputs[0].dtype(), c_.site) : value;
  }
  const BuildContext& c_;
  const Conv2dAttributes a_;
};

Values gradient_conv2d(const BuildContext& c) {
  const ConvGradient of(c, c.as<Conv2dAttributes>());
  const Value &x = c.inputs[0], &weights = c.inputs[1], g = of.upstream();
  return {of.images(g, weights, x.shape()), of.weights(x, g, weights.shape())};
}
Values gradient_input_gradient(const BuildContext& c) {
  const ConvGradient of(c, c.as<Conv2dGradientAttributes>());
  const Value &dy = c.inputs[0], &weights = c.inputs[1], g = of.upstream();
  return {of.result(g, weights), of.weights(g, dy, weights.shape())};
}
Values gradient_weight_gradient(const BuildContext& c) {
  const ConvGradient of(c, c.as<Conv2dGradientAttributes>());
  const Value &x = c.inputs[0], &dy = c.inputs[1], g = of.upstream();
  return {of.images(dy, g, x.shape()), of.result(x, g)};
}

// ---- decompositions, by conv_products.h; NCHW and OIHW are transposed to NHWC and HWIO and back

const std::vector<int64_t> kWeightToLast = {2, 3, 1, 0}, kWeightToFirst = {3, 2, 0, 1};

// Returns the result where it has no elements, or sums nothing: no graph of empty tensors is made.
std::optional<Value> trivial(const BuildContext& c, DType dtype, const Shape& shape) {
  const bool sums_nothing = std::any_of(c.inputs.begin(), c.inputs.end(), [](const Value& v) {
    return v.shape().num_elements() == 0;
  });
  if (shape.num_elements() != 0 && !sums_nothing) return std::nullopt;
  return zeros_of(c.graph, {dtype, shape}, c.site);
}

DType result_dtype(const BuildContext& c, const Conv2dAttributes& a) {
  return a.wide ? f32 : c.inputs[0].dtype();
}

Values decompose_conv2d(const BuildContext& c) {
  const auto& a = c.as<Conv2dAttributes>();
  const CallSite site = c.site;
  const Value &x = c.inputs[0], &weights = c.inputs[1];
  const ConvGeometry g(a, x.shape(), weights.shape());
  const ImageAxes axes = image_axes(a.layout);
  const Shape shape =
      image_shape(axes, g.batch, {g.windows[0].out, g.windows[1].out}, g.groups * g.out);
  if (const auto zeros = trivial(c, result_dtype(c, a), shape)) return {*zeros};
  if (a.layout == kChannelsFirst) {
    const Value y = conv2d(transpose(x, kImageToLast, site),
                           transpose(weights, kWeightToLast, site), channels_last(a), site);
    return {transpose(y, kImageToFirst, site)};
  }
  return {cast(conv_product(x, weights, g, a.wide, site), result_dtype(c, a), site)};
}

Values decompose_weight_gradient(const BuildContext& c) {
  const auto& a = c.as<Conv2dGradientAttributes>();
  const CallSite site = c.site;
  const Value &x = c.inputs[0], &dy = c.inputs[1];
  const ImageAxes axes = image_axes(a.layout);
  const Shape shape = weight_shape(weight_axes(a), {a.size[0], a.size[1]},
                                   x.shape()[axes.channel] / a.groups, dy.shape()[axes.channel]);
  if (const auto zeros = trivial(c, result_dtype(c, a), shape)) return {*zeros};
  if (a.layout == kChannelsFirst) {
    const Value dw = emit("conv2d_weight_gradient",
                          {transpose(x, kImageToLast, site), transpose(dy, kImageToLast, site)},
                          Attributes::of(channels_last(a)), site);
    return {transpose(dw, kWeightToFirst, site)};
  }
  if (a.parts > 1) {
    Values gradients;
    const int64_t images = x.shape()[0] / a.parts;
    for (int64_t first = 0; first < x.shape()[0]; first += images) {
      const auto part = [&](const Value& v) {
        return slice(v, {first}, {first + images}, {}, site);
      };
      gradients.push_back(conv2d_weight_gradient(part(x), part(dy), a.size, a, site));
    }
    return {tree_sum(gradients, site)};
  }
  const ConvGeometry g(a, x.shape(), shape);
  return {cast(conv_weight_product(x, dy, g, a.wide, site), result_dtype(c, a), site)};
}

Values decompose_input_gradient(const BuildContext& c) {
  const auto& a = c.as<Conv2dGradientAttributes>();
  const CallSite site = c.site;
  const Value &dy = c.inputs[0], &weights = c.inputs[1];
  const ImageAxes axes = image_axes(a.layout);
  const WeightAxes weight = weight_axes(a);
  const Pair out = spatial_dims(dy.shape(), axes);
  const Pair kernel{weights.shape()[weight.spatial[0]], weights.shape()[weight.spatial[1]]};
  const Pair size{image_size(a, 0, out[0], kernel[0]), image_size(a, 1, out[1], kernel[1])};
  const Shape shape = image_shape(axes, dy.shape()[0], size, weights.shape()[weight.in] * a.groups);
  if (const auto zeros = trivial(c, result_dtype(c, a), shape)) return {*zeros};
  if (a.layout == kChannelsFirst) {
    const Value dx = conv2d_input_gradient(transpose(dy, kImageToLast, site),
                                           transpose(weights, kWeightToLast, site),
                                           channels_last(a), {size[0], size[1]}, site);
    return {transpose(dx, kImageToFirst, site)};
  }
  const ConvGeometry g(a, shape, weights.shape());
  return {conv_product_back(dy, weights, g, a, result_dtype(c, a), site)};
}

// ---- samples

// A convolution drawn at random, its tensors' shapes by ConvTensor.
struct DrawnConv {
  Conv2dAttributes a;
  std::array<Shape, 3> shapes;
  Pair in{}, kernel{};
};

// Windows that go by transformed tiles where there are channels enough (products/winograd.h).
void draw_tiles(SampleSource& source, DrawnWindows& drawn) {
  const int64_t taps = source.coin() ? 3 : 5;
  drawn.taps = {taps, taps};
  drawn.stride = drawn.dilation = {1, 1};
  drawn.in = {source.integer(taps, 9), source.integer(taps, 9)};
}

DrawnConv draw_conv(SampleSource& source) {
  DrawnWindows drawn = draw_windows(source, 3, false);
  const bool many_channels = source.size() > 50 && source.dtype() != f64;
  const bool tiles = many_channels && source.dtype() == f32 && source.integer(0, 4) == 0;
  if (tiles) draw_tiles(source, drawn);
  DrawnConv conv;
  conv.in = drawn.in;
  conv.kernel = drawn.taps;
  const WindowSettings settings = drawn.settings();
  const Windows windows = windows_of(settings, conv.in, conv.kernel);
  conv.a = {.stride = drawn.stride,
            .padding = drawn.padding,
            .pads = drawn.pads,
            .dilation = drawn.dilation,
            .layout = tiles || source.coin() ? kChannelsLast : kChannelsFirst,
            .wide = size_of(source.dtype()) == 2 && source.coin(),
            .algorithm = source.integer(0, 3) == 0 ? kDirectAlgorithm : kAutoAlgorithm};
  int64_t in = source.integer(1, 3), out = source.integer(1, 3);
  const int64_t kind = source.integer(0, 5);
  if (tiles) {
    in = source.integer(12, 20);
    out = source.integer(12, 34);
  } else if (kind == 0) {  // depthwise
    conv.a.groups = source.integer(2, 4);
    in = 1;
    out = source.integer(1, 2);
  } else if (kind == 1) {
    conv.a.groups = 2;
  } else if (kind == 2 && many_channels) {
    // More channels take other kernels of products; f64 is what gradients are checked in, slowly.
    in = source.integer(16, 20);
    out = source.integer(16, 20);
  }
  const int64_t batch = source.integer(0, 7) == 0 ? 0 : source.integer(1, 3);
  const ImageAxes axes = image_axes(conv.a.layout);
  conv.shapes[kImages] = image_shape(axes, batch, conv.in, in * conv.a.groups);
  conv.shapes[kWeights] = weight_shape(weight_axes(conv.a), conv.kernel, in, out * conv.a.groups);
  conv.shapes[kResults] =
      image_shape(axes, batch, {windows[0].out, windows[1].out}, out * conv.a.groups);
  return conv;
}

Sample sample_conv2d(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const DrawnConv drawn = draw_conv(source);
  return {.inputs = {source.values(drawn.shapes[kImages]), source.values(drawn.shapes[kWeights])},
          .build = [a = drawn.a](Graph&, const Values& v) -> Values {
            return {conv2d(v[0], v[1], a)};
          }};
}
Sample sample_input_gradient(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const DrawnConv drawn = draw_conv(source);
  return {.inputs = {source.values(drawn.shapes[kResults]), source.values(drawn.shapes[kWeights])},
          .build = [drawn](Graph&, const Values& v) -> Values {
            return {conv2d_input_gradient(v[0], v[1], drawn.a, {drawn.in[0], drawn.in[1]})};
          }};
}
Sample sample_weight_gradient(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const DrawnConv drawn = draw_conv(source);
  return {
      .inputs = {source.values(drawn.shapes[kImages]), source.values(drawn.shapes[kResults])},
      .build = [drawn](Graph&, const Values& v) -> Values {
        return {conv2d_weight_gradient(v[0], v[1], {drawn.kernel[0], drawn.kernel[1]}, drawn.a)};
      }};
}

// ---- builders

Conv2dAttributes completed(Conv2dAttributes a) {
  a.stride = for_both_axes(a.stride);
  a.dilation = for_both_axes(a.dilation);
  return a;
}

}  // namespace

Attributes conv2d_attributes(const Conv2dAttributes& options) {
  return Attributes::of(completed(options));
}

Attributes conv2d_gradient_attributes(const Conv2dAttributes& options,
                                      const std::vector<int64_t>& size) {
  Conv2dGradientAttributes a;
  static_cast<Conv2dAttributes&>(a) = completed(options);
  a.size = size;
  return Attributes::of(std::move(a));
}

void register_conv(OpTable& table) {
  OpDef op;
  op.traits = kProduct;
  op.mix_class = MixClass::kWhite;
  op.bound = {.ulps = 1};  // and product_bound.h

  op.name = "conv2d";
  op.summary = "the convolution of images with weights";
  op.input_names = {"x", "weights"};
  op.attributes = &attributes_schema<Conv2dAttributes>();
  op.infer = infer_conv2d;
  op.reference = reference_conv2d;
  op.gradient = gradient_conv2d;
  op.decompose = decompose_conv2d;
  op.sample = sample_conv2d;
  table.add(op);

  op.name = "conv2d_input_gradient";
  op.summary = "the gradient of conv2d for its images, which is the transposed convolution";
  op.input_names = {"dy", "weights"};
  op.attributes = &attributes_schema<Conv2dGradientAttributes>();
  op.infer = infer_input_gradient;
  op.reference = reference_input_gradient;
  op.gradient = gradient_input_gradient;
  op.decompose = decompose_input_gradient;
  op.sample = sample_input_gradient;
  table.add(op);

  op.name = "conv2d_weight_gradient";
  op.summary = "the gradient of conv2d for its weights";
  op.input_names = {"x", "dy"};
  op.infer = infer_weight_gradient;
  op.reference = reference_weight_gradient;
  op.gradient = gradient_weight_gradient;
  op.decompose = decompose_weight_gradient;
  op.sample = sample_weight_gradient;
  table.add(std::move(op));
}

Value conv2d(Operand x, Operand weights, const Conv2dAttributes& options, CallSite site) {
  return emit("conv2d", {x, weights}, conv2d_attributes(options), site);
}

Value conv2d_input_gradient(Operand dy, Operand weights, const Conv2dAttributes& options,
                            const std::vector<int64_t>& size, CallSite site) {
  return emit("conv2d_input_gradient", {dy, weights}, conv2d_gradient_attributes(options, size),
              site);
}

Value conv2d_weight_gradient(Operand x, Operand dy, const std::vector<int64_t>& size,
                             const Conv2dAttributes& options, CallSite site) {
  return emit("conv2d_weight_gradient", {x, dy}, conv2d_gradient_attributes(options, size), site);
}

}  // namespace keel
