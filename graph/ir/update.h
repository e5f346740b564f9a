// Update: the next values of states, as an optimizer's minimize() returns it.
// All assignments of a step take effect together at its end, as a parallel
// copy. A plain value.
#ifndef KEEL_GRAPH_IR_UPDATE_H
#define KEEL_GRAPH_IR_UPDATE_H

#include <vector>

#include "keel/graph/ir/value.h"

namespace keel {

struct Assignment {
  Value state;
  Value next;
};

// A next value that a layer attached to one of its outputs (running
// statistics): whoever minimizes something that depends on `output` takes it
// along.
struct AttachedUpdate {
  Value output;
  Value state;
  Value next;
};

struct Update {
  std::vector<Assignment> assignments;

  bool empty() const noexcept { return assignments.empty(); }
  // Both together; a state that both assign is an Error at compile time.
  Update& operator+=(const Update& other) {
    assignments.insert(assignments.end(), other.assignments.begin(), other.assignments.end());
    return *this;
  }
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_UPDATE_H
