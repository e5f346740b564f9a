#include "keel/ops/nn/schedules.h"

#include <cmath>
#include <utility>

#include "keel/ops/elementwise.h"

namespace keel {
namespace {

void require(bool ok, const char* schedule, const char* argument, const char* expected, double got,
             CallSite site) {
  if (ok) return;
  throw Error({.op = schedule,
               .argument = argument,
               .expected = expected,
               .got = std::to_string(got),
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

void require_rate(double rate, const char* schedule, const char* argument, CallSite site) {
  require(std::isfinite(rate) && rate >= 0, schedule, argument, "a finite number >= 0", rate, site);
}

}  // namespace

Schedule::Schedule(double rate, CallSite site) : rate_(rate) {
  require_rate(rate, "learning rate", "", site);
}

Schedule::Schedule(Function function, CallSite site) : function_(std::move(function)) {
  if (function_ != nullptr) return;
  throw Error({.op = "learning rate",
               .argument = "schedule",
               .expected = "a function",
               .got = "none",
               .fix = "give a number, or a function from the step to the rate",
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

Value Schedule::at(Graph& graph, DType dtype, CallSite site) const {
  if (function_ == nullptr) return graph.constant(Tensor::full(dtype, {}, rate_), site);
  const Value step = cast(Operand(graph.updates_applied(), site), f32, site);
  const Value rate =
      require_value(Operand(function_(step, site), site), "learning rate", "schedule");
  if (rate.type() != Type{f32, {}}) {
    throw Error({.op = "learning rate",
                 .argument = "schedule",
                 .expected = to_string(Type{f32, {}}),
                 .got = to_string(rate.type()),
                 .site = site});
  }
  return cast(rate, dtype, site);
}

Schedule step_decay(double initial, int64_t every, double factor, CallSite site) {
  require_rate(initial, "step_decay", "initial", site);
  require(every >= 1, "step_decay", "every", "at least 1", static_cast<double>(every), site);
  require(std::isfinite(factor) && factor > 0, "step_decay", "factor", "a finite number > 0",
          factor, site);
  return Schedule([=](Value step, CallSite line) {
    const Value drops = floor(div(step, every, line), line);
    return mul(pow(Operand(factor, line), drops, line), initial, line);
  });
}

Schedule cosine_decay(double initial, int64_t steps, CosineOptions options, CallSite site) {
  const auto warmup = static_cast<double>(options.warmup_steps);
  const auto total = static_cast<double>(steps);
  require_rate(initial, "cosine_decay", "initial", site);
  require_rate(options.final_rate, "cosine_decay", "final_rate", site);
  require(options.warmup_steps >= 0, "cosine_decay", "warmup_steps", "at least 0", warmup, site);
  require(steps > options.warmup_steps, "cosine_decay", "steps", "more than warmup_steps", total,
          site);
  const double low = options.final_rate;
  return Schedule([=](Value step, CallSite line) {
    const Value progress = clamp(div(sub(step, warmup, line), total - warmup, line), 0, 1, line);
    const Value wave = add(cos(mul(progress, 3.14159265358979323846, line), line), 1, line);
    const Value cosine = add(mul(wave, 0.5 * (initial - low), line), low, line);
    if (warmup == 0) return cosine;
    const Value rising = mul(add(step, 1, line), initial / warmup, line);
    return select(less(step, warmup, line), rising, cosine, line);
  });
}

}  // namespace keel
