// The names of what a fused node was made of, one by one, for tables and for whoever looks a node
// up by its name. A pure function; any thread.
#ifndef KEEL_GRAPH_IR_MEMBER_NAMES_H
#define KEEL_GRAPH_IR_MEMBER_NAMES_H

#include <string>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

class Node;

// Returns the full names of the nodes in a fused node's body that compute something, in their
// order; of any other node its own full name.
KEEL_API std::vector<std::string> member_names(const Node& node);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_MEMBER_NAMES_H
