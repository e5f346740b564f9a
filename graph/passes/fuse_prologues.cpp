#include "keel/graph/passes/fuse_prologues.h"

#include <algorithm>
#include <set>
#include <utility>

#include "keel/graph/ir/fused_body.h"

namespace keel {
namespace {

// A value that is not stored is not written and not read: so many reads pay for themselves.
constexpr size_t kMostReads = 2;

bool holds(const Values& values, const Value& v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

// Takes prologues out of one cluster.
class ClusterParts {
 public:
  ClusterParts(const FuseUnits& units, uint32_t unit, SharedBodies& bodies)
      : units_(units),
        graph_(units.graph()),
        bodies_(bodies),
        rest_(units.nodes(unit)),
        outputs_(units.outputs(unit)) {
    for (const Value& v : units.outputs(unit)) take_out(v);
  }

  // Returns what is left of the cluster, then what was taken out of it.
  std::vector<std::vector<uint32_t>> finish() {
    parts_.insert(parts_.begin(), std::move(rest_));
    return std::move(parts_);
  }

 private:
  void take_out(const Value& v) {
    const Node* reduction = reduction_of(v);
    if (reduction == nullptr) return;
    const std::vector<uint32_t> part = nodes_for(v);
    if (part.empty() || part.size() == rest_.size() || !reads_little(part, v)) return;
    const FusedNode fused = bodies_.fuse(
        graph_, {.prologue = part, .anchor = reduction, .outputs = {reduction->output()}});
    if (!bodies_.ask(fused).supported) return;
    std::erase_if(rest_,
                  [&](uint32_t id) { return std::binary_search(part.begin(), part.end(), id); });
    std::erase(outputs_, v);
    parts_.push_back(part);
  }

  // Returns the reduction that alone reads a value; null where there is none.
  const Node* reduction_of(const Value& v) const {
    const auto users = units_.users().of(v);
    if (units_.users().leaves(v) || users.size() != 1) return nullptr;
    const Node& user = units_.first(users[0]);
    const bool reduces = is_anchor(user) && user.has(kReduction) && user.input(0) == v;
    return reduces ? &user : nullptr;
  }

  // Returns the nodes that compute nothing but the value; none where the rest reads it, too.
  std::vector<uint32_t> nodes_for(const Value& v) const {
    std::set<uint32_t> part, shared;  // shared: the rest reads them, or they are stored for others
    for (auto id = rest_.rbegin(); id != rest_.rend(); ++id) {
      const Node& node = graph_.node(*id);
      const bool is_stored = std::any_of(outputs_.begin(), outputs_.end(), [&](const Value& out) {
        return out.node_id() == *id && out != v;
      });
      const bool belongs = !is_stored && !shared.contains(*id);
      if (belongs) part.insert(*id);
      for (const Value& read : node.inputs()) {
        if (!belongs) shared.insert(read.node_id());
      }
    }
    return {part.begin(), part.end()};
  }

  // Returns whether a part reads no more than it saves, and nothing that is not stored anyway.
  bool reads_little(const std::vector<uint32_t>& part, const Value& v) const {
    const auto is_inside = [&](const std::vector<uint32_t>& nodes, const Value& read) {
      return std::binary_search(nodes.begin(), nodes.end(), read.node_id());
    };
    Values wide;
    for (const uint32_t id : part) {
      for (const Value& read : graph_.node(id).inputs()) {
        if (is_inside(part, read)) continue;
        if (is_inside(rest_, read) && !holds(outputs_, read)) return false;
        const bool is_wide = read.shape().num_elements() == v.shape().num_elements();
        if (is_wide && !holds(wide, read)) wide.push_back(read);
      }
    }
    return wide.size() <= kMostReads;
  }

  const FuseUnits& units_;
  const Graph& graph_;
  SharedBodies& bodies_;
  std::vector<uint32_t> rest_;  // ascending
  Values outputs_;              // of the rest
  std::vector<std::vector<uint32_t>> parts_;
};

}  // namespace

std::vector<std::vector<uint32_t>> with_prologues_apart(const FuseUnits& units,
                                                        SharedBodies& bodies) {
  std::vector<std::vector<uint32_t>> all;
  for (uint32_t unit = 0; unit < units.count(); ++unit) {
    if (units.nodes(unit).size() == 1) {
      all.push_back(units.nodes(unit));
      continue;
    }
    for (auto& part : ClusterParts(units, unit, bodies).finish()) all.push_back(std::move(part));
  }
  return all;
}

}  // namespace keel
