#include "keel/graph/ir/update.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

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

struct AssignmentHash {
  size_t operator()(const Assignment& a) const {
    return ValueHash()(a.state) * 31 + ValueHash()(a.next);
  }
};
struct SameAssignment {
  bool operator()(const Assignment& a, const Assignment& b) const {
    return a.state == b.state && a.next == b.next;
  }
};

// Appends those that are not there yet: two losses may take along the running statistics of one
// layer.
void append(const std::vector<Assignment>& more, std::vector<Assignment>& to) {
  std::unordered_set<Assignment, AssignmentHash, SameAssignment> missing(more.begin(), more.end());
  for (const Assignment& a : to) missing.erase(a);
  // In their order.
  std::copy_if(more.begin(), more.end(), std::back_inserter(to),
               [&](const Assignment& a) { return missing.erase(a) != 0; });
}

void append_without_count(std::vector<Assignment> more, std::vector<Assignment>& to) {
  more.erase(std::remove_if(more.begin(), more.end(), counts_updates), more.end());
  append(more, to);
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
    append(more, assignments);
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
