#include "keel/graph/runtime/numerics_check.h"

#include <algorithm>

#include "keel/core/base/log.h"

namespace keel {
namespace {

// Keeping the states may cost one part in so many of the time.
constexpr int kShare = 200;

bool is_finite(const Tensor& values) {
  return !is_float(values.dtype()) ||
         range_of(values.raw(), values.dtype(), values.num_elements()).finite();
}

bool all_zero(const std::vector<uint32_t>& float_status) {
  return std::all_of(float_status.begin(), float_status.end(),
                     [](uint32_t status) { return status == 0; });
}

}  // namespace

NumericsCheck::NumericsCheck(NumericsMode mode, SessionState& session, CallSite site)
    : left_(mode == NumericsMode::kOff     ? 0
            : mode == NumericsMode::kFirst ? 1
                                           : kMostFindings),
      session_(session),
      site_(site) {}

bool NumericsCheck::due() const { return on() && Clock::now() - kept_at_ >= cost_ * kShare; }

void NumericsCheck::keep(const Cursor& cursor) {
  if (!on()) return;
  const Clock::time_point begin = Clock::now();
  const SessionGuard guard(session_, "Trainer::fit", site_);
  states_ = copy_states(session_.store);
  cursor_ = cursor;
  step_ = session_.store.step();
  kept_at_ = Clock::now();
  cost_ = 2 * (kept_at_ - begin);  // they were looked at before
}

void NumericsCheck::begin(const Cursor& cursor) {
  if (!on()) return;
  if (states_are_finite()) return keep(cursor);
  log_warn("check_numerics: the states are not finite before step " +
           std::to_string(session_.store.step() + 1) +
           ", so no op of it is to blame: nothing is looked for");
  left_ = 0;
}

bool NumericsCheck::states_are_finite() const {
  for (const auto& [name, state] : session_.store.states()) {
    if (!is_finite(session_.store.read(state))) return false;
  }
  return true;
}

void NumericsCheck::restore(const StateValues& states, const Cursor& cursor, const Replay& replay) {
  {
    const SessionGuard guard(session_, "Trainer::fit", site_);
    put_states(session_.store, states);
  }
  replay.open(cursor);
}

// The first step of those behind the kept states that leaves a state which is not finite, or
// `last`.
int64_t NumericsCheck::first_bad_step(const Replay& replay, int64_t last) {
  restore(states_, cursor_, replay);
  for (int64_t step = step_ + 1; step < last && run(replay, 1); ++step) {
    if (!states_are_finite()) return step;
  }
  return last;
}

bool NumericsCheck::run(const Replay& replay, int64_t steps) {
  const LoopReport report = replay.run(replay.loop, steps, {.replays = true});
  cancelled_ = cancelled_ || report.cancelled;
  return !cancelled_;
}

std::optional<NumericsFinding> NumericsCheck::look_at(const Replay& replay, int64_t step) {
  restore(states_, cursor_, replay);
  looked_at_ = step;
  if (step - 1 > step_ && !run(replay, step - 1 - step_)) return std::nullopt;
  NumericsWatch watch(/*keeps_values=*/replay.found != nullptr);
  const LoopReport report = replay.run(replay.unfused(), 1, {.observer = &watch, .replays = true});
  cancelled_ = cancelled_ || report.cancelled;
  if (!watch.first()) return std::nullopt;
  // An infinity that is meant harms nothing where what the step gives is finite.
  const bool harmless = watch.first()->blame == Blame::kCarried && all_zero(report.float_status);
  if (harmless && states_are_finite()) return std::nullopt;
  if (replay.found) replay.found(watch);
  return watch.first();
}

std::vector<NumericsFinding> NumericsCheck::locate(const Replay& replay,
                                                   const std::vector<int64_t>& flagged,
                                                   Cursor cursor) {
  const int64_t now = session_.store.step();
  const StateValues after = copy_states(session_.store);
  std::vector<NumericsFinding> findings;
  const auto look = [&](int64_t step) {
    if (!on() || cancelled_ || step <= step_ || step <= looked_at_) return;
    auto found = look_at(replay, step);
    if (!found) return;
    findings.push_back(std::move(*found));
    --left_;
  };
  // A number that is fetched may show what an earlier step left in the states.
  const int64_t first = flagged.empty() ? now : std::min(flagged.front(), now);
  replay.unfused();  // is compiled before anything is put back
  try {
    if (first > step_) look(first_bad_step(replay, first));
    for (const int64_t step : flagged) look(step);
  } catch (...) {
    restore(after, cursor, replay);
    throw;
  }
  restore(after, cursor, replay);
  // States that are not finite show nothing new.
  if (!states_are_finite()) left_ = 0;
  return findings;
}

}  // namespace keel
