#include "keel/ops/nn/schedules.h"

#include <cmath>
#include <limits>
#include <utility>

#include "keel/graph/ir/operand.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/argument_checks.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/remembered.h"

namespace keel {
namespace {

constexpr double kPi = 3.14159265358979323846;

void require_steps(int64_t steps, const char* schedule, const char* argument, int64_t at_least,
                   const char* expected, CallSite site) {
  require_option(steps >= at_least, schedule, argument, expected, static_cast<double>(steps), site);
}

void require_function(bool given, CallSite site) {
  if (given) return;
  throw Error({.op = "learning rate",
               .argument = "schedule",
               .expected = "a function",
               .got = "none",
               .fix = "give a number, or a function from the step to the rate",
               .site = site,
               .kind = ErrorKind::kInvalidArgument});
}

// From `from`, where progress is 0, to `to`, where it is 1, along half a cosine.
Value half_cosine(Value progress, double from, double to, CallSite site) {
  const Value wave = add(cos(mul(progress, kPi, site), site), 1, site);
  return add(mul(wave, 0.5 * (from - to), site), to, site);
}

// `later`, from update `warmup` on; before it the rate grows linearly to `initial`.
Value with_warmup(Value later, Value updates, double warmup, double initial, CallSite site) {
  if (warmup == 0) return later;
  const Value rising = mul(add(updates, 1, site), initial / warmup, site);
  return select(less(updates, warmup, site), rising, later, site);
}

// 0 at update `from`, 1 at `to`, and no less and no more elsewhere.
Value progress_between(Value updates, double from, double to, CallSite site) {
  return clamp(div(sub(updates, from, site), to - from, site), 0, 1, site);
}

}  // namespace

ScheduleStep::ScheduleStep(Graph& graph, Value loss, Update& update, CallSite site)
    : ScheduleStep(graph, loss, update,
                   std::make_shared<UpdateCount>(graph, "schedule", update, site), site) {}

ScheduleStep::ScheduleStep(Graph& graph, Value loss, Update& update,
                           std::shared_ptr<UpdateCount> count, CallSite site)
    : graph_(graph), loss_(loss), update_(update), count_(std::move(count)), site_(site) {}

Value ScheduleStep::updates() {
  if (!updates_.valid()) updates_ = cast(Operand(count_->applied(), site_), f32, site_);
  return updates_;
}

Value ScheduleStep::loss() const {
  if (!loss_.valid()) {
    throw Error({.op = "learning rate",
                 .argument = "schedule",
                 .expected = "the loss, by which the schedule goes",
                 .got = "an update without one",
                 .fix = "use minimize(loss) or apply(states, gradients, loss)",
                 .site = site_});
  }
  if (is_float(loss_.dtype()) && loss_.shape().rank() == 0) return cast(loss_, f32, site_);
  throw Error({.op = "learning rate",
               .argument = "loss",
               .expected = "a float scalar, as the schedule goes by one number",
               .got = to_string(loss_.type()),
               .fix = "give the mean or the sum of the losses",
               .site = site_});
}

Value ScheduleStep::state(const std::string& name, const Initializer& init) {
  return graph_.state(name, init, {.trainable = false}, site_);
}

Schedule::Schedule(double rate, CallSite site) : rate_(rate) {
  require_not_negative_f32(rate, "learning rate", "", site);
}

Schedule::Schedule(Function function, CallSite site) {
  require_function(function != nullptr, site);
  function_ = std::make_shared<StepFunction>(
      [f = std::move(function)](ScheduleStep& step) { return f(step.updates(), step.site()); });
}

Schedule::Schedule(StepFunction function, CallSite site) {
  require_function(function != nullptr, site);
  function_ = std::make_shared<StepFunction>(std::move(function));
}

Value Schedule::at(ScheduleStep& step, DType dtype) const {
  const CallSite site = step.site();
  if (function_ == nullptr) return step.graph().constant(Tensor::full(dtype, {}, rate_), site);
  // The function is called before the entry is made: it may ask other schedules for their rates in
  // this step, and these add entries to rates_ themselves.
  if (!step.rates_.contains(function_)) {
    const Value rate =
        require_value(Operand((*function_)(step), site), "learning rate", "schedule");
    if (rate.type() != Type{f32, {}}) {
      throw Error({.op = "learning rate",
                   .argument = "schedule",
                   .expected = to_string(Type{f32, {}}),
                   .got = to_string(rate.type()),
                   .site = site});
    }
    step.rates_.emplace(function_, rate);
  }
  return cast(step.rates_.at(function_), dtype, site);
}

Schedule step_decay(double initial, int64_t every, double factor, CallSite site) {
  require_not_negative_f32(initial, "step_decay", "initial", site);
  require_steps(every, "step_decay", "every", 1, "at least 1", site);
  require_positive_f32(factor, "step_decay", "factor", site);
  // A factor above 1 grows to infinity in f32, and 0 times that is NaN.
  if (require_fits(f32, initial, "step_decay", "initial", site) == 0) return Schedule(0.0, site);
  return Schedule([=](Value step, CallSite line) {
    const Value drops = floor(div(step, every, line), line);
    return mul(pow(Operand(factor, line), drops, line), initial, line);
  });
}

Schedule cosine_decay(double initial, int64_t steps, CosineOptions options, CallSite site) {
  const auto warmup = static_cast<double>(options.warmup_steps);
  const auto total = static_cast<double>(steps);
  require_not_negative_f32(initial, "cosine_decay", "initial", site);
  require_not_negative_f32(options.final_rate, "cosine_decay", "final_rate", site);
  require_steps(options.warmup_steps, "cosine_decay", "warmup_steps", 0, "at least 0", site);
  require_option(steps > options.warmup_steps, "cosine_decay", "steps", "more than warmup_steps",
                 total, site);
  const double low = options.final_rate;
  return Schedule([=](Value step, CallSite line) {
    const Value progress = progress_between(step, warmup, total, line);
    return with_warmup(half_cosine(progress, initial, low, line), step, warmup, initial, line);
  });
}

Schedule polynomial_decay(double initial, int64_t steps, PolynomialOptions options, CallSite site) {
  const auto warmup = static_cast<double>(options.warmup_steps);
  const auto total = static_cast<double>(steps);
  require_not_negative_f32(initial, "polynomial_decay", "initial", site);
  require_not_negative_f32(options.final_rate, "polynomial_decay", "final_rate", site);
  require_positive_f32(options.power, "polynomial_decay", "power", site);
  require_steps(options.warmup_steps, "polynomial_decay", "warmup_steps", 0, "at least 0", site);
  require_option(steps > options.warmup_steps, "polynomial_decay", "steps",
                 "more than warmup_steps", total, site);
  const double low = options.final_rate, power = options.power;
  return Schedule([=](Value step, CallSite line) {
    Value left = sub(Operand(1, line), progress_between(step, warmup, total, line), line);
    if (power != 1) left = pow(left, power, line);
    const Value falling = add(mul(left, initial - low, line), low, line);
    return with_warmup(falling, step, warmup, initial, line);
  });
}

Schedule one_cycle(double peak, int64_t steps, OneCycleOptions options, CallSite site) {
  require_not_negative_f32(peak, "one_cycle", "peak", site);
  require_positive(options.first_divisor, "one_cycle", "first_divisor", site);
  require_positive(options.last_divisor, "one_cycle", "last_divisor", site);
  const auto total = static_cast<double>(steps);
  const double top = options.warmup * total - 1;
  require_option(options.warmup > 0 && options.warmup < 1, "one_cycle", "warmup",
                 "a number in (0, 1)", options.warmup, site);
  require_option(top > 0, "one_cycle", "steps", "more than 1 / warmup", total, site);
  const double first = peak / options.first_divisor, last = peak / options.last_divisor;
  const char* fitting = "a number by which the peak is divided to one that fits f32";
  const auto fits = [](double rate) { return rate <= std::numeric_limits<float>::max(); };
  require_option(fits(first), "one_cycle", "first_divisor", fitting, options.first_divisor, site);
  require_option(fits(last), "one_cycle", "last_divisor", fitting, options.last_divisor, site);
  return Schedule([=](Value step, CallSite line) {
    const Value rising = half_cosine(progress_between(step, 0, top, line), first, peak, line);
    const Value falling =
        half_cosine(progress_between(step, top, total - 1, line), peak, last, line);
    return select(less(step, top, line), rising, falling, line);
  });
}

namespace {

Value plateau_state(ScheduleStep& step, const PlateauOptions& o, const char* name,
                    const Initializer& init) {
  return remembered(
      step.graph(), "reduce_on_plateau", o.name + "/" + name, init,
      "give each PlateauOptions a name of its own; groups of one minimize() may share "
      "a schedule",
      step.site());
}

// A look at the loss: whether there is one in this step, and the mean that it sees.
struct Look {
  Value now;  // bool; invalid: in every step
  Value loss;
};

Look look_at_loss(ScheduleStep& step, const PlateauOptions& o) {
  const Value loss = step.loss();
  if (o.every == 1) return {{}, loss};
  const CallSite line = step.site();
  const Value sum_before = plateau_state(step, o, "loss_sum", zeros({}));
  const Value count_before = plateau_state(step, o, "losses", zeros({}, i64));
  const Value sum = add(sum_before, loss, line);
  const Value count = add(count_before, 1, line);
  const Value now = greater_equal(count, o.every, line);
  step.set(sum_before, select(now, step.graph().constant(Tensor::scalar(0.0f)), sum, line));
  step.set(count_before,
           select(now, step.graph().constant(Tensor::scalar(int64_t{0})), count, line));
  return {now, div(sum, static_cast<double>(o.every), line)};
}

Value plateau_rate(ScheduleStep& step, double initial, const PlateauOptions& o) {
  const CallSite line = step.site();
  Graph& graph = step.graph();
  const Look look = look_at_loss(step, o);
  const Value best =
      plateau_state(step, o, "best", constant({}, std::numeric_limits<float>::max()));
  const Value waited = plateau_state(step, o, "waited", zeros({}, i64));
  const Value scale = plateau_state(step, o, "scale", ones({}));
  const Value bar = sub(best, mul(abs(best, line), o.threshold, line), line);
  const Value better = less(look.loss, bar, line);
  const Value none = graph.constant(Tensor::scalar(int64_t{0}), line);
  const Value waiting = select(better, none, add(waited, 1, line), line);
  const Value drop = greater(waiting, o.patience, line);
  const auto set = [&](Value state, Value next) {
    step.set(state, look.now.valid() ? select(look.now, next, state, line) : next);
  };
  set(best, select(better, look.loss, best, line));
  set(waited, select(drop, none, waiting, line));
  set(scale, select(drop, mul(scale, o.factor, line), scale, line));
  return maximum(mul(scale, initial, line), o.final_rate, line);
}

}  // namespace

Schedule reduce_on_plateau(double initial, PlateauOptions options, CallSite site) {
  const char* const who = "reduce_on_plateau";
  require_not_negative_f32(initial, who, "initial", site);
  require_option(options.factor > 0 && options.factor < 1, who, "factor", "a number in (0, 1)",
                 options.factor, site);
  require_steps(options.patience, who, "patience", 0, "at least 0", site);
  require_steps(options.every, who, "every", 1, "at least 1", site);
  require_fraction(options.threshold, who, "threshold", site);
  require_option(options.final_rate >= 0 && options.final_rate <= initial, who, "final_rate",
                 "a number from 0 to the initial rate", options.final_rate, site);
  return Schedule([initial, o = std::move(options)](ScheduleStep& step) {
    return plateau_rate(step, initial, o);
  });
}

}  // namespace keel
