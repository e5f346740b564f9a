// Bodies 65 deep could be built and printed, and their text could not be parsed: there is one
// limit, and the builder keeps it.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// x through `depth` conds within each other, + 1 in the innermost.
Value nested(const Value& x, int depth) {
  if (depth == 0) return x + 1;
  const auto deeper = [&](const Values& v) { return Values{nested(v[0], depth - 1)}; };
  const auto same = [](const Values& v) { return v; };
  return cond(less(x, 5), {x}, deeper, same)[0];
}

Value endless(const Value& x) {
  return while_loop(
      {x}, [](const Values& v) { return less(v[0], 5); },
      [](const Values& v) { return Values{endless(v[0])}; })[0];
}

}  // namespace

TEST_SUITE_BEGIN("graph");

TEST_CASE("bodies as deep as the limit print and parse and run") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Value y = nested(x, kMaxBodyDepth);
  g.set_outputs({y});
  const std::string text = print_graph(g);
  CHECK(print_graph(*parse_graph(text)) == text);
  for (const char* name : {"ref", "cpu", "npu"}) {
    Session session(g, device(name));
    CHECK(session.run({y}, {{x, Tensor::scalar(1.5f)}})[0].item<float>() == 2.5f);
  }
}

TEST_CASE("bodies deeper than the limit are refused by the builder") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const size_t nodes = g.size();
  const std::string text = error_of([&] { nested(x, kMaxBodyDepth + 1); });
  CHECK(contains(text, "body: expected bodies nested at most 64 deep, got one more"));
  CHECK(contains(text, "test_deep_bodies.cpp:"));
  // Without the limit a function that builds itself ends the process.
  CHECK(contains(error_of([&] { endless(x); }), "nested at most 64 deep"));
  CHECK(g.size() <= nodes + 8);  // constants that were made on the way
}

TEST_CASE("bodies that are given ready are counted as well") {
  auto body = std::make_shared<Graph>();
  const auto deepen = [](std::shared_ptr<Graph> inner) {
    auto outer = std::make_shared<Graph>();
    const Value go = outer->input("go", boolean, {});
    const Value x = outer->input("x", f32, {});
    const Values inputs{go, go, x};
    const Node& node = outer->add("cond", inputs, {}, CallSite::here(), {inner, inner});
    outer->set_outputs({node.output()});
    return outer;
  };
  body->input("go", boolean, {});
  const Value x = body->input("x", f32, {});
  body->set_outputs({x * 2});
  int depth = 0;
  const std::string text = error_of([&] {
    for (; depth < 1000; ++depth) body = deepen(body);
  });
  CHECK(contains(text, "nested at most " + std::to_string(kMaxNesting) + " deep"));
  CHECK(depth == kMaxNesting);
}

TEST_SUITE_END();

}  // namespace keel
