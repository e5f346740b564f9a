// Update: the next values of states, as an optimizer's minimize() returns it.
// All assignments of a step take effect together at its end, as a parallel
// copy. A plain value.
#ifndef KEEL_GRAPH_IR_UPDATE_H
#define KEEL_GRAPH_IR_UPDATE_H

#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct Assignment {
  Value state;
  Value next;
};

// A next value that a layer attached to one of its outputs (running
// statistics): whoever minimizes something that depends on `output` takes it
// along. `observed`, which may be invalid, is what `next` is made of beside the
// state: where `next` is computed from another value of the state, it stays.
struct AttachedUpdate {
  Value output;
  Value state;
  Value next;
  Value observed = {};
};

struct KEEL_API Update {
  std::vector<Assignment> assignments;

  bool empty() const noexcept { return assignments.empty(); }
  // Both together; two next values of one state are an Error at compile time.
  // But keel/updates, which each apply_if assigns, counts a step once in which
  // at least one of the two is applied; this adds a node to the graph. Throws
  // Error where that is frozen.
  Update& operator+=(const Update& other);
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_UPDATE_H
