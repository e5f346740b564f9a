// ValueTable: one T for each value of a graph, side by side in the order of the nodes; what passes
// keep of values while they walk a graph. Made for a graph that does not grow meanwhile and
// outlives it. One thread may write, or any read.
#ifndef KEEL_GRAPH_IR_VALUE_TABLE_H
#define KEEL_GRAPH_IR_VALUE_TABLE_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"

namespace keel {

// The values' numbers, from 0 up.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Graph& graph) : graph_(&graph) {
    first_.reserve(graph.size());
    for (const Node& node : graph.nodes()) {
      first_.push_back(count_);
      count_ += static_cast<uint32_t>(node.types().size());
    }
  }

  size_t count() const noexcept { return count_; }
  // Throws Error for values of other graphs.
  size_t operator[](const Value& v) const {
    if (&v.graph() != graph_ || v.node_id() >= first_.size()) {
      throw Error("a pass asks for a value that is not of the graph it walks");
    }
    return first_[v.node_id()] + v.output();
  }

 private:
  const Graph* graph_;
  std::vector<uint32_t> first_;  // by node id: the number of its first output
  uint32_t count_ = 0;
};

template <class T>
class ValueTable {
 public:
  explicit ValueTable(const Graph& graph, const T& initial = T())
      : numbers_(graph), of_(numbers_.count(), initial) {}

  // Throws Error for values of other graphs.
  T& operator[](const Value& v) { return of_[numbers_[v]]; }
  const T& operator[](const Value& v) const { return of_[numbers_[v]]; }

 private:
  ValueNumbers numbers_;
  std::vector<T> of_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_VALUE_TABLE_H
