// while_loop and cond as every backend runs them: against closed forms.
#include <cmath>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"

#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::contains;
using testing::elements;
using testing::error_of;

std::vector<std::vector<double>> run_everywhere(const Values& fetches, Graph& g,
                                                const Feeds& feeds = {}) {
  std::vector<std::vector<double>> first;
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Session session(g, device(name));
    std::vector<std::vector<double>> got;
    for (const Tensor& t : session.run(fetches, feeds)) got.push_back(elements(t));
    if (first.empty()) first = got;
    CHECK(got == first);
  }
  return first;
}

Value value_of(Graph& g, double x) { return g.constant(Tensor::full(f32, {}, x)); }

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("while_loop stops when its data says so") {
  Graph g;
  // Halves until below 1: 100 -> 0.78125 in 7 steps.
  const Values out = while_loop(
      {value_of(g, 100), g.constant(Tensor::scalar<int64_t>(0))},
      [](const Values& v) { return greater_equal(v[0], 1.0f); },
      [](const Values& v) {
        return Values{v[0] * 0.5f, v[1] + 1};
      });
  const auto got = run_everywhere(out, g);
  CHECK(got[0] == std::vector<double>{0.78125});
  CHECK(got[1] == std::vector<double>{7});
}

TEST_CASE("while_loop whose condition is false at once gives its inputs back") {
  Graph g;
  const Values out = while_loop(
      {value_of(g, 0.5)}, [](const Values& v) { return greater(v[0], 1.0f); },
      [](const Values& v) { return Values{v[0] * 2.0f}; });
  CHECK(run_everywhere(out, g)[0] == std::vector<double>{0.5});
}

TEST_CASE("while_loop with a fixed trip count swaps its variables as a parallel copy") {
  Graph g;
  for (const int64_t trips : {0, 1, 2, 7}) {
    CAPTURE(trips);
    const Values out = while_loop(
        {value_of(g, 1), value_of(g, 2), value_of(g, 3)},
        [](const Values& v) { return greater(v[0], -1.0f); },
        [](const Values& v) {
          return Values{v[1], v[2], v[0]};
        },
        {.trip_count = trips});
    const auto got = run_everywhere(out, g);
    for (int64_t i = 0; i < 3; ++i) {
      CHECK(got[static_cast<size_t>(i)][0] == static_cast<double>((i + trips) % 3 + 1));
    }
  }
}

TEST_CASE("while_loop computes Fibonacci numbers with captured values and vectors") {
  Graph g;
  const Value one = g.input("one", i64, {3});
  const Values out = while_loop(
      {g.constant(Tensor(i64, {3})), one, g.constant(Tensor::scalar<int64_t>(0))},
      [](const Values& v) { return less(v[2], 20); },
      [&](const Values& v) {
        return Values{v[1], v[0] + v[1], v[2] + sum(one) - 2};  // `one` is captured; its sum is 3
      });
  const Feeds feeds = {{one, Tensor::full(i64, {3}, 1)}};
  const auto got = run_everywhere({out[0]}, g, feeds);
  CHECK(got[0] == std::vector<double>{6765, 6765, 6765});
}

TEST_CASE("while_loop nests and its inner loop sees the outer variables") {
  Graph g;
  // sum over i < 4 of sum over j < i + 1 of (i * 10 + j)
  const Values out = while_loop(
      {value_of(g, 0), value_of(g, 0)}, [](const Values& v) { return less(v[0], 4.0f); },
      [](const Values& v) {
        const Value i = v[0];
        const Values inner = while_loop(
            {i * 0.0f, v[1]}, [&](const Values& w) { return less(w[0], i + 1.0f); },
            [&](const Values& w) {
              return Values{w[0] + 1.0f, w[1] + i * 10.0f + w[0]};
            });
        return Values{i + 1.0f, inner[1]};
      });
  double expected = 0;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < i + 1; ++j) expected += i * 10 + j;
  }
  CHECK(run_everywhere({out[1]}, g)[0] == std::vector<double>{expected});
}

TEST_CASE("while_loop does not write over values that are read after it") {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value y = exp(x);  // captured, and read again behind the loop
  const Values out = while_loop(
      {y * 1.0f}, [](const Values& v) { return less(sum(v[0]), 1000.0f); },
      [&](const Values& v) { return Values{v[0] + relu(y) * 2.0f}; });
  const Tensor fed = Tensor::of<float>({4}, {0, 0, 0, 0});
  const auto got = run_everywhere({out[0], y}, g, {{x, fed}});
  // Each turn adds 2 to each of four ones: 4 + 8 n >= 1000 from n = 125 on.
  CHECK(got[0] == std::vector<double>(4, 251.0));
  CHECK(got[1] == std::vector<double>(4, 1.0));
}

TEST_CASE("cond runs the branch that its predicate names") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Values out = cond(
      greater(sum(x), 0.0f), {x},
      [](const Values& v) {
        return Values{v[0] * 2.0f, v[0]};
      },
      [&](const Values& v) {
        return Values{v[0] - 1.0f, x * x};
      });
  auto got = run_everywhere(out, g, {{x, Tensor::of<float>({2}, {1, 2})}});
  CHECK(got[0] == std::vector<double>{2, 4});
  CHECK(got[1] == std::vector<double>{1, 2});
  got = run_everywhere(out, g, {{x, Tensor::of<float>({2}, {-1, -2})}});
  CHECK(got[0] == std::vector<double>{-2, -3});
  CHECK(got[1] == std::vector<double>{1, 4});
}

TEST_CASE("cond inside a while_loop computes Collatz lengths") {
  Graph g;
  const auto length = [&](int64_t start) {
    const Values out = while_loop(
        {g.constant(Tensor::scalar<int64_t>(start)), g.constant(Tensor::scalar<int64_t>(0))},
        [](const Values& v) { return not_equal(v[0], 1); },
        [](const Values& v) {
          const Values next = cond(
              equal(mod(v[0], 2), 0), {v[0]}, [](const Values& n) { return Values{n[0] / 2}; },
              [](const Values& n) { return Values{n[0] * 3 + 1}; });
          return Values{next[0], v[1] + 1};
        });
    return run_everywhere({out[1]}, g)[0][0];
  };
  CHECK(length(1) == 0);
  CHECK(length(6) == 8);
  CHECK(length(27) == 111);
}

TEST_CASE("random ops in a while_loop draw anew in each iteration and alike on all backends") {
  Graph g;
  const Values out = while_loop(
      {g.constant(Tensor(f32, {3})), g.constant(Tensor(f32, {3}))},
      [](const Values& v) { return less(sum(v[0]), 0.0f); },
      [&](const Values& v) {
        return Values{v[1], uniform(v[0].graph(), {3})};
      },
      {.trip_count = 2});
  const auto got = run_everywhere(out, g);
  CHECK(got[0] != got[1]);
  for (const double x : got[0]) CHECK((x >= 0 && x < 1));
}

// Copies in a turn of a loop over two variables on cpu.
int64_t copies_in_a_turn(const BodyFunction& body) {
  Graph g;
  const Value x = g.input("x", f32, {8});
  const Values out = while_loop({exp(x), x}, [](const Values& v) { return less(sum(v[0]), 0.0f); },
                                body, {.trip_count = 3});
  Session session(g, device("cpu"));
  const std::string text = session.describe({}, out, {{x, Tensor(f32, {8})}});
  const size_t begin = text.find("LOOP_SWITCH");
  const std::string turn = text.substr(begin, text.find("LOOP_ACTIVE") - begin);
  int64_t count = 0;
  for (size_t at = turn.find("MEMCPY"); at != std::string::npos; at = turn.find("MEMCPY", at + 1)) {
    ++count;
  }
  return count;
}

TEST_CASE("loop variables are computed in their places where nobody wants the old ones") {
  CHECK(copies_in_a_turn([](const Values& v) { return Values{v[0] * 2.0f, v[1]}; }) == 0);
  CHECK(copies_in_a_turn([](const Values& v) {
          return Values{sum(v[0] * v[1]) + v[0], v[1] * 2.0f};
        }) == 0);
  CHECK(copies_in_a_turn([](const Values& v) { return Values{v[1], v[0]}; }) == 3);
}

TEST_CASE("nested loops share the places of a variable that both carry") {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const auto forever = [](const Values& v) { return less(sum(v[0]), 0.0f); };
  const Values out =
      while_loop({x}, forever,
                 [&](const Values& v) {
                   return while_loop({v[0]}, forever,
                                     [](const Values& w) { return Values{w[0] * 0.5f + 1.0f}; },
                                     {.trip_count = 2});
                 },
                 {.trip_count = 3});
  const auto got = run_everywhere(out, g, {{x, Tensor::of<float>({4}, {2, 66, -62, 0})}});
  // Towards 2, half of the way in each of six turns.
  CHECK(got[0] == std::vector<double>{2, 3, 1, 2 - 2.0 / 64});
}

TEST_CASE("a body that changes a variable's type is refused with the user's line") {
  Graph g;
  const std::string text = error_of([&] {
    while_loop(
        {value_of(g, 1)}, [](const Values& v) { return less(v[0], 1.0f); },
        [](const Values& v) { return Values{cast(v[0], f16)}; });
  });
  CHECK(contains(text, "loop variable 0"));
  CHECK(contains(text, "test_control_flow.cpp"));
  CHECK(contains(error_of([&] {
                   while_loop(
                       {value_of(g, 1)}, [](const Values& v) { return v[0]; },
                       [](const Values& v) { return v; });
                 }),
                 "bool[]"));
}

TEST_SUITE_END();

}  // namespace keel
