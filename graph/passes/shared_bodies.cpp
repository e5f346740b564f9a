#include "keel/graph/passes/shared_bodies.h"

#include <string>

namespace keel {

FusedNode SharedBodies::fuse(const Graph& from, const FusedParts& parts) {
  const BodyPlan plan(from, parts);
  const size_t key = plan.hash();
  const auto [begin, end] = bodies_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    if (plan.matches(*it->second)) return plan.node_with(it->second);
  }
  return plan.node_with(bodies_.emplace(key, plan.make())->second);
}

// It asks in a graph of its own, since a node of the pass's graph could not be taken back.
const Support& SharedBodies::ask(const FusedNode& node) {
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
