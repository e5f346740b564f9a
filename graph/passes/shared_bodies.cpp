#include "keel/graph/passes/shared_bodies.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace keel {
namespace {

bool same_values(std::span<const Value> a, std::span<const Value> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Value& x, const Value& y) {
    return x.node_id() == y.node_id() && x.output() == y.output();
  });
}

bool same_attributes(const Node& a, const Node& b) {
  if (a.is(OpRole::kInput)) return name_of(a) == name_of(b);  // the rest is its type
  return a.attributes() == b.attributes();
}

bool same_node(const Node& a, const Node& b) {
  return &a.op() == &b.op() && same_values(a.inputs(), b.inputs()) && a.types() == b.types() &&
         a.site().file == b.site().file && a.site().line == b.site().line &&
         same_attributes(a, b) && a.label().attributes == b.label().attributes &&
         a.bodies() == b.bodies();
}

bool same_graph(const Graph& a, const Graph& b) {
  return a.size() == b.size() && same_values(a.inputs(), b.inputs()) &&
         same_values(a.outputs(), b.outputs()) &&
         std::equal(a.nodes().begin(), a.nodes().end(), b.nodes().begin(), same_node);
}

// It hashes what most often differs.
size_t hash_of(const Graph& graph) {
  size_t h = graph.size();
  const auto mix = [&](size_t x) { h = (h ^ x) * 0x9e3779b97f4a7c15ull + (h >> 29); };
  for (const Node& node : graph.nodes()) {
    mix(std::hash<const OpDef*>()(&node.op()));
    mix(static_cast<size_t>(node.site().line));
    mix(node.attributes().hash());
    for (const Value& v : node.inputs()) mix(v.node_id());
    for (const int64_t dim : node.type().shape) mix(static_cast<size_t>(dim));
  }
  return h;
}

}  // namespace

void SharedBodies::share(FusedNode& node) {
  const size_t key = hash_of(*node.body);
  const auto [begin, end] = bodies_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    if (!same_graph(*it->second, *node.body)) continue;
    node.body = it->second;
    return;
  }
  bodies_.emplace(key, node.body);
}

// It asks in a graph of its own, since a node of the pass's graph could not be taken back.
const Support& SharedBodies::ask(FusedNode& node) {
  share(node);
  const auto [it, fresh] = answers_.try_emplace(node.body.get());
  if (!fresh) return it->second;
  Graph trial(node.body->ops());
  Values stand_ins;
  for (const Value& v : node.inputs) {
    stand_ins.push_back(
        trial.input("v" + std::to_string(stand_ins.size()), v.dtype(), v.shape(), node.site));
  }
  return it->second = supports_(trial.add("fused", stand_ins, {}, node.site, {node.body}));
}

}  // namespace keel
