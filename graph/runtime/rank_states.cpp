#include "keel/graph/runtime/rank_states.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/sha256.h"
#include "keel/core/group/root_rank.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/graph.h"

namespace keel {
namespace {

constexpr const char* kDiverged = "STATES_DIVERGED";

// keel/step goes ahead, since counts of updates and of skipped steps begin anew where it is
// written; the others go in the order of their names.
Values states_to_send(const Graph& graph, bool trainable_only) {
  Values states;
  for (const Value& state : graph.states()) {
    if (!trainable_only || state.node().as<StateAttributes>().trainable) states.push_back(state);
  }
  const auto place = [](const Value& state) {
    const std::string& name = name_of(state.node());
    return std::pair(name != kStepState, name);
  };
  std::sort(states.begin(), states.end(),
            [&](const Value& a, const Value& b) { return place(a) < place(b); });
  return states;
}

}  // namespace

void broadcast_states(Session& session, Group& group, const BroadcastOptions& options,
                      CallSite site) {
  require_root(group, options.root, "broadcast_states", site);
  if (group.size() == 1) return;
  const Values states = states_to_send(session.graph(site), options.trainable_only);
  std::string described;
  for (const Value& state : states)
    described += name_of(state.node()) + " " + to_string(state.type()) + "\n";
  require_equal(group, kDiverged, sha256_hex(described));
  for (const Value& state : states) {
    Tensor value = session.read(state, site);
    group.broadcast(value.raw(), value.num_bytes(), options.root);
    if (group.rank() != options.root) session.write(state, value, site);
  }
}

std::string require_equal_states(const Session& session, Group& group, CallSite site) {
  std::string own = session.state_sha256(site);
  if (group.size() > 1) require_equal(group, kDiverged, own);
  return own;
}

}  // namespace keel
