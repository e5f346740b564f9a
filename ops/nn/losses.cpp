#include "keel/ops/nn/losses.h"

#include "keel/ops/elementwise.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

Value mean_of(Value losses, CallSite line) { return mean(losses, {}, false, line); }

CallSite line_of(const Operand& first, CallSite site) { return site.known() ? site : first.site(); }

// prediction - target, of one shape.
Value difference(const char* op, const Operand& prediction, const Operand& target, CallSite line) {
  return sub(prediction, same_shape(op, prediction, "target", target, line), line);
}

}  // namespace

Value mean_squared_error(Operand prediction, Operand target, CallSite site) {
  const CallSite line = line_of(prediction, site);
  return mean_of(square(difference("mean_squared_error", prediction, target, line), line), line);
}

Value mean_absolute_error(Operand prediction, Operand target, CallSite site) {
  const CallSite line = line_of(prediction, site);
  return mean_of(abs(difference("mean_absolute_error", prediction, target, line), line), line);
}

Value huber_loss(Operand prediction, Operand target, double delta, CallSite site) {
  const CallSite line = line_of(prediction, site);
  return mean_of(huber(prediction, target, delta, line), line);
}

Value binary_cross_entropy(Operand logits, Operand targets, CallSite site) {
  const CallSite line = line_of(logits, site);
  return mean_of(sigmoid_cross_entropy(logits, targets, line), line);
}

Value hinge_loss(Operand scores, Operand labels, CallSite site) {
  const CallSite line = line_of(scores, site);
  return mean_of(hinge(scores, labels, line), line);
}

Value nll_loss(Operand log_probabilities, Operand ids, CallSite site) {
  const CallSite line = line_of(log_probabilities, site);
  return mean_of(negative_log_likelihood(log_probabilities, ids, line), line);
}

Value kl_divergence_loss(Operand log_probabilities, Operand targets, CallSite site) {
  const CallSite line = line_of(log_probabilities, site);
  return mean_of(kl_divergence(log_probabilities, targets, line), line);
}

Value cross_entropy(Operand logits, Operand targets, CrossEntropyOptions options, CallSite site) {
  const CallSite line = line_of(logits, site);
  return mean_of(softmax_cross_entropy(logits, targets, options, line), line);
}

Value accuracy(Operand logits, Operand ids, CallSite site) {
  const CallSite line = line_of(logits, site);
  const Value best = argmax(logits, -1, false, line);
  const Operand wanted = same_shape("accuracy", Operand(best, line), "ids", ids, line);
  const Value hits = equal(best, cast(wanted, i64, line), line);
  return mean_of(cast(hits, f32, line), line);
}

}  // namespace keel
