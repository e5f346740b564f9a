#include "keel/graph/passes/shared_bodies.h"

#include <string>
#include <utility>

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

const Support& SharedBodies::ask(const FusedNode& node) {
  Trial& trial = trial_of(node);
  if (!trial.answer) trial.answer = supports_(*trial.node);
  return *trial.answer;
}

// The node is in a graph of its own, since one of the pass's graph could not be taken back.
SharedBodies::Trial& SharedBodies::trial_of(const FusedNode& node) {
  Trial& trial = trials_[node.body.get()];
  if (trial.node != nullptr) return trial;
  trial.graph = std::make_unique<Graph>(node.body->ops());
  Values stand_ins;
  for (const Value& v : node.inputs) {
    stand_ins.push_back(trial.graph->input("v" + std::to_string(stand_ins.size()), v.dtype(),
                                           v.shape(), node.site));
  }
  trial.node = &trial.graph->add("fused", std::move(stand_ins), {}, node.site, {node.body});
  return trial;
}

}  // namespace keel
