// Rewriter: copies nodes of one graph into another, keeping a map from old values
// to new ones; what passes are made of.
#ifndef KEEL_GRAPH_IR_REWRITER_H
#define KEEL_GRAPH_IR_REWRITER_H

#include <span>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/value_table.h"

namespace keel {

class Rewriter {
 public:
  // REQUIRES that both outlive the rewriter, and that `from` does not grow meanwhile.
  Rewriter(const Graph& from, Graph& to);

  bool mapped(Value old) const { return fresh_[old].value.valid(); }
  // Returns the new value for an old one. Throws Error where there is none.
  Value operator()(Value old) const;
  Values operator()(std::span<const Value> old) const;
  void map(Value old, Value fresh) {
    fresh_[old] = {fresh, fresh.valid() && fresh.type() == old.type()};
  }
  // Copies the node with its inputs mapped, and maps its outputs. Bodies are shared. Types are
  // inferred anew where those of the inputs have changed.
  const Node& clone(const Node& node);
  // These do the same with other bodies, with other attributes, and with inputs of the new graph.
  // Every copy has the node's line and label. Copies of effects stand in the order in which they
  // were cloned.
  const Node& clone(const Node& node, std::vector<std::shared_ptr<Graph>> bodies);
  const Node& clone(const Node& node, Attributes attributes,
                    std::vector<std::shared_ptr<Graph>> bodies);
  const Node& clone(const Node& node, Values inputs, Attributes attributes,
                    std::vector<std::shared_ptr<Graph>> bodies);
  // Copies the inputs, in the order of the graph's signature.
  void clone_inputs();
  // Copies outputs and updates through the map, and captures' order of inputs
  // as it is.
  void finish();

 private:
  struct Fresh {
    Value value;  // invalid: not mapped
    bool same_type = false;
  };

  const Fresh& fresh(const Value& old) const;
  // Adds a copy of the node with its inputs mapped.
  const Node& add_copy(const Node& node);
  // Gives the copy the node's label, and maps the node's outputs to it.
  const Node& mapped_to(const Node& node, const Node& copy);

  const Graph& from_;
  Graph& to_;
  ValueTable<Fresh> fresh_;
  Values inputs_;  // of the copy that is being made
};

// Returns the types of a node's inputs that its bodies' inputs pair with: of those of a cond, what
// stands behind the predicate. `inputs` are the copy's.
std::vector<Type> body_input_types(const Node& node, const Values& inputs);

// Marks by node id: which nodes the graph's outputs, updates and effects need.
std::vector<bool> live_nodes(const Graph& graph);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_REWRITER_H
