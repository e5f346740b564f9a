// Softmax and the losses on top of it.
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_indices.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/loss.h"
#include "keel/ops/reduce.h"

namespace keel::onnx {
namespace {

constexpr const char* kIds = "class ids";

using Softmax = Value (*)(Operand, int64_t, CallSite);

// Before version 13 the axes from `axis` on are one.
template <Softmax function>
Values along(NodeContext& c) {
  const Value x = c.in(0);
  if (c.version() >= 13) return {function(x, c.attribute("axis", int64_t{-1}), {})};
  const Shape shape = x.shape({});
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{1}), shape.rank());
  if (axis + 1 == shape.rank()) return {function(x, -1, {})};
  return {reshape(function(flattened_from(c, x, axis), -1, {}), shape, {})};
}

// -log_probabilities of the targets' classes, [batch, ...], weighted, and reduced as the node says.
Value likelihood_loss(NodeContext& c, const Value& log_probabilities, const Value& targets) {
  const std::string reduction = c.attribute("reduction", "mean");
  c.require_rank(log_probabilities, 2, Shape::kMaxRank, "its scores are");
  const int64_t classes = log_probabilities.shape({})[1];
  if (classes < 0) c.refuse("the number of its classes is not known before the run");
  Shape of_targets;
  for (size_t i = 0; i < log_probabilities.shape({}).rank(); ++i)
    if (i != 1) of_targets.push_back(log_probabilities.shape({})[i]);
  c.require_shape(targets, of_targets, "its targets are");
  Value ids = cast(targets, i64, {}), counts;
  if (c.has_attribute("ignore_index")) {
    counts = not_equal(ids, c.attribute("ignore_index", int64_t{0}), {});
    // An ignored id may be a class or none, and names none from here on.
    ids = select(counts, checked_ids(select(counts, ids, 0, {}), kIds, 1, classes), -1, {});
  } else {
    ids = checked_ids(ids, kIds, 1, classes);
  }
  const size_t rank = log_probabilities.shape({}).rank();
  const Value numbers = along_axis(iota(c.graph(), i64, {classes}, 0, {}), 1, rank);
  const Value hit = equal(expand_dims(ids, {1}, {}), numbers, {});
  const Value chosen = sum(select(hit, log_probabilities, 0.0, {}), {1}, false, {});
  Value weights;
  if (c.has(2)) {
    const Value of_each = c.in(2, StateUse::kKept);
    require_of_channels(c, of_each, log_probabilities, "its weights are");
    const Value of_classes = along_axis(of_each, 1, rank);
    weights = sum(select(hit, of_classes, 0.0, {}), {1}, false, {});
  } else if (counts.valid()) {
    weights = cast(counts, log_probabilities.dtype({}), {});
  }
  const Value losses = neg(weights.valid() ? mul(chosen, weights, {}) : chosen, {});
  if (reduction == "none") return losses;
  if (reduction == "sum") return sum(losses, {}, false, {});
  if (reduction != "mean") c.refuse("its reduction is '" + reduction + "'");
  if (!weights.valid()) return mean(losses, {}, false, {});
  return div(sum(losses, {}, false, {}), sum(weights, {}, false, {}), {});
}

Values negative_log_likelihood_loss(NodeContext& c) {
  return {likelihood_loss(c, c.in(0), c.in(1))};
}

Values cross_entropy_loss(NodeContext& c) {
  const Value log_probabilities = log_softmax(c.in(0), 1, {});
  return {likelihood_loss(c, log_probabilities, c.in(1)), log_probabilities};
}

}  // namespace

void register_import_softmax(ImportRules& rules) {
  rules.add("Softmax", along<softmax>);
  rules.add("LogSoftmax", along<log_softmax>);
  rules.add("NegativeLogLikelihoodLoss", negative_log_likelihood_loss);
  rules.add("SoftmaxCrossEntropyLoss", cross_entropy_loss);
}

}  // namespace keel::onnx
