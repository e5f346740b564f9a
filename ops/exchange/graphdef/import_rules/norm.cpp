// Norms: of a batch by channel, in training and in evaluation, with the gradient; of neighbouring
// channels.
#include <algorithm>

#include "keel/ops/composed/channel_norm.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/image_rules.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/normalization.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using onnx::StateUse;

// Elements of one channel: of the whole batch.
Value elements_of_channel(NodeContext& c, const Value& x, int64_t channel) {
  const Shape& shape = x.shape({});
  int64_t count = 1;
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (static_cast<int64_t>(axis) == channel) continue;
    if (shape[axis] < 0) return {};
    count *= shape[axis];
  }
  return c.result(Tensor::full(f32, {}, static_cast<double>(count)));
}

struct NormAttributes {
  double epsilon;
  int64_t channel;
  bool training;
};

NormAttributes norm_attributes(NodeContext& c) {
  const std::string layout = image_layout(c);
  return {.epsilon = c.attribute("epsilon", 1e-4),
          .channel = layout == "NHWC" ? 3 : 1,
          .training = c.attribute("is_training", int64_t{1}) != 0};
}

// Results: the norm, mean and variance for running averages, then twice what its gradient is
// computed from, which is mean and variance again.
Values batch_norm_of(NodeContext& c) {
  const NormAttributes attributes = norm_attributes(c);
  if (c.attribute("exponential_avg_factor", 1.0) != 1.0)
    c.refuse("it averages the statistics itself");
  const Value x = c.in(0);
  c.require_rank(x, 4, 4, "its images are");
  const Value scale = c.in(1), offset = c.in(2);
  const ChannelNormOptions options{.epsilon = attributes.epsilon,
                                   .channel_axis = attributes.channel};
  if (!attributes.training) {
    const Value mean = c.in(3, StateUse::kKept), variance = c.in(4, StateUse::kKept);
    const Value y = batch_norm_inference(x, scale, offset, mean, variance, options, {});
    return {y, mean, variance, mean, variance, mean};
  }
  c.ignore(3);
  c.ignore(4);
  const BatchNormOutput norm = batch_norm(x, scale, offset, options, {});
  Value variance = norm.variance;
  if (c.wants(2)) {
    // The average is to estimate the variance of what the batch was drawn from.
    const Value count = elements_of_channel(c, x, attributes.channel);
    if (!count.valid()) c.known_shape(x, "its images");
    variance = mul(variance, div(count, maximum(count - 1, 1, {}), {}), {});
  }
  return {norm.output, norm.mean, variance, norm.mean, norm.variance, norm.mean};
}

// Returns a parameter of so many channels along their axis of x.
Value by_channel(const NodeContext& c, const Value& parameter, const Value& x, int64_t channel,
                 const char* what) {
  const auto axis = static_cast<size_t>(channel);
  c.require_shape(parameter, {x.shape({})[axis]}, what);
  return onnx::along_axis(parameter, axis, 4);
}

// Its operands are the slope, the images and the scale; mean and variance are those of the images
// in training, else the given ones.
Values batch_norm_gradient(NodeContext& c) {
  const NormAttributes attributes = norm_attributes(c);
  const Value dy = c.in(0), x = c.in(1);
  c.require_rank(x, 4, 4, "its images are");
  c.require_shape(dy, x.shape({}), "its slope is");
  const Value scale = by_channel(c, c.in(2), x, attributes.channel, "its scale is");
  std::vector<int64_t> others;
  for (int64_t axis = 0; axis < 4; ++axis)
    if (axis != attributes.channel) others.push_back(axis);
  Value average, variance;
  if (attributes.training) {
    average = mean(x, others, true, {});
    variance = mean(square(sub(x, average, {}), {}), others, true, {});
  } else {
    average = by_channel(c, c.in(3, StateUse::kKept), x, attributes.channel, "its mean is");
    variance = by_channel(c, c.in(4, StateUse::kKept), x, attributes.channel, "its variance is");
  }
  for (size_t i = 3; i < c.inputs(); ++i) c.ignore(i);
  const Value inverse = rsqrt(variance + attributes.epsilon, {});
  const Value normal = mul(sub(x, average, {}), inverse, {});
  const Value weighted = mul(dy, normal, {});
  Value slope = dy;
  if (attributes.training) {
    const Value of_mean = mean(dy, others, true, {});
    const Value of_variance = mul(normal, mean(weighted, others, true, {}), {});
    slope = sub(sub(dy, of_mean, {}), of_variance, {});
  }
  const Value dx = mul(slope, mul(scale, inverse, {}), {});
  const Value d_scale = sum(weighted, others, false, {}), d_offset = sum(dy, others, false, {});
  return {dx, d_scale, d_offset, d_scale, d_offset};
}

// x / (bias + alpha * sum of squares of the channels up to depth_radius away) ^ beta.
Values local_response(NodeContext& c) {
  const int64_t radius = c.attribute("depth_radius", int64_t{5});
  const double bias = c.attribute("bias", 1.0), alpha = c.attribute("alpha", 1.0);
  const double beta = c.attribute("beta", 0.5);
  c.require_rank(c.in(0), 4, 4, "its images are");
  const DType dtype = c.in(0).dtype({});
  const Value x = widened_for_norm(c.in(0), {});
  const int64_t channels = x.shape({})[3];
  constexpr int64_t kMostRadius = 1024;
  if (channels < 0 || radius < 0 || radius > kMostRadius)
    c.refuse("its channels or its radius are not known or out of range");
  const Value squares = pad(square(x, {}), {0, 0, 0, radius}, {0, 0, 0, radius}, 0, {});
  Value total;
  for (int64_t k = 0; k <= 2 * radius; ++k) {
    const Value part = slice(squares, {0, 0, 0, k}, {kToEnd, kToEnd, kToEnd, k + channels}, {}, {});
    total = total.valid() ? add(total, part, {}) : part;
  }
  return {cast(div(x, pow(alpha * total + bias, beta, {}), {}), dtype, {})};
}

}  // namespace

void register_graphdef_norm(OpRules& rules) {
  for (const char* op : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
    rules.add(op, {.make = batch_norm_of, .weights = {1, 2, 3, 4}});
  for (const char* op : {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"})
    rules.add(op, {.make = batch_norm_gradient, .weights = {2}});
  rules.add("LRN", local_response);
}

}  // namespace keel::graphdef
