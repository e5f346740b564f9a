// `const auto losses = loop.run(10)[loss]` gave a span into a report that was gone.
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

namespace keel {

TEST_SUITE_BEGIN("loop");

TEST_CASE("metrics taken from a temporary loop report stay valid") {
  Graph graph;
  const Value w = graph.state("w", zeros({}));
  const Value next = w + 1.0f;
  Update update;
  update.assignments.push_back({w, next});
  Session session(graph, device("ref:0"));
  Loop loop = session.sink({.update = update, .fetches = {next}});
  const auto values = loop.run(4)[next];
  static_assert(std::is_same_v<decltype(values), const std::vector<double>>);
  CHECK(values == std::vector<double>{1, 2, 3, 4});
}

TEST_SUITE_END();

}  // namespace keel
