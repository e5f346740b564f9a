#include "keel/graph/ir/update_check.h"

#include <unordered_set>

#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"

namespace keel {
namespace {

void require_state(const Value& state, const std::string& op, CallSite site) {
  if (state.node().is(OpRole::kState)) return;
  throw Error({.op = op,
               .expected = "a state",
               .got = described(state) + made_at(state),
               .fix = "name a state on the left of each assignment",
               .site = site});
}

}  // namespace

void require_assignment(const Assignment& assignment, const std::string& op, CallSite site) {
  const auto& [state, next] = assignment;
  require_state(state, op, site);
  const Type& expected = state.type();
  const Type& got = next.type();
  if (got.dtype == expected.dtype && matches(got.shape, expected.shape)) return;
  throw Error({.op = op,
               .argument = name_of(state.node()),
               .expected = to_string(expected),
               .got = to_string(got) + made_at(next),
               .fix = "give a next value of the state's type",
               .site = site});
}

void require_step(const std::vector<Assignment>& assignments, const std::string& op,
                  CallSite site) {
  std::unordered_set<Value, ValueHash> assigned;
  for (const Assignment& a : assignments) {
    require_state(a.state, op, site);
    const std::string& name = name_of(a.state.node());
    if (name == kStepState) {
      throw Error({.op = op,
                   .argument = name,
                   .message = "the number of steps is assigned" + made_at(a.next),
                   .fix = "leave it out: each step with an update counts itself; Session::write "
                          "sets it",
                   .site = site});
    }
    if (!assigned.insert(a.state).second) {
      throw Error({.op = op,
                   .argument = name,
                   .message = "the state is assigned twice in one step" + made_at(a.next),
                   .fix = "combine the two next values into one; running statistics that two "
                          "losses share: apply(states, gradients(loss, states)) for each, and one "
                          "attached_updates of the losses' sum",
                   .site = site});
    }
  }
}

}  // namespace keel
