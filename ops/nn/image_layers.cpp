#include "keel/ops/nn/image_layers.h"

#include <tuple>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/composed/channel_norm.h"
#include "keel/ops/composed/convolutions.h"
#include "keel/ops/conv.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/in_name_of.h"
#include "keel/ops/nn/layer_errors.h"
#include "keel/ops/shape.h"
#include "keel/ops/window_rules.h"

namespace keel {
namespace {

// Returns whether the channels lie in front of the other axes of an image or a sequence.
bool channels_first(const char* layer, const Scope& scope, const std::string& layout,
                    const std::string& last, const std::string& first) {
  if (layout != last && layout != first) {
    refuse_argument(layer_title(layer, scope), "layout", last + " or " + first, '"' + layout + '"',
                    scope.site());
  }
  return layout == first;
}
bool images_channels_first(const char* layer, const Scope& scope, const std::string& layout) {
  return channels_first(layer, scope, layout, kChannelsLast, kChannelsFirst);
}

// Refuses what no convolution takes, in the name of its constructor.
void require_channels(const char* layer, const Scope& scope, int64_t in, int64_t out,
                      int64_t groups, DType dtype) {
  require_size(layer, scope, "in", in);
  require_size(layer, scope, "out", out);
  require_groups(layer, scope, groups, in, out);
  require_float(layer, scope, dtype);
}

// The parameter is [window..., in, out] for every layout, which is what initializers go by, and
// what a file then holds is good for each. Ops want [out, in, window...] beside channels in front.
Value weights_beside(Value weights, bool first, CallSite line) {
  if (!first) return weights;
  const auto rank = static_cast<int64_t>(weights.shape().rank());
  std::vector<int64_t> perm = {rank - 1, rank - 2};
  for (int64_t axis = 0; axis < rank - 2; ++axis) perm.push_back(axis);
  return transpose(Operand(weights, line), perm, line);
}

// The options of layers as conv2d and conv_transpose2d take them.
template <class Options>
Conv2dAttributes conv_attributes(const Options& options) {
  return {.stride = options.stride,
          .padding = options.padding,
          .pads = options.pads,
          .dilation = options.dilation,
          .groups = options.groups,
          .layout = options.layout,
          .algorithm = options.algorithm};
}
Conv1dOptions conv1d_options(const Conv1dLayerOptions& options) {
  return {.stride = options.stride,
          .padding = options.padding,
          .pads = options.pads,
          .dilation = options.dilation,
          .groups = options.groups,
          .layout = options.layout};
}

// Refuses in the name of the layer, before it has made states whose names would then be taken, what
// its calls would refuse of its options. So `call` is made once in a graph that goes away, with
// weights of that type and x of a size that is not known.
template <class Call>
void require_callable(const char* layer, const Scope& scope, int64_t in, const Type& weights,
                      bool first, const Call& call) {
  const CallSite line = scope.site();
  std::vector<int64_t> images(weights.shape.rank(), kUnknownDim);
  images[first ? 1 : images.size() - 1] = in;
  Graph gone;
  in_name_of({layer_title(layer, scope)}, [&] {
    const Value x = gone.input("x", weights.dtype, Shape(images), line);
    const Value parameter = gone.input("weights", weights.dtype, weights.shape, line);
    return call(Operand(x, line), Operand(weights_beside(parameter, first, line), line), line);
  });
}

// Adds the bias, where there is one, to each channel.
Value with_bias(Value y, Value bias, bool first, CallSite line) {
  if (!bias.valid()) return y;
  if (!first) return add(y, bias, line);
  std::vector<int64_t> axes;
  for (size_t axis = 1; axis + 1 < y.shape().rank(); ++axis)
    axes.push_back(static_cast<int64_t>(axis));
  return add(y, expand_dims(Operand(bias, line), axes, line), line);
}

// x with that many channels along an axis that is not the batch's.
Value require_normed(const std::string& title, const Operand& x, const Value& weight,
                     int64_t channel_axis, CallSite line) {
  const Shape& shape = require_value(x, title.c_str(), "x", line).shape();
  const auto rank = static_cast<int64_t>(shape.rank());
  const int64_t axis = channel_axis < 0 ? channel_axis + rank : channel_axis;
  if (axis < 1 || axis >= rank) {
    refuse_argument(title, "x",
                    "shape [batch, ..., channels, ...] with the channels along axis " +
                        std::to_string(channel_axis),
                    to_string(x.value().type()), line);
  }
  return require_input(title, weight.graph(), x, weight.dtype(), shape.rank(), channel_axis,
                       weight.shape()[0], line);
}

}  // namespace

Conv2d::Conv2d(const Scope& scope, int64_t in, int64_t out, std::vector<int64_t> kernel,
               const Conv2dOptions& options)
    : Module(scope), options_(options), in_(in) {
  require_channels("conv2d", scope, in, out, options.groups, options.dtype);
  const bool first = images_channels_first("conv2d", scope, options.layout);
  const std::vector<int64_t> window =
      height_and_width("conv2d", scope, "kernel", std::move(kernel));
  const Type weights{options.dtype, {window[0], window[1], in / options.groups, out}};
  require_callable("conv2d", scope, in, weights, first,
                   [&](const Operand& x, const Operand& w, CallSite line) {
                     return conv2d(x, w, conv_attributes(options), line);
                   });
  std::tie(weight_, bias_) =
      make_weight_and_bias("conv2d", scope, {"weight", options.weights, weights},
                           {"bias", options.bias, {options.dtype, {out}}}, options.use_bias);
}

Value Conv2d::operator()(Operand x, CallSite site) const {
  const CallSite line = line_of(x, site);
  const bool first = options_.layout == kChannelsFirst;
  const std::string title = layer_title("conv2d", scope());
  const Value input =
      require_input(title, graph(), x, weight_.dtype(), 4, first ? 1 : -1, in_, line);
  const LabelScope here = open_scope();
  const Operand weights(weights_beside(weight_, first, line), line);
  const Value y = in_name_of({title, {}, "conv2d"}, [&] {
    return conv2d(Operand(input, line), weights, conv_attributes(options_), line);
  });
  return with_bias(y, bias_, first, line);
}

ConvTranspose2d::ConvTranspose2d(const Scope& scope, int64_t in, int64_t out,
                                 std::vector<int64_t> kernel, const ConvTranspose2dOptions& options)
    : Module(scope), options_(options), in_(in) {
  require_channels("conv transpose2d", scope, in, out, options.groups, options.dtype);
  const bool first = images_channels_first("conv transpose2d", scope, options.layout);
  const std::vector<int64_t> window =
      height_and_width("conv transpose2d", scope, "kernel", std::move(kernel));
  const Type weights{options.dtype, {window[0], window[1], out / options.groups, in}};
  require_callable("conv transpose2d", scope, in, weights, first,
                   [&](const Operand& x, const Operand& w, CallSite line) {
                     return conv_transpose2d(x, w, conv_attributes(options), options.size, line);
                   });
  std::tie(weight_, bias_) =
      make_weight_and_bias("conv transpose2d", scope, {"weight", options.weights, weights},
                           {"bias", options.bias, {options.dtype, {out}}}, options.use_bias);
}

Value ConvTranspose2d::operator()(Operand x, CallSite site) const {
  const CallSite line = line_of(x, site);
  const bool first = options_.layout == kChannelsFirst;
  const std::string title = layer_title("conv transpose2d", scope());
  const Value input =
      require_input(title, graph(), x, weight_.dtype(), 4, first ? 1 : -1, in_, line);
  const LabelScope here = open_scope();
  const Operand weights(weights_beside(weight_, first, line), line);
  const Value y = in_name_of({title, {}, "conv_transpose2d"}, [&] {
    return conv_transpose2d(Operand(input, line), weights, conv_attributes(options_), options_.size,
                            line);
  });
  return with_bias(y, bias_, first, line);
}

Conv1d::Conv1d(const Scope& scope, int64_t in, int64_t out, int64_t kernel,
               const Conv1dLayerOptions& options)
    : Module(scope), options_(options), in_(in) {
  require_channels("conv1d", scope, in, out, options.groups, options.dtype);
  const bool first = channels_first("conv1d", scope, options.layout, "NWC", "NCW");
  require_size("conv1d", scope, "kernel", kernel);
  // Here conv2d would speak of two axes.
  require_size("conv1d", scope, "stride", options.stride);
  require_size("conv1d", scope, "dilation", options.dilation);
  for (const int64_t pad : options.pads) {
    if (pad >= 0) continue;
    refuse_argument(layer_title("conv1d", scope), "pads", "numbers of at least 0",
                    std::to_string(pad), scope.site());
  }
  const Type weights{options.dtype, {kernel, in / options.groups, out}};
  require_callable("conv1d", scope, in, weights, first,
                   [&](const Operand& x, const Operand& w, CallSite line) {
                     return conv1d(x, w, conv1d_options(options), line);
                   });
  std::tie(weight_, bias_) =
      make_weight_and_bias("conv1d", scope, {"weight", options.weights, weights},
                           {"bias", options.bias, {options.dtype, {out}}}, options.use_bias);
}

Value Conv1d::operator()(Operand x, CallSite site) const {
  const CallSite line = line_of(x, site);
  const bool first = options_.layout == "NCW";
  const std::string title = layer_title("conv1d", scope());
  const Value input =
      require_input(title, graph(), x, weight_.dtype(), 3, first ? 1 : -1, in_, line);
  const LabelScope here = open_scope();
  const Operand weights(weights_beside(weight_, first, line), line);
  // The shapes that it tells of have one row.
  const std::string row = ", as a conv2d of one row";
  const Value y = in_name_of({title + row, {}, "conv1d" + row}, [&] {
    return conv1d(Operand(input, line), weights, conv1d_options(options_), line);
  });
  return with_bias(y, bias_, first, line);
}

BatchNorm::BatchNorm(const Scope& scope, int64_t channels, const BatchNormOptions& options)
    : Module(scope), options_(options) {
  require_size("batch norm", scope, "channels", channels);
  require_float("batch norm", scope, options.dtype);
  require_epsilon("batch norm", scope, options.epsilon, options.dtype);
  if (!(options.decay >= 0 && options.decay <= 1)) {
    refuse_argument(layer_title("batch norm", scope), "decay", "a number in [0, 1]",
                    printable(options.decay), scope.site());
  }
  const DType statistics = options.dtype == f64 ? f64 : f32;
  weight_ = scope.parameter("weight", ones({channels}, options.dtype));
  bias_ = scope.parameter("bias", zeros({channels}, options.dtype));
  running_mean_ = scope.buffer("running_mean", zeros({channels}, statistics));
  running_var_ = scope.buffer("running_var", ones({channels}, statistics));
}

Value BatchNorm::operator()(Operand x, Mode mode, CallSite site) const {
  const CallSite line = line_of(x, site);
  const std::string title = layer_title("batch norm", scope());
  const Value input = require_normed(title, x, weight_, options_.channel_axis, line);
  const LabelScope here = open_scope();
  const Operand scale(weight_, line), offset(bias_, line);
  const ChannelNormOptions norm{.epsilon = options_.epsilon, .channel_axis = options_.channel_axis};
  if (mode == Mode::kEvaluation) {
    return batch_norm_inference(Operand(input, line), scale, offset, Operand(running_mean_, line),
                                Operand(running_var_, line), norm, line);
  }
  if (input.graph().parent() != nullptr) {
    throw Error({.op = title,
                 .argument = "x",
                 .expected = "a value of the root graph in training, where its running statistics "
                             "move on once a step",
                 .got = described(input) + " inside a body of control flow" + made_at(input),
                 .fix = "call it outside of the body, or in it with Mode::kEvaluation, or use a "
                        "LayerNorm there",
                 .site = line});
  }
  const BatchNormOutput result = batch_norm(Operand(input, line), scale, offset, norm, line);
  attach_running_mean(result.output, running_mean_, result.mean, options_.decay, line);
  attach_running_mean(result.output, running_var_, result.variance, options_.decay, line);
  return result.output;
}

GroupNorm::GroupNorm(const Scope& scope, int64_t groups, int64_t channels,
                     const GroupNormOptions& options)
    : Module(scope), options_(options), groups_(groups) {
  require_size("group norm", scope, "channels", channels);
  require_groups("group norm", scope, groups, channels, channels);
  require_float("group norm", scope, options.dtype);
  require_epsilon("group norm", scope, options.epsilon, options.dtype);
  weight_ = scope.parameter("weight", ones({channels}, options.dtype));
  bias_ = scope.parameter("bias", zeros({channels}, options.dtype));
}

Value GroupNorm::operator()(Operand x, CallSite site) const {
  const CallSite line = line_of(x, site);
  const std::string title = layer_title("group norm", scope());
  const Value input = require_normed(title, x, weight_, options_.channel_axis, line);
  const LabelScope here = open_scope();
  return in_name_of({title, {}, "group_norm"}, [&] {
    return group_norm(Operand(input, line), groups_, Operand(weight_, line), Operand(bias_, line),
                      {.epsilon = options_.epsilon, .channel_axis = options_.channel_axis}, line);
  });
}

}  // namespace keel
