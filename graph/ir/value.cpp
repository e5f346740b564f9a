#include "keel/graph/ir/value.h"

#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"

namespace keel {

void Value::refuse_empty(CallSite site) {
  throw Error({.op = "value",
               .expected = "a value of a graph",
               .got = "an empty Value",
               .fix = "give it one first: an input, a state, or the result of an op",
               .site = site});
}

void Value::refuse_node(CallSite site) const {
  throw Error({.op = "value",
               .expected = "one of the graph's " + std::to_string(graph_->size()) + " nodes",
               .got = "node " + std::to_string(node_),
               .fix = "take values from where they were made",
               .site = site});
}

void Value::refuse_output(CallSite site) const {
  const Node& node = this->node(site);
  throw Error({.op = "value",
               .expected = "one of the " + std::to_string(node.types().size()) + " outputs of " +
                           node.op_name(),
               .got = "output " + std::to_string(output_) + made_at(*this),
               .fix = "count them from 0",
               .site = site});
}

std::string described(const Value& value) {
  if (!value.valid()) return "an empty Value";
  const Node& node = value.node();
  const bool named = node.is(OpRole::kState) || node.is(OpRole::kInput);
  return named ? node.op_name() + " '" + name_of(node) + "'"
               : "the result of " + display_name(node);
}

std::string made_at(const Value& value) {
  const CallSite site = value.node().site();
  return site.known() ? ", made at " + to_string(site) : std::string();
}

}  // namespace keel
