// Value: a 16-byte copyable handle to one output of a node in a Graph. It stays
// valid as long as the Graph does.
// `==` compares handles; `equal`, `less` ... of ops/elementwise.h build
// comparison nodes.
#ifndef KEEL_GRAPH_IR_VALUE_H
#define KEEL_GRAPH_IR_VALUE_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"

namespace keel {

class Graph;
class Indices;
class Node;

class KEEL_API Value {
 public:
  Value() = default;  // none: only valid() may be called
  Value(Graph* graph, uint32_t node, uint32_t output) noexcept
      : graph_(graph), node_(node), output_(output) {}

  bool valid() const noexcept { return graph_ != nullptr; }
  Graph& graph() const noexcept { return *graph_; }
  uint32_t node_id() const noexcept { return node_; }
  uint32_t output() const noexcept { return output_; }
  const Node& node() const;
  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }

  // The part that they name: x[2], x[ids], x[{_, range(1, 4)}]. Made of ops, so what it takes and
  // means is in ops/composed/indexing.h, which defines it.
  Value operator[](const Indices& indices) const;

  friend bool operator==(const Value&, const Value&) = default;
  explicit operator bool() const = delete;

 private:
  Graph* graph_ = nullptr;
  uint32_t node_ = 0;
  uint32_t output_ = 0;
};
static_assert(sizeof(Value) == 16);

using Values = std::vector<Value>;

// Neighbours in a graph are neighbours in a table, which passes fill and read in that order.
struct ValueHash {
  size_t operator()(const Value& v) const noexcept {
    return reinterpret_cast<size_t>(&v.graph()) + (static_cast<size_t>(v.node_id()) << 2) +
           v.output();
  }
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_VALUE_H
