// Value: a 16-byte copyable handle to one output of a node in a Graph. It stays
// valid as long as the Graph does.
// `==` compares handles; `equal`, `less` ... of ops/elementwise.h build
// comparison nodes. ValueAt: a Value and the user's line.
#ifndef KEEL_GRAPH_IR_VALUE_H
#define KEEL_GRAPH_IR_VALUE_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/base/shape.h"

namespace keel {

class Graph;
class Indices;
class Node;

class KEEL_API Value {
 public:
  Value() = default;  // none
  Value(Graph* graph, uint32_t node, uint32_t output) noexcept
      : graph_(graph), node_(node), output_(output) {}

  bool valid() const noexcept { return graph_ != nullptr; }
  uint32_t node_id() const noexcept { return node_; }
  uint32_t output() const noexcept { return output_; }
  // These throw Error, naming `site`, for an empty Value, and for a node or an output that the
  // graph does not have.
  Graph& graph(CallSite site = CallSite::here()) const {
    if (graph_ == nullptr) refuse_empty(site);
    return *graph_;
  }
  // Defined in ir/graph.h, which files that call them include.
  inline const Node& node(CallSite site = CallSite::here()) const;
  inline const Type& type(CallSite site = CallSite::here()) const;
  inline DType dtype(CallSite site = CallSite::here()) const;
  inline const Shape& shape(CallSite site = CallSite::here()) const;

  // The part that they name: x[2], x[ids], x[{_, range(1, 4)}]. Made of ops, so what it takes and
  // means is in ops/composed/indexing.h, which defines it.
  Value operator[](const Indices& indices) const;

  friend bool operator==(const Value&, const Value&) = default;
  explicit operator bool() const = delete;

 private:
  friend class Graph;
  friend struct ValueHash;
  [[noreturn]] static void refuse_empty(CallSite site);
  [[noreturn]] void refuse_node(CallSite site) const;
  [[noreturn]] void refuse_output(CallSite site) const;
  Graph* graph_ = nullptr;
  uint32_t node_ = 0;
  uint32_t output_ = 0;
};
static_assert(sizeof(Value) == 16);

using Values = std::vector<Value>;

// Neighbours in a graph are neighbours in a table, which passes fill and read in that order.
struct ValueHash {
  size_t operator()(const Value& v) const noexcept {
    return reinterpret_cast<size_t>(v.graph_) + (static_cast<size_t>(v.node_id()) << 2) +
           v.output();
  }
};

// Operators take this where an error has to name the user's line: they can have no argument of
// their own for it.
struct ValueAt {
  ValueAt(Value v, CallSite line = CallSite::here()) : value(v), site(line) {}
  Value value;
  CallSite site;
};

// Describes the value for messages: "an empty Value", "state 'w'", "the result of matmul".
KEEL_API std::string described(const Value& value);
// ", made at model.cpp:12", or nothing where the line is not known.
KEEL_API std::string made_at(const Value& value);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_VALUE_H
