#include "keel/ops/composed/losses.h"

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/graph/ir/emit.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

void require_float(const char* op, const char* argument, const Value& value, CallSite site) {
  if (is_float(value.dtype())) return;
  throw Error({.op = op,
               .argument = argument,
               .expected = "a float dtype",
               .got = name_of(value.dtype()),
               .fix = "convert it with cast(x, dtype)",
               .site = site});
}

}  // namespace

Operand same_shape(const char* op, const Operand& expected, const char* argument,
                   const Operand& got, CallSite site) {
  if (expected.is_literal() || got.is_literal()) return got;
  const Shape a = expected.value().shape(), b = got.value().shape();
  bool fits = a.rank() == b.rank();
  for (size_t i = 0; fits && i < a.rank(); ++i) fits = a[i] < 0 || b[i] < 0 || a[i] == b[i];
  if (fits && a.known() && b.known()) return got;
  if (fits) {
    std::vector<int64_t> axes(a.rank());
    std::iota(axes.begin(), axes.end(), 0);
    return {same_dims(got.value(), expected.value(), {axes, axes, op, argument}, site), site};
  }
  throw Error({.op = op,
               .argument = argument,
               .expected = "shape " + to_string(a),
               .got = to_string(b),
               .fix = "nothing is broadcast here: reshape one side",
               .site = site});
}

Operand same_floats(const char* op, const char* of, const Operand& expected, const char* argument,
                    const Operand& got, CallSite site) {
  if (!expected.is_literal())
    require_float(op, of, expected.value(), site);
  else if (!got.is_literal())
    require_float(op, argument, got.value(), site);
  const Operand fitting = same_shape(op, expected, argument, got, site);
  if (expected.is_literal() || got.is_literal()) return fitting;
  const DType wanted = expected.value().dtype();
  if (got.value().dtype() == wanted) return fitting;
  throw Error({.op = op,
               .argument = argument,
               .expected = std::string(name_of(wanted)) + " like " + of,
               .got = name_of(got.value().dtype()),
               .fix = std::string("convert it with cast(x, keel::") + name_of(wanted) + ")",
               .site = site});
}

Value huber(Operand prediction, Operand target, double delta, CallSite site) {
  const CallSite line = line_of(prediction, site);
  const std::array both{prediction, target};
  // Asked for its checks alone: two numbers, or an empty value, would be refused by `sub`.
  graph_of_call(both, "huber", line);
  const Operand aim = same_floats("huber", "prediction", prediction, "target", target, line);
  // Plus 0, a distance of -0 is 0: of two equal numbers the loss is 0 and not -0.
  const Value distance = add(sub(prediction, aim, line), 0, line);
  const double rounded = Tensor::full(distance.dtype(), {}, delta).at(0);
  if (!(rounded > 0 && std::isfinite(rounded))) {
    throw Error({.op = "huber",
                 .argument = "delta",
                 .expected = std::string("a finite number > 0 in ") + name_of(distance.dtype()),
                 .got = printable(delta),
                 .site = line});
  }
  // With c = clamp(d, -delta, delta) both branches are c * (d - c / 2), and so is the slope between
  // them. Of |d| instead of d the gradient would be right, too, but not the gradient's own at 0,
  // where the slope of abs counts as 0.
  const Value inner = clamp(distance, -delta, delta, line);
  return mul(inner, sub(distance, mul(inner, 0.5, line), line), line);
}

Value sigmoid_cross_entropy(Operand logits, Operand targets, CallSite site) {
  const char* op = "sigmoid_cross_entropy";
  const CallSite line = line_of(logits, site);
  const Value x = require_value(logits, op, "logits", line);
  const Operand aims = same_floats(op, "logits", logits, "targets", targets, line);
  // Neither term is negative for targets in [0, 1], so that nothing cancels: the usual
  // softplus(x) - x * target loses all digits where the loss is small.
  const Value t =
      aims.is_literal() ? to_value(aims.at(line), x.graph(), x.dtype(), op) : aims.value();
  const Value one = mul(t, softplus(neg(x, line), line), line);
  const Value zero = mul(sub(1, t, line), softplus(x, line), line);
  return add(one, zero, line);
}

Value hinge(Operand scores, Operand labels, CallSite site) {
  const CallSite line = line_of(scores, site);
  const Value x = require_value(scores, "hinge", "scores", line);
  const Operand signs = same_floats("hinge", "scores", scores, "labels", labels, line);
  return relu(sub(1, mul(x, signs, line), line), line);
}

Value negative_log_likelihood(Operand log_probabilities, Operand ids, CallSite site) {
  const char* op = "negative_log_likelihood";
  const CallSite line = line_of(log_probabilities, site);
  const Value x = require_value(log_probabilities, op, "log_probabilities", line);
  Value of_rows = require_value(ids, op, "ids", line);
  require_float(op, "log_probabilities", x, line);
  const auto fail = [&](const char* argument, const std::string& expected, const Value& got) {
    throw Error({.op = op,
                 .argument = argument,
                 .expected = expected,
                 .got = to_string(got.type()),
                 .site = line});
  };
  if (x.shape().rank() != 2 || x.shape()[1] < 1) {
    fail("log_probabilities", "shape [batch, classes] with a known number of classes", x);
  }
  const Shape batch = of_rows.shape();
  const bool fits =
      batch.rank() == 1 && (batch[0] < 0 || x.shape()[0] < 0 || batch[0] == x.shape()[0]);
  if (!is_integer(of_rows.dtype()) || !fits) {
    fail("ids", "class ids of an integer dtype and shape " + to_string(Shape{x.shape()[0]}),
         of_rows);
  }
  if (batch[0] < 0 || x.shape()[0] < 0)
    of_rows = same_dims(of_rows, x, {{0}, {0}, op, "ids"}, line);
  // Chosen, not multiplied: 0 times a probability of 0, whose logarithm is infinite, would be NaN.
  const Value is_class = one_hot(of_rows, x.shape()[1], boolean, line);
  return neg(sum(select(is_class, x, 0, line), {-1}, false, line), line);
}

Value kl_divergence(Operand log_probabilities, Operand targets, CallSite site) {
  const char* op = "kl_divergence";
  const CallSite line = line_of(log_probabilities, site);
  const Value q = require_value(log_probabilities, op, "log_probabilities", line);
  const Value given = require_value(targets, op, "targets", line);
  if (q.shape().rank() == 0) {
    throw Error({.op = op,
                 .argument = "log_probabilities",
                 .expected = "shape [..., classes]",
                 .got = to_string(q.type()),
                 .site = line});
  }
  const Value p =
      same_floats(op, "log_probabilities", Operand(q, line), "targets", Operand(given, line), line)
          .value();
  const Value none = equal(p, 0, line);
  const Value log_p = log(select(none, 1, p, line), line);
  // Both logarithms are finite where p is 0, so that no gradient is 0 times an infinity.
  const Value log_q = select(none, 0, q, line);
  const Value cost = select(none, 0, mul(p, sub(log_p, log_q, line), line), line);
  return sum(cost, {-1}, false, line);
}

}  // namespace keel
