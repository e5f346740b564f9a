// Graphs of version 1 control flow with random damage: they are refused or converted, and nothing
// crashes.
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"

#include "ops/graphdef/random_control_flow_for_tests.h"
#include "support/scale.h"

using namespace keel_test;
namespace graphdef = keel::graphdef;

TEST_SUITE_BEGIN("graphdef");

namespace {

void damage(std::vector<NodeDef>& nodes, std::mt19937_64& random) {
  const auto any = [&]() -> NodeDef& { return nodes[random() % nodes.size()]; };
  NodeDef& node = any();
  switch (random() % 7) {
    case 0:
      node.name = any().name;
      break;
    case 1:
      node.op = any().op;
      break;
    case 2:
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(random() % nodes.size()));
      break;
    case 3:
      node.inputs.push_back("^" + any().name);
      break;
    case 4:
      if (!node.inputs.empty()) node.inputs.pop_back();
      break;
    default:
      if (node.inputs.empty()) break;
      const NodeDef& read = any();
      const bool has_two = read.op == "Switch" || read.op == "Merge";
      const std::string name = read.name + (has_two && random() % 2 == 0 ? ":1" : "");
      node.inputs[random() % node.inputs.size()] = name;
  }
}

}  // namespace

TEST_CASE("damaged version 1 control flow is refused or converted") {
  size_t refused = 0;
  size_t converted = 0;
  const uint64_t graphs = long_scale() ? 20000 : 1500;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    CAPTURE(seed);
    const RandomControlFlow random(seed, {.most_nodes = 40});
    std::mt19937_64 source(seed);
    GraphDef graph = random.graph;
    for (size_t i = 1 + source() % 2; i > 0; --i) damage(graph.nodes, source);
    try {
      const GraphDef functional = graphdef::functionalise(graph);
      CHECK(!graphdef::has_version_1_control_flow(functional));
      ++converted;
    } catch (const keel::Error&) {
      ++refused;
    }
  }
  CHECK(refused > 100);
  CHECK(converted > 100);
}

TEST_SUITE_END();
