// Gradients through while_loop and cond: closed forms, central differences in double, unrolled
// unrolled loops, and all backends against each other.
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/passes/passes.h"

#include "gradients_for_tests.h"

namespace keel {
namespace {

using namespace testing;

// How a loop gets its number of turns, and what its gradient keeps.
struct Way {
  bool at_run_time = false;
  std::optional<int64_t> every{};
};
const std::vector<Way> kWays = {{false, {}},  {true, {}}, {false, 1}, {false, 2}, {false, 3},
                                {false, 100}, {true, 1},  {true, 2},  {true, 3},  {true, 100}};

// A loop of `trips` turns; the counter is a loop variable of its own where the data decides.
Values turns(Graph& g, int64_t trips, const Way& way, const Values& init,
             const BodyFunction& body) {
  WhileOptions options{.recompute_every = way.every};
  if (!way.at_run_time) {
    options.trip_count = trips;
    std::vector<Operand> operands(init.begin(), init.end());
    return while_loop(
        operands, [](const Values& v) { return less(sum(v[0]), -1e30); }, body, options);
  }
  options.max_trips = 9;
  std::vector<Operand> operands(init.begin(), init.end());
  operands.emplace_back(g.constant(Tensor::scalar<int64_t>(0)));
  const Value last = cast(g.constant(Tensor::full(f32, {}, static_cast<double>(trips))), i64);
  Values out = while_loop(
      operands, [&](const Values& v) { return less(v.back(), last); },
      [&](const Values& v) {
        Values next = body(Values(v.begin(), v.end() - 1));
        next.push_back(v.back() + 1);
        return next;
      },
      options);
  out.pop_back();
  return out;
}

constexpr int64_t kTrips[] = {0, 1, 2, 7};

std::string name_of_way(const Way& w) {
  return std::string(w.at_run_time ? "run time" : "static") + " every " +
         std::to_string(w.every.value_or(-1));
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("gradient of n multiplications is the closed form however it is kept") {
  for (const int64_t n : kTrips) {
    for (const Way& way : kWays) {
      CAPTURE(n);
      CAPTURE(name_of_way(way));
      const Loss loss = [&](Graph& g, const Values& x) {
        return turns(g, n, way, {x[0]}, [&](const Values& v) { return Values{v[0] * x[1]}; })[0];
      };
      const double a = 1.25;
      const double x = 3;
      for (const char* backend : {"ref", "cpu"}) {
        const Rows got = Differentiated(loss, {scalar64(x), scalar64(a)}, backend)
                             .run({scalar64(x), scalar64(a)});
        const auto k = static_cast<double>(n);
        CHECK(got[0][0] == doctest::Approx(std::pow(a, k) * x).epsilon(1e-14));
        CHECK(got[1][0] == doctest::Approx(std::pow(a, k)).epsilon(1e-14));
        CHECK(got[2][0] == doctest::Approx(n == 0 ? 0 : k * std::pow(a, k - 1) * x).epsilon(1e-14));
      }
    }
  }
}

// h = tanh(h w + x_t u), with x_t read by an integer loop variable, and a bool one that toggles.
Value recurrent(Graph& g, const Values& x, int64_t n, const Way& way) {
  const Value index = g.constant(Tensor::scalar<int64_t>(0));
  const Value flag = g.constant(Tensor::full(boolean, {}, 1));
  const Value total = g.constant(Tensor::full(x[0].dtype(), {2, 3}, 0));
  const Values out = turns(g, n, way, {x[0], total, index, flag}, [&](const Values& v) {
    const Value row = gather(x[3], v[2]);
    const Value h = tanh(matmul(v[0], x[1]) + row * x[2]);
    const Value scale = select(v[3], h * 2.0, square(h));
    return Values{h, v[1] + scale * cast(v[2] + 1, h.dtype()), v[2] + 1, logical_not(v[3])};
  });
  return sum(square(out[0])) + sum(out[1] * x[0]);
}

Points recurrent_points(DType dtype) {
  return {numbers(dtype, {2, 3}, -0.5, 0.21), numbers(dtype, {3, 3}, 0.7, -0.17),
          numbers(dtype, {3}, 0.3, 0.25), numbers(dtype, {9, 3}, -0.9, 0.07)};
}

TEST_CASE("gradient of a recurrent loop agrees with differences") {
  for (const int64_t n : kTrips) {
    for (const Way& way : kWays) {
      CAPTURE(n);
      CAPTURE(name_of_way(way));
      check_differences([&](Graph& g, const Values& x) { return recurrent(g, x, n, way); },
                        recurrent_points(f64));
    }
  }
}

TEST_CASE("gradient of a recurrent loop is alike on all backends") {
  for (const Way& way : {Way{false, {}}, Way{true, {}}, Way{true, 2}, Way{false, 7}}) {
    CAPTURE(name_of_way(way));
    check_backends([&](Graph& g, const Values& x) { return recurrent(g, x, 7, way); },
                   recurrent_points(f32));
  }
}

TEST_CASE("recomputing changes no bit of a gradient") {
  const Points points = recurrent_points(f32);
  for (const std::string& name : backend_names()) {
    Rows first;
    for (const Way& way : kWays) {
      CAPTURE(name);
      CAPTURE(name_of_way(way));
      const Rows got =
          Differentiated([&](Graph& g, const Values& x) { return recurrent(g, x, 7, way); }, points,
                         name)
              .run(points);
      if (first.empty()) first = got;
      CHECK(got == first);
    }
  }
}

TEST_CASE("gradient of a loop whose data decides when it ends") {
  // Newton's iteration: the condition reads a captured value that is differentiated, too.
  const Loss root = [](Graph&, const Values& x) {
    const Value c = x[0];
    return while_loop(
        {c}, [&](const Values& v) { return greater(abs(v[0] * v[0] - c), c * 1e-13); },
        [&](const Values& v) { return Values{(v[0] + c / v[0]) * 0.5}; }, {.max_trips = 40})[0];
  };
  for (const double c : {2.0, 10.0, 1.0}) {
    for (const char* backend : {"ref", "cpu"}) {
      const Rows got = Differentiated(root, {scalar64(c)}, backend).run({scalar64(c)});
      CHECK(got[0][0] == doctest::Approx(std::sqrt(c)).epsilon(1e-12));
      // At c = 1 no turn is taken: the derivative is that of the start.
      const double expected = c == 1 ? 1 : 0.5 / std::sqrt(c);
      CHECK(got[1][0] == doctest::Approx(expected).epsilon(1e-7));
    }
  }
}

TEST_CASE("gradient of nested loops with conds in them") {
  // The inner loop's turns depend on the outer count; its body chooses a branch by its data.
  const auto loss = [](const Way& way) -> Loss {
    return [way](Graph& g, const Values& x) {
      const Value zero = g.constant(Tensor::scalar<int64_t>(0));
      const Values out = turns(g, 3, way, {x[0], zero}, [&](const Values& v) {
        const Value outer = v[1];
        const Values inner = while_loop(
            {v[0], outer * 0}, [&](const Values& w) { return less(w[1], outer + 1); },
            [&](const Values& w) {
              const Values y = cond(
                  greater(sum(w[0]), sum(x[1])), {w[0]},
                  [&](const Values& u) { return Values{sin(u[0]) * x[1]}; },
                  [&](const Values& u) { return Values{u[0] * u[0] + x[1] * v[0]}; });
              return Values{y[0], w[1] + 1};
            },
            {.max_trips = 4, .recompute_every = way.every});
        return Values{inner[0] + v[0] * 0.5, v[1] + 1};
      });
      return sum(out[0]);
    };
  };
  for (const Way& way : kWays) {
    CAPTURE(name_of_way(way));
    check_differences(loss(way), {numbers(f64, {2}, 0.4, 0.3), numbers(f64, {2}, 0.6, -0.2)});
  }
  check_backends(loss({true, 2}), {numbers(f32, {2}, 0.4, 0.3), numbers(f32, {2}, 0.6, -0.2)});
}

TEST_CASE("gradient of cond goes through the branch taken") {
  const Loss loss = [](Graph& g, const Values& x) {
    const Value unused = g.constant(Tensor::full(x[0].dtype(), {}, 5));
    const Values out = cond(
        greater(sum(x[0]), 0.0), {x[0], x[0]},
        [&](const Values& v) {
          return Values{v[0] * v[1] * x[1], v[0]};
        },
        [&](const Values& v) {
          return Values{exp(v[1]), x[0] + unused};
        });
    return sum(out[0]) + sum(square(out[1]) * x[1]);
  };
  check_differences(loss, {numbers(f64, {3}, 0.5, 0.1), scalar64(1.5)});
  check_differences(loss, {numbers(f64, {3}, -0.5, -0.1), scalar64(1.5)});
  check_backends(loss, {numbers(f32, {3}, 0.5, 0.1), Tensor::full(f32, {}, 1.5)});
}

TEST_CASE("gradient of a loop inside a cond") {
  const Loss loss = [](Graph&, const Values& x) {
    return cond(
        greater(x[0], 0.0), {x[0]},
        [&](const Values& v) {
          return while_loop(
              {v[0]}, [&](const Values& w) { return less(w[0], 10.0); },
              [&](const Values& w) { return Values{w[0] * x[1] + square(x[0])}; },
              {.max_trips = 20, .recompute_every = 3});
        },
        [&](const Values& v) { return Values{v[0] * x[1]}; })[0];
  };
  check_differences(loss, {scalar64(0.75), scalar64(1.3)});
  check_differences(loss, {scalar64(-0.75), scalar64(1.3)});
}

TEST_CASE("a loop's random numbers are drawn again alike on the way back") {
  for (const std::string& name : backend_names()) {
    for (const Way& way : kWays) {
      CAPTURE(name);
      CAPTURE(name_of_way(way));
      Graph g;
      const Value x = g.input("x", f32, {4});
      // Products of masks: the gradient is the loss over x, mask by mask.
      const Values out = turns(g, 5, way, {x}, [&](const Values& v) {
        return Values{dropout(v[0] * (uniform(v[0].graph(), {4}) + 0.5f), 0.25)};
      });
      Session session(g, device(name));
      const Values fetches = {out[0], gradients(sum(out[0]), {x})[0]};
      const auto got = session.run(fetches, {{x, Tensor::of<float>({4}, {1, 1, 1, 1})}});
      // The products are the same but for the order of their factors.
      check_equal({elements(got[0])}, {elements(got[1])}, 1e-6);
      CHECK(elements(got[0])[0] != elements(got[0])[1]);
    }
  }
}

TEST_CASE("segments that are run again draw the same random numbers") {
  const Points points = {Tensor::of<float>({4}, {0.5, 1, 1.5, 2})};
  for (const std::string& name : backend_names()) {
    Rows first;
    for (const Way& way : kWays) {
      CAPTURE(name);
      CAPTURE(name_of_way(way));
      const Loss loss = [&](Graph& g, const Values& x) {
        return sum(turns(g, 5, way, {x[0]}, [&](const Values& v) {
          return Values{sin(v[0] * (uniform(v[0].graph(), {4}) + 0.5f))};
        })[0]);
      };
      const Rows got = Differentiated(loss, points, name).run(points);
      if (first.empty()) first = got;
      CHECK(got == first);
    }
  }
}

TEST_CASE("signed zeros and infinities are kept for the way back") {
  Graph g;
  const Value x = g.input("x", f64, {3});
  const Value w = g.input("w", f64, {3});
  // 1 / -0 is -inf: the branch that a kept +0 would not take. The first variable is only passed on.
  const Values out = while_loop(
      {x, w}, [](const Values& v) { return less(sum(v[0]), 0.0); },
      [](const Values& v) {
        return Values{v[0], select(less(reciprocal(v[0]), 0.0), v[1] * 2.0, v[1] * 3.0)};
      },
      {.trip_count = 2, .recompute_every = 2});
  const Value dw = gradients(sum(out[1]), {w})[0];
  const Feeds feeds = {{x, Tensor::of<double>({3}, {-0.0, 0.0, INFINITY})},
                       {w, Tensor::of<double>({3}, {1, 1, 1})}};
  for (const char* name : {"ref", "cpu"}) {
    Session session(g, device(name));
    CHECK(elements(session.run({dw}, feeds)[0]) == std::vector<double>{4, 9, 9});
  }
}

TEST_CASE("gradients of loops over shapes that only the run knows and over none at all") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {-1, 2});
    const Value w = g.input("w", f32, {2});
    const Value y = while_loop(
        {x}, [](const Values& v) { return less(sum(v[0]), 0.0f); },
        [&](const Values& v) { return Values{v[0] * w}; }, {.trip_count = 3})[0];
    const Values fetches = gradients(sum(y), {x, w});
    Session session(g, device(name));
    for (const int64_t rows : {0, 1, 3}) {
      CAPTURE(rows);
      const auto got = session.run(
          fetches, {{x, Tensor::full(f32, {rows, 2}, 1)}, {w, Tensor::of<float>({2}, {2, 3})}});
      CHECK(got[0].shape() == Shape{rows, 2});
      for (int64_t i = 0; i < rows; ++i) {
        CHECK(got[0].at(2 * i) == 8);
        CHECK(got[0].at(2 * i + 1) == 27);
      }
      // 3 w^2 for each row.
      CHECK(elements(got[1]) == std::vector<double>{12.0 * static_cast<double>(rows),
                                                    27.0 * static_cast<double>(rows)});
    }
  }
}

TEST_CASE("gradients of loops in half precision") {
  for (const DType dtype : {f16, bf16}) {
    check_backends(
        [](Graph& g, const Values& x) {
          return sum(turns(g, 4, {true, 2}, {x[0]},
                           [&](const Values& v) { return Values{tanh(v[0] * x[1])}; })[0]);
        },
        {numbers(dtype, {3}, 0.5, 0.25), numbers(dtype, {3}, 1, 0.5)}, 0.05);
  }
}

TEST_CASE("second gradients of a loop") {
  for (const Way& way : kWays) {
    CAPTURE(name_of_way(way));
    Graph g;
    const Value a = g.input("a", f64, {});
    const Value x = g.input("x", f64, {});
    const Value y = turns(g, 5, way, {x}, [&](const Values& v) { return Values{v[0] * a}; })[0];
    const Value da = gradients(y, {a})[0];
    const Values second = gradients(da, {a, x});
    const Feeds feeds = {{a, scalar64(1.5)}, {x, scalar64(2)}};
    for (const char* name : {"ref", "cpu"}) {
      Session session(g, device(name));
      const auto got = session.run({da, second[0], second[1]}, feeds);
      CHECK(got[0].at(0) == doctest::Approx(5 * std::pow(1.5, 4) * 2));
      CHECK(got[1].at(0) == doctest::Approx(20 * std::pow(1.5, 3) * 2));
      CHECK(got[2].at(0) == doctest::Approx(5 * std::pow(1.5, 4)));
    }
  }
}

TEST_CASE("second gradients of a recurrent loop agree with differences") {
  for (const Way& way : {Way{false, {}}, Way{true, 2}}) {
    const Loss slope = [&](Graph& g, const Values& x) {
      const Values first = gradients(recurrent(g, x, 3, way), {x[0], x[1]});
      return sum(square(first[0])) + sum(first[1] * x[1]);
    };
    check_differences(slope, recurrent_points(f64));
  }
}

TEST_CASE("integer loop variables carry no gradient and floats through them none") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Value n = g.constant(Tensor::scalar<int64_t>(0));
  const Values out = while_loop(
      {x, n}, [](const Values& v) { return less(v[1], 4); },
      [&](const Values& v) {
        return Values{v[0] + cast(v[1], f32), v[1] + cast(x, i64)};
      },
      {.max_trips = 10});
  const Values d = gradients(out[0] + cast(out[1], f32), {x});
  for (const std::string& name : backend_names()) {
    Session session(g, device(name));
    CHECK(elements(session.run({d[0]}, {{x, Tensor::full(f32, {}, 1.5)}})[0]) ==
          std::vector<double>{1});
  }
}

TEST_CASE("the step of a program computes a differentiated loop once") {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value y = while_loop(
      {x}, [](const Values& v) { return less(sum(v[0]), 0.0f); },
      [](const Values& v) { return Values{sin(v[0])}; }, {.trip_count = 5})[0];
  const Value loss = sum(square(y));
  const auto graph = specialise({.graph = &g,
                                 .fetches = {loss, gradients(loss, {x})[0]},
                                 .update = {},
                                 .input_types = {{"x", x.type()}}});
  verify(*graph);
  std::vector<std::vector<Type>> loops;
  for (const Node& node : graph->nodes()) {
    if (node.op_name() == "while_loop") loops.push_back(node.types().to_vector());
  }
  // Forward with a stack of five rows behind its variable, and backward.
  REQUIRE(loops.size() == 2);
  CHECK(loops[0] == std::vector<Type>{{i64, {}}, {f32, {4}}, {f32, {5, 4}}});
  CHECK(loops[1] == std::vector<Type>{{i64, {}}, {f32, {4}}});
  const std::string text = print_graph(*graph);
  CHECK(print_graph(*parse_graph(text, graph->ops())) == text);
  CHECK_FALSE(contains(text, "forward_of"));
}

TEST_CASE("a recurrent model trains in a sunk step as unrolled") {
  const auto losses = [](const std::string& name, std::optional<int64_t> unrolled, Way way) {
    Graph g;
    const Value h0 = g.constant(numbers(f32, {2, 3}, -0.5, 0.2));
    const Value w =
        g.state("w", Initializer{"value", {f32, {3, 3}}, 0, 0, numbers(f32, {3, 3}, 0.4, -0.1)});
    const Value target = g.constant(numbers(f32, {2, 3}, 0.3, -0.1));
    const auto step = [&](const Values& v) { return Values{tanh(matmul(v[0], w) + v[0] * 0.25f)}; };
    Values h = {h0};
    if (unrolled) {
      for (int64_t i = 0; i < *unrolled; ++i) h = step(h);
    } else {
      h = turns(g, 6, way, h, step);
    }
    const Value loss = mean(square(h[0] - target));
    const Update train = sgd(1.0).minimize(loss);
    Session session(g, device(name));
    Loop loop = session.sink({.update = train, .fetches = {loss}});
    const LoopReport report = loop.run(12);
    std::vector<double> rows(report[loss].begin(), report[loss].end());
    rows.push_back(session.read(w).at(4));
    return rows;
  };
  const std::vector<double> expected = losses("ref", 6, {});
  CHECK(expected[11] < 0.9 * expected[0]);
  for (const std::string& name : backend_names()) {
    for (const Way& way : {Way{false, {}}, Way{true, {}}, Way{true, 2}, Way{false, 4}}) {
      CAPTURE(name);
      CAPTURE(name_of_way(way));
      check_equal({losses(name, {}, way)}, {expected}, 1e-4);
    }
  }
}

// The host copies all of a stack to write a row, so that a loop of n turns would take n * n.
TEST_CASE(
    "control gradient: stacks of turns on the host lie there only where devices lack the dtype") {
  for (const DType dtype : {f32, f64}) {
    Graph g;
    const Value x = g.input("x", dtype, {5});
    const Values loop = while_loop(
        {x}, [](const Values& v) { return less(sum(v[0]), -1e30); },
        [&](const Values& v) {
          const HostScope host(v[0].graph());
          return Values{sin(v[0]) * v[0]};
        },
        {.trip_count = 7});
    const std::unique_ptr<Graph> expanded = specialise({.graph = &g,
                                                        .fetches = gradients(sum(loop[0]), {x}),
                                                        .update = {},
                                                        .input_types = {{"x", x.type()}}});
    int64_t on_host = 0, on_device = 0;
    const std::function<void(const Graph&)> count = [&](const Graph& graph) {
      for (const Node& node : graph.nodes()) {
        if (node.op_name() == "scatter_add" || node.op_name() == "gather")
          ++(is_on_host(node) ? on_host : on_device);
        for (const auto& body : node.bodies()) count(*body);
      }
    };
    count(*expanded);
    CAPTURE(std::string(name_of(dtype)));
    CHECK((dtype == f64 ? on_host : on_device) > 1);
    CHECK((dtype == f64 ? on_device : on_host) == 0);
  }
}

TEST_SUITE_END();

}  // namespace keel
