#include "keel/ops/composed/convolutions.h"

#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/called_as.h"
#include "keel/ops/composed/at_least.h"
#include "keel/ops/conv_rules.h"
#include "keel/ops/shape.h"
#include "keel/ops/window_rules.h"

namespace keel {
namespace {

// Returns the weights, with a check that they have x's channels where that is not known yet.
Value of_channels(const Value& weights, size_t axis, const Value& x, size_t channels,
                  const char* op, CallSite line) {
  if (weights.shape()[axis] >= 0 && x.shape()[channels] >= 0) return weights;
  const std::vector<int64_t> own{static_cast<int64_t>(axis)};
  return same_dims(weights, x, {own, {static_cast<int64_t>(channels)}, op, "weights"}, line);
}

// Returns x, with a check that one window fits where its width is not known yet.
Value of_a_window(const Value& x, size_t width, int64_t taps, const Conv2dAttributes& a,
                  const char* op, CallSite line) {
  if (x.shape()[width] >= 0 || taps < 1 || a.padding == "same") return x;
  const WindowAxis w = window_axis(window_settings(a), 1, kUnknownDim, taps);
  const int64_t least = w.extent() - w.low - w.high;
  return least < 1 ? x : with_at_least(x, width, least, op, "x", line);
}

}  // namespace

Value conv_transpose2d(Operand x, Operand weights, const Conv2dAttributes& options,
                       const std::vector<int64_t>& size, CallSite site) {
  const CallSite line = line_of(x, site);
  const Type images = require_value(x, "conv_transpose2d", "x", line).type();
  const Type kernels = require_value(weights, "conv_transpose2d", "weights", line).type();
  require_operands_of("conv2d_input_gradient", {"conv_transpose2d", {"x", "weights"}},
                      {images, kernels}, conv2d_gradient_attributes(options, size), line);
  const Value fitting = of_channels(weights.value(), weight_axes(options).out, x.value(),
                                    image_axes(options.layout).channel, "conv_transpose2d", line);
  return conv2d_input_gradient(x, fitting, options, size, line);
}

Value conv1d(Operand x, Operand weights, Conv1dOptions options, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const auto fail = [line](const char* argument, const char* expected, const std::string& got) {
    throw Error(
        {.op = "conv1d", .argument = argument, .expected = expected, .got = got, .site = line});
  };
  const bool first = options.layout == "NCW";
  if (!first && options.layout != "NWC") fail("layout", "NWC or NCW", '"' + options.layout + '"');
  Value sequences = require_value(x, "conv1d", "x", line);
  Value kernels = require_value(weights, "conv1d", "weights", line);
  if (sequences.shape().rank() != 3) fail("x", "rank 3", to_string(sequences.type()));
  if (kernels.shape().rank() != 3) fail("weights", "rank 3", to_string(kernels.type()));
  const bool padded = options.padding == "explicit";
  if (padded && options.pads.size() != 2)
    fail("pads", "2 numbers (in front, behind)", std::to_string(options.pads.size()));
  Conv2dAttributes a{.stride = {1, options.stride},
                     .padding = options.padding,
                     .pads = std::move(options.pads),
                     .dilation = {1, options.dilation},
                     .groups = options.groups,
                     .layout = first ? kChannelsFirst : kChannelsLast,
                     .wide = options.wide};
  if (padded) a.pads.insert(a.pads.begin(), {0, 0});
  const int64_t row = first ? 2 : 1, kernel_row = first ? 2 : 0;
  const auto of_one_row = [](const Value& v, int64_t axis) {
    return Type{v.dtype(), v.shape().with_inserted(static_cast<size_t>(axis), 1)};
  };
  require_operands_of("conv2d", {"conv1d, as a conv2d of one row", {"x", "weights"}},
                      {of_one_row(sequences, row), of_one_row(kernels, kernel_row)},
                      conv2d_attributes(a), line);
  const size_t width = first ? 2 : 1, taps = first ? 2 : 0;
  sequences = of_a_window(sequences, width, kernels.shape()[taps], a, "conv1d", line);
  if (a.groups == 1) kernels = of_channels(kernels, 1, sequences, 3 - width, "conv1d", line);
  const Value y = conv2d(expand_dims(sequences, {row}, line),
                         expand_dims(kernels, {kernel_row}, line), a, line);
  return squeeze(y, {row}, line);
}

}  // namespace keel
