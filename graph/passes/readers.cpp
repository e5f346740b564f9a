#include "keel/graph/passes/readers.h"

#include <numeric>
#include <utility>

namespace keel {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

// Calls with each of `count` items that a live node reads and with the node's id, each pair once.
// `item_of` tells what of a value is the item.
template <class ItemOf, class Visit>
void for_each_read(const Graph& graph, const std::vector<bool>& live, size_t count,
                   const ItemOf& item_of, const Visit& visit) {
  std::vector<uint32_t> last_reader(count, kNobody);
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    for (const Value& v : node.inputs()) {
      const size_t item = item_of(v);
      if (std::exchange(last_reader[item], node.id()) != node.id()) visit(item, node.id());
    }
  }
}

// The readers of `count` items, and where each item's begin.
template <class ItemOf>
void list_readers(const Graph& graph, const std::vector<bool>& live, size_t count,
                  const ItemOf& item_of, std::vector<uint32_t>& first,
                  std::vector<uint32_t>& readers) {
  first.assign(count + 1, 0);
  for_each_read(graph, live, count, item_of, [&](size_t item, uint32_t) { ++first[item + 1]; });
  std::partial_sum(first.begin(), first.end(), first.begin());
  readers.resize(first.back());
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for_each_read(graph, live, count, item_of,
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
