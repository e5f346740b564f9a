#include "keel/graph/passes/fuse_body.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/passes/fuse_clusters.h"

namespace keel {

BodyPlan::BodyPlan(const Graph& from, const FusedParts& parts)
    : from_(from),
      has_siblings_(!parts.siblings.empty()),
      site_(parts.epilogue.empty() ? parts.anchor->site()
                                   : from.node(parts.epilogue.back()).site()),
      outputs_(parts.outputs) {
  for (const Value& v : parts.sources) input(v);
  // The epilogue computes nothing from the prologue's values.
  Places before(&memory_), behind(&memory_);
  for (const uint32_t id : parts.prologue) copy(from_.node(id), before, before);
  if (parts.anchor != nullptr) copy(*parts.anchor, before, behind);
  for (const Node* sibling : parts.siblings) copy(*sibling, before, behind);
  for (const uint32_t id : parts.epilogue) copy(from_.node(id), behind, behind);
  for (const Value& v : outputs_) results_.push_back(behind.at(v));
}

void BodyPlan::copy(const Node& node, const Places& read, Places& made) {
  const bool in_memory = !node.has(kElementwise | kView) && !is_gather(node);
  std::pmr::vector<Place> operands(&memory_);
  operands.reserve(node.inputs().size());
  for (const Value& v : node.inputs()) {
    const auto it = read.find(v);
    operands.push_back(it != read.end()                      ? it->second
                       : is_scalar_constant(v) && !in_memory ? constant(v)
                                                             : input(v));
  }
  const auto results = static_cast<uint32_t>(node.types().size());
  if (const Planned* there = has_siblings_ ? equal_node(node, operands) : nullptr) {
    const auto id = static_cast<uint32_t>(there - nodes_.data());
    for (uint32_t i = 0; i < results; ++i) made[node.output(i)] = {id, i};
    return;
  }
  // Each recomputed block has a mark of its own, which would keep equal blocks from sharing bodies.
  NodeLabelPtr marks = without_recompute(node.shared_label());
  if (marks != nullptr && marks->attributes.empty()) marks = nullptr;
  const Place copy = add({.from = &node, .marks = std::move(marks)}, operands);
  for (uint32_t i = 0; i < results; ++i) made[node.output(i)] = {copy.node, i};
}

// Returns the body's node that computes the same; null where there is none. Cheap values have a
// copy for each reduction that reads them, and siblings need one of these. Reductions stay
// themselves, equal or not: each has a result that leaves the body.
const BodyPlan::Planned* BodyPlan::equal_node(const Node& node,
                                              std::span<const Place> operands) const {
  if (is_anchor(node) || !node.bodies().empty()) return nullptr;
  for (const Planned& there : nodes_) {
    const std::span<const Place> reads = operands_of(there);
    if (!there.is_input && &there.from->op() == &node.op() && there.from->bodies().empty() &&
        std::equal(reads.begin(), reads.end(), operands.begin(), operands.end()) &&
        there.from->attributes() == node.attributes()) {
      return &there;
    }
  }
  return nullptr;
}

BodyPlan::Place BodyPlan::input(const Value& v) {
  if (const auto it = stand_ins_.find(v); it != stand_ins_.end()) return it->second;
  inputs_.push_back(v);
  return stand_ins_[v] = add({.from = &v.node(), .is_input = true, .output = v.output()}, {});
}

BodyPlan::Place BodyPlan::constant(const Value& v) {
  if (const auto it = stand_ins_.find(v); it != stand_ins_.end()) return it->second;
  return stand_ins_[v] = add({.from = &v.node()}, {});
}

BodyPlan::Place BodyPlan::add(Planned planned, std::span<const Place> operands) {
  planned.first_operand = static_cast<uint32_t>(operands_.size());
  planned.operand_count = static_cast<uint32_t>(operands.size());
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  nodes_.push_back(std::move(planned));
  return {static_cast<uint32_t>(nodes_.size() - 1), 0};
}

size_t BodyPlan::hash() const {
  size_t h = nodes_.size();
  const auto mix = [&](size_t x) { h = (h ^ x) * 0x9e3779b97f4a7c15ull + (h >> 29); };
  for (const Planned& planned : nodes_) {
    if (!planned.is_input) {
      mix(std::hash<const OpDef*>()(&planned.from->op()));
      mix(planned.from->attributes().hash());
    }
    mix(static_cast<size_t>(planned.from->site().line));
    for (const Place& place : operands_of(planned)) mix(place.node);
    for (const int64_t dim : planned.type().shape) mix(static_cast<size_t>(dim));
  }
  return h;
}

bool BodyPlan::matches(const Graph& body) const {
  if (body.size() != nodes_.size()) return false;
  const auto same_place = [](const Place& place, const Value& v) {
    return place == Place{v.node_id(), v.output()};
  };
  if (!std::equal(results_.begin(), results_.end(), body.outputs().begin(), body.outputs().end(),
                  same_place)) {
    return false;
  }
  return std::equal(nodes_.begin(), nodes_.end(), body.nodes().begin(),
                    [&](const Planned& planned, const Node& node) {
                      const std::span<const Place> reads = operands_of(planned);
                      return std::equal(reads.begin(), reads.end(), node.inputs().begin(),
                                        node.inputs().end(), same_place) &&
                             matches(planned, node);
                    });
}

bool BodyPlan::matches(const Planned& planned, const Node& node) const {
  const Node& from = *planned.from;
  if (from.site().file != node.site().file || from.site().line != node.site().line) return false;
  if (planned.is_input) return node.is(OpRole::kInput) && node.type() == planned.type();
  static const ScopedAttributes kNone;
  const ScopedAttributes& marks = planned.marks == nullptr ? kNone : planned.marks->attributes;
  return &node.op() == &from.op() && node.types() == from.types() &&
         node.attributes() == from.attributes() && node.label().attributes == marks &&
         node.bodies() == from.bodies();
}

std::shared_ptr<Graph> BodyPlan::make() const {
  auto body = std::make_shared<Graph>(from_.ops());
  const auto values_at = [&](std::span<const Place> places) {
    Values values;
    for (const Place& place : places) values.push_back(body->node(place.node).output(place.output));
    return values;
  };
  for (const Planned& planned : nodes_) {
    if (planned.is_input) {
      body->input("v" + std::to_string(body->inputs().size()), planned.type().dtype,
                  planned.type().shape, planned.from->site());
      continue;
    }
    const Node& copy = body->add_copy(*planned.from, values_at(operands_of(planned)));
    if (planned.marks != nullptr) {
      body->relabel(copy, std::make_shared<const NodeLabel>(
                              NodeLabel{{}, {}, planned.marks->attributes, {}}));
    }
  }
  body->set_outputs(values_at(results_));
  return body;
}

FusedNode BodyPlan::node_with(std::shared_ptr<Graph> body) const {
  return {std::move(body), inputs_, outputs_, site_, label()};
}

// Null where no member has one.
NodeLabelPtr BodyPlan::label() const {
  const auto label_of = [](const Planned& planned) -> const NodeLabelPtr& {
    static const NodeLabelPtr kNone;
    const bool is_member = !planned.is_input && !planned.from->has(kSource);
    return is_member ? planned.from->shared_label() : kNone;
  };
  const auto labelled = [&](const Planned& planned) { return label_of(planned) != nullptr; };
  const auto first = std::find_if(nodes_.begin(), nodes_.end(), labelled);
  if (first == nodes_.end()) return nullptr;
  NodeLabel all;
  all.attributes = label_of(*first)->attributes;
  all.members.reserve(nodes_.size());
  for (const Planned& planned : nodes_) {
    all.members.push_back(label_of(planned));
    if (planned.is_input || planned.from->has(kSource)) continue;
    std::erase_if(all.attributes, [&](const auto& mark) {
      const NodeLabelPtr& label = all.members.back();
      if (label == nullptr) return true;
      const auto& own = label->attributes;
      return std::find(own.begin(), own.end(), mark) == own.end();
    });
  }
  return std::make_shared<const NodeLabel>(std::move(all));
}

}  // namespace keel
