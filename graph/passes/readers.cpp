#include "keel/graph/passes/readers.h"

#include <algorithm>
#include <numeric>

namespace keel {
namespace {

// Calls with the id of what is read and of who reads it, each pair once.
template <class Visit>
void for_each_read(const Graph& graph, const std::vector<bool>& live, Visit visit) {
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    const auto begin = node.inputs().begin();
    for (auto it = begin; it != node.inputs().end(); ++it) {
      const auto same = [&](const Value& v) { return v.node_id() == it->node_id(); };
      if (std::none_of(begin, it, same)) visit(it->node_id(), node.id());
    }
  }
}

}  // namespace

Readers::Readers(const Graph& graph, const std::vector<bool>& live) : first_(graph.size() + 1, 0) {
  for_each_read(graph, live, [&](uint32_t read, uint32_t) { ++first_[read + 1]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  readers_.resize(first_.back());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  for_each_read(graph, live,
                [&](uint32_t read, uint32_t reader) { readers_[next[read]++] = reader; });
}

ValueReaders::ValueReaders(const Graph& graph, const std::vector<bool>& live) {
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    for (const Value& v : node.inputs()) {
      std::vector<uint32_t>& readers = readers_[v];
      if (readers.empty() || readers.back() != node.id()) readers.push_back(node.id());
    }
  }
  for (const Value& v : graph.outputs()) fetched_.insert(v);
  for (const Assignment& a : graph.updates()) fetched_.insert(a.next);
}

}  // namespace keel
