#include "keel/backends/common/tile_nodes.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "keel/graph/ir/fused_body.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

using Counts = std::unordered_map<Value, size_t, ValueHash>;

// A broadcast inside a cluster is no work of its own: its input, which comes from outside or is a
// constant, is read in the cluster's shape anyway.
bool is_broadcast(const Node& node) {
  return node.has(kElementwise) && node.has(kMovement) && node.input(0).node().has(kSource);
}

Counts count_uses(const TileNodes& cluster) {
  Counts uses;
  for (const ClusterResult& result : cluster.results) ++uses[result.value];
  for (const TileNode& n : cluster.nodes) {
    for (const Value& v : n.inputs) ++uses[v];
  }
  return uses;
}

// Returns the step that a node which selects makes together with the comparison that it selects by.
std::optional<vector::ChainOp> select_by(const TileNode& select, const TileNode& comparison) {
  if (select.node->op_name() != "select" || comparison.inputs.size() != 2) return std::nullopt;
  const DType dtype = select.result.dtype();
  if (vector::find_chain(dtype) == nullptr || comparison.inputs[0].dtype() != dtype)
    return std::nullopt;
  return vector::find_chain_select(comparison.node->op_name());
}

void compute_comparisons_with_selects(TileNodes& cluster) {
  const Counts uses = count_uses(cluster);
  std::vector<TileNode>& nodes = cluster.nodes;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const Value condition = nodes[at].inputs[0];
    const auto comparison = std::find_if(nodes.begin(), nodes.end(),
                                         [&](const TileNode& n) { return n.result == condition; });
    if (comparison == nodes.end() || uses.at(condition) != 1) continue;
    const std::optional<vector::ChainOp> select = select_by(nodes[at], *comparison);
    if (!select) continue;
    nodes[at].select = select;
    nodes[at].inputs = {comparison->inputs[0], comparison->inputs[1], nodes[at].inputs[1],
                        nodes[at].inputs[2]};
    nodes.erase(comparison);
    --at;
  }
}

struct Chain {
  std::vector<TileNode> nodes;
  // Set where another chain reads a value from inside of this one, which then has to stay ahead of
  // that.
  bool is_read_inside = false;
};

bool may_take(const Chain& chain, const TileNode& next) {
  const TileNode& last = chain.nodes.back();
  return is_chain_node(last) && last.result.dtype() == next.result.dtype() &&
         chain.nodes.size() < kMostChainNodes &&
         std::find(next.inputs.begin(), next.inputs.end(), last.result) != next.inputs.end();
}

// Appends a node to the chain whose result it alone reads, which moves behind all others; else to
// the last chain, if it reads the result of that; else as a chain of its own.
void append(std::vector<Chain>& chains, TileNode next, const Counts& uses) {
  const auto reads_alone = [&](const Chain& chain) {
    const Value& result = chain.nodes.back().result;
    const auto own = std::count(next.inputs.begin(), next.inputs.end(), result);
    return uses.at(result) == static_cast<size_t>(own);
  };
  const bool in_chains = is_chain_node(next);
  const auto movable = std::find_if(chains.begin(), chains.end(), [&](const Chain& chain) {
    return in_chains && may_take(chain, next) && !chain.is_read_inside && reads_alone(chain);
  });
  if (movable != chains.end()) {
    std::rotate(movable, std::next(movable), chains.end());
  } else if (in_chains && !chains.empty() && may_take(chains.back(), next)) {
    chains.back().is_read_inside |= !reads_alone(chains.back());
  } else {
    chains.emplace_back();
  }
  next.continues = !chains.back().nodes.empty();
  chains.back().nodes.push_back(std::move(next));
}

}  // namespace

std::optional<RowSlice> row_slice_of(const Node& node) {
  if (node.op_name() != "slice" || !slices_rows(node)) return std::nullopt;
  if (!node.input(0).node().is(OpRole::kInput)) return std::nullopt;
  const Shape& from = node.input(0).shape();
  const auto& attributes = node.as<SliceAttributes>();
  for (size_t axis = 0; axis < from.rank(); ++axis) {
    if (slice_bounds(attributes, axis, from[axis]).stride != 1) return std::nullopt;
  }
  const size_t last = from.rank() - 1;
  return RowSlice{node.output(), node.input(0), slice_bounds(attributes, last, from[last]).first};
}

bool is_row_join(const Node& node) { return node.op_name() == "concat" && joins_rows(node); }

bool is_computed(const Node& node) {
  return !node.has(kSource | kView) && !is_broadcast(node) && !row_slice_of(node) &&
         !is_row_join(node);
}

bool is_chain_node(const TileNode& node) {
  const bool has_step = node.select || vector::find_chain_ops(node.node->op_name());
  return has_step && vector::find_chain(node.result.dtype()) != nullptr;
}

TileNodes tile_nodes_of(const Node& node) {
  if (!node.bodies().empty()) return tile_nodes_of(*node.bodies()[0]);
  return {node.type().shape,
          node.inputs().to_vector(),
          {node.output()},
          {{node.output()}},
          {{&node, node.inputs().to_vector(), node.output()}}};
}

TileNodes tile_nodes_of(const Graph& body) {
  TileNodes cluster;
  cluster.shape = iteration_shape(body);
  cluster.inputs = body.inputs();
  cluster.outputs = body.outputs();
  std::unordered_map<Value, Value, ValueHash> alias;
  const auto resolve = [&](const Value& v) {
    const auto it = alias.find(v);
    return it == alias.end() ? v : it->second;
  };
  for (const Node& inner : body.nodes()) {
    if (inner.has(kView) || is_broadcast(inner)) alias[inner.output()] = resolve(inner.input(0));
    if (std::optional<RowSlice> slice = row_slice_of(inner)) cluster.slices.push_back(*slice);
    if (!is_computed(inner)) continue;
    TileNode node{&inner, {}, inner.output()};
    for (const Value& v : inner.inputs()) node.inputs.push_back(resolve(v));
    cluster.nodes.push_back(std::move(node));
  }
  for (size_t o = 0; o < body.outputs().size(); ++o) {
    const Value v = resolve(body.outputs()[o]);
    if (!is_row_join(v.node())) {
      cluster.results.push_back({v, o});
      continue;
    }
    int64_t begin = 0;
    for (const Value& part : v.node().inputs()) {
      cluster.results.push_back({resolve(part), o, begin, true});
      begin += part.shape().back();
    }
  }
  return cluster;
}

void form_chains(TileNodes& cluster) {
  compute_comparisons_with_selects(cluster);
  const Counts uses = count_uses(cluster);
  std::vector<Chain> chains;
  for (TileNode& node : cluster.nodes) append(chains, std::move(node), uses);
  cluster.nodes.clear();
  for (Chain& chain : chains) {
    std::move(chain.nodes.begin(), chain.nodes.end(), std::back_inserter(cluster.nodes));
  }
}

}  // namespace keel
