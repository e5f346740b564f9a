// TransferAttributes: what an op has that copies a value between the memory of the device and that
// of its host processor. A compiler's pass inserts such nodes around what the placement policy
// `mixed` puts on the host (graph/ir/placement.h). Plain values and pure functions; any thread.
#ifndef KEEL_GRAPH_IR_TRANSFER_H
#define KEEL_GRAPH_IR_TRANSFER_H

#include <string>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"

namespace keel {

class Node;

inline constexpr const char* kToHost = "host";
inline constexpr const char* kToDevice = "device";

struct TransferAttributes {
  std::string to = kToHost;  // or kToDevice
  static void fields(auto&& visit) { visit("to", &TransferAttributes::to); }
};

// Returns what a node has that is such a copy; null for every other node.
KEEL_API const TransferAttributes* transfer_of(const Node& node);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_TRANSFER_H
