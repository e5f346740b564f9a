#include "keel/ops/nn/image_layers.h"

#include <utility>

#include "keel/ops/composed/channel_norm.h"
#include "keel/ops/conv.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/layer_errors.h"

namespace keel {
namespace {

// Returns the kernel as height and width.
std::vector<int64_t> both(const Scope& scope, std::vector<int64_t> kernel) {
  if (kernel.size() == 1) kernel.push_back(kernel[0]);
  if (kernel.size() != 2) {
    refuse_argument(layer_title("conv2d", scope), "kernel", "a height and a width",
                    std::to_string(kernel.size()) + " numbers", scope.site());
  }
  for (const int64_t size : kernel) require_size("conv2d", scope, "kernel", size);
  return kernel;
}

}  // namespace

Conv2d::Conv2d(const Scope& scope, int64_t in, int64_t out, std::vector<int64_t> kernel,
               const Conv2dOptions& options)
    : Module(scope), options_(options), in_(in) {
  require_size("conv2d", scope, "in", in);
  require_size("conv2d", scope, "out", out);
  require_size("conv2d", scope, "groups", options.groups);
  require_float("conv2d", scope, options.dtype);
  if (in % options.groups != 0 || out % options.groups != 0) {
    refuse_argument(layer_title("conv2d", scope), "groups",
                    "a number that divides " + std::to_string(in) + " and " + std::to_string(out),
                    std::to_string(options.groups), scope.site());
  }
  const std::vector<int64_t> window = both(scope, std::move(kernel));
  weight_ = scope.parameter(
      "weight", options.weights({window[0], window[1], in / options.groups, out}, options.dtype));
  if (options.use_bias) bias_ = scope.parameter("bias", options.bias({out}, options.dtype));
}

Value Conv2d::operator()(Operand x, CallSite site) const {
  const CallSite line = site.known() ? site : x.site();
  const Value input =
      require_input(layer_title("conv2d", scope()), x, weight_.dtype(), 4, -1, in_, line);
  const LabelScope here = open_scope();
  const Value y = conv2d(Operand(input, line), Operand(weight_, line),
                         {.stride = options_.stride,
                          .padding = options_.padding,
                          .pads = options_.pads,
                          .dilation = options_.dilation,
                          .groups = options_.groups},
                         line);
  return bias_.valid() ? add(y, bias_, line) : y;
}

BatchNorm::BatchNorm(const Scope& scope, int64_t channels, const BatchNormOptions& options)
    : Module(scope), options_(options) {
  require_size("batch norm", scope, "channels", channels);
  require_float("batch norm", scope, options.dtype);
  if (!(options.decay >= 0 && options.decay <= 1)) {
    refuse_argument(layer_title("batch norm", scope), "decay", "a number in [0, 1]",
                    std::to_string(options.decay), scope.site());
  }
  const DType statistics = options.dtype == f64 ? f64 : f32;
  weight_ = scope.parameter("weight", ones({channels}, options.dtype));
  bias_ = scope.parameter("bias", zeros({channels}, options.dtype));
  running_mean_ = scope.buffer("running_mean", zeros({channels}, statistics));
  running_var_ = scope.buffer("running_var", ones({channels}, statistics));
}

Value BatchNorm::operator()(Operand x, Mode mode, CallSite site) const {
  const CallSite line = site.known() ? site : x.site();
  const std::string title = layer_title("batch norm", scope());
  const size_t rank = require_value(x, title.c_str(), "x", line).shape().rank();
  if (rank < 2) {
    refuse_argument(title, "x", "shape [batch, ..., channels]", to_string(x.value().type()), line);
  }
  const Value input = require_input(title, x, weight_.dtype(), rank, -1, weight_.shape()[0], line);
  const LabelScope here = open_scope();
  const Operand scale(weight_, line), offset(bias_, line);
  if (mode == Mode::kEvaluation) {
    return batch_norm_inference(Operand(input, line), scale, offset, Operand(running_mean_, line),
                                Operand(running_var_, line), {.epsilon = options_.epsilon}, line);
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
  const BatchNormOutput result =
      batch_norm(Operand(input, line), scale, offset, {.epsilon = options_.epsilon}, line);
  attach_running_mean(result.output, running_mean_, result.mean, options_.decay, line);
  attach_running_mean(result.output, running_var_, result.variance, options_.decay, line);
  return result.output;
}

}  // namespace keel
