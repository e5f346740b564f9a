// Readers: the live nodes that read each node of a graph, in one block; ValueReaders: those that
// read each value. Made once for a graph that does not grow meanwhile; reading: any thread.
#ifndef KEEL_GRAPH_PASSES_READERS_H
#define KEEL_GRAPH_PASSES_READERS_H

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "keel/graph/ir/graph.h"

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
    const auto it = readers_.find(v);
    return it == readers_.end() ? std::span<const uint32_t>() : it->second;
  }
  // Whether it is an output of the graph, or the next value of a state.
  bool fetched(const Value& v) const { return fetched_.contains(v); }

 private:
  std::unordered_map<Value, std::vector<uint32_t>, ValueHash> readers_;
  std::unordered_set<Value, ValueHash> fetched_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_READERS_H
