#include "keel/ops/nn/losses.h"

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/in_name_of.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/sort.h"

namespace keel {
namespace {

// Returns the mean of the losses that `build` gives, in the name of the function that it is for.
template <class Build>
Value mean_of(const OuterNames& names, CallSite line, const Build& build) {
  return in_name_of(names, [&] { return mean(build(), {}, false, line); });
}

// Returns the names of a loss that begins with prediction - target.
OuterNames names_beside_difference(const char* op) {
  return {op, {{"a", "prediction"}, {"b", "target"}}};
}

// Returns the mean of what `rule` makes of prediction - target.
Value mean_of_difference(const char* op, const Operand& prediction, const Operand& target,
                         Value (*rule)(Operand, CallSite), CallSite line) {
  return mean_of(names_beside_difference(op), line, [&] {
    const Operand aim = same_floats(op, "prediction", prediction, "target", target, line);
    return rule(Operand(sub(prediction, aim, line), line), line);
  });
}

// Says of each row of logits [batch, classes] whether no logit is NaN: max passes NaN on, and NaN
// equals nothing.
Value holds_no_nan(Value logits, CallSite line) {
  const Value largest = max(logits, {-1}, false, line);
  return equal(largest, largest, line);
}

}  // namespace

Value mean_squared_error(Operand prediction, Operand target, CallSite site) {
  const CallSite line = line_of(prediction, site);
  return mean_of_difference("mean_squared_error", prediction, target, square, line);
}

Value mean_absolute_error(Operand prediction, Operand target, CallSite site) {
  const CallSite line = line_of(prediction, site);
  return mean_of_difference("mean_absolute_error", prediction, target, abs, line);
}

Value huber_loss(Operand prediction, Operand target, double delta, CallSite site) {
  const CallSite line = line_of(prediction, site);
  return mean_of(names_beside_difference("huber_loss"), line,
                 [&] { return huber(prediction, target, delta, line); });
}

Value binary_cross_entropy(Operand logits, Operand targets, CallSite site) {
  const CallSite line = line_of(logits, site);
  return mean_of({"binary_cross_entropy"}, line,
                 [&] { return sigmoid_cross_entropy(logits, targets, line); });
}

Value hinge_loss(Operand scores, Operand labels, CallSite site) {
  const CallSite line = line_of(scores, site);
  return mean_of({"hinge_loss"}, line, [&] { return hinge(scores, labels, line); });
}

Value nll_loss(Operand log_probabilities, Operand ids, CallSite site) {
  const CallSite line = line_of(log_probabilities, site);
  return mean_of({"nll_loss"}, line,
                 [&] { return negative_log_likelihood(log_probabilities, ids, line); });
}

Value kl_divergence_loss(Operand log_probabilities, Operand targets, CallSite site) {
  const CallSite line = line_of(log_probabilities, site);
  return mean_of({"kl_divergence_loss"}, line,
                 [&] { return kl_divergence(log_probabilities, targets, line); });
}

namespace {

// Logits [..., classes] and their targets as those of one batch [rows, classes], whose mean is the
// same.
struct Rows {
  Value logits, targets;
};

// Returns the targets, which must have as many leading sizes as the logits, and the same ones.
Value targets_like(const Value& logits, const Value& targets, CallSite line) {
  const char* op = "cross_entropy";
  if (!is_integer(targets.dtype()) && targets.dtype() != logits.dtype()) {
    throw Error({.op = op,
                 .argument = "targets",
                 .expected = "class ids of an integer dtype, or " + to_string(logits.type()) +
                             " of class weights",
                 .got = to_string(targets.type()),
                 .fix = "convert it with cast(x, dtype)",
                 .site = line});
  }
  if (!is_integer(targets.dtype()))
    return same_shape(op, Operand(logits, line), "targets", Operand(targets, line), line).value();
  const Shape all = logits.shape(), got = targets.shape();
  const std::span<const int64_t> dims = all.dims().first(all.rank() - 1);
  const Shape expected(dims);
  const bool open = !expected.known() || !got.known();
  if (got.rank() != expected.rank() || (!open && got != expected)) {
    throw Error({.op = op,
                 .argument = "targets",
                 .expected = "class ids of shape " + to_string(expected),
                 .got = to_string(targets.type()),
                 .site = line});
  }
  if (!open) return targets;
  std::vector<int64_t> axes(expected.rank());
  std::iota(axes.begin(), axes.end(), 0);
  return same_dims(targets, logits, {axes, axes, op, "targets"}, line);
}

Rows as_rows(const Value& logits, const Value& targets, CallSite line) {
  const Shape shape = logits.shape();
  const int64_t classes = shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.rank(); ++i)
    rows = rows < 0 || shape[i] < 0 ? -1 : checked_mul(rows, shape[i], "rows of logits");
  if (rows < 0 && classes < 0) {
    throw Error({.op = "cross_entropy",
                 .argument = "logits",
                 .expected = "a known number of classes, or known sizes before them",
                 .got = to_string(logits.type()),
                 .site = line});
  }
  const Value fitting = targets_like(logits, targets, line);
  const Shape flat{rows, classes};
  return {reshape(logits, flat, line),
          reshape(fitting, is_integer(targets.dtype()) ? Shape{rows} : flat, line)};
}

}  // namespace

Value cross_entropy(Operand logits, Operand targets, CrossEntropyOptions options, CallSite site) {
  const CallSite line = line_of(logits, site);
  const Value scores = require_value(logits, "cross_entropy", "logits", line);
  return mean_of({"cross_entropy"}, line, [&] {
    if (scores.shape().rank() <= 2) return softmax_cross_entropy(logits, targets, options, line);
    const Value aim = require_value(targets, "cross_entropy", "targets", line);
    const Rows rows = as_rows(scores, aim, line);
    return softmax_cross_entropy(rows.logits, rows.targets, options, line);
  });
}

namespace {

// Returns the class of the largest logit of each row.
Value best_class(const Operand& logits, CallSite line) {
  const Value scores = require_value(logits, "accuracy", "logits", line);
  if (scores.shape().rank() == 0) {
    throw Error({.op = "accuracy",
                 .argument = "logits",
                 .expected = "shape [batch, classes]",
                 .got = to_string(scores.type()),
                 .site = line});
  }
  return in_name_of({"accuracy", {{"x", "logits"}}},
                    [&] { return argmax(scores, -1, false, line); });
}

}  // namespace

Value accuracy(Operand logits, Operand ids, CallSite site) {
  const CallSite line = line_of(logits, site);
  const Value best = best_class(logits, line);
  const Value given = require_value(ids, "accuracy", "ids", line);
  const Value wanted =
      same_shape("accuracy", Operand(best, line), "ids", Operand(given, line), line).value();
  if (!is_integer(wanted.dtype())) {
    throw Error({.op = "accuracy",
                 .argument = "ids",
                 .expected = "integers of shape " + to_string(best.shape()),
                 .got = to_string(wanted.type()),
                 .site = line});
  }
  const Value hits = equal(best, cast(wanted, i64, line), line);
  const Value right = logical_and(hits, holds_no_nan(logits.value(), line), line);
  return mean(cast(right, f32, line), {}, false, line);
}

Value top_k_hits(Operand logits, Operand ids, int64_t k, CallSite site) {
  const char* op = "top_k_hits";
  const CallSite line = line_of(logits, site);
  const Value scores = require_value(logits, op, "logits", line);
  Value wanted = require_value(ids, op, "ids", line);
  const auto fail = [&](const char* argument, const std::string& expected, const std::string& got) {
    throw Error({.op = op, .argument = argument, .expected = expected, .got = got, .site = line});
  };
  const Shape shape = scores.shape(), rows = wanted.shape();
  if (shape.rank() != 2) fail("logits", "shape [batch, classes]", to_string(scores.type()));
  const bool fits = rows.rank() == 1 && (rows[0] < 0 || shape[0] < 0 || rows[0] == shape[0]);
  if (!fits || !is_integer(wanted.dtype()))
    fail("ids", "integers of shape " + to_string(Shape{shape[0]}), to_string(wanted.type()));
  if (k < 1 || (shape[1] >= 0 && k > shape[1]))
    fail("k", "at least 1 and at most the classes of " + to_string(shape), std::to_string(k));
  if (rows[0] < 0 || shape[0] < 0) wanted = same_dims(wanted, scores, {{0}, {0}, op, "ids"}, line);
  const Value column = expand_dims(cast(wanted, i64, line), {1}, line);
  // At most one of the k is the id.
  const Value hits = equal(top_k(scores, k, -1, line).indices, column, line);
  const Value among = sum(cast(hits, f32, line), {1}, false, line);
  return select(holds_no_nan(scores, line), among, 0, line);
}

Value top_k_accuracy(Operand logits, Operand ids, int64_t k, CallSite site) {
  const CallSite line = line_of(logits, site);
  return mean_of({"top_k_accuracy"}, line, [&] { return top_k_hits(logits, ids, k, line); });
}

}  // namespace keel
