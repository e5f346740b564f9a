#include "keel/graph/passes/readers.h"

#include <algorithm>
#include <numeric>

namespace keel {
namespace {

// Calls with each item that a live node reads and with the node's id, each pair once. `item_of`
// tells what of a value is the item.
template <class ItemOf, class Visit>
void for_each_read(const Graph& graph, const std::vector<bool>& live, const ItemOf& item_of,
                   const Visit& visit) {
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    const auto begin = node.inputs().begin();
    for (auto it = begin; it != node.inputs().end(); ++it) {
      const auto item = item_of(*it);
      const auto same = [&](const Value& v) { return item_of(v) == item; };
      if (std::none_of(begin, it, same)) visit(item, node.id());
    }
  }
}

// The readers of `count` items, and where each item's begin.
template <class ItemOf>
void list_readers(const Graph& graph, const std::vector<bool>& live, size_t count,
                  const ItemOf& item_of, std::vector<uint32_t>& first,
                  std::vector<uint32_t>& readers) {
  first.assign(count + 1, 0);
  for_each_read(graph, live, item_of, [&](size_t item, uint32_t) { ++first[item + 1]; });
  std::partial_sum(first.begin(), first.end(), first.begin());
  readers.resize(first.back());
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for_each_read(graph, live, item_of,
                [&](size_t item, uint32_t reader) { readers[next[item]++] = reader; });
}

}  // namespace

Readers::Readers(const Graph& graph, const std::vector<bool>& live) {
  const auto node = [](const Value& v) -> size_t { return v.node_id(); };
  list_readers(graph, live, graph.size(), node, first_, readers_);
}

ValueReaders::ValueReaders(const Graph& graph, const std::vector<bool>& live)
    : numbers_(graph), fetched_(numbers_.count(), false) {
  const auto number = [&](const Value& v) { return numbers_[v]; };
  list_readers(graph, live, numbers_.count(), number, first_, readers_);
  for (const Value& v : graph.outputs()) fetched_[numbers_[v]] = true;
  for (const Assignment& a : graph.updates()) fetched_[numbers_[a.next]] = true;
}

}  // namespace keel
