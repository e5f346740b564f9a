#include "keel/graph/ir/update.h"

#include <algorithm>

#include "keel/graph/ir/emit.h"

namespace keel {
namespace {

bool counts_updates(const Value& state) {
  return state.valid() && state.node().is(OpRole::kState) && name_of(state.node()) == kUpdatesState;
}

}  // namespace

Update& Update::operator+=(const Update& other) {
  const std::vector<Assignment> more = other.assignments;
  for (const Assignment& a : more) {
    const auto counter =
        counts_updates(a.state)
            ? std::find_if(assignments.begin(), assignments.end(),
                           [&](const Assignment& own) { return own.state == a.state; })
            : assignments.end();
    if (counter == assignments.end()) {
      assignments.push_back(a);
      continue;
    }
    // Each is the count before the step, or one more.
    const CallSite site = a.next.node().site();
    counter->next = emit("maximum", {Operand(counter->next, site), Operand(a.next, site)}, site);
  }
  return *this;
}

}  // namespace keel
