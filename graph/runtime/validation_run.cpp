#include "keel/graph/runtime/validation_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/graph/runtime/next_multiple.h"
#include "keel/graph/runtime/session_state.h"
#include "keel/graph/runtime/share_saved_states.h"
#include "keel/graph/runtime/train_options_check.h"

namespace keel {
namespace {

// A NaN is never the best: nothing would ever be better than one.
void check_best_before(const ValidationBest& best, CallSite site) {
  if (std::isnan(best.value))
    complain_of_fit("validation.best_before.value", "a number", "NaN", site);
  if (best.step < 0)
    complain_of_fit("validation.best_before.step", "at least 0", std::to_string(best.step), site);
  if (best.since < 0)
    complain_of_fit("validation.best_before.since", "at least 0", std::to_string(best.since), site);
}

}  // namespace

ValidationRun::ValidationRun(const std::optional<ValidationOptions>& options,
                             int64_t steps_per_epoch, std::function<TrainingPlace()> place,
                             CallSite site)
    : current_place_(std::move(place)), site_(site) {
  if (!options) return;
  options_ = &*options;
  if (!options->measure) complain_of_fit("validation.measure", "a function", "none", site);
  if (options->every_n_steps < 0)
    complain_of_fit("validation.every_n_steps", "at least 0",
                    std::to_string(options->every_n_steps), site);
  if (options->patience < 0)
    complain_of_fit("validation.patience", "at least 0", std::to_string(options->patience), site);
  if (!(options->min_gain >= 0) || !std::isfinite(options->min_gain))
    complain_of_fit("validation.min_gain", "a number that is not negative",
                    printable(options->min_gain), site);
  if (options->target && std::isnan(*options->target))
    complain_of_fit("validation.target", "a number", "NaN", site);
  if (options->best_before) check_best_before(*options->best_before, site);
  period_ = options->every_n_steps > 0 ? options->every_n_steps : steps_per_epoch;
  if (period_ < 1)
    complain_of_fit("validation.every_n_steps", "at least 1, or steps_per_epoch",
                    "neither of the two", site);
  best_ = options->best_before;
  if (best_) since_ = best_->since;
}

void ValidationRun::begin(SessionState& session, const std::string& best_file, Group* group,
                          TrainReport& report) {
  // A run that ends before its first measurement knows of this one alone.
  report.best = best_;
  if (options_ == nullptr || !best_) return;
  report.out_of_patience = out_of_patience();
  report.target_reached = best_->last && reaches_target(*best_->last);
  report.stopped_early = report.out_of_patience || report.target_reached;
  if (!options_->keep_best) return;
  if (best_->step == session.store.step()) return keep(session);
  if (best_file.empty()) return;
  const SessionGuard guard(session, "Trainer::fit", site_);
  session.store.add_states(*session.graph);
  SavedStates best;
  if (group == nullptr || group->rank() == 0) best = read_states(best_file, session.store);
  if (group != nullptr) share_saved_states(*group, session.store, best);
  place_ = place_in(best.metadata, best_file);
  states_ = std::move(best.tensors);
}

void ValidationRun::keep(SessionState& session) {
  const SessionGuard guard(session, "Trainer::fit", site_);
  session.store.add_states(*session.graph);
  states_ = copy_states(session.store);
  place_ = current_place_();
}

int64_t ValidationRun::next(int64_t step, int64_t target) const {
  if (options_ == nullptr) return target;
  return std::min(target, next_multiple(step, period_));
}

bool ValidationRun::due(int64_t step, int64_t target) const {
  return options_ != nullptr && (step % period_ == 0 || step == target);
}

bool ValidationRun::better(double value) const {
  if (std::isnan(value)) return false;
  if (!best_) return true;
  const double gain = options_->larger_is_better ? value - best_->value : best_->value - value;
  return gain > options_->min_gain;
}

bool ValidationRun::reaches_target(double value) const {
  if (!options_->target) return false;
  return options_->larger_is_better ? value >= *options_->target : value <= *options_->target;
}

ValidationResult ValidationRun::judge(SessionState& session, TrainReport& report) {
  ValidationResult result{.step = session.store.step(), .value = options_->measure()};
  measured_at_ = result.step;
  result.best = better(result.value);
  if (result.best) {
    best_ = ValidationBest{.value = result.value, .step = result.step};
    if (options_->keep_best) keep(session);
  }
  since_ = result.best ? 0 : since_ + 1;
  if (best_) {
    best_->since = since_;
    best_->last = result.value;
  }
  report.validations.push_back(result);
  report.best = best_;
  return result;
}

bool ValidationRun::measure(SessionState& session, TrainReport& report) {
  const ValidationResult result = judge(session, report);
  const bool asked = options_->on_result(result) == LoopControl::kStop;
  report.target_reached = reaches_target(result.value);
  report.out_of_patience = out_of_patience();
  return asked || report.target_reached || report.out_of_patience;
}

void ValidationRun::measure_last(SessionState& session, TrainReport& report) {
  static_cast<void>(options_->on_result(judge(session, report)));
}

std::optional<TrainingPlace> ValidationRun::restore_best(SessionState& session) {
  if (states_.empty() || best_->step == session.store.step()) return std::nullopt;
  const SessionGuard guard(session, "Trainer::fit", site_);
  put_states(session.store, states_);
  return place_;
}

}  // namespace keel
