// Readers: the live nodes that read each node of a graph, in one block. Made once for a graph that
// does not grow meanwhile; reading: any thread.
#ifndef KEEL_GRAPH_PASSES_READERS_H
#define KEEL_GRAPH_PASSES_READERS_H

#include <cstdint>
#include <span>
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

}  // namespace keel

#endif  // KEEL_GRAPH_PASSES_READERS_H
