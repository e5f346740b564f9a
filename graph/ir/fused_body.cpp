#include "keel/graph/ir/fused_body.h"

#include "keel/graph/ir/placement.h"

namespace keel {

bool is_fused_node(const Node& node) { return node.is(OpRole::kFused); }

bool is_gather(const Node& node) { return node.has(kGather); }

bool is_anchor(const Node& node) {
  if (node.types().size() != 1 || is_on_host(node)) return false;
  const bool reduces = node.has(kReduction) && !node.has(kRowWise) && node.inputs().size() == 1;
  return node.has(kProduct) || reduces;
}

bool gathers_rows(const Node& node) {
  if (!is_gather(node) || node.input(1).shape().rank() != 1) return false;
  for (const auto& [name, value] : node.attributes().list()) {
    if (name == "axis") return std::get<int64_t>(value) == 0;
  }
  return false;
}

FusedBody::FusedBody(const Graph& body) : part(body.size(), Part::kEpilogue) {
  for (const Node& node : body.nodes()) {
    if (is_anchor(node) && anchor == nullptr) anchor = &node;
    if (node.has(kSource)) part[node.id()] = Part::kSource;
    if (node.has(kRowWise)) part[node.id()] = Part::kRowWise;
  }
  if (anchor != nullptr) {
    part[anchor->id()] = Part::kAnchor;
    for (uint32_t id = anchor->id() + 1; id-- > 0;) {
      if (part[id] != Part::kAnchor && part[id] != Part::kPrologue) continue;
      for (const Value& v : body.node(id).inputs()) {
        if (part_of(v) != Part::kSource) part[v.node_id()] = Part::kPrologue;
      }
    }
  }
  for (const Node& node : body.nodes()) {
    if (part[node.id()] == Part::kPrologue) prologue.push_back(&node);
    if (part[node.id()] == Part::kEpilogue) epilogue.push_back(&node);
    if (part[node.id()] == Part::kRowWise) row_wise.push_back(&node);
  }
}

}  // namespace keel
