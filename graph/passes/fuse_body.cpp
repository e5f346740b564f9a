#include "keel/graph/passes/fuse_body.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <utility>

#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/passes/fuse_clusters.h"

namespace keel {
namespace {

using ValueMap = std::pmr::unordered_map<Value, Value, ValueHash>;  // of the graph -> of the body

class BodyMaker {
 public:
  explicit BodyMaker(const Graph& from) : from_(from) {
    made_.body = std::make_shared<Graph>(from.ops());
  }

  FusedNode make(const FusedParts& parts) {
    has_siblings_ = !parts.siblings.empty();
    for (const Value& v : parts.sources) input(v);
    // The epilogue computes nothing from the prologue's values.
    ValueMap before(&memory_), behind(&memory_);
    for (const uint32_t id : parts.prologue) copy(from_.node(id), before, before);
    if (parts.anchor != nullptr) copy(*parts.anchor, before, behind);
    for (const Node* sibling : parts.siblings) copy(*sibling, before, behind);
    for (const uint32_t id : parts.epilogue) copy(from_.node(id), behind, behind);
    Values results;
    for (const Value& v : parts.outputs) results.push_back(behind.at(v));
    made_.body->set_outputs(results);
    made_.outputs = parts.outputs;
    made_.label = label();
    made_.site =
        parts.epilogue.empty() ? parts.anchor->site() : from_.node(parts.epilogue.back()).site();
    return std::move(made_);
  }

 private:
  void copy(const Node& node, const ValueMap& read, ValueMap& made) {
    const bool in_memory = !node.has(kElementwise | kView) && !is_gather(node);
    Values inputs;
    for (const Value& v : node.inputs()) {
      const auto it = read.find(v);
      inputs.push_back(it != read.end()                      ? it->second
                       : is_scalar_constant(v) && !in_memory ? constant(v)
                                                             : input(v));
    }
    if (const Node* there = has_siblings_ ? equal_node(node, inputs) : nullptr) {
      for (uint32_t i = 0; i < node.types().size(); ++i) made[node.output(i)] = there->output(i);
      return;
    }
    const Node& copy = made_.body->add_copy(node, std::move(inputs));
    labels_.resize(copy.id());
    labels_.push_back(node.shared_label());
    // Each recomputed block has a mark of its own, which would keep equal blocks from sharing
    // bodies.
    const NodeLabelPtr shared = without_recompute(node.shared_label());
    if (shared != nullptr && !shared->attributes.empty()) {
      made_.body->relabel(
          copy, std::make_shared<const NodeLabel>(NodeLabel{{}, {}, shared->attributes, {}}));
    }
    for (uint32_t i = 0; i < node.types().size(); ++i) made[node.output(i)] = copy.output(i);
  }

  // Returns the body's node that computes the same; null where there is none. Cheap values have a
  // copy for each reduction that reads them, and siblings need one of these. Reductions stay
  // themselves, equal or not: each has a result that leaves the body.
  const Node* equal_node(const Node& node, const Values& inputs) const {
    if (is_anchor(node)) return nullptr;
    for (const Node& there : made_.body->nodes()) {
      if (&there.op() == &node.op() && there.bodies().empty() && node.bodies().empty() &&
          there.inputs().to_vector() == inputs && there.attributes() == node.attributes()) {
        return &there;
      }
    }
    return nullptr;
  }

  // Null where no member has one.
  NodeLabelPtr label() {
    labels_.resize(made_.body->size());
    const auto labelled = [](const NodeLabelPtr& label) { return label != nullptr; };
    const auto first = std::find_if(labels_.begin(), labels_.end(), labelled);
    if (first == labels_.end()) return nullptr;
    NodeLabel all;
    all.attributes = (*first)->attributes;
    for (const Node& node : made_.body->nodes()) {
      if (node.has(kSource)) continue;
      std::erase_if(all.attributes, [&](const auto& mark) {
        const NodeLabelPtr& label = labels_[node.id()];
        if (label == nullptr) return true;
        const auto& own = label->attributes;
        return std::find(own.begin(), own.end(), mark) == own.end();
      });
    }
    all.members = std::move(labels_);
    return std::make_shared<const NodeLabel>(std::move(all));
  }

  Value input(const Value& v) {
    Value& inner = inputs_[v];
    if (inner.valid()) return inner;
    made_.inputs.push_back(v);
    return inner = made_.body->input("v" + std::to_string(made_.inputs.size() - 1), v.dtype(),
                                     v.shape(), v.node().site());
  }

  Value constant(const Value& v) {
    Value& inner = constants_[v];
    if (inner.valid()) return inner;
    const Node& made = v.node();
    return inner = made_.body->add_copy(made, {}).output();
  }

  const Graph& from_;
  FusedNode made_;
  bool has_siblings_ = false;
  // Bodies are made by the thousand, most of them of a few nodes.
  std::array<std::byte, 2048> room_;
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  ValueMap inputs_{&memory_}, constants_{&memory_};
  std::vector<NodeLabelPtr> labels_;  // by node of the body; null for its sources
};

}  // namespace

FusedNode make_fused(const Graph& from, const FusedParts& parts) {
  return BodyMaker(from).make(parts);
}

}  // namespace keel
