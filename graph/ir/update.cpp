#include "keel/graph/ir/update.h"

#include <algorithm>
#include <iterator>

#include "keel/graph/ir/emit.h"

namespace keel {
namespace {

bool is_state(const Value& value) { return value.valid() && value.node().is(OpRole::kState); }

bool counts_updates(const Assignment& a) {
  return is_state(a.state) && name_of(a.state.node()) == kUpdatesState;
}

// Tells an update of weights from sums of micro-batches and running statistics, which go on where
// no update is applied.
bool trains(const std::vector<Assignment>& assignments) {
  return std::any_of(assignments.begin(), assignments.end(), [](const Assignment& a) {
    return is_state(a.state) && is_float(a.state.dtype()) &&
           a.state.node().as<StateAttributes>().trainable;
  });
}

void append_without_count(const std::vector<Assignment>& more, std::vector<Assignment>& to) {
  std::copy_if(more.begin(), more.end(), std::back_inserter(to),
               [](const Assignment& a) { return !counts_updates(a); });
}

}  // namespace

Update& Update::operator+=(const Update& other) {
  const std::vector<Assignment> more = other.assignments;
  const auto own_count = std::find_if(assignments.begin(), assignments.end(), counts_updates);
  const auto more_count = std::find_if(more.begin(), more.end(), counts_updates);
  const bool own_always = own_count == assignments.end() && trains(assignments);
  const bool more_always = more_count == more.end() && trains(more);
  if (own_always || more_always) {
    // A step that applies one of the two always needs no count of its own: keel/step says it.
    if (own_count != assignments.end()) assignments.erase(own_count);
    append_without_count(more, assignments);
    return *this;
  }
  if (own_count == assignments.end() || more_count == more.end()) {
    assignments.insert(assignments.end(), more.begin(), more.end());
    return *this;
  }
  // Each is the count before the step, or one more.
  const CallSite site = more_count->next.node().site();
  own_count->next =
      emit("maximum", {Operand(own_count->next, site), Operand(more_count->next, site)}, site);
  append_without_count(more, assignments);
  return *this;
}

}  // namespace keel
