// HostScope: ops that a host processor computes instead of the device's cores, each by its
// reference function, on one thread and with the device's dtypes: what a model needs that the
// device does badly, or what is to be compared with it op by op. A local variable on the thread
// that builds; the graph must outlive it.
//
//   const HostScope on_host(x.graph());
//   const Value order = sort(scores, 0).indices;
//
// Such an op is a task of its own (AI_CPU): it is neither fused nor decomposed. Gradients of what
// was built in the scope run there, too. Views, states, control ops and effects stay where they
// are. An NPU prices it by its AI CPU.
#ifndef KEEL_GRAPH_IR_PLACEMENT_H
#define KEEL_GRAPH_IR_PLACEMENT_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/scopes.h"

namespace keel {

// The scoped attribute behind it, and its only value.
inline constexpr const char* kPlacementAttribute = "placement";
inline constexpr const char* kHostPlacement = "host";

class KEEL_API HostScope {
 public:
  explicit HostScope(Graph& graph, CallSite site = CallSite::here());

 private:
  AttributeScope scope_;
};

// Returns whether a host processor computes the node. Throws Error for another value of the
// attribute.
KEEL_API bool is_on_host(const Node& node);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_PLACEMENT_H
