#include "keel/backends/npu/scheduler/launch_cache.h"

#include <algorithm>
#include <functional>
#include <span>

#include "keel/backends/npu/scheduler/bytes_once.h"
#include "keel/graph/ir/graph.h"

namespace keel::npu {
namespace {

// Nodes of two bodies that read the same positions and do the same.
bool same_body(const Graph& a, const Graph& b) {
  if (&a == &b) return true;
  const auto same_values = [](std::span<const Value> x, std::span<const Value> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Value& v, const Value& w) {
      return v.node_id() == w.node_id() && v.output() == w.output();
    });
  };
  if (a.size() != b.size() || !same_values(a.inputs(), b.inputs()) ||
      !same_values(a.outputs(), b.outputs())) {
    return false;
  }
  for (uint32_t id = 0; id < a.size(); ++id) {
    const Node &x = a.node(id), &y = b.node(id);
    if (!same_values(x.inputs(), y.inputs()) || !same_work(x, y)) return false;
  }
  return true;
}

size_t hash_of(const Node& node) {
  size_t h = std::hash<const OpDef*>()(&node.op()) * 31 + node.attributes().hash();
  const auto mix = [&](uint64_t x) { h = (h ^ x) * 0x9e3779b97f4a7c15ull + (h >> 29); };
  const auto mix_type = [&](const Type& type) {
    mix(static_cast<uint64_t>(type.dtype));
    for (const int64_t dim : type.shape.dims()) mix(static_cast<uint64_t>(dim));
  };
  for (const Value& v : node.inputs()) mix_type(v.type());
  for (const Type& type : node.types()) mix_type(type);
  for (const auto& body : node.bodies()) {
    for (const Node& inner : body->nodes()) mix(std::hash<const OpDef*>()(&inner.op()));
  }
  return h;
}

}  // namespace

bool same_work(const Node& a, const Node& b) {
  const auto same_type = [](const Value& v, const Value& w) { return v.type() == w.type(); };
  return &a.op() == &b.op() && a.types() == b.types() &&
         std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end(),
                    same_type) &&
         (a.has(kSource) || a.attributes() == b.attributes()) &&
         std::equal(a.bodies().begin(), a.bodies().end(), b.bodies().begin(), b.bodies().end(),
                    [](const auto& x, const auto& y) { return same_body(*x, *y); });
}

std::shared_ptr<const Launch> LaunchCache::launch(const Preset& preset,
                                                  const AnchoredNode& anchored,
                                                  const BlockDimOptions& options,
                                                  const Packing& packing) {
  const Node& node = anchored.node();
  const size_t key = hash_of(node);
  const auto [begin, end] = launches_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    const Entry& entry = it->second;
    if (entry.packing == packing && same_work(*entry.node, node) &&
        bytes_of_distinct_operands(*entry.node) == bytes_of_distinct_operands(node)) {
      return entry.launch;
    }
  }
  auto launch = std::make_shared<Launch>(schedule(preset, anchored, options, packing));
  return launches_.emplace(key, Entry{&node, packing, std::move(launch)})->second.launch;
}

}  // namespace keel::npu
