// Loop: a step sunk to the device: one launch of a While with the step as its body, fed by a queue;
// where the device cannot loop by itself, the same steps driven by the host (LoopKind).
// Made by Session::sink. run() belongs to the session's thread; request_stop() may be called from
// any thread and from a signal handler. Of a loop that was moved from, requests to stop do nothing,
// and every other call throws Error. LoopReport: what one launch did; a plain value.
#ifndef KEEL_GRAPH_RUNTIME_LOOP_H
#define KEEL_GRAPH_RUNTIME_LOOP_H

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "keel/core/group/agreement.h"
#include "keel/core/queue/feeder.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/value.h"
#include "keel/graph/runtime/compile_report.h"
#include "keel/graph/runtime/hook.h"
#include "keel/graph/runtime/loop_size.h"
#include "keel/graph/runtime/transfers.h"

namespace keel {

struct LaunchArgs;
struct LaunchReport;
struct SessionState;
class Executable;
class OpObserver;
class Program;

class KEEL_API LoopReport {
 public:
  int64_t steps = 0;         // completed
  int64_t launches = 0;      // 1; one for each step where the host drives the loop
  int64_t first_step = 1;    // number of the first step: keel/step after it; 1 without an update
  bool end_of_data = false;  // the queue ended before the steps asked for
  bool cancelled = false;    // request_stop() was seen
  bool stopped = false;      // a callback, or the step's stop_when, asked to stop
  std::optional<int64_t> stop_step{};  // the last step, where its stop_when was true
  LoopVote verdict = LoopVote::kGoOn;  // why all parties of its agreement left (LaunchReport)
  bool left_with_others = false;       // this party alone would have gone on, or left for less
  // A stop was seen in a loop inside the step after these: that step was given up, its element is
  // the next one of the queue again, and the states are what the steps before it left.
  bool step_given_up = false;
  bool failed = false;  // see Loop::failed_report
  Cursor cursor;        // of the last element consumed by a completed step
  // Counts what the feeder had put into the queue beyond that when the launch ended: at most the
  // queue's depth, and the one element that was put back. The next launch takes it from there, so
  // nothing is lost or comes twice; a feeder that is stopped drops it, and makes it again where it
  // is opened at `cursor`.
  int64_t elements_ahead = 0;

  // Says what each completed step's arithmetic raised (core/device/float_status.h), and the first
  // of them that raised anything, which the log warns of. A step that fetches no number shows only
  // what the device's own arithmetic raises.
  std::vector<uint32_t> float_status;
  std::optional<int64_t> float_status_step{};
  std::string float_status_by;  // the first task that raised any, see LaunchReport

  // Wall time, in ns: all of run(), and of it on the device from the first task to the last, there
  // waiting for the queue and for room in the metrics ring, and here in callbacks.
  int64_t wall_ns = 0;
  int64_t busy_ns = 0;
  int64_t queue_wait_ns = 0;
  int64_t metrics_wait_ns = 0;
  int64_t callback_ns = 0;
  // Counted by the device and its stream: how often LOOP_SWITCH went on to a next step, LOOP_RESET,
  // and how often the host waited for the device (a round trip).
  int64_t true_branches = 0;
  int64_t resets = 0;
  int64_t host_syncs = 0;
  // Copies of the elements that were taken, be it by the queue's producer ahead of the launch or by
  // the host in their steps, and of the fetches. Rows of metrics come through a ring, not by a
  // copy, but where the host drives the loop.
  Transfers transfers;
  LoopKind kind = LoopKind::kDevice;
  // Modelled device time of one step (device clock), where the device prices its tasks.
  std::optional<int64_t> step_device_ns;

  // A rank-0 fetch's value in each completed step. Throws Error for anything else.
  std::span<const double> operator[](ValueAt fetch) const&;
  // Gives a copy where the report goes at once.
  std::vector<double> operator[](ValueAt fetch) &&;
  // Returns a fetch's value in the last completed step. Throws Error where no step was completed.
  const Tensor& tensor(Value fetch, CallSite site = CallSite::here()) const;

 private:
  friend class Loop;
  size_t index_of(const ValueAt& fetch) const;

  using Places = std::unordered_map<Value, size_t, ValueHash>;
  std::shared_ptr<const Places> places_;     // of the fetches; the same for all reports of a loop
  std::vector<int64_t> columns_;             // by fetch: its place in series_, or -1
  std::vector<std::vector<double>> series_;  // one row per rank-0 fetch
  std::vector<Tensor> tensors_;              // by fetch
};

// Called in step order on the thread that called run(), while the device goes on: the step's
// number, its rank-0 fetches in the order of the fetches, and its float status, which a callable
// may leave out.
class StepHook : public Hook<int64_t, std::span<const double>, uint32_t> {
 public:
  StepHook() = default;
  template <class F>
  requires(!std::is_same_v<F, StepHook> &&
           (std::is_invocable_v<F&, int64_t, std::span<const double>, uint32_t> ||
            std::is_invocable_v<F&, int64_t, std::span<const double>>)) StepHook(F function)
      : Hook(with_status(std::move(function))) {}

 private:
  template <class F>
  static Hook with_status(F function) {
    if constexpr (std::is_invocable_v<F&, int64_t, std::span<const double>, uint32_t>) {
      return function;
    } else {
      if (calls_nothing(function)) return {};
      return [f = std::move(function)](int64_t step, std::span<const double> values,
                                       uint32_t) mutable { return f(step, values); };
    }
  }
};

struct LoopCallbacks {
  StepHook on_step = {};
  // Asked behind each step, after on_step: true ends the launch as soon as can be, as if no more
  // steps had been asked for. Not for a loop with an agreement.
  std::function<bool()> ends_launch = {};
  OpObserver* observer = nullptr;  // see LaunchArgs; must live until run() returns
  bool replays = false;            // steps that were done before: the log was told of them
  // Names the loop size to the log where this launch is cut short of it; 0: the steps asked for.
  int64_t loop_size = 0;
};

class KEEL_API Loop {
 public:
  ~Loop();
  Loop(Loop&&) noexcept;
  Loop& operator=(Loop&&) noexcept;

  // Exactly one launch of `steps` steps; fewer are done where the data ends, the step's stop_when
  // is true, a callback stops it or request_stop() is called (report.steps says how many). Any
  // number of steps runs the same program. Throws Error for steps < 1 (nothing has changed then),
  // for what happens on the device or to the producer, and rethrows what a callback throws after
  // the step that runs has ended. A callback that uses the session gets an Error: the Trainer's
  // hooks run between launches.
  LoopReport run(int64_t steps, const LoopCallbacks& callbacks = {},
                 CallSite site = CallSite::here());
  // Runs with the session's loop size.
  LoopReport run(const LoopCallbacks& callbacks = {}, CallSite site = CallSite::here());

  // The launch that runs, or else the next one, stops after its current step, which is given up at
  // the next turn of a loop inside it (LoopReport::step_given_up).
  void request_stop() noexcept;
  // Takes back a request that no launch has seen; whether there was one.
  bool withdraw_stop() noexcept;

  // Returns what the last launch that threw had done until then.
  const LoopReport& failed_report(CallSite site = CallSite::here()) const;
  // Returns the queue it takes its elements from; null for a step without inputs.
  std::shared_ptr<DeviceQueue> queue(CallSite site = CallSite::here()) const;
  // Returns the task list, one task a line.
  std::string describe(CallSite site = CallSite::here()) const;
  // Returns what was compiled; lives as long as the loop.
  const Program& program(CallSite site = CallSite::here()) const;
  // Returns the control tasks that the compiler inserted, and where the loop runs and why.
  const CompileReport& compile_report(CallSite site = CallSite::here()) const;
  const LoopPlacement& placement(CallSite site = CallSite::here()) const {
    return compile_report(site).loop;
  }
  LoopKind kind(CallSite site = CallSite::here()) const { return placement(site).kind; }

 private:
  friend class Session;
  struct State;
  explicit Loop(std::unique_ptr<State> state);
  State& state(const char* call, CallSite site) const;
  struct Outcome;
  // Without a number it asks for the session's loop size.
  LoopReport run_steps(std::optional<int64_t> asked, const LoopCallbacks& callbacks, CallSite site);
  void launch(LaunchArgs& args, int64_t steps, const LoopCallbacks& callbacks,
              FailureToTell& untold, LoopReport& report, Outcome& outcome);
  void drain(const LoopCallbacks& callbacks, LoopReport& report, Outcome& outcome);
  void drive(int64_t steps, const LoopCallbacks& callbacks, LoopReport& report, Outcome& outcome);
  bool take_element(LoopParty& party, LaunchReport& done);
  bool keeps_element(LoopParty& party);
  bool drive_step(int64_t number, LaunchReport& done);
  void feed_element(LaunchArgs& args);
  void read_row(int64_t number, uint32_t float_status);
  void keep_results(LoopReport& report);
  void deliver(const LoopCallbacks& callbacks, LoopReport& report, Outcome& outcome);
  void collect(LoopReport& report);

  std::unique_ptr<State> state_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_LOOP_H
