#include "keel/ops/batch_norm.h"

#include <cmath>
#include <string>
#include <vector>

#include "keel/core/base/printable.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/norm_epsilon.h"
#include "keel/ops/normalization.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

std::vector<Type> infer_batch_norm(const InferContext& c) {
  const auto& options = c.as<ChannelNormOptions>();
  require_dtypes(c, 0, kFloats);
  c.require_same_dtype();
  Shape shape = c.inputs[0].shape;
  const auto rank = static_cast<int64_t>(shape.rank());
  if (rank < 2) c.fail("x", "shape [batch, ..., channels, ...]", to_string(shape));
  if (options.channel_axis < 1 || options.channel_axis >= rank) {
    c.fail("channel_axis", "an axis of x behind the batch, which has shape " + to_string(shape),
           std::to_string(options.channel_axis));
  }
  const std::string of_epsilon = expected_of_epsilon(options.epsilon, c.inputs[0].dtype);
  if (!of_epsilon.empty()) c.fail("epsilon", of_epsilon, printable(options.epsilon));
  const auto axis = static_cast<size_t>(options.channel_axis);
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const Shape& own = c.inputs[i].shape;
    const int64_t channels = shape[axis];
    const bool fits = own.rank() == 1 && (own[0] < 0 || channels < 0 || own[0] == channels);
    c.require(i, fits, "shape " + to_string(Shape{channels}) + ", a number for each channel");
    if (channels < 0) shape = shape.with_dim(axis, own[0]);
  }
  const Type statistics{c.inputs[0].dtype == f64 ? f64 : f32, Shape{shape[axis]}};
  return {{c.inputs[0].dtype, shape}, statistics, statistics};
}

void reference_batch_norm(const ReferenceContext& c) {
  const auto& options = c.as<ChannelNormOptions>();
  const Tensor& x = c.inputs[0];
  const auto axis = static_cast<size_t>(options.channel_axis);
  const int64_t channels = x.shape()[axis], stride = x.shape().strides()[axis];
  const double count = static_cast<double>(x.num_elements()) / static_cast<double>(channels);
  const auto channel = [&](int64_t i) { return static_cast<size_t>(i / stride % channels); };
  const auto all = static_cast<size_t>(channels);
  // The statistics of an empty batch are 0 / 0. Samples draw none, as NaN cannot be compared.
  const double none = x.num_elements() == 0 ? std::nan("") : 0.0;
  std::vector<double> means(all, none), variances(all, none);
  for (int64_t i = 0; i < x.num_elements(); ++i) means[channel(i)] += x.at(i) / count;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double distance = x.at(i) - means[channel(i)];
    variances[channel(i)] += distance * distance / count;
  }
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const size_t at = channel(i);
    const double normal = (x.at(i) - means[at]) / std::sqrt(variances[at] + options.epsilon);
    const auto own = static_cast<int64_t>(at);
    c.outputs[0].set(i, normal * c.inputs[1].at(own) + c.inputs[2].at(own));
  }
  for (size_t i = 0; i < all; ++i) {
    c.outputs[1].set(static_cast<int64_t>(i), means[i]);
    c.outputs[2].set(static_cast<int64_t>(i), variances[i]);
  }
}

// The values that the op and its gradient are built from.
struct Channels {
  explicit Channels(const BuildContext& c)
      : site(c.site), shape(c.inputs[0].shape()), dtype(c.inputs[0].dtype()) {
    const auto& options = c.as<ChannelNormOptions>();
    const auto own = static_cast<size_t>(options.channel_axis);
    for (size_t i = 0; i < shape.rank(); ++i) {
      if (i != own) reduced.push_back(static_cast<int64_t>(i));
    }
    for (size_t i = own + 1; i < shape.rank(); ++i) behind.push_back(static_cast<int64_t>(i - own));
    x = centred(widened_for_norm(c.inputs[0], site), reduced, options.epsilon, site);
  }

  // A number for each channel, widened, in the place where it broadcasts with x.
  Value by_channel(const Value& value) const {
    const Value wide = widened_for_norm(value, site);
    return behind.empty() ? wide : expand_dims(wide, behind, site);
  }
  Value narrowed(const Value& value) const { return cast(Operand(value, site), dtype, site); }

  CallSite site;
  Shape shape;
  DType dtype;
  std::vector<int64_t> reduced, behind;
  Centred x;
};

Values decompose_batch_norm(const BuildContext& c) {
  const Channels channels(c);
  const Centred& x = channels.x;
  const Value normal = mul(x.distances, x.inverse, c.site);
  const Value scaled = mul(normal, channels.by_channel(c.inputs[1]), c.site);
  return {channels.narrowed(add(scaled, channels.by_channel(c.inputs[2]), c.site)),
          squeeze(x.mean, channels.reduced, c.site), squeeze(x.variance, channels.reduced, c.site)};
}

// With n = (x - mean) / root and means over a channel: dx = scale / root * (dy - mean(dy) - n
// mean(dy n)), and to that what the statistics themselves give back: mean'/count and 2 (x - mean)
// variance' / count.
Values gradient_batch_norm(const BuildContext& c) {
  const CallSite site = c.site;
  const Channels channels(c);
  const Centred& x = channels.x;
  const Value normal = mul(x.distances, x.inverse, site);
  const double count = static_cast<double>(channels.shape.num_elements()) /
                       static_cast<double>(x.mean.shape().num_elements());
  Value dx, dscale, doffset;
  const auto add_to_dx = [&](const Value& part) { dx = dx.valid() ? add(dx, part, site) : part; };
  if (c.output_gradients[0].valid()) {
    const Value dy = widened_for_norm(c.output_gradients[0], site);
    const Value of_offset = sum(dy, channels.reduced, true, site);
    const Value of_scale = sum(mul(dy, normal, site), channels.reduced, true, site);
    const Value share = mul(normal, div(of_scale, count, site), site);
    const Value inner = sub(sub(dy, div(of_offset, count, site), site), share, site);
    add_to_dx(mul(inner, mul(channels.by_channel(c.inputs[1]), x.inverse, site), site));
    dscale = channels.narrowed(squeeze(of_scale, channels.reduced, site));
    doffset = channels.narrowed(squeeze(of_offset, channels.reduced, site));
  }
  const auto spread = [&](const Value& statistic) {
    return channels.by_channel(div(statistic, count, site));
  };
  if (c.output_gradients[1].valid()) {
    const Value everywhere = broadcast_to(spread(c.output_gradients[1]), channels.shape, site);
    add_to_dx(everywhere);
  }
  if (c.output_gradients[2].valid()) {
    add_to_dx(mul(x.distances, mul(spread(c.output_gradients[2]), 2, site), site));
  }
  if (dx.valid()) dx = channels.narrowed(dx);
  return {dx, dscale, doffset};
}

Sample sample_batch_norm(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  const Shape shape = source.nonempty_shape(2, 4);
  const int64_t axis = source.integer(1, static_cast<int64_t>(shape.rank()) - 1);
  const Shape channels{shape[static_cast<size_t>(axis)]};
  const ChannelNormOptions options{source.pick<double>({1e-3, 0.5}), axis};
  return {
      .inputs = {source.separated_values(shape), source.values(channels), source.values(channels)},
      .build = [options](Graph&, const Values& in) {
        const BatchNormOutput norm = batch_norm(in[0], in[1], in[2], options);
        return Values{norm.output, norm.mean, norm.variance};
      }};
}

}  // namespace

BatchNormOutput batch_norm(Operand x, Operand scale, Operand offset, ChannelNormOptions options,
                           CallSite site) {
  const Value value = require_value(x, "batch_norm", "x", site);
  const int64_t axis = axis_from_front(options.channel_axis, value.shape().rank());
  if (axis != 0) options.channel_axis = axis;  // inference names the batch's axis as it was given
  const Values all = emit_all("batch_norm", {x, scale, offset}, Attributes::of(options), site);
  return {all[0], all[1], all[2]};
}

void register_batch_norm(OpTable& table) {
  table.add({.name = "batch_norm",
             .summary = "(x - mean) / sqrt(variance + epsilon) * scale + offset for each channel",
             .input_names = {"x", "scale", "offset"},
             .attributes = &attributes_schema<ChannelNormOptions>(),
             .infer = infer_batch_norm,
             .reference = reference_batch_norm,
             .gradient = gradient_batch_norm,
             .decompose = decompose_batch_norm,
             .bound = {.ulps = 16, .k = 32},
             .sample = sample_batch_norm});
}

}  // namespace keel
