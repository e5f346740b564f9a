// Random graphs of version 1 control flow, functionalised and run by a structured interpreter,
// beside a plain interpreter of what TensorFlow's executor does with the graph as it was.
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"

#include "ops/graphdef/functional_interpreter_for_tests.h"
#include "ops/graphdef/random_control_flow_for_tests.h"
#include "ops/graphdef/version_1_interpreter_for_tests.h"
#include "support/scale.h"

using namespace keel_test;
namespace graphdef = keel::graphdef;

TEST_SUITE_BEGIN("graphdef");

namespace {

// Returns what differs, empty if nothing does.
std::string difference(const RandomControlFlow& random, const GraphDef& converted, uint64_t seed) {
  const Feeds1 feeds = random.feeds(seed);
  const Version1Interpreter plain(random.graph, feeds);
  const FunctionalInterpreter functional(converted, feeds);
  for (const std::string& fetch : random.fetches) {
    const auto expected = plain.value(fetch);
    if (!expected) return fetch + " is dead";
    if (!same_numbers(*expected, functional.value(fetch))) return fetch + " differs";
  }
  return "";
}

}  // namespace

TEST_CASE("random version 1 control flow gives the same when it is functional") {
  std::set<std::string> ops;
  const uint64_t graphs = long_scale() ? 5000 : 500;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    CAPTURE(seed);
    const RandomControlFlow random(seed, {});
    for (const NodeDef& node : random.graph.nodes) ops.insert(node.op);
    GraphDef converted;
    REQUIRE_NOTHROW(converted = graphdef::functionalise(random.graph, random.fetches));
    CHECK(!graphdef::has_version_1_control_flow(converted));
    for (uint64_t feeds = 0; feeds < 3; ++feeds) {
      std::string differs;
      REQUIRE_NOTHROW(differs = difference(random, converted, 10 * seed + feeds));
      CHECK(differs == "");
    }
  }
  for (const char* op : {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"})
    CHECK(ops.count(op) == 1);
}

TEST_SUITE_END();
