// Softmax, cross entropies with the gradient that they give along, and whether a class is among the
// best.
#include "keel/ops/loss.h"

#include <limits>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/gather.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

Values softmax_of(NodeContext& c) { return {softmax(c.in(0), -1, {})}; }
Values log_softmax_of(NodeContext& c) { return {log_softmax(c.in(0), -1, {})}; }

// Losses [batch] of class ids, and the gradient of their sum by the logits [batch, classes].
Values sparse_cross_entropy(NodeContext& c) {
  const Value logits = c.in(0), targets = c.in(1);
  c.require_rank(logits, 2, 2, "its logits are");
  const Value losses = softmax_cross_entropy(logits, targets, {}, {});
  if (!c.wants(1)) return {losses};
  const Value ones = add(cast(less(losses, losses, {}), losses.dtype({}), {}), 1, {});
  return {losses, softmax_cross_entropy_grad(logits, targets, ones, {}, {})};
}

// The same of a distribution for each row. The gradient is the one that TensorFlow gives along,
// which takes each of them to sum to 1.
Values dense_cross_entropy(NodeContext& c) {
  const Value logits = c.in(0), targets = c.in(1);
  c.require_rank(logits, 2, 2, "its logits are");
  const Value losses = softmax_cross_entropy(logits, targets, {}, {});
  if (!c.wants(1)) return {losses};
  return {losses, sub(softmax(logits, -1, {}), targets, {})};
}

// Fewer than k classes have a higher score than the target. Nothing is in the top of a row with a
// score that is not finite, and no class that does not exist is.
Value is_in_top(const Value& scores, const Value& targets, const Operand& k) {
  const int64_t classes = scores.shape({})[1];
  const Value numbers = iota(scores.graph({}), targets.dtype({}), {classes}, 0, {});
  const Value is_target = equal(expand_dims(targets, {1}, {}), numbers, {});
  const Value own = sum(select(is_target, scores, 0.0, {}), {1}, true, {});
  const Value higher = sum(cast(greater(scores, own, {}), i32, {}), {1}, false, {});
  const Value finite = less(abs(scores, {}), std::numeric_limits<double>::infinity(), {});
  const Value sound = equal(sum(cast(finite, i32, {}), {1}, false, {}), classes, {});
  const Value exists = greater(sum(cast(is_target, i32, {}), {1}, false, {}), 0, {});
  return logical_and(less(higher, k, {}), logical_and(sound, exists, {}), {});
}

Values in_top_k(NodeContext& c) {
  const Value scores = c.in(0);
  c.require_rank(scores, 2, 2, "its predictions are");
  if (scores.shape({})[1] < 0) c.refuse("how many classes there are is not known before the run");
  c.require_shape(c.in(1), {scores.shape({})[0]}, "its targets are");
  const int64_t k = c.inputs() > 2 ? c.integer(2, "k") : c.attribute("k", int64_t{1});
  return {is_in_top(scores, c.in(1), k)};
}

}  // namespace

void register_graphdef_loss(OpRules& rules) {
  rules.add("Softmax", softmax_of);
  rules.add("LogSoftmax", log_softmax_of);
  rules.add("SoftmaxCrossEntropyWithLogits", dense_cross_entropy);
  rules.add("SparseSoftmaxCrossEntropyWithLogits", sparse_cross_entropy);
  rules.add("InTopK", in_top_k);
  rules.add("InTopKV2", in_top_k);
}

}  // namespace keel::graphdef
