// Node: one op applied to values. Lives in its Graph's arena; immutable once
// added, but for its label, which says nothing of what it computes. Ids grow in
// topological order: inputs of a node always have smaller ids.
#ifndef KEEL_GRAPH_IR_NODE_H
#define KEEL_GRAPH_IR_NODE_H

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/op_def.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Inputs or types of nodes, in the arena of their graph; equal where their elements are.
template <class T>
class NodeList : public std::span<const T> {
 public:
  NodeList() = default;
  NodeList(const T* data, size_t size) noexcept : std::span<const T>(data, size) {}

  // Throws Error where there is no such element.
  const T& at(size_t i) const {
    if (i >= this->size()) throw Error("a node has no input or output " + std::to_string(i));
    return (*this)[i];
  }
  std::vector<T> to_vector() const { return {this->begin(), this->end()}; }

  friend bool operator==(std::span<const T> a, std::span<const T> b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
};

class Node {
 public:
  uint32_t id() const noexcept { return id_; }
  const OpDef& op() const noexcept { return *op_; }
  const std::string& op_name() const noexcept { return op_->name; }
  const NodeList<Value>& inputs() const noexcept { return inputs_; }
  const Value& input(size_t i) const { return inputs_.at(i); }
  const NodeList<Type>& types() const noexcept { return types_; }
  const Type& type(size_t output = 0) const { return types_.at(output); }
  // Returns whether it has its place in the chain of its graph's effects, as effects have and
  // control ops with effects in their bodies. Such a node takes the token of the effect before it
  // as its last input, and its last output is the token for the next one.
  bool ordered() const noexcept {
    return !types_.empty() && types_.back().dtype == DType::kToken && !is(OpRole::kToken);
  }
  // Return what its op was given and gives: its inputs and types without the tokens.
  NodeList<Value> data_inputs() const noexcept {
    return {inputs_.data(), inputs_.size() - (ordered() ? 1 : 0)};
  }
  NodeList<Type> data_types() const noexcept {
    return {types_.data(), types_.size() - (ordered() ? 1 : 0)};
  }
  const Attributes& attributes() const noexcept { return attributes_; }
  template <class S>
  const S& as() const {
    return attributes_.as<S>();
  }
  // Sub-graphs of control ops and fused nodes; their inputs pair with this
  // node's inputs.
  const std::vector<std::shared_ptr<Graph>>& bodies() const noexcept { return bodies_; }
  CallSite site() const noexcept { return site_; }
  // Returns its names and scoped attributes (ir/label.h).
  const NodeLabel& label() const noexcept { return label_ == nullptr ? no_label() : *label_; }
  const NodeLabelPtr& shared_label() const noexcept { return label_; }
  Value output(size_t i = 0) const { return Value(graph_, id_, static_cast<uint32_t>(i)); }
  bool has(uint32_t trait) const noexcept { return op_->has(trait); }
  bool is(OpRole role) const noexcept { return op_->role == role; }

 private:
  friend class Graph;
  friend class Verifier;
  friend struct GraphTestAccess;
  static const NodeLabel& no_label() noexcept {
    static const NodeLabel kNone;
    return kNone;
  }
  Graph* graph_ = nullptr;
  uint32_t id_ = 0;
  const OpDef* op_ = nullptr;
  NodeList<Value> inputs_;
  Attributes attributes_;
  NodeList<Type> types_;
  std::vector<std::shared_ptr<Graph>> bodies_;
  CallSite site_;
  NodeLabelPtr label_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_NODE_H
