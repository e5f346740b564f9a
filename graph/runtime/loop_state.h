// Loop::State: what a Loop owns. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_LOOP_STATE_H
#define KEEL_GRAPH_RUNTIME_LOOP_STATE_H

#include <atomic>
#include <memory>
#include <vector>

#include "keel/core/queue/metrics_queue.h"
#include "keel/graph/runtime/loop.h"
#include "keel/graph/runtime/session_state.h"

namespace keel {

struct Loop::State {
  // Compiles. `fed`: a feeder or a queue must be there.
  State(std::shared_ptr<SessionState> session, const Update& update, const Values& fetches,
        std::shared_ptr<Feeder> feeder, std::shared_ptr<DeviceQueue> queue, bool fed,
        CallSite site);

  // The queue of the next launch: the feeder's current one where there is a feeder. Throws Error
  // where it does not fit the compiled program.
  const std::shared_ptr<DeviceQueue>& current_queue(CallSite site);

  std::shared_ptr<SessionState> session;
  std::shared_ptr<Feeder> feeder;
  std::shared_ptr<DeviceQueue> queue;
  std::shared_ptr<Executable> executable;
  std::unique_ptr<MetricsQueue> metrics;
  std::vector<double> row;             // of the metrics
  LoopReport blank;                    // what every report of this loop begins as
  LoopReport failed;                   // of the last launch that threw
  std::atomic<bool> requested{false};  // request_stop() that no launch has reported yet
  std::atomic<bool> stop{false};       // what the device looks at
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_LOOP_STATE_H
