// Version 1 control flow beside TensorFlow.js, which runs Switch, Merge, Enter and Exit itself.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/exchange/graphdef/control_flow/functionalise.h"

#include "ops/graphdef/functional_interpreter_for_tests.h"
#include "ops/graphdef/random_control_flow_for_tests.h"
#include "ops/graphdef/tfjs_graph_for_tests.h"
#include "ops/graphdef/version_1_interpreter_for_tests.h"
#include "support/tfjs.h"

using namespace keel_test;
namespace graphdef = keel::graphdef;

TEST_SUITE_BEGIN("graphdef");

TEST_CASE("random version 1 control flow gives what TensorFlow.js gives") {
  if (const std::string why = Tfjs::missing(); !why.empty()) {
    MESSAGE("keel test skipped: ", why);
    return;
  }
  constexpr uint64_t kGraphs = 60;
  Tfjs tfjs;
  std::vector<RandomControlFlow> graphs;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    graphs.emplace_back(seed, RandomControlFlowOptions{
                                  .indices = false, .constants_outside = true, .most_nodes = 60});
    tfjs.add(tfjs_case(graphs.back().graph, graphs.back().feeds(seed), graphs.back().fetches));
  }
  const std::vector<nlohmann::json> results = tfjs.run();
  size_t judged = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    CAPTURE(seed);
    const RandomControlFlow& random = graphs[seed];
    // It cannot run some, for instance those with an output that depends on constants alone.
    if (results[seed].contains("error")) continue;
    ++judged;
    const GraphDef converted = graphdef::functionalise(random.graph, random.fetches);
    const Feeds1 feeds = random.feeds(seed);
    const FunctionalInterpreter functional(converted, feeds);
    for (size_t i = 0; i < random.fetches.size(); ++i)
      CHECK(same_numbers(functional.value(random.fetches[i]),
                         tfjs_numbers(results[seed]["outputs"][i])));
  }
  CAPTURE(results.front().dump());
  CHECK(judged >= 50);
}

TEST_SUITE_END();
