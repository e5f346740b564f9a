// StepFailures: behind which nodes of a step it may still fail or be given up: by an index that is
// out of range, which only the data shows, in a loop of its own, which may want more turns than it
// was allowed, and where a stop is obeyed, or by waiting in vain for something outside. A state is
// written in place only where neither can happen any more, so that every state is what the last
// complete step left, whatever ends the step. Pure; any thread.
#ifndef KEEL_GRAPH_CONTROL_STEP_FAILURES_H
#define KEEL_GRAPH_CONTROL_STEP_FAILURES_H

#include <cstdint>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

class StepFailures {
 public:
  // `live`: by node id, which nodes become tasks. Tasks run in the order of the nodes.
  StepFailures(const Graph& step, const std::vector<bool>& live);

  // Returns whether the step may fail when the node's kernel has begun to write its results.
  bool possible_from(const Node& node) const;

  // Returns the nodes whose tasks may end the step, in their order.
  const std::vector<uint32_t>& endings() const noexcept { return endings_; }

 private:
  std::vector<uint32_t> endings_;
  bool last_writes_ = false;  // whether the last one may have begun to write then
};

}  // namespace keel

#endif  // KEEL_GRAPH_CONTROL_STEP_FAILURES_H
