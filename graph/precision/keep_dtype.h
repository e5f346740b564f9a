// KeepDtypeScope: ops that compute in the graph's own dtypes under every precision mode, mix list
// and customised dtype, alone and fused: Ascend's keep_dtype_scope. So do the gradients of what was
// built in it. A local variable on the thread that builds; the graph must outlive it.
//
//   const KeepDtypeScope exact(x.graph());
//   const Value loss = mean(square(x));
#ifndef KEEL_GRAPH_PRECISION_KEEP_DTYPE_H
#define KEEL_GRAPH_PRECISION_KEEP_DTYPE_H

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/scopes.h"

namespace keel {

// The scoped attribute behind it, and its only value.
inline constexpr const char* kPrecisionAttribute = "precision";
inline constexpr const char* kKeepPrecision = "keep";

class KEEL_API KeepDtypeScope {
 public:
  explicit KeepDtypeScope(Graph& graph, CallSite site = CallSite::here());

 private:
  AttributeScope scope_;
};

// Returns whether the node keeps its dtypes. Throws Error for another value of the attribute.
KEEL_API bool keeps_dtype(const Node& node);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_KEEP_DTYPE_H
