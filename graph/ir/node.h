// Node: one op applied to values. Lives in its Graph's arena; immutable once
// added. Ids grow in topological order: inputs of a node always have smaller
// ids.
#ifndef KEEL_GRAPH_IR_NODE_H
#define KEEL_GRAPH_IR_NODE_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/op_def.h"
#include "keel/graph/ir/value.h"

namespace keel {

class Node {
 public:
  uint32_t id() const noexcept { return id_; }
  const OpDef& op() const noexcept { return *op_; }
  const std::string& op_name() const noexcept { return op_->name; }
  const Values& inputs() const noexcept { return inputs_; }
  const Value& input(size_t i) const { return inputs_.at(i); }
  const std::vector<Type>& types() const noexcept { return types_; }
  const Type& type(size_t output = 0) const { return types_.at(output); }
  const Attributes& attributes() const noexcept { return attributes_; }
  template <class S>
  const S& as() const {
    return attributes_.as<S>();
  }
  // Sub-graphs of control ops and fused nodes; their inputs pair with this
  // node's inputs.
  const std::vector<std::shared_ptr<Graph>>& bodies() const noexcept { return bodies_; }
  CallSite site() const noexcept { return site_; }
  Value output(size_t i = 0) const { return Value(graph_, id_, static_cast<uint32_t>(i)); }
  bool has(uint32_t trait) const noexcept { return op_->has(trait); }

 private:
  friend class Graph;
  friend class Verifier;
  friend struct GraphTestAccess;
  Graph* graph_ = nullptr;
  uint32_t id_ = 0;
  const OpDef* op_ = nullptr;
  Values inputs_;
  Attributes attributes_;
  std::vector<Type> types_;
  std::vector<std::shared_ptr<Graph>> bodies_;
  CallSite site_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_NODE_H
