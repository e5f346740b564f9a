#include "keel/graph/control/step_boundary.h"

#include <utility>

#include "keel/core/base/error.h"

namespace keel {

const Node* find_step_boundary(const Graph& graph) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes()) {
    if (!node.is(OpRole::kStepEnd) || !node.as<StepEndAttributes>().is_step_boundary) continue;
    if (found != nullptr) {
      throw Error({.op = "step_end",
                   .argument = "is_step_boundary",
                   .expected = "one step boundary in a graph",
                   .got = "another one at " + to_string(found->site()),
                   .site = node.site()});
    }
    found = &node;
  }
  return found;
}

const Node& require_step_boundary(const Graph& graph, const char* op, CallSite site) {
  if (const Node* boundary = find_step_boundary(graph)) return *boundary;
  throw Error({.op = op,
               .message = "NO_STEP_BOUNDARY: no node of the graph says where a step ends",
               .fix = "call prepare_loop() on the graph before it is frozen, or mark its step_end "
                      "node with is_step_boundary=true",
               .site = site});
}

StepDescription described_step(const Graph& graph, const char* op, CallSite site) {
  const Node& boundary = require_step_boundary(graph, op, site);
  return {{graph.updates()},
          graph.outputs(),
          boundary.data_inputs().empty() ? Value() : boundary.input(0)};
}

const Node& add_step_boundary(Graph& graph, Value stop, CallSite site) {
  const StepEndAttributes attributes{.name = "", .is_step_boundary = true};
  return graph.add("step_end", stop.valid() ? Values{stop} : Values{}, Attributes::of(attributes),
                   site);
}

void require_stop_value(const Value& stop, const char* op, CallSite site) {
  const Type flag{boolean, Shape{}};
  if (!stop.valid() || stop.type() == flag) return;
  const Node& node = stop.node();
  throw Error({.op = op,
               .argument = "stop_when",
               .expected = to_string(flag),
               .got = to_string(stop.type()) + ", the result of " + node.op_name() + " at " +
                      to_string(node.site()),
               .fix = "compare something that is a scalar, e.g. less(loss, 0.1f)",
               .site = site});
}

}  // namespace keel
