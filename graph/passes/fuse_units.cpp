#include "keel/graph/passes/fuse_units.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace keel {

std::vector<std::vector<uint32_t>> ordered_units(const Graph& graph, const std::vector<bool>& live,
                                                 const Users& users, const Clusters& clusters) {
  const auto counts = [&](uint32_t id) { return live[id] && !graph.node(id).has(kSource); };
  // A unit goes by its last node.
  const auto unit_of = [&](uint32_t id) {
    const uint32_t cluster = clusters.cluster_of[id];
    return cluster == Clusters::kNone ? id : clusters.members[cluster].back();
  };
  const auto nodes_of = [&](uint32_t last) {
    const uint32_t cluster = clusters.cluster_of[last];
    return cluster == Clusters::kNone ? std::vector{last} : clusters.members[cluster];
  };
  std::vector<size_t> missing(graph.size(), 0);  // by unit: what it reads of units to come
  const auto for_each_user = [&](uint32_t id, const auto& visit) {
    for (const uint32_t user : users.of(graph.node(id))) {
      if (unit_of(user) != unit_of(id)) visit(unit_of(user));
    }
  };
  for (uint32_t id = 0; id < graph.size(); ++id) {
    if (counts(id)) for_each_user(id, [&](uint32_t user) { ++missing[user]; });
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t id = 0; id < graph.size(); ++id) {
    if (counts(id) && unit_of(id) == id && missing[id] == 0) ready.push(id);
  }
  std::vector<std::vector<uint32_t>> ordered;
  while (!ready.empty()) {
    ordered.push_back(nodes_of(ready.top()));
    ready.pop();
    for (const uint32_t id : ordered.back()) {
      for_each_user(id, [&](uint32_t user) {
        if (--missing[user] == 0) ready.push(user);
      });
    }
  }
  return ordered;
}

FuseUnits::FuseUnits(const Graph& graph, std::vector<std::vector<uint32_t>> nodes)
    : graph_(graph),
      nodes_(std::move(nodes)),
      unit_of_(graph.size(), kNone),
      users_(graph, nodes_) {
  for (uint32_t unit = 0; unit < count(); ++unit) {
    for (const uint32_t id : nodes_[unit]) unit_of_[id] = unit;
  }
}

Values FuseUnits::outputs(uint32_t unit) const {
  Values values;
  values.reserve(nodes_[unit].size());
  for (const uint32_t id : nodes_[unit]) {
    const Node& node = graph_.node(id);
    for (uint32_t i = 0; i < node.types().size(); ++i) {
      const Value v = node.output(i);
      if (users_.leaves(v) || !users_.of(v).empty()) values.push_back(v);
    }
  }
  return values;
}

std::string FuseUnits::why_stored(const Value& v) const {
  if (users_.leaves(v)) return "it is a result of the step, too";
  const auto users = users_.of(v);
  return users.size() > 1 ? described(user(users[1], v)) + " reads it, too" : "";
}

const Node& FuseUnits::user(uint32_t unit, const Value& v) const {
  const auto& nodes = nodes_[unit];
  const auto reads = [&](uint32_t id) {
    const auto& inputs = graph_.node(id).inputs();
    return std::find(inputs.begin(), inputs.end(), v) != inputs.end();
  };
  return graph_.node(*std::find_if(nodes.begin(), nodes.end(), reads));
}

}  // namespace keel
