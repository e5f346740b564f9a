// Random ops that were added to a parsed graph drew the numbers of those in the text again.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("text");

namespace {

using namespace keel;

// A graph with a single dropout: in the body of a loop of one turn, or in the graph itself.
struct DropoutGraph {
  explicit DropoutGraph(bool in_body) {
    const Value x = g.input("x", f32, {64});
    Value first;
    if (in_body) {
      first = while_loop(
          {Operand(x)},
          [](const Values& v) { return v[0].graph().constant(Tensor::full(boolean, {}, 1)); },
          [](const Values& v) { return Values{dropout(v[0], 0.5, true)}; }, {.trip_count = 1})[0];
    } else {
      first = dropout(x, 0.5, true);
    }
    g.set_outputs({first});
  }
  Graph g;
};

}  // namespace

TEST_CASE("random ops added to a parsed graph draw numbers of their own") {
  for (const bool in_body : {false, true}) {
    CAPTURE(in_body);
    const DropoutGraph built(in_body);
    const auto parsed = parse_graph(print_graph(built.g));
    const Value x = parsed->find_input("x");
    const Value first = parsed->outputs()[0];
    const Value second = dropout(x, 0.5, true), third = dropout(x, 0.5, true);
    Session session(*parsed, device("ref"));
    const auto results =
        session.run(Values{first, second, third}, {{x, Tensor::full(f32, {64}, 1)}});
    CHECK(!bit_equal(results[0], results[1]));
    CHECK(!bit_equal(results[1], results[2]));
    CHECK(!bit_equal(results[0], results[2]));
    // As many as the text had: the next one of the original is the first one added here.
    if (in_body) continue;
    Graph whole;
    const Value y = whole.input("x", f32, {64});
    dropout(y, 0.5, true);
    const Value next = dropout(y, 0.5, true);
    Session original(whole, device("ref"));
    CHECK(bit_equal(original.run(next, {{y, Tensor::full(f32, {64}, 1)}}), results[1]));
  }
}

TEST_CASE("a key that is no number of a random op takes no numbers away") {
  Graph g;
  const Value key = g.constant(Tensor::scalar<int64_t>(INT64_MAX));
  g.set_outputs({uniform_like(key, g.input("x", f32, {4}), 0, 1, f32)});
  const auto parsed = parse_graph(print_graph(g));
  CHECK(parsed->next_salt() == 0);
}

TEST_SUITE_END();
