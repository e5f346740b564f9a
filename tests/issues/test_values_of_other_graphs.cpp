// Values used where they do not belong: `gradients(y, {x of another graph})` crashed, and a value
// of a loop's body was taken outside until the fetch. Each is refused where it is used, and the
// message names that line and the one where the value was made.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

std::string line(int number) { return "test_values_of_other_graphs.cpp:" + std::to_string(number); }

// `use` must be refused, naming its line and the one where the value was made.
void check_value_refused(int used, int made, const std::function<void()>& use) {
  const std::string text = error_of(use);
  CAPTURE(text);
  CHECK(contains(text, line(used) + ")"));
  CHECK(contains(text, "made at " + std::string(__FILE__) + ":" + std::to_string(made)));
}

ConditionFunction below(float bound) {
  return [bound](const Values& v) { return less(v[0], bound); };
}

}  // namespace

TEST_SUITE_BEGIN("graph");

TEST_CASE("gradients by a value of another graph are refused") {
  Graph g;
  Graph h;
  const Value x = g.input("x", f32, {3});
  const Value y = h.input("y", f32, {3});
  const int made = __LINE__ - 1;
  const Value loss = sum(x);
  const size_t nodes = g.size();
  check_value_refused(__LINE__, made, [&] { gradients(loss, {y}); });
  check_value_refused(__LINE__, made, [&] { gradients(loss, {x, y}); });
  CHECK(g.size() == nodes);
  const Value w = h.state("w", zeros({3}));
  check_value_refused(__LINE__, __LINE__ - 1, [&] { sgd(0.1).minimize(loss, {w}); });
}

TEST_CASE("a value of another graph is refused by every op that takes it") {
  Graph g;
  Graph h;
  const Value x = g.input("x", f32, {2, 2});
  const Value y = h.input("y", f32, {2, 2}) * 2;
  const int made = __LINE__ - 1;
  check_value_refused(__LINE__, made, [&] { x + y; });
  check_value_refused(__LINE__, made, [&] { matmul(x, y); });
  check_value_refused(__LINE__, made, [&] { concat({x, y}); });
  check_value_refused(__LINE__, made, [&] { select(less(x, 1), x, y); });
  const auto same = [](const Values& v) { return v; };
  const auto foreign = [&](const Values&) { return Values{y}; };
  const auto one = [](const Values& v) { return equal(sum(v[0]), 1); };
  check_value_refused(__LINE__, made, [&] { while_loop({x, y}, one, same); });
  check_value_refused(__LINE__, made, [&] { while_loop({x}, one, foreign); });
  check_value_refused(__LINE__, made, [&] { cond(less(sum(x), 1), {x}, same, foreign); });
  check_value_refused(__LINE__, made, [&] { cond(less(sum(x), 1), {x, y}, same, same); });
  check_value_refused(__LINE__, made, [&] { g.set_outputs({y}); });
  check_value_refused(__LINE__, made, [&] { g.add_update(y, x); });
  check_value_refused(__LINE__, made, [&] { g.add("add", {x, y}, {}, CallSite::here()); });
}

TEST_CASE("a value of another graph is refused by every function of a session") {
  Graph g;
  Graph h;
  const Value x = g.input("x", f32, {});
  const Value w = g.state("w", zeros({}));
  const Value y = h.input("y", f32, {});
  const int made_y = __LINE__ - 1;
  const Value v = h.state("w", zeros({}));
  const int made_v = __LINE__ - 1;
  Session session(g, device("cpu"));
  const Tensor one = Tensor::scalar(1.0f);
  check_value_refused(__LINE__, made_y, [&] { session.run({y}, {{x, one}}); });
  check_value_refused(__LINE__, made_y, [&] { session.run({x}, {{y, one}}); });
  check_value_refused(__LINE__, made_v, [&] { session.run(Update{{{v, x}}}, {}, {{x, one}}); });
  check_value_refused(__LINE__, made_y, [&] { session.run(Update{{{w, y}}}, {}); });
  const SinkOptions fetched{.update = Update{{{w, w}}}, .fetches = {v}};
  check_value_refused(__LINE__, made_v, [&] { session.sink(fetched); });
  check_value_refused(__LINE__, made_y, [&] { session.spec({x, y}); });
  check_value_refused(__LINE__, made_v, [&] { session.read(v); });
  check_value_refused(__LINE__, made_v, [&] { session.write(v, one); });
  check_value_refused(__LINE__, made_y, [&] { session.describe({}, {y}); });
  const Value stop = less(v, 1);
  const SinkOptions stopped{.update = Update{{{w, w}}}, .stop_when = stop};
  check_value_refused(__LINE__, __LINE__ - 2, [&] { session.sink(stopped); });
  auto loop = session.sink({.update = Update{{{w, w + 1}}}, .fetches = {w}});
  const LoopReport report = loop.run(2);
  check_value_refused(__LINE__, made_v, [&] { report[v]; });
  check_value_refused(__LINE__, made_v, [&] { report.tensor(v); });
}

TEST_CASE("a value of a loop's body is refused outside at the op") {
  Graph g;
  const Value b = g.input("b", f32, {});
  Value inner;
  const auto body = [&](const Values& v) {
    inner = v[0] * 2;
    return Values{v[0] + 1};
  };
  const int made = __LINE__ - 3;
  const int loop_line = __LINE__ + 1;
  const Value after = while_loop({b}, below(3), body)[0];
  const auto refused = [&](int used, const std::function<void()>& use) {
    check_value_refused(used, made, use);
    CHECK(contains(error_of(use), "of the body of while_loop"));
    CHECK(contains(error_of(use), line(loop_line)));
  };
  refused(__LINE__, [&] { b + inner; });
  refused(__LINE__, [&] { exp(inner); });
  refused(__LINE__, [&] { concat({inner, b}); });
  refused(__LINE__, [&] { dropout(inner, 0.5); });
  refused(__LINE__, [&] { dense(inner, 3); });
  const auto leaking = [&](const Values&) { return Values{inner}; };
  refused(__LINE__, [&] { while_loop({inner}, below(3), body); });
  refused(__LINE__, [&] { while_loop({b}, below(3), leaking); });
  refused(__LINE__, [&] { cond(less(inner, 1), {b}, body, body); });
  refused(__LINE__, [&] { gradients(inner, {b}); });
  refused(__LINE__, [&] { gradients(b * after, {inner}); });
  // What was refused has left the loop as it was.
  Session session(g, device("cpu"));
  CHECK(session.run({after}, {{b, Tensor::scalar(0.5f)}})[0].item<float>() == 3.5f);
  refused(__LINE__, [&] { session.run({inner}, {{b, Tensor::scalar(0.5f)}}); });
}

TEST_CASE("a value of a branch is refused outside and in the other branch") {
  Graph g;
  const Value b = g.input("b", f32, {});
  Value inner;
  const auto then_body = [&](const Values& v) {
    inner = v[0] * 2;
    return Values{v[0] + 1};
  };
  const int made = __LINE__ - 3;
  const Value out = cond(less(b, 1), {b}, then_body, [](const Values& v) { return v; })[0];
  const auto leaking = [&](const Values&) { return Values{inner}; };
  check_value_refused(__LINE__, made, [&] { out + inner; });
  check_value_refused(__LINE__, made, [&] { cond(less(b, 1), {b}, then_body, leaking); });
}

TEST_CASE("a value of a body whose loop was never made is refused") {
  Graph g;
  const Value b = g.input("b", f32, {});
  Value inner;
  const auto failing = [&](const Values& v) -> Values {
    inner = v[0] * 2;
    throw Error("given up");
  };
  const int made = __LINE__ - 3;
  CHECK(contains(error_of([&] { while_loop({b}, below(3), failing); }), "given up"));
  check_value_refused(__LINE__, made, [&] { b + inner; });
  CHECK(contains(error_of([&] { cond(less(b, 1), {b}, failing, failing); }), "given up"));
  check_value_refused(__LINE__, made, [&] { b + inner; });
}

TEST_CASE("a value of a nested body is refused in the body around it") {
  Graph g;
  const Value b = g.input("b", f32, {});
  Value inner;
  int made = 0;
  const auto nested = [&](const Values& v) {
    inner = v[0] * 2;
    made = __LINE__ - 1;
    return Values{v[0] + 1};
  };
  const std::string text = error_of([&] {
    while_loop({b}, below(3), [&](const Values& v) {
      const Value out = while_loop({v[0]}, below(3), nested)[0];
      return Values{out + inner};
    });
  });
  CAPTURE(text);
  CHECK(contains(text, "made at " + std::string(__FILE__) + ":" + std::to_string(made)));
  CHECK(contains(text, line(__LINE__ - 5) + ")"));
}

TEST_SUITE_END();

}  // namespace keel
