#include "keel/graph/ir/skipped_steps.h"

namespace keel {

bool counts_skipped_steps(std::string_view state) { return state.starts_with(kSkippedStates); }

bool counts_skipped_steps(const Value& state) {
  return state.valid() && state.node().is(OpRole::kState) &&
         counts_skipped_steps(name_of(state.node()));
}

Value count_skipped_steps(Graph& graph, const std::string& of, CallSite site) {
  const std::string first = std::string(kSkippedStates) + of;
  StateAttributes attributes;
  attributes.name = first;
  for (int i = 2; graph.find_state(attributes.name).valid(); ++i)
    attributes.name = first + "_" + std::to_string(i);
  attributes.type = {Type{i64, Shape{}}};
  attributes.trainable = false;
  return graph.add("state", {}, Attributes::of(std::move(attributes)), site).output();
}

}  // namespace keel
