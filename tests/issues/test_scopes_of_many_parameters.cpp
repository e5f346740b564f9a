// A scope keeps its states in order and in a set: it looked through all of them for each that was
// made in it.
#include <cstdint>

#include <doctest/doctest.h>

#include "keel/ops/nn/nn.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;

struct Many : Module {
  Many(const Scope& scope, int64_t count) : Module(scope) {
    for (int64_t i = 0; i < count; ++i) (scope / i).parameter("w", zeros({1}));
  }
  using Module::share;
};

}  // namespace

TEST_CASE("a scope has each of its parameters once and in order and shared ones as well") {
  Graph g;
  Many first(Scope(g) / "first", 3);
  const Many second(Scope(g) / "second", 2);
  first.share(second);
  first.share(second);
  const Values parameters = first.parameters();
  REQUIRE(parameters.size() == 5);
  for (size_t i = 0; i < parameters.size(); ++i) CHECK(parameters[i] == g.states().at(i));
}

TEST_SUITE_END();
