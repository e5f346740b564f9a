// Readers: the live nodes that read each node of a graph, in one block; ValueReaders: those that
// read each value, likewise. Made once for a graph that does not grow meanwhile; reading: any
// thread.
#ifndef KEEL_GRAPH_PASSES_READERS_H
#define KEEL_GRAPH_PASSES_READERS_H

#include <cstdint>
#include <span>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/passes/value_table.h"

namespace keel {

class Readers {
 public:
  Readers(const Graph& graph, const std::vector<bool>& live);

  // Ids in rising order, each once however many outputs it reads.
  std::span<const uint32_t> of(uint32_t id) const noexcept {
    return {readers_.data() + first_[id], first_[id + 1] - first_[id]};
  }

 private:
  std::vector<uint32_t> first_;  // by node id: where its readers begin; one more at the end
  std::vector<uint32_t> readers_;
};

class ValueReaders {
 public:
  ValueReaders(const Graph& graph, const std::vector<bool>& live);

  // Ids in rising order, each once.
  std::span<const uint32_t> of(const Value& v) const {
    const size_t i = numbers_[v];
    return {readers_.data() + first_[i], first_[i + 1] - first_[i]};
  }
  // Whether it is an output of the graph, or the next value of a state.
  bool fetched(const Value& v) const { return fetched_[numbers_[v]]; }

 private:
  ValueNumbers numbers_;
  std::vector<uint32_t> first_;  // by value: where its readers begin; one more at the end
  std::vector<uint32_t> readers_;
  std::vector<bool> fetched_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_READERS_H
