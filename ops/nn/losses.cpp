#include "keel/ops/nn/losses.h"

#include "keel/ops/elementwise.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

void require_shape(bool ok, const char* op, const char* argument, const Shape& expected,
                   const Operand& got, CallSite site) {
  if (ok) return;
  throw Error({.op = op,
               .argument = argument,
               .expected = "shape " + to_string(expected),
               .got = to_string(got.value().shape()),
               .site = site});
}

bool fits(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.rank(); ++i) {
    if (a[i] >= 0 && b[i] >= 0 && a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace

Value mean_squared_error(Operand prediction, Operand target, CallSite site) {
  const CallSite line = site.known() ? site : prediction.site();
  if (!prediction.is_literal() && !target.is_literal()) {
    const Shape& expected = prediction.value().shape();
    require_shape(fits(expected, target.value().shape()), "mean_squared_error", "target", expected,
                  target, line);
  }
  return mean(square(sub(prediction, target, line), line), {}, false, line);
}

Value cross_entropy(Operand logits, Operand targets, CrossEntropyOptions options, CallSite site) {
  const CallSite line = site.known() ? site : logits.site();
  return mean(softmax_cross_entropy(logits, targets, options, line), {}, false, line);
}

Value accuracy(Operand logits, Operand ids, CallSite site) {
  const CallSite line = site.known() ? site : logits.site();
  const Value best = argmax(logits, -1, false, line);
  if (!ids.is_literal()) {
    require_shape(fits(best.shape(), ids.value().shape()), "accuracy", "ids", best.shape(), ids,
                  line);
  }
  const Value hits = equal(best, cast(ids, i64, line), line);
  return mean(cast(hits, f32, line), {}, false, line);
}

}  // namespace keel
