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
//
// The policy of a session says what becomes of an op that the device lacks: an error under `full`,
// an op of the host under `mixed`, which the adapter of TensorFlow calls mix_compile_mode. Such an
// op works in the memory of the host processor, to which its operands are copied
// (graph/ir/transfer.h), and a `while_loop` or `cond` with such an op in a body moves there whole.
#ifndef KEEL_GRAPH_IR_PLACEMENT_H
#define KEEL_GRAPH_IR_PLACEMENT_H

#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/scopes.h"

namespace keel {

// The scoped attribute behind it, and its only value.
inline constexpr const char* kPlacementAttribute = "placement";
inline constexpr const char* kHostPlacement = "host";
// The scoped attribute of nodes that something else than a HostScope placed on the host: what did,
// in words.
inline constexpr const char* kPlacementRuleAttribute = "placement_rule";

class KEEL_API HostScope {
 public:
  explicit HostScope(Graph& graph, CallSite site = CallSite::here());

 private:
  AttributeScope scope_;
};

// Returns whether a host processor computes the node. Throws Error for another value of the
// attribute.
KEEL_API bool is_on_host(const Node& node);
// Returns the node's label with a placement on the host and what placed it there, for passes.
NodeLabelPtr placed_on_host(const Node& node, std::string_view rule);

enum class PlacementPolicy {
  kFull,   // what the device lacks is an error that lists all of it
  kMixed,  // what the device lacks, once it is decomposed, runs on the host
};
// "full", "mixed".
KEEL_API const char* name_of(PlacementPolicy policy) noexcept;
KEEL_API std::vector<std::string> placement_policy_names();
// REQUIRES one of those names.
KEEL_API PlacementPolicy placement_policy(std::string_view name) noexcept;

// Returns the rule of nodes that the policy `mixed` places on the host: "policy mixed because the
// NPU does not compute in f64".
KEEL_API std::string mixed_rule(std::string_view reason);
// Returns what placed a node of the host there: "HostScope", or its rule. REQUIRES is_on_host.
KEEL_API std::string placement_rule(const Node& node);
// Returns whether the policy `mixed` placed the node on the host.
KEEL_API bool is_placed_by_policy(const Node& node);
// Returns a node of the bodies of `node`, at any depth, that the policy `mixed` placed on the host;
// null where there is none.
KEEL_API const Node* placed_by_policy_in(const Node& node);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_PLACEMENT_H
