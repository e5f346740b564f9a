// NumericsCheck: finds the op that made the first number that is infinite, NaN, or was stopped at
// the largest f16, in a training that runs at full speed: the states are kept now and then, and
// where a step shows trouble it is done again from there, op by op. The training then goes on as if
// nothing had happened, with the same bits. Owned by one Trainer::fit(), on the session's thread.
// Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_NUMERICS_CHECK_H
#define KEEL_GRAPH_RUNTIME_NUMERICS_CHECK_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "keel/core/device/numerics_watch.h"
#include "keel/graph/runtime/checkpoint.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/session_state.h"
#include "keel/graph/runtime/trainer.h"

namespace keel {

class NumericsCheck {
 public:
  // The means by which a step is done again.
  struct Replay {
    Loop& loop;                      // the one that did it
    std::function<Loop&()> unfused;  // the same step, each op a task of its own
    std::function<LoopReport(Loop&, int64_t, const LoopCallbacks&)> run;
    std::function<void(const Cursor&)> open;  // has the feeder go on behind a cursor
    // Where there is one it is given what was found, with the values. It does not throw.
    std::function<void(const NumericsWatch&)> found = {};
  };

  NumericsCheck(NumericsMode mode, SessionState& session, CallSite site);

  // False once there is nothing more to find.
  bool on() const noexcept { return left_ > 0; }
  // Returns whether so much was done since the states were kept that looking at them costs little.
  bool due() const;
  // Keeps the states that the training begins with, or goes on from behind a hook; where they are
  // not finite there is nothing to find, which is logged.
  void begin(const Cursor& cursor);
  // Keeps the states, which `cursor` belongs to. REQUIRES that they are finite.
  void keep(const Cursor& cursor);
  bool states_are_finite() const;
  // Returns whether a stop was asked for meanwhile: what was to be found is not.
  bool cancelled() const noexcept { return cancelled_; }
  // Looks for what went wrong in the flagged steps, or where there is none by the session's own
  // step, which `cursor` stands behind: a copy, since opening the feeder moves the caller's.
  // Nothing where no op is to blame, as where a weight was loaded so. The states and the feeder are
  // as before.
  std::vector<NumericsFinding> locate(const Replay& replay, const std::vector<int64_t>& flagged,
                                      Cursor cursor);

 private:
  using Clock = std::chrono::steady_clock;

  void restore(const StateValues& states, const Cursor& cursor, const Replay& replay);
  // Does so many steps again; false where a stop was asked for.
  bool run(const Replay& replay, int64_t steps);
  int64_t first_bad_step(const Replay& replay, int64_t last);
  std::optional<NumericsFinding> look_at(const Replay& replay, int64_t step);

  size_t left_;  // findings that are wanted
  SessionState& session_;
  CallSite site_;
  StateValues states_;
  Cursor cursor_;
  int64_t step_ = 0;       // of the states that are kept
  int64_t looked_at_ = 0;  // the last step that was done again op by op
  Clock::time_point kept_at_;
  Clock::duration cost_{};
  bool cancelled_ = false;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_NUMERICS_CHECK_H
