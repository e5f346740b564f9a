// lstm and gru: plain double loops for outputs, gradients by differences, unrolled loops, and
// training in loops of any size.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/passes/passes.h"
#include "keel/graph/runtime/loop.h"

#include "gradients_for_tests.h"
#include "unit/ops/logistic_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr int64_t kTime = 4, kBatch = 2, kFeatures = 3, kUnits = 2;

// x, weights and initial states of an lstm, then of a gru.
Points lstm_points(DType dtype) {
  return {waves({kTime, kBatch, kFeatures}, 0, dtype), waves({kFeatures, 4 * kUnits}, 1, dtype),
          waves({kUnits, 4 * kUnits}, 2, dtype),       waves({4 * kUnits}, 3, dtype),
          waves({kBatch, kUnits}, 4, dtype),           waves({kBatch, kUnits}, 5, dtype)};
}
Points gru_points(DType dtype) {
  return {waves({kTime, kBatch, kFeatures}, 0, dtype),
          waves({kFeatures, 3 * kUnits}, 1, dtype),
          waves({kUnits, 3 * kUnits}, 2, dtype),
          waves({3 * kUnits}, 3, dtype),
          waves({3 * kUnits}, 4, dtype),
          waves({kBatch, kUnits}, 5, dtype)};
}

// One row of a product: sum over i of x[first + i] * w[i, column].
double row_product(const Doubles& x, int64_t first, const Tensor& w, int64_t column) {
  double total = 0;
  for (int64_t i = 0; i < w.shape()[0]; ++i) {
    total += x[static_cast<size_t>(first + i)] * w.at(i * w.shape()[1] + column);
  }
  return total;
}

TEST_CASE("lstm is that of plain loops in both directions") {
  const Points p = lstm_points(f64);
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    Doubles x = elements(p[0]), h = elements(p[4]), c = elements(p[5]);
    Doubles outputs(static_cast<size_t>(kTime * kBatch * kUnits));
    for (int64_t step = 0; step < kTime; ++step) {
      const int64_t t = reverse ? kTime - 1 - step : step;
      const Doubles before = h;
      for (int64_t b = 0; b < kBatch; ++b) {
        for (int64_t u = 0; u < kUnits; ++u) {
          const auto gate = [&](int64_t which) {
            const int64_t column = which * kUnits + u;
            return row_product(x, (t * kBatch + b) * kFeatures, p[1], column) +
                   row_product(before, b * kUnits, p[2], column) + p[3].at(column);
          };
          const auto at = static_cast<size_t>(b * kUnits + u);
          c[at] = logistic(gate(1)) * c[at] + logistic(gate(0)) * std::tanh(gate(2));
          h[at] = logistic(gate(3)) * std::tanh(c[at]);
          outputs[static_cast<size_t>((t * kBatch + b) * kUnits + u)] = h[at];
        }
      }
    }
    Graph g;
    const auto constant = [&](size_t i) { return g.constant(p[i]); };
    const LstmSequence run = lstm(constant(0), {constant(1), constant(2), constant(3)},
                                  LstmState{constant(4), constant(5)}, {.reverse = reverse});
    check_close(elements(run.outputs), outputs, 1e-14);
    check_close(elements(run.last.hidden), h, 1e-14);
    check_close(elements(run.last.cell), c, 1e-14);
  }
}

TEST_CASE("gru is that of plain loops") {
  const Points p = gru_points(f64);
  Doubles x = elements(p[0]), h = elements(p[5]), outputs;
  for (int64_t t = 0; t < kTime; ++t) {
    const Doubles before = h;
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t u = 0; u < kUnits; ++u) {
        const auto of_x = [&](int64_t which) {
          const int64_t column = which * kUnits + u;
          return row_product(x, (t * kBatch + b) * kFeatures, p[1], column) + p[3].at(column);
        };
        const auto of_state = [&](int64_t which) {
          const int64_t column = which * kUnits + u;
          return row_product(before, b * kUnits, p[2], column) + p[4].at(column);
        };
        const double reset = logistic(of_x(0) + of_state(0));
        const double update = logistic(of_x(1) + of_state(1));
        const double candidate = std::tanh(of_x(2) + reset * of_state(2));
        const auto at = static_cast<size_t>(b * kUnits + u);
        h[at] = (1 - update) * candidate + update * before[at];
      }
    }
    outputs.insert(outputs.end(), h.begin(), h.end());
  }
  Graph g;
  const auto constant = [&](size_t i) { return g.constant(p[i]); };
  const GruSequence run =
      gru(constant(0), {constant(1), constant(2), constant(3), constant(4)}, constant(5));
  check_close(elements(run.outputs), outputs, 1e-14);
  check_close(elements(run.last), h, 1e-14);
}

// ---- losses of all outputs and of the last states, in a loop and unrolled

Value weighted(const Value& outputs) {
  Tensor weights = waves({kTime, kBatch, kUnits}, 6, outputs.dtype());
  return sum(outputs * outputs.graph().constant(weights));
}
Value lstm_loss(const Values& x, const RecurrentOptions& options) {
  const LstmSequence run = lstm(x[0], {x[1], x[2], x[3]}, LstmState{x[4], x[5]}, options);
  return weighted(run.outputs) + sum(square(run.last.hidden)) + sum(run.last.cell);
}
Value unrolled_lstm_loss(const Values& x) {
  LstmState state{x[4], x[5]};
  Values outputs;
  for (int64_t t = 0; t < kTime; ++t) {
    state = lstm_cell(x[0][t], state, {x[1], x[2], x[3]});
    outputs.push_back(state.hidden);
  }
  return weighted(stack(outputs)) + sum(square(state.hidden)) + sum(state.cell);
}
Value gru_loss(const Values& x, const RecurrentOptions& options) {
  const GruSequence run = gru(x[0], {x[1], x[2], x[3], x[4]}, x[5], options);
  return weighted(run.outputs) + sum(square(run.last));
}
Value unrolled_gru_loss(const Values& x) {
  Value state = x[5];
  Values outputs;
  for (int64_t t = 0; t < kTime; ++t) {
    state = gru_cell(x[0][t], state, {x[1], x[2], x[3], x[4]});
    outputs.push_back(state);
  }
  return weighted(stack(outputs)) + sum(square(state));
}

TEST_CASE("gradients of lstm and gru agree with differences and backends with ref") {
  for (const int64_t every : {1, 3}) {
    CAPTURE(every);
    const RecurrentOptions options{.recompute_every = every};
    const Loss of_lstm = [&](Graph&, const Values& x) { return lstm_loss(x, options); };
    const Loss of_gru = [&](Graph&, const Values& x) { return gru_loss(x, options); };
    check_differences(of_lstm, lstm_points(f64));
    check_differences(of_gru, gru_points(f64));
    check_backends(of_lstm, lstm_points(f32));
    check_backends(of_gru, gru_points(f32));
  }
}

TEST_CASE("a loop over time and the same unrolled give the same losses and gradients") {
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const auto run = [&](const Loss& loss, const Points& points) {
      return Differentiated(loss, points, backend).run(points);
    };
    const Rows lstm_rows =
        run([](Graph&, const Values& x) { return lstm_loss(x, {}); }, lstm_points(f32));
    const Rows lstm_unrolled =
        run([](Graph&, const Values& x) { return unrolled_lstm_loss(x); }, lstm_points(f32));
    CHECK(lstm_rows[0] == lstm_unrolled[0]);
    check_equal(lstm_rows, lstm_unrolled, 1e-5);
    const Rows gru_rows =
        run([](Graph&, const Values& x) { return gru_loss(x, {}); }, gru_points(f32));
    const Rows gru_unrolled =
        run([](Graph&, const Values& x) { return unrolled_gru_loss(x); }, gru_points(f32));
    CHECK(gru_rows[0] == gru_unrolled[0]);
    check_equal(gru_rows, gru_unrolled, 1e-5);
  }
}

TEST_CASE("the gradient of a sequence adds a row in each step and not the whole") {
  const Points points = lstm_points(f32);
  Graph g;
  Values inputs;
  for (const Tensor& p : points)
    inputs.push_back(g.input("p" + std::to_string(inputs.size()), f32, p.shape()));
  const Value slope = gradients(lstm_loss(inputs, {}), {inputs[0]})[0];
  SpecialiseRequest request{.graph = &g, .fetches = {slope}};
  for (size_t i = 0; i < points.size(); ++i)
    request.input_types["p" + std::to_string(i)] = points[i].type();
  const auto whole = specialise(request);
  int rows = 0, sums = 0;
  for (const Node& node : whole->nodes()) {
    if (!node.is(OpRole::kWhile)) continue;
    for (const Node& inner : node.bodies()[1]->nodes()) {
      if (inner.types().empty() || inner.type().shape != points[0].shape()) continue;
      rows += inner.op_name() == "scatter_add" ? 1 : 0;
      sums += inner.op_name() == "add" ? 1 : 0;
    }
  }
  CHECK(rows == 1);
  CHECK(sums == 0);
}

// The losses of 14 steps of gradient descent on data that change with the step, sunk in launches of
// these sizes; and the last weights.
Doubles train_recurrent(const std::string& backend, bool is_gru, bool unrolled,
                        const std::vector<int64_t>& sizes) {
  Graph g;
  const Value turn = sin(cast(g.step(), f32)) + 1.5f;
  const Value x = g.constant(waves({kTime, kBatch, kFeatures}, 0, f32)) * turn;
  const int64_t gates = is_gru ? 3 : 4;
  const auto state = [&](const char* name, const Shape& shape, double phase) {
    return g.state(name, Initializer{"value", {f32, shape}, 0, 0, waves(shape, phase, f32)});
  };
  const Value input = state("input", {kFeatures, gates * kUnits}, 1);
  const Value hidden = state("hidden", {kUnits, gates * kUnits}, 2);
  const Value bias = state("bias", {gates * kUnits}, 3);
  Values weights{input, hidden, bias};
  const Value zero = g.constant(Tensor(f32, {kBatch, kUnits}));
  Value loss;
  if (is_gru) {
    weights.push_back(state("hidden bias", {gates * kUnits}, 4));
    const Values points{x, input, hidden, bias, weights[3], zero};
    loss = unrolled ? unrolled_gru_loss(points) : gru_loss(points, {});
  } else {
    const Values points{x, input, hidden, bias, zero, zero};
    loss = unrolled ? unrolled_lstm_loss(points) : lstm_loss(points, {});
  }
  const Update update = sgd(0.05).minimize(loss);
  Session session(g, device(backend));
  Loop loop = session.sink({.update = update, .fetches = {loss}});
  Doubles rows;
  for (const int64_t size : sizes) {
    const LoopReport report = loop.run(size);
    rows.insert(rows.end(), report[loss].begin(), report[loss].end());
  }
  for (const Value& v : weights) {
    const Doubles numbers = elements(session.read(v));
    rows.insert(rows.end(), numbers.begin(), numbers.end());
  }
  return rows;
}

TEST_CASE("lstm and gru train alike in loops of any size and unrolled") {
  for (const std::string& backend : backend_names()) {
    for (const bool is_gru : {false, true}) {
      CAPTURE(backend);
      CAPTURE(is_gru);
      const Doubles whole = train_recurrent(backend, is_gru, false, {14});
      CHECK(whole[13] < whole[0]);
      CHECK(train_recurrent(backend, is_gru, false, {7, 7}) == whole);
      CHECK(train_recurrent(backend, is_gru, false, std::vector<int64_t>(14, 1)) == whole);
      const Doubles unrolled = train_recurrent(backend, is_gru, true, {14});
      CHECK(unrolled[0] == whole[0]);
      // The gradient of a gru's state has three terms (two in the next step, one of the output),
      // which the loop and the unrolled graph add up in another order.
      if (!is_gru) CHECK(unrolled == whole);
      REQUIRE(unrolled.size() == whole.size());
      for (size_t i = 0; i < unrolled.size(); ++i) {
        CHECK(whole[i] == doctest::Approx(unrolled[i]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("recurrent sequences begin with zeros for an unknown batch as well") {
  const Points p = lstm_points(f32);
  Graph g;
  const Value x = g.input("x", f32, {kTime, -1, kFeatures});
  const Value w = g.constant(p[1]), u = g.constant(p[2]), b = g.constant(p[3]);
  const LstmSequence run = lstm(x, {w, u, b});
  CHECK(run.outputs.shape() == Shape{kTime, -1, kUnits});
  const Value zero = g.constant(Tensor(f32, {kBatch, kUnits}));
  const LstmSequence same = lstm(g.constant(p[0]), {w, u, b}, LstmState{zero, zero});
  CHECK(elements(run.outputs, {{x, p[0]}}) == elements(same.outputs));
  CHECK(elements(lstm(g.constant(p[0]), {w, u, b}).last.cell) == elements(same.last.cell));
  // Infinities in x do not reach what only has its shape from it.
  CHECK(elements(run.last.cell, {{x, Tensor::full(f32, {kTime, 1, kFeatures}, INFINITY)}}).size() ==
        kUnits);
  // No step, no element.
  const LstmSequence none = lstm(g.constant(Tensor(f32, {0, kBatch, kFeatures})), {w, u, b});
  CHECK(none.outputs.shape() == Shape{0, kBatch, kUnits});
  CHECK(elements(none.last.hidden) == Doubles(kBatch * kUnits, 0));
  CHECK(elements(run.outputs, {{x, Tensor(f32, {kTime, 0, kFeatures})}}).empty());
}

TEST_CASE("recurrent cells say which weight does not fit") {
  Graph g;
  const Points p = lstm_points(f32);
  const Value x = g.constant(p[0]), w = g.constant(p[1]), u = g.constant(p[2]),
              b = g.constant(p[3]), h = g.constant(p[4]);
  const auto message = [](auto&& f) { return error_of(f); };
  CHECK(contains(message([&] { lstm(x, {u, u, b}); }), "input weights"));
  CHECK(contains(message([&] { lstm(x, {u, u, b}); }), "[3, 8]"));
  CHECK(contains(message([&] { lstm(x, {w, w, b}); }), "hidden weights"));
  CHECK(contains(message([&] { lstm(x, {w, u, u}); }), "bias"));
  CHECK(contains(message([&] { lstm(x, {w, u, Value()}); }), "bias"));
  CHECK(contains(message([&] { lstm(x, {w, u, b}, LstmState{h, b}); }), "initial cell"));
  CHECK(contains(message([&] { lstm(h, {w, u, b}); }), "[time, batch, features]"));
  CHECK(contains(message([&] { lstm_cell(x, {h, h}, {w, u, b}); }), "[batch, features]"));
  CHECK(contains(message([&] { gru(x, {w, u, b, b}); }), "hidden weights"));
  CHECK(contains(message([&] { gru(x, {w, u, b, b}); }), __FILE__));
  CHECK(contains(message([&] { lstm(g.constant(p[0].cast(f16)), {w, u, b}); }), "cast"));
  const Value any = g.input("any", f32, {-1, 2, kFeatures});
  CHECK(contains(message([&] { lstm(any, {w, u, b}); }), "known time"));
}

}  // namespace

TEST_SUITE_END();
