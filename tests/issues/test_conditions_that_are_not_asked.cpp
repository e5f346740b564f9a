// A loop of known turns computed what its condition would have computed before it began, and
// gradients that are 0 were constants of the whole size. Functions that were not given were called.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/passes/passes.h"
#include "keel/keel.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("graph");

namespace {
using namespace keel;
}  // namespace

TEST_CASE("a loop of known turns does not run its condition") {
  for (const int64_t turns : {0, 2}) {
    CAPTURE(turns);
    Graph g;
    const Value table = g.input("table", f32, {4, 2}), id = g.input("id", i32, {1});
    const Values result = while_loop(
        {Operand(g.constant(Tensor::scalar(1.0f)))},
        [&](const Values&) { return less(sum(gather(table, id)), 100.0f); },
        [](const Values& v) { return Values{v[0] + 1.0f}; }, {.trip_count = turns});
    for (const char* where : {"ref", "cpu", "npu"}) {
      CAPTURE(std::string(where));
      Session session(g, device(where));
      const Tensor got = session.run(
          result[0], {{table, Tensor(f32, {4, 2})}, {id, Tensor::of<int32_t>({1}, {9})}});
      CHECK(got.at(0) == 1.0 + static_cast<double>(turns));
    }
  }
}

TEST_CASE("a loop of known turns needs no condition and every other one does") {
  Graph g;
  const Operand one = g.constant(Tensor::scalar(1.0f));
  const auto twice = [](const Values& v) { return Values{v[0] * 2.0f}; };
  const Value doubled = while_loop({one}, nullptr, twice, {.trip_count = 3})[0];
  CHECK(Session(g, device("cpu")).run(doubled).at(0) == 8);
  CHECK(keel_test::contains(keel_test::error_of([&] { while_loop({one}, nullptr, twice); }),
                            "while_loop: condition: expected a function, or a trip_count"));
  CHECK(keel_test::contains(
      keel_test::error_of([&] { while_loop({one}, nullptr, nullptr, {.trip_count = 3}); }),
      "while_loop: body: expected a function"));
  const Value yes = g.constant(Tensor::full(boolean, {}, 1));
  CHECK(keel_test::contains(keel_test::error_of([&] { cond(yes, {one}, twice, nullptr); }),
                            "cond: else_body: expected a function"));
}

TEST_CASE("gradients that are zero take no constant of their size") {
  Graph g;
  const Value x = g.input("x", f32, {3}), unused = g.input("unused", f32, {300, 400});
  const Values found = gradients(sum(x * x), {x, unused});
  const auto step = specialise(
      {.graph = &g, .fetches = found, .input_types = {{"x", x.type()}, {"unused", unused.type()}}});
  int64_t largest = 0;
  for (const Node& node : step->nodes()) {
    if (node.is(OpRole::kConstant)) largest = std::max(largest, node.type().shape.num_elements());
  }
  CHECK(largest <= 1);
  Session session(g, device("cpu"));
  const auto got =
      session.run(found, {{x, Tensor::full(f32, {3}, 2)}, {unused, Tensor(f32, {300, 400})}});
  CHECK(got[0].at(0) == 4);
  CHECK(got[1].shape() == Shape{300, 400});
  CHECK(got[1].at(119999) == 0);
}

TEST_SUITE_END();
