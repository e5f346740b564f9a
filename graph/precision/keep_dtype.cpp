#include "keel/graph/precision/keep_dtype.h"

#include "keel/graph/ir/label.h"

namespace keel {

KeepDtypeScope::KeepDtypeScope(Graph& graph, CallSite site)
    : scope_(graph, kPrecisionAttribute, kKeepPrecision, site) {}

bool keeps_dtype(const Node& node) { return is_marked(node, kPrecisionAttribute, kKeepPrecision); }

}  // namespace keel
