// OwnScope: how a part of nn names and computes the nodes that it adds to a graph. Internal to
// ops/nn. One thread.
#ifndef KEEL_OPS_NN_OWN_SCOPE_H
#define KEEL_OPS_NN_OWN_SCOPE_H

#include "keel/graph/ir/scopes.h"
#include "keel/graph/precision/keep_dtype.h"

namespace keel {

// Nodes that are built meanwhile lie in the scope `name`, and compute in their own dtypes.
class OwnScope {
 public:
  OwnScope(Graph& graph, const char* name, CallSite site)
      : label_(graph, with_inner_scope(graph.label(), name)), exact_(graph, site) {}

 private:
  LabelScope label_;
  KeepDtypeScope exact_;
};

}  // namespace keel

#endif  // KEEL_OPS_NN_OWN_SCOPE_H
