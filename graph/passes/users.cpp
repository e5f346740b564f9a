#include "keel/graph/passes/users.h"

#include <numeric>
#include <utility>

namespace keel {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

// Calls `each` with every pair of a user and a node that is computed with it.
template <class Each>
void for_each_node(const Graph& graph, const std::vector<bool>& live, const Each& each) {
  for (const Node& node : graph.nodes()) {
    if (live[node.id()]) each(node.id(), node);
  }
}
template <class Each>
void for_each_node(const Graph& graph, const std::vector<std::vector<uint32_t>>& groups,
                   const Each& each) {
  for (uint32_t group = 0; group < groups.size(); ++group) {
    for (const uint32_t id : groups[group]) each(group, graph.node(id));
  }
}

}  // namespace

template <class Grouping>
void Users::list(const Graph& graph, const Grouping& grouping) {
  std::vector<uint32_t> maker(graph.size(), kNobody);
  for_each_node(graph, grouping, [&](uint32_t user, const Node& node) { maker[node.id()] = user; });
  const auto for_each_use = [&](const auto& visit) {
    std::vector<uint32_t> last_user(numbers_.count(), kNobody);
    for_each_node(graph, grouping, [&](uint32_t user, const Node& node) {
      for (const Value& v : node.inputs()) {
        const size_t value = numbers_[v];
        if (maker[v.node_id()] == user) continue;
        if (std::exchange(last_user[value], user) != user) visit(value, user);
      }
    });
  };
  first_.assign(numbers_.count() + 1, 0);
  for_each_use([&](size_t value, uint32_t) { ++first_[value + 1]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  users_.resize(first_.back());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  for_each_use([&](size_t value, uint32_t user) { users_[next[value]++] = user; });
  leaves_.assign(numbers_.count(), false);
  for (const Value& v : graph.outputs()) leaves_[numbers_[v]] = true;
  for (const Assignment& a : graph.updates()) leaves_[numbers_[a.next]] = true;
}

Users::Users(const Graph& graph, const std::vector<bool>& live) : numbers_(graph) {
  list(graph, live);
}

Users::Users(const Graph& graph, const std::vector<std::vector<uint32_t>>& groups)
    : numbers_(graph) {
  list(graph, groups);
}

bool Users::leaves(const Node& node) const {
  for (uint32_t i = 0; i < node.types().size(); ++i) {
    if (leaves(node.output(i))) return true;
  }
  return false;
}

}  // namespace keel
