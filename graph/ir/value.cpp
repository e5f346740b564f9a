#include "keel/graph/ir/value.h"

#include "keel/graph/ir/graph.h"

namespace keel {

const Node& Value::node() const { return graph_->node(node_); }

const Type& Value::type() const { return node().type(output_); }

}  // namespace keel
