// Loop::State: what a Loop owns. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_LOOP_STATE_H
#define KEEL_GRAPH_RUNTIME_LOOP_STATE_H

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "keel/core/queue/metrics_queue.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/session_state.h"

namespace keel {

struct Loop::State {
  // Compiles.
  State(std::shared_ptr<SessionState> session, const SinkOptions& options,
        const StepDescription& step, CallSite site);

  // Takes the queue of the next launch: the feeder's current one where there is a feeder. Throws
  // Error where it does not fit the compiled program.
  void take_queue(CallSite site);
  // Throws Error for a queue that feeds in another way than the session does.
  static void require_data_sink(const DeviceQueue& queue, bool data_sink, CallSite site);
  // A feeder's queue is held while a launch runs: between launches the feeder may open another, and
  // the slots of both would be in memory.
  void let_go_of_queue();
  // Throws Error where the policy `mixed` has parts on the host of a loop that the host drives, and
  // a launch is to have several steps.
  void require_loop_with_host_parts(int64_t steps, CallSite site) const;
  // Returns the report of a launch that begins, with room for its rows.
  LoopReport blank_report(int64_t steps) const;
  // Reports what the launch came to, once the device is at rest.
  void complete(LoopReport& report, const Outcome& outcome);
  // Notes the loop size in the compile report, and logs what was inserted for a training's loop of
  // more than one step whenever the size is another than the last time.
  void tell_size(int64_t size);
  // Finds the first step that raised anything, and warns of each bit once.
  void note_float_status(LoopReport& report);
  // Returns the arguments of the next launch, and its report. Throws Error where the queue does not
  // fit or a state is not valid; whatever it throws the other parties hear of.
  LaunchArgs& prepare(int64_t steps, LoopReport& report, CallSite site);
  // Memory for what a step hands to the host, where the host drives the loop.
  void prepare_to_drive(const StepDescription& step);

  std::shared_ptr<SessionState> session;
  std::shared_ptr<Feeder> feeder;
  std::shared_ptr<DeviceQueue> queue;
  std::shared_ptr<Executable> executable;
  int64_t loop_size = CompileReport().loop_size;
  // The executable's report, with the size of this loop, from when somebody asks for it: that of a
  // large graph is long.
  std::optional<CompileReport> compile_report;
  std::shared_ptr<LoopAgreement> agreement;  // null: it leaves alone
  std::unique_ptr<MetricsQueue> metrics;
  MetricsQueue::Row row;
  std::optional<size_t> stop_output;  // the stop value's, where the host drives the loop
  std::vector<unsigned char>
      results;                     // rank-0 outputs of a step that the host drives, 8 bytes each
  std::vector<void*> element;      // and its element's fields
  Cursor cursor;                   // of that element
  uint32_t warned_of = 0;          // bits of the float status
  OpObserver* observer = nullptr;  // of the run() under way
  bool replays = false;            // likewise
  LoopReport blank;                // what every report of this loop begins as
  LoopReport failed;               // of the last launch that threw
  std::atomic<bool> requested{false};  // request_stop() that no launch has reported yet
};

// Holds what a launch met on the host's side, and what it did.
struct Loop::Outcome {
  bool stopped = false;       // by a callback
  std::exception_ptr thrown;  // by a callback
  LaunchReport done;
};

// Binds the resident fields that the program reads.
void bind_resident(const ProgramInfo& info, const DeviceQueue& queue, LaunchArgs& args);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_LOOP_STATE_H
