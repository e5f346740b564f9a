// Chains of the nodes of an element-wise cluster: which nodes form one, and in which order they
// lie.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/tile_nodes.h"

#include "ops_for_tests.h"

namespace keel {
namespace {

using vector::ChainOp;

TileNodes chains_of(Graph& graph, const Values& outputs) {
  graph.set_outputs(outputs);
  TileNodes cluster = tile_nodes_of(graph);
  form_chains(cluster);
  return cluster;
}

std::vector<bool> continued(const TileNodes& cluster) {
  std::vector<bool> result;
  for (const TileNode& node : cluster.nodes) result.push_back(node.continues);
  return result;
}

// Every node lies behind those whose results it reads.
bool is_in_order(const TileNodes& cluster) {
  Values made = cluster.inputs;
  for (const TileNode& node : cluster.nodes) {
    for (const Value& v : node.inputs)
      if (std::find(made.begin(), made.end(), v) == made.end()) return false;
    made.push_back(node.result);
  }
  return true;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("tile nodes: a comparison is computed with the one selection that reads it") {
  Graph g;
  const Value x = g.input("x", f32, {8}), y = g.input("y", f32, {8});
  const TileNodes cluster = chains_of(g, {select(greater(x, y), x, y)});
  REQUIRE(cluster.nodes.size() == 1);
  CHECK(cluster.nodes[0].select == ChainOp::kSelectGreater);
  CHECK(cluster.nodes[0].inputs == Values{x, y, x, y});
}

TEST_CASE("tile nodes: a comparison that has other readers stays itself") {
  for (const bool leaves : {false, true}) {
    Graph g;
    const Value x = g.input("x", f32, {8}), y = g.input("y", f32, {8});
    const Value is_greater = greater(x, y);
    Values outputs = {select(is_greater, x, y)};
    outputs.push_back(leaves ? is_greater : select(is_greater, y, x));
    const TileNodes cluster = chains_of(g, outputs);
    CHECK(cluster.nodes.size() == (leaves ? 2 : 3));
    for (const TileNode& node : cluster.nodes) CHECK_FALSE(node.select);
    CHECK(is_in_order(cluster));
  }
}

TEST_CASE("tile nodes: nodes of two chains are put together by chain") {
  Graph g;
  const Value x = g.input("x", f32, {8}), y = g.input("y", f32, {8});
  const Value sum = x + y, product = x * y;
  const Value first = sum * y, second = product + y;
  const TileNodes cluster = chains_of(g, {first / y, second - x});
  CHECK(continued(cluster) == std::vector<bool>{false, true, true, false, true, true});
  CHECK(is_in_order(cluster));
}

TEST_CASE("tile nodes: a chain of which another reads a value inside does not move behind that") {
  Graph g;
  const Value x = g.input("x", f32, {8}), y = g.input("y", f32, {8});
  const Value sum = x + y, product = sum * y, other = sum - x;
  const TileNodes cluster = chains_of(g, {other, product / x});
  CHECK(continued(cluster) == std::vector<bool>{false, true, false, false});
  CHECK(is_in_order(cluster));
}

TEST_CASE("tile nodes: a chain ends where it is as long as one may be") {
  Graph g;
  const Value x = g.input("x", f32, {8});
  Value v = x;
  for (size_t i = 0; i < kMostChainNodes + 4; ++i) v = v + x;
  const TileNodes cluster = chains_of(g, {v});
  for (size_t i = 0; i < cluster.nodes.size(); ++i)
    CHECK(cluster.nodes[i].continues == (i % kMostChainNodes != 0));
}

TEST_SUITE_END();

}  // namespace keel
