// Ops of a body that read outer values alone were built outside of it: a guarded op ran although
// its branch was not taken and spoiled gradients or failed, all turns of a loop drew one mask, and
// loops in bodies were refused where everything they began with was from outside.
#include <set>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains, keel_test::error_of;

Initializer constant_number(float value) {
  return {.kind = "constant", .type = {f32, {}}, .a = value};
}

double ran(Graph& g, const Value& v, const std::string& backend) {
  Session session(g, device(backend));
  return session.run(v).at(0);
}

Value always(const Values& v) { return v[0].graph().constant(Tensor::full(boolean, {}, 1)); }

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a branch that is not taken leaves the gradient of what it reads from outside alone") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value x = g.state("x", zeros({}));
    const auto root = [&](const Values&) { return Values{sqrt(x)}; };
    const auto line = [&](const Values&) { return Values{x * 3.0f}; };
    const Value y = cond(greater(x, 0.0f), {}, root, line)[0];
    CHECK(ran(g, gradients(y, {x})[0], name) == 3);
  }
}

TEST_CASE("a branch that is not taken does not read what is out of range") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value table = g.state("table", zeros({4}));
    const Value id = g.input("id", i32, {1});
    const auto read = [&](const Values&) { return Values{sum(gather(table, id))}; };
    const auto none = [&](const Values&) {
      return Values{table.graph().constant(Tensor::scalar(-1.0f))};
    };
    const Value y = cond(less(reshape(id, {}), 4), {}, read, none)[0];
    Session session(g, device(name));
    CHECK(session.run(y, {{id, Tensor::of<int32_t>({1}, {9})}}).at(0) == -1);
    CHECK(session.run(y, {{id, Tensor::of<int32_t>({1}, {3})}}).at(0) == 0);
  }
}

TEST_CASE("each turn of a loop draws a mask of its own for a value from outside") {
  Graph g;
  const Value w = g.state("w", {.kind = "constant", .type = {f32, {64}}, .a = 1});
  const auto body = [&](const Values& v) {
    const Value turn = reshape(v[0].graph().iteration(), {1});
    return Values{scatter_add(v[0], turn, reshape(dropout(w, 0.5), {1, 64}))};
  };
  const Value rows =
      while_loop({g.constant(Tensor(f32, {4, 64}))}, always, body, {.trip_count = 4})[0];
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Session session(g, device(name));
    const Tensor drawn = session.run(rows);
    std::set<std::vector<double>> masks;
    for (int64_t turn = 0; turn < 4; ++turn) {
      std::vector<double> mask;
      for (int64_t i = 0; i < 64; ++i) mask.push_back(drawn.at(turn * 64 + i));
      masks.insert(mask);
    }
    CHECK(masks.size() == 4);
  }
}

TEST_CASE("a control op in a body may begin with outer values alone") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value x = g.state("x", constant_number(1)), flag = g.state("flag", constant_number(1));
    const auto below = [](const Values& v) { return less(v[0], 100.0f); };
    // 1, 2, 4 ... 128.
    const auto choose = [&](const Values& v) {
      return cond(
          greater(flag, 0.0f), {}, [&](const Values&) { return Values{v[0] * 2.0f}; },
          [&](const Values&) { return Values{v[0] + 1.0f}; });
    };
    CHECK(ran(g, while_loop({x}, below, choose)[0], name) == 128);
    // Each turn takes v to 1 + 3 v: 1, 4, 13, 40, 121.
    const auto thrice = [&](const Values& v) {
      const auto three = [](const Values& u) { return less(u[1], 3); };
      const auto add_v = [&](const Values& u) { return Values{u[0] + v[0], u[1] + 1}; };
      return Values{while_loop({x, g.constant(Tensor::scalar(int64_t{0}))}, three, add_v)[0]};
    };
    CHECK(ran(g, while_loop({x}, below, thrice)[0], name) == 121);
  }
}

TEST_CASE("what one branch computed from outer values is no value of the other") {
  Graph g;
  const Value x = g.state("x", constant_number(1));
  Value kept;
  const auto keep = [&](const Values&) { return Values{kept = sqrt(x)}; };
  const auto take = [&](const Values&) { return Values{kept * 2.0f}; };
  const std::string refused = error_of([&] { cond(greater(x, 0.0f), {}, keep, take); });
  CAPTURE(refused);
  CHECK(contains(refused, "cond"));
  CHECK(contains(refused, "test_bodies_that_read_outer_values.cpp"));
}

TEST_CASE("a gradient in a body whose path begins outside is refused and not 0") {
  Graph g;
  const Value x = g.state("x", constant_number(3)), w = g.state("w", constant_number(2)), h = x * w;
  const auto slope = [&](const Values&) { return Values{gradients(h * h, {w})[0]}; };
  const auto same = [&](const Values&) { return Values{x}; };
  const auto below = [](const Values& v) { return less(v[0], 30.0f); };
  const auto grown = [&](const Values& v) { return Values{v[0] + slope(v)[0]}; };
  for (const std::string& refused :
       {error_of([&] { cond(greater(x, 0.0f), {}, slope, same); }),
        error_of([&] { while_loop({x}, below, grown, {.max_trips = 4}); }), error_of([&] {
          cond(
              greater(x, 0.0f), {},
              [&](const Values&) { return cond(less(x, 9.0f), {}, slope, same); }, same);
        })}) {
    CAPTURE(refused);
    CHECK(contains(refused, "gradient: x 0"));
    CHECK(contains(refused, "mul"));
    CHECK(contains(refused, "test_bodies_that_read_outer_values.cpp"));
  }
  // 2 (x w) x = 36 wherever the whole path is in one place.
  const auto whole = [&](const Values&) {
    const Value own = x * w;
    return Values{gradients(own * own, {w})[0]};
  };
  CHECK(ran(g, cond(greater(x, 0.0f), {}, whole, same)[0], "cpu") == 36);
  CHECK(ran(g, while_loop({x}, below, grown, {.trip_count = 2})[0], "cpu") == 3 + 2 * 36);
  const auto beside = [&](const Values&) { return Values{gradients(h * h, {h})[0]}; };
  CHECK(ran(g, cond(greater(x, 0.0f), {}, beside, same)[0], "cpu") == 12);
}

TEST_CASE("an operand of a condition is the value that was handed to it") {
  Graph g;
  const Value x = g.state("x", constant_number(3)), w = g.state("w", constant_number(2)), h = x * w;
  const auto same = [&](const Values&) { return Values{x}; };
  // 2 x, by each of its names, in a branch and in one inside of it.
  const auto by_operand = [&](const Values& v) { return gradients(v[0] * v[0], {v[0]}); };
  const auto by_value = [&](const Values& v) { return gradients(v[0] * v[0], {x}); };
  const auto by_both = [&](const Values& v) { return gradients(v[0] * x, {v[0]}); };
  const auto deeper = [&](const Values& v) { return cond(less(x, 9.0f), {v[0]}, by_value, same); };
  for (const BodyFunction& slope : {BodyFunction(by_operand), BodyFunction(by_value),
                                    BodyFunction(by_both), BodyFunction(deeper)}) {
    for (const std::string& name : backend_names()) {
      CAPTURE(name);
      CHECK(ran(g, cond(greater(x, 0.0f), {x}, slope, same)[0], name) == 6);
    }
  }
  const auto beyond = [&](const Values& v) { return gradients(v[0] * v[0], {w}); };
  const std::string refused = error_of([&] { cond(greater(x, 0.0f), {h}, beyond, same); });
  CAPTURE(refused);
  CHECK(contains(refused, "gradient: x 0"));
  CHECK(contains(refused, "mul"));
}

TEST_CASE("a gradient in a loop of known turns says what becomes of what no turn changes") {
  Graph g;
  const Value x = g.state("x", constant_number(3)), w = g.state("w", constant_number(2)), h = x * w;
  const auto grown = [&](const Values& v) { return Values{v[0] + gradients(v[0] * h, {w})[0]}; };
  const std::string refused = error_of([&] { while_loop({x}, always, grown, {.trip_count = 2}); });
  CAPTURE(refused);
  CHECK(contains(refused, "make a loop variable of it"));
  // As it says: h = w x in each turn, of whose product with v the slope is v x.
  const auto advised = [&](const Values& v) {
    return Values{v[0] + gradients(v[0] * (x * v[1]), {v[1]})[0], v[1]};
  };
  const Value y = while_loop({x, w}, always, advised, {.trip_count = 2})[0];
  CHECK(ran(g, y, "cpu") == 3 * 4 * 4);
}

TEST_CASE("float_status in a branch takes values from outside and from the branch") {
  Graph g;
  const Value x = g.state("x", constant_number(1));
  const auto status = [&](const Values&) { return Values{float_status({x, x * 2.0f})}; };
  const auto other = [&](const Values&) { return Values{greater(x, 5.0f)}; };
  CHECK(ran(g, cond(greater(x, 0.0f), {}, status, other)[0], "cpu") == 0);
}

TEST_SUITE_END();

}  // namespace keel
