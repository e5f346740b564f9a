#include "keel/graph/passes/fuse_rows.h"

#include <algorithm>
#include <utility>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/views.h"

namespace keel {
namespace {

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

MovedRows::MovedRows(const FuseUnits& units, const AnchorGroups& groups, SharedBodies& bodies)
    : units_(units), groups_(groups), bodies_(bodies), owner_(units.count(), FuseUnits::kNone) {
  for (uint32_t unit = 0; unit < units.count(); ++unit) {
    if (units.is_elementwise(unit) && is_alone(unit)) find(unit);
  }
}

const FusedNode* MovedRows::fused(uint32_t unit) const {
  const auto it = fused_.find(unit);
  return it == fused_.end() ? nullptr : &it->second;
}

bool MovedRows::together(uint32_t a, uint32_t b) const { return owner_[a] == b || owner_[b] == a; }

std::string MovedRows::why_apart(uint32_t a, uint32_t b) const {
  for (const auto& [moved, owner] : {std::pair(a, b), std::pair(b, a)}) {
    const auto it = apart_.find(moved);
    if (it != apart_.end() && it->second.owner == owner) return it->second.reason;
  }
  return "";
}

bool MovedRows::is_alone(uint32_t unit) const {
  const Values outputs = units_.outputs(unit);
  return groups_.group_of(unit) == FuseUnits::kNone && !groups_.is_loaded(unit) &&
         std::none_of(outputs.begin(), outputs.end(),
                      [&](const Value& v) { return groups_.is_loaded(v); });
}

bool MovedRows::is_slice_for(const Value& v, uint32_t reader) const {
  const Node& node = v.node();
  const uint32_t unit = units_.of(v);
  if (unit == FuseUnits::kNone || !slices_rows(node) || is_on_host(node) || !is_alone(unit))
    return false;
  // One of another shape is broadcast.
  if (!v.shape().known() || v.shape() != units_.first(reader).type().shape) return false;
  if (root_of(node.input(0)).node().has(kSource)) return false;
  const auto readers = units_.users().of(v);
  return !units_.users().leaves(v) && readers.size() == 1 && readers[0] == reader;
}

bool MovedRows::is_join_of(uint32_t join, uint32_t maker) const {
  const Node& node = units_.first(join);
  if (!node.type().shape.known() || !joins_rows(node) || is_on_host(node) || !is_alone(join))
    return false;
  return std::all_of(node.inputs().begin(), node.inputs().end(), [&](const Value& v) {
    return units_.of(v) == maker && v.shape() == units_.first(maker).type().shape;
  });
}

std::vector<uint32_t> MovedRows::slices_for(uint32_t unit) const {
  std::vector<uint32_t> slices;
  for (const uint32_t id : units_.nodes(unit)) {
    for (const Value& v : units_.graph().node(id).inputs()) {
      if (is_slice_for(v, unit) && !contains(slices, units_.of(v))) slices.push_back(units_.of(v));
    }
  }
  return slices;
}

std::vector<uint32_t> MovedRows::joins_of(uint32_t unit) const {
  std::vector<uint32_t> joins;
  for (const Value& v : units_.outputs(unit)) {
    for (const uint32_t user : units_.users().of(v)) {
      if (is_join_of(user, unit) && !contains(joins, user)) joins.push_back(user);
    }
  }
  return joins;
}

// A value that joins alone read does not leave by itself.
Values MovedRows::outputs(uint32_t unit, const std::vector<uint32_t>& joins) const {
  Values outputs;
  for (const Value& v : units_.outputs(unit)) {
    const auto readers = units_.users().of(v);
    const bool stays = std::all_of(readers.begin(), readers.end(),
                                   [&](uint32_t reader) { return contains(joins, reader); });
    if (!stays || units_.users().leaves(v)) outputs.push_back(v);
  }
  for (const uint32_t join : joins) outputs.push_back(units_.first(join).output());
  return outputs;
}

FusedNode MovedRows::with(uint32_t unit, const std::vector<uint32_t>& slices,
                          const std::vector<uint32_t>& joins) {
  std::vector<uint32_t> nodes;
  for (const uint32_t slice : slices) nodes.push_back(units_.first(slice).id());
  nodes.insert(nodes.end(), units_.nodes(unit).begin(), units_.nodes(unit).end());
  for (const uint32_t join : joins) nodes.push_back(units_.first(join).id());
  return bodies_.fuse(units_.graph(), {.epilogue = nodes, .outputs = outputs(unit, joins)});
}

bool MovedRows::takes(uint32_t moved, uint32_t owner, const FusedNode& fused) {
  const Support& support = bodies_.ask(fused);
  if (!support.supported) apart_[moved] = {owner, support.reason};
  return support.supported;
}

void MovedRows::find(uint32_t unit) {
  std::vector<uint32_t> slices = slices_for(unit), joins = joins_of(unit);
  std::erase_if(slices,
                [&](uint32_t slice) { return !takes(slice, unit, with(unit, {slice}, {})); });
  std::erase_if(joins, [&](uint32_t join) { return !takes(join, unit, with(unit, {}, {join})); });
  // All of them together may be too much for a task: then the last ones stay apart.
  while (!slices.empty() || !joins.empty()) {
    FusedNode fused = with(unit, slices, joins);
    std::vector<uint32_t>& rest = joins.empty() ? slices : joins;
    if (takes(rest.back(), unit, fused)) {
      for (const uint32_t slice : slices) owner_[slice] = unit;
      for (const uint32_t join : joins) owner_[join] = unit;
      fused_.emplace(unit, std::move(fused));
      return;
    }
    rest.pop_back();
  }
}

}  // namespace keel
