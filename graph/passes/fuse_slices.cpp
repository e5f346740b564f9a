#include "keel/graph/passes/fuse_slices.h"

#include <algorithm>
#include <utility>

#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/views.h"

namespace keel {

ReadSlices::ReadSlices(const FuseUnits& units, const AnchorGroups& groups, SharedBodies& bodies)
    : units_(units), groups_(groups), bodies_(bodies), is_read_(units.count(), false) {
  for (uint32_t unit = 0; unit < units.count(); ++unit) {
    if (units.is_elementwise(unit) && is_alone(unit)) find(unit);
  }
}

const FusedNode* ReadSlices::fused(uint32_t unit) const {
  const auto it = fused_.find(unit);
  return it == fused_.end() ? nullptr : &it->second;
}

std::string ReadSlices::why_apart(uint32_t unit) const {
  const auto it = apart_.find(unit);
  return it == apart_.end() ? "" : it->second;
}

bool ReadSlices::is_alone(uint32_t unit) const {
  const Values outputs = units_.outputs(unit);
  return groups_.group_of(unit) == FuseUnits::kNone && !groups_.is_loaded(unit) &&
         std::none_of(outputs.begin(), outputs.end(),
                      [&](const Value& v) { return groups_.is_loaded(v); });
}

bool ReadSlices::is_slice_for(const Value& v, uint32_t reader) const {
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

FusedNode ReadSlices::with_slices(uint32_t unit, const std::vector<uint32_t>& slices) {
  std::vector<uint32_t> nodes = slices;
  nodes.insert(nodes.end(), units_.nodes(unit).begin(), units_.nodes(unit).end());
  return bodies_.fuse(units_.graph(), {.epilogue = nodes, .outputs = units_.outputs(unit)});
}

void ReadSlices::find(uint32_t unit) {
  std::vector<uint32_t> slices;
  for (const uint32_t id : units_.nodes(unit)) {
    for (const Value& v : units_.graph().node(id).inputs()) {
      const bool is_new = std::find(slices.begin(), slices.end(), v.node_id()) == slices.end();
      if (is_new && is_slice_for(v, unit)) slices.push_back(v.node_id());
    }
  }
  std::erase_if(slices, [&](uint32_t id) {
    const Support& support = bodies_.ask(with_slices(unit, {id}));
    if (!support.supported) apart_[units_.of(units_.graph().node(id))] = support.reason;
    return !support.supported;
  });
  if (slices.empty()) return;
  FusedNode fused = with_slices(unit, slices);
  if (!bodies_.ask(fused).supported) return;
  for (const uint32_t id : slices) is_read_[units_.of(units_.graph().node(id))] = true;
  fused_.emplace(unit, std::move(fused));
}

}  // namespace keel
