#include "keel/graph/ir/fused_body.h"

#include <algorithm>

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

bool slices_rows(const Node& node) {
  if (node.has(kElementwise) || !node.has(kMovement) || node.inputs().size() != 1) return false;
  const Shape &from = node.input(0).shape(), &to = node.type().shape;
  return from.rank() != 0 && from.rank() == to.rank() && from.back() > to.back() &&
         std::equal(to.begin(), to.end() - 1, from.begin());
}

bool joins_rows(const Node& node) {
  if (node.has(kElementwise) || !node.has(kMovement) || node.inputs().size() < 2) return false;
  const Shape& to = node.type().shape;
  int64_t joined = 0;
  for (const Value& v : node.inputs()) {
    const Shape& from = v.shape();
    if (from.rank() == 0 || from.rank() != to.rank() || v.dtype() != node.type().dtype ||
        !std::equal(to.begin(), to.end() - 1, from.begin())) {
      return false;
    }
    joined += from.back();
  }
  return joined == to.back();
}

const Shape& iteration_shape(const Graph& body) {
  const Node& first = body.outputs()[0].node();
  return joins_rows(first) ? first.input(0).shape() : body.outputs()[0].shape();
}

bool are_siblings(const Node& a, const Node& b) {
  return a.has(kReduction) && b.has(kReduction) && a.op_name() == b.op_name() &&
         a.attributes() == b.attributes() && a.input(0).type() == b.input(0).type();
}

FusedBody::FusedBody(const Graph& body) : part(body.size(), Part::kEpilogue) {
  for (const Node& node : body.nodes()) {
    if (is_anchor(node)) {
      part[node.id()] = Part::kAnchor;
      if (anchor == nullptr)
        anchor = &node;
      else
        siblings.push_back(&node);
    }
    if (node.has(kSource)) part[node.id()] = Part::kSource;
    if (node.has(kRowWise)) part[node.id()] = Part::kRowWise;
  }
  if (anchor != nullptr) {
    const Node& last = siblings.empty() ? *anchor : *siblings.back();
    for (uint32_t id = last.id() + 1; id-- > 0;) {
      if (part[id] != Part::kAnchor && part[id] != Part::kPrologue) continue;
      for (const Value& v : body.node(id).inputs()) {
        if (part_of(v) != Part::kSource) part[v.node_id()] = Part::kPrologue;
      }
    }
  }
  const auto count = [&](Part wanted) {
    return static_cast<size_t>(std::count(part.begin(), part.end(), wanted));
  };
  prologue.reserve(count(Part::kPrologue));
  epilogue.reserve(count(Part::kEpilogue));
  row_wise.reserve(count(Part::kRowWise));
  for (const Node& node : body.nodes()) {
    if (part[node.id()] == Part::kPrologue) prologue.push_back(&node);
    if (part[node.id()] == Part::kEpilogue) epilogue.push_back(&node);
    if (part[node.id()] == Part::kRowWise) row_wise.push_back(&node);
  }
}

}  // namespace keel
