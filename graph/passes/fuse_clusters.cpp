#include "keel/graph/passes/fuse_clusters.h"

#include <algorithm>
#include <memory_resource>
#include <utility>

#include "keel/graph/ir/placement.h"

namespace keel {
namespace {

bool is_candidate(const Node& node) {
  if (!is_elementwise(node) || node.has(kControl) || node.types().empty() ||
      !node.type().shape.known())
    return false;
  return std::all_of(node.types().begin(), node.types().end(),
                     [&](const Type& t) { return t.shape == node.type().shape; });
}

// A cluster while it grows.
struct Draft {
  explicit Draft(std::pmr::memory_resource* memory) : members(memory), inputs(memory) {}

  std::pmr::vector<uint32_t> members;
  std::pmr::vector<Value> inputs;  // distinct values from outside, scalar constants left out
  size_t outputs = 0;              // values that are read outside
  uint32_t height = 0;
};

class ClusterBuilder {
 public:
  ClusterBuilder(const Graph& graph, const std::vector<bool>& live, const Users& users,
                 const FuseLimits& limits)
      : graph_(graph), users_(users), limits_(limits), heights_(graph.size(), 0) {
    clusters_.cluster_of.assign(graph.size(), Clusters::kNone);
    clusters_.declined.resize(graph.size());
    for (uint32_t id = static_cast<uint32_t>(graph.size()); id-- > 0;) {
      if (live[id]) visit(graph.node(id));
    }
  }

  Clusters finish() {
    // Numbered by their first member; merged drafts are empty.
    std::vector<uint32_t> number(drafts_.size(), Clusters::kNone);
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      uint32_t& cluster = clusters_.cluster_of[id];
      if (cluster == Clusters::kNone) continue;
      uint32_t& n = number[find(cluster)];
      if (n == Clusters::kNone) {
        n = static_cast<uint32_t>(clusters_.members.size());
        clusters_.members.emplace_back();
      }
      cluster = n;
      clusters_.members[n].push_back(id);
    }
    return std::move(clusters_);
  }

 private:
  void visit(const Node& node) {
    const uint32_t id = node.id();
    uint32_t top = 0;
    for (const uint32_t user : users_.of(node)) top = std::max(top, height(user));
    heights_[id] = top + 1;
    if (!is_candidate(node)) return;
    if (top > 0 && join(node)) return;
    Draft draft(&memory_);
    draft.members.push_back(id);
    add_inputs(draft.inputs, node);
    draft.outputs = node.types().size();
    draft.height = top + 1;
    clusters_.cluster_of[id] = static_cast<uint32_t>(drafts_.size());
    parents_.push_back(clusters_.cluster_of[id]);
    drafts_.push_back(std::move(draft));
  }

  // Puts the node and the highest clusters that read it into one, if no path can come back.
  bool join(const Node& node) {
    uint32_t best = 0;  // greatest height of the users it could join
    uint32_t rest = 0;  // of the others
    const Node* highest = nullptr;
    for (const uint32_t user : users_.of(node)) {
      if (fits(node, user)) {
        best = std::max(best, height(user));
      } else if (height(user) > rest) {
        rest = height(user);
        highest = &graph_.node(user);
      }
    }
    if (best == 0) return false;
    std::vector<uint32_t>& targets = targets_;
    targets.clear();
    bool read_outside = users_.leaves(node);
    for (const uint32_t user : users_.of(node)) {
      if (fits(node, user) && height(user) == best) {
        targets.push_back(find(clusters_.cluster_of[user]));
      } else {
        read_outside = true;
      }
    }
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    const uint32_t needed = std::max(best, rest + 1);
    const auto can_rise = [&](uint32_t t) { return this->can_rise(drafts_[t], needed, node.id()); };
    if (needed > best && !std::all_of(targets.begin(), targets.end(), can_rise)) {
      return decline(node, described(*highest) + " reads it too, and first");
    }
    return merge(node, targets, read_outside, needed);
  }

  bool fits(const Node& node, uint32_t user) const {
    return clusters_.cluster_of[user] != Clusters::kNone &&
           graph_.node(user).type().shape == node.type().shape;
  }

  // Returns whether all that a cluster reads stays above it at a new height. Nodes before
  // `visiting` get their heights later; sources have nothing above them and cannot be part of a
  // cycle.
  bool can_rise(const Draft& draft, uint32_t to, uint32_t visiting) {
    return std::all_of(draft.inputs.begin(), draft.inputs.end(), [&](const Value& v) {
      return v.node_id() <= visiting || v.node().has(kSource) || height(v.node_id()) > to;
    });
  }

  bool merge(const Node& node, const std::vector<uint32_t>& targets, bool read_outside,
             uint32_t height) {
    Draft merged(&memory_);
    merged.members.push_back(node.id());
    merged.outputs = read_outside ? node.types().size() : 0;
    merged.height = height;
    size_t instructions = 1;
    for (const uint32_t t : targets) instructions += drafts_[t].members.size();
    if (instructions > limits_.instructions) {
      return decline(node, "more than " + std::to_string(limits_.instructions) + " instructions");
    }
    add_inputs(merged.inputs, node);
    for (const uint32_t t : targets) {
      merged.outputs += drafts_[t].outputs;
      for (const Value& v : drafts_[t].inputs) {
        if (v.node_id() != node.id()) add_input(merged.inputs, v);
      }
    }
    if (merged.inputs.size() + merged.outputs > limits_.inputs_and_outputs) {
      return decline(
          node, "more than " + std::to_string(limits_.inputs_and_outputs) + " inputs and outputs");
    }
    for (const uint32_t t : targets) {
      const Draft old = std::exchange(drafts_[t], Draft(&memory_));
      merged.members.insert(merged.members.end(), old.members.begin(), old.members.end());
      parents_[t] = targets[0];
    }
    clusters_.cluster_of[node.id()] = targets[0];
    drafts_[targets[0]] = std::move(merged);
    return true;
  }

  static void add_inputs(std::pmr::vector<Value>& inputs, const Node& node) {
    for (const Value& v : node.inputs()) add_input(inputs, v);
  }

  static void add_input(std::pmr::vector<Value>& inputs, const Value& v) {
    if (!is_scalar_constant(v) && std::find(inputs.begin(), inputs.end(), v) == inputs.end()) {
      inputs.push_back(v);
    }
  }

  bool decline(const Node& node, std::string reason) {
    clusters_.declined[node.id()] = std::move(reason);
    return false;
  }

  uint32_t height(uint32_t id) {
    const uint32_t cluster = clusters_.cluster_of[id];
    return cluster == Clusters::kNone ? heights_[id] : drafts_[find(cluster)].height;
  }

  // Returns the draft that a draft was merged into.
  uint32_t find(uint32_t cluster) {
    while (parents_[cluster] != cluster) {
      parents_[cluster] = parents_[parents_[cluster]];
      cluster = parents_[cluster];
    }
    return cluster;
  }

  const Graph& graph_;
  const Users& users_;
  FuseLimits limits_;
  Clusters clusters_;
  std::vector<uint32_t> heights_;
  std::pmr::monotonic_buffer_resource memory_;  // of the drafts, which are many and small
  std::vector<Draft> drafts_;
  std::vector<uint32_t> parents_;
  std::vector<uint32_t> targets_;  // of the node that is visited
};

}  // namespace

std::string described(const Node& node) {
  const std::string name = display_name(node);
  const bool says_which = !node.label().scope.empty() || !node.label().name.empty();
  return says_which ? name : "%" + std::to_string(node.id()) + " (" + name + ")";
}

std::string line_of(const Node& node) { return node.site().known() ? to_string(node.site()) : ""; }

bool is_elementwise(const Node& node) {
  return node.has(kElementwise) && !node.has(kEffect | kSource | kRandom) && !is_on_host(node);
}

bool is_scalar_constant(const Value& value) {
  return value.node().is(OpRole::kConstant) && value.shape().rank() == 0;
}

Clusters form_clusters(const Graph& graph, const std::vector<bool>& live, const Users& users,
                       const FuseLimits& limits) {
  return ClusterBuilder(graph, live, users, limits).finish();
}

}  // namespace keel
