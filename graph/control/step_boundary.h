// The step boundary: the node that ends a training step: `step_end` with the attribute
// is_step_boundary. It makes a graph one that can be sunk; the node's name means nothing. Sessions
// add it to the steps they sink; Graph::prepare_loop to a graph that describes its own step.
#ifndef KEEL_GRAPH_CONTROL_STEP_BOUNDARY_H
#define KEEL_GRAPH_CONTROL_STEP_BOUNDARY_H

#include <string>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// Its input, where there is one, is a bool scalar of the step: true ends the launch after this
// step.
struct StepEndAttributes {
  std::string name;  // for people
  bool is_step_boundary = false;
  static void fields(auto&& visit) {
    visit("name", &StepEndAttributes::name);
    visit("is_step_boundary", &StepEndAttributes::is_step_boundary);
  }
};

// Returns the step boundary among the graph's own nodes; null where there is none. Throws Error for
// two.
KEEL_API const Node* find_step_boundary(const Graph& graph);
// Throws Error NO_STEP_BOUNDARY, in the name of `op`, where there is none.
KEEL_API const Node& require_step_boundary(const Graph& graph, const char* op, CallSite site = {});

// One training step: what is computed, and what its own value ends a launch.
struct StepDescription {
  Update update;
  Values fetches;
  Value stop_when = {};
};
// Returns what a prepared graph describes. Throws as require_step_boundary does.
StepDescription described_step(const Graph& graph, const char* op, CallSite site);

// Ends the step that `graph` describes. `stop` may be invalid.
const Node& add_step_boundary(Graph& graph, Value stop, CallSite site);

// Throws Error naming `op` and what came where `stop` is not a bool scalar.
void require_stop_value(const Value& stop, const char* op, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_CONTROL_STEP_BOUNDARY_H
