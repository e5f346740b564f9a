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
  if (a.op_name() == "input") return name_of(a) == name_of(b);  // the rest is its type
  return a.attributes() == b.attributes();
}

bool same_node(const Node& a, const Node& b) {
  return &a.op() == &b.op() && same_values(a.inputs(), b.inputs()) && a.types() == b.types() &&
         a.site().file == b.site().file && a.site().line == b.site().line &&
         same_attributes(a, b) && a.bodies() == b.bodies();
}

bool same_graph(const Graph& a, const Graph& b) {
  return a.size() == b.size() && same_values(a.inputs(), b.inputs()) &&
         same_values(a.outputs(), b.outputs()) &&
         std::equal(a.nodes().begin(), a.nodes().end(), b.nodes().begin(), same_node);
}

// Of what most often differs.
size_t hash_of(const Graph& graph) {
  size_t h = graph.size();
  const auto mix = [&](size_t x) { h = (h ^ x) * 0x9e3779b97f4a7c15ull + (h >> 29); };
  for (const Node& node : graph.nodes()) {
    mix(std::hash<const OpDef*>()(&node.op()));
    mix(static_cast<size_t>(node.site().line));
    for (const Value& v : node.inputs()) mix(v.node_id());
    for (const int64_t dim : node.type().shape) mix(static_cast<size_t>(dim));
  }
  return h;
}

}  // namespace

std::shared_ptr<Graph> SharedBodies::of(std::shared_ptr<Graph> body) {
  const size_t key = hash_of(*body);
  const auto [begin, end] = bodies_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    if (same_graph(*it->second, *body)) return it->second;
  }
  return bodies_.emplace(key, std::move(body))->second;
}

// In a graph of its own: a node of the pass's graph could not be taken back.
const Support& BackendAnswers::to(const Values& inputs,
                                  const std::vector<std::shared_ptr<Graph>>& bodies,
                                  CallSite site) {
  const auto [it, fresh] = answers_.try_emplace(bodies);
  if (!fresh) return it->second;
  Graph trial(from_.ops());
  Values stand_ins;
  for (const Value& v : inputs) {
    stand_ins.push_back(
        trial.input("v" + std::to_string(stand_ins.size()), v.dtype(), v.shape(), site));
  }
  return it->second = supports_(trial.add(op_, stand_ins, {}, site, bodies));
}

}  // namespace keel
