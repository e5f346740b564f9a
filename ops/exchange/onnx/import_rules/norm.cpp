// Normalisation.
#include "keel/ops/batch_norm.h"
#include "keel/ops/composed/channel_norm.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/normalization.h"
#include "keel/ops/reduce.h"
#include "keel/ops/slice.h"

namespace keel::onnx {
namespace {

// One running statistic moved on by what the batch has.
Value moved_on(const Value& running, const Value& batch, double momentum) {
  return add(mul(running, momentum, {}), mul(cast(batch, running.dtype({}), {}), 1 - momentum, {}),
             {});
}

// Statistics that are kept where the node is for inference, those of the batch where it trains.
Values batch_normalization(NodeContext& c) {
  const ChannelNormOptions options{.epsilon = c.attribute("epsilon", 1e-5), .channel_axis = 1};
  const double momentum = c.attribute("momentum", 0.9);
  c.ignore("consumed_inputs");
  if (c.version() < 9 && c.attribute("spatial", int64_t{1}) == 0)
    c.refuse("it normalises each element of its own");
  const bool training = c.version() < 7 ? c.attribute("is_test", int64_t{0}) == 0
                                        : c.attribute("training_mode", int64_t{0}) != 0;
  const Value x = c.in(0), scale = c.in(1), offset = c.in(2);
  const Value mean_kept = c.in(3, StateUse::kKept), variance_kept = c.in(4, StateUse::kKept);
  c.require_rank(x, 2, Shape::kMaxRank, "its input is");
  require_of_channels(c, scale, x, "its scale is");
  require_of_channels(c, offset, x, "its bias is");
  require_of_channels(c, mean_kept, x, "its mean is");
  require_of_channels(c, variance_kept, x, "its variance is");
  if (!training) {
    const DType wide = x.dtype({}) == f64 ? f64 : f32;
    return {batch_norm_inference(x, scale, offset, cast(mean_kept, wide, {}),
                                 cast(variance_kept, wide, {}), options, {})};
  }
  if (c.version() < 14) c.refuse("it is in training mode; export the model for inference");
  const BatchNormOutput output = batch_norm(x, scale, offset, options, {});
  return {output.output, moved_on(mean_kept, output.mean, momentum),
          moved_on(variance_kept, output.variance, momentum)};
}

Values instance_normalization(NodeContext& c) {
  const double epsilon = c.attribute("epsilon", 1e-5);
  c.ignore("consumed_inputs");
  const Value x = c.in(0);
  c.require_rank(x, 3, Shape::kMaxRank, "its input is");
  const Value scale = c.in(1), offset = c.in(2);
  require_of_channels(c, scale, x, "its scale is");
  require_of_channels(c, offset, x, "its bias is");
  const size_t rank = x.shape({}).rank();
  const Centred centre = centred(widened_for_norm(x, {}), axes_from(2, rank), epsilon, {});
  const Value normal = cast(mul(centre.distances, centre.inverse, {}), x.dtype({}), {});
  return {add(mul(normal, along_axis(scale, 1, rank), {}), along_axis(offset, 1, rank), {})};
}

Values layer_normalization(NodeContext& c) {
  const double epsilon = c.attribute("epsilon", 1e-5);
  c.ignore("stash_type");
  const Value x = c.in(0);
  const size_t rank = x.shape({}).rank();
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{-1}), rank);
  c.require_broadcast(c.in(1), x.shape({}), "its scale is");
  if (c.has(2)) c.require_broadcast(c.in(2), x.shape({}), "its bias is");
  // A scale or bias of one number stands for all of the axis.
  const auto is_whole = [&](size_t input) {
    const Shape& shape = c.in(input).shape({});
    return shape.rank() == 1 && (shape[0] != 1 || x.shape({})[axis] == 1);
  };
  if (axis + 1 == rank && c.has(2) && !c.wants(1) && !c.wants(2) && is_whole(1) && is_whole(2))
    return {layer_norm(x, c.in(1), c.in(2), {.epsilon = epsilon}, {})};
  const Centred centre = centred(widened_for_norm(x, {}), axes_from(axis, rank), epsilon, {});
  Value y = cast(mul(centre.distances, centre.inverse, {}), x.dtype({}), {});
  y = mul(y, c.in(1), {});
  if (c.has(2)) y = add(y, c.in(2), {});
  return {y, centre.mean, centre.inverse};
}

Values group_normalization(NodeContext& c) {
  const double epsilon = c.attribute("epsilon", 1e-5);
  const int64_t groups = c.attribute("num_groups", int64_t{1});
  c.ignore("stash_type");
  const Value x = c.in(0);
  if (c.version() < 21)
    c.refuse("its scale is one of each group; op set 21 has one of each channel");
  return {group_norm(x, groups, c.in(1), c.in(2), {.epsilon = epsilon, .channel_axis = 1}, {})};
}

Values mean_variance_normalization(NodeContext& c) {
  const DType dtype = c.in(0).dtype({});
  const Value x = widened_for_norm(c.in(0), {});
  const std::vector<int64_t> axes =
      front_axes(c, c.attribute("axes", std::vector<int64_t>{0, 2, 3}), x.shape({}).rank());
  const Value distances = sub(x, mean(x, axes, true, {}), {});
  const Value variance = mean(square(distances, {}), axes, true, {});
  return {cast(div(distances, add(sqrt(variance, {}), 1e-9, {}), {}), dtype, {})};
}

// Divides by the squares of the channels around each one.
Values local_response(NodeContext& c) {
  const double alpha = c.attribute("alpha", 1e-4), beta = c.attribute("beta", 0.75);
  const double bias = c.attribute("bias", 1.0);
  const int64_t size = c.attribute("size", int64_t{1});
  const DType dtype = c.in(0).dtype({});
  const Value x = widened_for_norm(c.in(0), {});
  const Shape shape = c.known_shape(x, "its input");
  constexpr int64_t kMost = 4096;
  if (shape.rank() < 2 || size < 1 || size > kMost)
    c.refuse("its size " + std::to_string(size) + " does not fit " + to_string(shape));
  std::vector<int64_t> low(shape.rank(), 0), high(shape.rank(), 0);
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  const Value squares = pad(square(x, {}), low, high, 0, {});
  Value total;
  for (int64_t i = 0; i < size; ++i) {
    const Value part = slice(squares, {0, i}, {kToEnd, i + shape[1]}, {}, {});
    total = total.valid() ? add(total, part, {}) : part;
  }
  const Value base = total * (alpha / static_cast<double>(size)) + bias;
  return {cast(div(x, pow(base, beta, {}), {}), dtype, {})};
}

Values norm_of_rows(NodeContext& c) {
  const int64_t p = c.attribute("p", int64_t{2});
  const int64_t axis = c.attribute("axis", int64_t{-1});
  const DType dtype = c.in(0).dtype({});
  const Value x = widened_for_norm(c.in(0), {});
  if (p != 1 && p != 2) c.refuse("its p is " + std::to_string(p));
  const Value size =
      p == 1 ? sum(abs(x, {}), {axis}, true, {}) : sqrt(sum(square(x, {}), {axis}, true, {}), {});
  const Value empty = equal(size, 0.0, {});
  const Value result = select(empty, 0.0 * x, div(x, select(empty, 1.0, size, {}), {}), {});
  return {cast(result, dtype, {})};
}

}  // namespace

void register_import_norm(ImportRules& rules) {
  rules.add("BatchNormalization", batch_normalization);
  rules.add("InstanceNormalization", instance_normalization);
  rules.add("LayerNormalization", layer_normalization);
  rules.add("GroupNormalization", group_normalization);
  rules.add("MeanVarianceNormalization", mean_variance_normalization);
  rules.add("LRN", local_response);
  rules.add("LpNormalization", norm_of_rows);
}

}  // namespace keel::onnx
