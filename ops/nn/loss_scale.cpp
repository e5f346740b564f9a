#include "keel/ops/nn/loss_scale.h"

#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/finiteness_check.h"
#include "keel/graph/ir/scopes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/float_status.h"
#include "keel/ops/nn/argument_checks.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/own_scope.h"
#include "keel/ops/nn/remembered.h"
#include "keel/ops/reduce.h"

namespace keel {
namespace {

constexpr const char* kLossScaler = "LossScaler";
constexpr const char* kLossScale = "loss_scale";  // the scope of its nodes
constexpr double kMostScale = 3.4e38;             // the largest f32 is a little more
constexpr const char* kScales = "at least 1, at most 3.4e38";

void check(const FixedLossScale& rule, CallSite site) {
  require_option(rule.scale >= 1 && rule.scale <= kMostScale, kLossScaler, "scale", kScales,
                 rule.scale, site);
}

void check(const ExponentialLossScale& rule, CallSite site) {
  const auto require = [&](bool ok, const char* option, const char* expected, double got) {
    require_option(ok, kLossScaler, option, expected, got, site);
  };
  require(rule.init_loss_scale >= 1 && rule.init_loss_scale <= kMostScale, "init_loss_scale",
          kScales, rule.init_loss_scale);
  require(rule.incr_every_n_steps >= 1, "incr_every_n_steps", "at least 1",
          static_cast<double>(rule.incr_every_n_steps));
  require(rule.decr_every_n_nan_or_inf >= 1, "decr_every_n_nan_or_inf", "at least 1",
          static_cast<double>(rule.decr_every_n_nan_or_inf));
  require(rule.incr_ratio >= 1 && rule.incr_ratio <= kMostScale, "incr_ratio", kScales,
          rule.incr_ratio);
  require(rule.decr_ratio > 0 && static_cast<float>(rule.decr_ratio) < 1, "decr_ratio",
          "between 0 and 1, and less than 1 as f32", rule.decr_ratio);
}

void require_flag(const Value& flag, const char* argument, CallSite site) {
  const Value given = require_root_value(Operand(flag, site), kLossScaler, argument, site);
  if (given.type() == Type{boolean, {}}) return;
  throw Error({.op = kLossScaler,
               .argument = argument,
               .expected = to_string(Type{boolean, {}}),
               .got = to_string(given.type()),
               .site = site});
}

}  // namespace

LossScaler::LossScaler(Graph& graph, const LossScale& scale, std::string name, CallSite site)
    : graph_(&graph), rule_(scale) {
  std::visit([&](const auto& rule) { check(rule, site); }, scale);
  const OwnScope here(graph, kLossScale, site);
  if (const auto* fixed = std::get_if<FixedLossScale>(&scale)) {
    scale_ = graph.constant(Tensor::full(f32, {}, fixed->scale), site);
    return;
  }
  const auto& rule = std::get<ExponentialLossScale>(scale);
  const auto state = [&](const char* what, const Initializer& init) {
    return remembered(graph, kLossScaler, name + "/" + what, init,
                      "give each scaler a name of its own", site);
  };
  scale_ = state("scale", constant({}, rule.init_loss_scale));
  good_steps_ = state("good_steps", zeros({}, i64));
  bad_steps_ = state("bad_steps", zeros({}, i64));
}

Value LossScaler::scaled(Operand loss, CallSite site) const {
  const CallSite line = site.known() ? site : loss.site();
  const Value value = require_root_value(loss, kLossScaler, "loss", line);
  require_float(value, kLossScaler, "loss", line);
  const auto* fixed = std::get_if<FixedLossScale>(&rule_);
  if (fixed != nullptr) require_fits(value.dtype(), fixed->scale, kLossScaler, "scale", line);
  const OwnScope here(*graph_, kLossScale, line);
  return mul(value, cast(scale_, value.dtype(), line), line);
}

Values LossScaler::unscaled(const Values& gradients, CallSite site) const {
  require_float_gradients(kLossScaler, gradients, site);
  const OwnScope here(*graph_, kLossScale, site);
  const Value factor = reciprocal(scale_, site);
  Values results;
  for (const Value& g : gradients) {
    const DType dtype = memory_dtype(g.dtype());
    const Value scaled = cast(Operand(g, site), dtype, site);
    // The factor is an f32: to f64 gradients it would be off by half of their digits.
    // The result stays wide: what 16 bits hold of a scaled gradient may be 0 in them unscaled.
    results.push_back(dtype == f64 ? div(scaled, cast(scale_, f64, site), site)
                                   : mul(scaled, factor, site));
  }
  return results;
}

Value LossScaler::finite(const Values& gradients, CallSite site) const {
  const OwnScope here(*graph_, kLossScale, site);
  const auto* fixed = std::get_if<FixedLossScale>(&rule_);
  if (fixed != nullptr && !fixed->enable_overflow_check)
    return graph_->constant(Tensor::full(boolean, {}, 1), site);
  return logical_and(all_finite(gradients, site), logical_not(float_status(gradients, site), site),
                     site);
}

Update LossScaler::update(Value finite, Value when, CallSite site) const {
  require_flag(finite, "finite", site);
  if (when.valid()) require_flag(when, "when", site);
  const auto* rule = std::get_if<ExponentialLossScale>(&rule_);
  if (rule == nullptr) return {};
  const OwnScope here(*graph_, kLossScale, site);
  return exponential_update(*rule, finite, when, site);
}

Update LossScaler::exponential_update(const ExponentialLossScale& rule, Value finite, Value when,
                                      CallSite site) const {
  const Value bad = logical_not(finite, site);
  const Value goods = add(good_steps_, 1, site), bads = add(bad_steps_, 1, site);
  const Value grows =
      logical_and(finite, greater_equal(goods, rule.incr_every_n_steps, site), site);
  const Value shrinks =
      logical_and(bad, greater_equal(bads, rule.decr_every_n_nan_or_inf, site), site);
  const Value changes = logical_or(grows, shrinks, site);
  const Value fits = less(scale_, kMostScale / rule.incr_ratio, site);
  const Value larger = select(fits, mul(scale_, rule.incr_ratio, site), scale_, site);
  const Value smaller = maximum(mul(scale_, rule.decr_ratio, site), 1, site);
  const Value zero = graph_->constant(Tensor::full(i64, {}, 0), site);
  const auto next = [&](Value state, Value value) -> Assignment {
    return {state, when.valid() ? select(when, value, state, site) : value};
  };
  Update update;
  update.assignments = {
      next(scale_, select(grows, larger, select(shrinks, smaller, scale_, site), site)),
      next(good_steps_, select(logical_or(changes, bad, site), zero, goods, site)),
      next(bad_steps_, select(changes, zero, select(bad, bads, bad_steps_, site), site))};
  return update;
}

Value all_finite(const Values& values, CallSite site) {
  if (values.empty()) {
    throw Error({.op = "all_finite",
                 .argument = "values",
                 .expected = "at least one",
                 .got = "none",
                 .site = site});
  }
  const AttributeScope mark(values.front().graph(site), kFinitenessCheckAttribute, kMakesNan, site);
  // An infinity or a NaN times 0 is NaN, and so is every sum with it.
  Value total;
  for (const Value& v : values) {
    const Value wide = cast(Operand(v, site), memory_dtype(v.dtype()), site);
    const Value nothing = cast(sum(mul(wide, 0, site), {}, false, site), f32, site);
    total = total.valid() ? add(total, nothing, site) : nothing;
  }
  return equal(total, 0, site);
}

}  // namespace keel
