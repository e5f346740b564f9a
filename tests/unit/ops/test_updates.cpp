// Updates of several micro-batches, averaged weights, and schedules that go by the loss: values
// from plain doubles; the same bits for every loop size, and after a resume wherever that falls.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "ops_for_tests.h"
#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::TempFolder;

constexpr int64_t kBatchRows = 3;

double x_of(int64_t element, int64_t row) {
  return static_cast<double>((element * 5 + row * 3) % 7) / 7 - 0.25;
}

// loss = mean((w x - 1)^2) over a micro-batch; `seen` is a running statistic.
struct Line {
  DType dtype = f64;
  Graph graph;
  Value x = graph.input("x", dtype, {kBatchRows});
  Value w = graph.state("w", constant({}, 0.5, dtype));
  Value seen = graph.state("seen", zeros({}, dtype), {.trainable = false});
  Value output = x * w;
  Value loss = mean(square(output - 1.0));

  explicit Line(DType of = f64) : dtype(of) { attach_running_mean(output, seen, mean(x), 0.9); }

  // The gradients of `micro_batches` steps in one update of the optimizer.
  Update accumulated(const Optimizer& optimizer, int64_t micro_batches) {
    const Accumulated gathered =
        accumulate_gradients({w}, gradients(loss, {w}), Operand(loss), micro_batches);
    Update update =
        apply_if(gathered.complete, optimizer.apply({w}, gathered.means, Operand(gathered.loss)));
    update += gathered.update;
    update += attached_updates(loss);
    return update;
  }
};

std::shared_ptr<NumberFeeder> batches(const Device& on) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {kBatchRows}}}}},
      [](int64_t element, const std::vector<void*>& fields) {
        for (int64_t row = 0; row < kBatchRows; ++row)
          static_cast<float*>(fields[0])[row] = static_cast<float>(x_of(element, row));
        return true;
      });
  feeder->open({});
  return feeder;
}

double gradient_of(double w, int64_t element) {
  double sum = 0;
  for (int64_t row = 0; row < kBatchRows; ++row) {
    const double x = x_of(element, row);
    sum += 2 * x * (w * x - 1) / kBatchRows;
  }
  return sum;
}

// w after each of the steps: Adam by its paper's formulas on the means of `k` gradients.
Doubles adam_of_means(int64_t k, int64_t steps) {
  Doubles result;
  double w = 0.5, m = 0, v = 0, sum = 0;
  for (int64_t i = 0; i < steps; ++i) {
    sum += gradient_of(w, i);
    if ((i + 1) % k == 0) {
      const double g = sum / static_cast<double>(k);
      const auto t = static_cast<double>((i + 1) / k);
      m = 0.9 * m + 0.1 * g;
      v = 0.99 * v + 0.01 * g * g;
      w -= 0.05 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.99, t))) + 1e-3);
      sum = 0;
    }
    result.push_back(w);
  }
  return result;
}

TEST_CASE("accumulated gradients make one update of their mean") {
  for (const int64_t k : {1, 3, 4}) {
    CAPTURE(k);
    const Doubles expected = adam_of_means(k, 40);
    Line line;
    const Update update = line.accumulated(adam(0.05, {.beta2 = 0.99, .epsilon = 1e-3}), k);
    Session session(line.graph, device("ref"));
    double seen = 0;
    for (int64_t i = 0; i < 40; ++i) {
      CAPTURE(i);
      Tensor x(f64, {kBatchRows});
      double mean = 0;
      for (int64_t row = 0; row < kBatchRows; ++row) {
        x.set(row, x_of(i, row));
        mean += x_of(i, row) / kBatchRows;
      }
      session.run(update, {}, {{line.x, x}});
      seen = 0.9 * seen + 0.1 * mean;  // running statistics go on with each micro-batch
      CHECK(session.read(line.w).at(0) ==
            doctest::Approx(expected[static_cast<size_t>(i)]).epsilon(1e-12));
      CHECK(session.read(line.seen).at(0) == doctest::Approx(seen).epsilon(1e-12));
      CHECK(session.step() == i + 1);
      CHECK(session.updates_applied() == (i + 1) / k);
    }
  }
}

// Whatever can be put around an update, all together.
struct Everything : Line {
  Update update;
  Value evaluated;

  explicit Everything(int64_t micro_batches) : Line(f32) {
    const Schedule rate = reduce_on_plateau(0.2, {.factor = 0.5, .patience = 1, .every = 2});
    const Accumulated gathered =
        accumulate_gradients({w}, gradients(loss, {w}), Operand(loss), micro_batches);
    const Update step =
        lamb(rate).apply({w}, clip_by_value(gathered.means, 0.25), Operand(gathered.loss));
    update = apply_if(gathered.complete, average_weights(step, 0.9));
    update += gathered.update;
    update += attached_updates(loss);
    evaluated = with_averaged_weights(output);
  }
};

TEST_CASE("updates of micro-batches have the same bits for every loop size") {
  constexpr int64_t kSteps = 45;
  for (const std::string& name : backend_names()) {
    std::string expected;
    std::vector<double> losses;
    for (const int64_t size : {int64_t{1}, int64_t{7}, kSteps}) {
      CAPTURE(name);
      CAPTURE(size);
      Everything m(4);
      Session session(m.graph, device(name));
      Trainer trainer(session,
                      {.update = m.update, .fetches = {m.loss}, .source = batches(device(name))});
      std::vector<double> seen;
      trainer.fit(
          {.steps = kSteps,
           .loop_size = size,
           .on_step = [&](int64_t, std::span<const double> row) { seen.push_back(row[0]); }});
      CHECK(session.updates_applied() == kSteps / 4);
      // The plateau was met.
      CHECK(session.read(m.graph.find_state("plateau/scale")).at(0) < 1);
      if (size == 1) {
        expected = session.state_sha256();
        losses = seen;
      }
      CHECK(session.state_sha256() == expected);
      CHECK(seen == losses);
    }
  }
}

TEST_CASE("a training stopped between micro-batches resumes bit for bit") {
  const Device on = device("cpu");
  Everything whole(4);
  Session expected(whole.graph, on);
  Trainer complete(expected,
                   {.update = whole.update, .fetches = {whole.loss}, .source = batches(on)});
  complete.fit({.steps = 30, .loop_size = 7});
  for (const int64_t stop : {1, 4, 7, 18}) {
    CAPTURE(stop);
    const TempFolder folder;
    Everything first(4), second(4);
    Session begun(first.graph, on), session(second.graph, on);
    Trainer begin(begun, {.update = first.update, .fetches = {first.loss}, .source = batches(on)});
    begin.fit({.steps = stop, .loop_size = 2});
    begin.save(folder.file("states"));
    Trainer trainer(session,
                    {.update = second.update, .fetches = {second.loss}, .source = batches(on)});
    trainer.resume(folder.file("states"));
    CHECK(session.updates_applied() == stop / 4);
    trainer.fit({.steps = 30 - stop, .loop_size = 5});
    CHECK(session.state_sha256() == expected.state_sha256());
  }
}

TEST_CASE("averaged weights follow their formula and are what evaluates") {
  Line line;
  const Update update = average_weights(sgd(0.3).minimize(line.loss), 0.6);
  const Value evaluated = with_averaged_weights(line.output);
  CHECK(!line.graph.find_state("w/average").node().as<StateAttributes>().trainable);
  Session session(line.graph, device("ref"));
  const Tensor two = Tensor::full(f64, {kBatchRows}, 2);
  const auto evaluate = [&] { return session.run({evaluated}, {{line.x, two}})[0].at(0); };
  // Before the first update the weights stand for themselves.
  CHECK(evaluate() == 2 * 0.5);
  double w = 0.5, average = 0;
  for (int64_t i = 0; i < 20; ++i) {
    Tensor x(f64, {kBatchRows});
    for (int64_t row = 0; row < kBatchRows; ++row) x.set(row, x_of(i, row));
    session.run(update, {}, {{line.x, x}});
    w -= 0.3 * gradient_of(w, i);
    const auto n = static_cast<double>(i);
    const double d = std::min(0.6, n / (n + 9));
    average = d * average + (1 - d) * w;
    if (i == 0)
      CHECK(session.read(line.graph.find_state("w/average")).at(0) == session.read(line.w).at(0));
    CHECK(session.read(line.w).at(0) == doctest::Approx(w).epsilon(1e-12));
    CHECK(evaluate() == doctest::Approx(2 * average).epsilon(1e-12));
  }
}

TEST_CASE("averages of 16-bit weights are f32 and leave running statistics out") {
  Graph g;
  const Value x = g.input("x", bf16, {2, 4});
  const Value w = g.state("w", xavier_normal({4, 4}, bf16));
  const Value seen = g.state("seen", zeros({}, bf16), {.trainable = false});
  const Value y = dropout(matmul(x, w) * (seen + 1.0), 0.5);
  attach_running_mean(y, seen, mean(x), 0.5);
  const Value loss = sum(y);
  const Update update = average_weights(sgd(0.5).minimize(loss), 0.99);
  CHECK(g.find_state("w/average").dtype() == f32);
  CHECK_FALSE(g.find_state("seen/average").valid());
  const Value averaged = with_averaged_weights(y);
  CHECK(averaged.type() == y.type());
  Session session(g, device("cpu"));
  const Tensor ones = Tensor::full(bf16, {2, 4}, 1);
  // The same masks: before the first update and behind it nothing but the name of the weights
  // differs.
  const auto equal_outputs = [&] {
    const auto both = session.run({y, averaged}, {{x, ones}});
    return bit_equal(both[0], both[1]);
  };
  CHECK(equal_outputs());
  session.run(update, {}, {{x, ones}});
  const Tensor first = session.read(w);
  CHECK(equal_outputs());
  session.run(update, {}, {{x, ones}});
  const Tensor second = session.read(w), average = session.read(g.find_state("w/average"));
  CHECK_FALSE(bit_equal(first, second));
  CHECK_FALSE(equal_outputs());
  // d = 1 / 10 in the second update.
  for (int64_t i = 0; i < average.num_elements(); ++i)
    CHECK(average.at(i) == doctest::Approx(0.1 * first.at(i) + 0.9 * second.at(i)).epsilon(1e-5));
}

TEST_CASE("accumulation and averages refuse what they cannot work with") {
  Line line;
  const Values slopes = gradients(line.loss, {line.w});
  CHECK(contains(error_of([&] { accumulate_gradients({line.w}, slopes, 0); }),
                 "micro_batches: expected at least 1, got 0"));
  CHECK(
      contains(error_of([&] { accumulate_gradients({line.w}, {}, 2); }), "1, one for each state"));
  CHECK(contains(error_of([&] { accumulate_gradients({}, {}, 2); }), "at least one"));
  CHECK(contains(error_of([&] { accumulate_gradients({line.w}, {cast(slopes[0], f32)}, 2); }),
                 "gradient of w"));
  CHECK(contains(error_of([&] { accumulate_gradients({line.w}, slopes, Operand(line.output), 2); }),
                 "loss: expected a float scalar"));
  CHECK(contains(error_of([&] { with_averaged_weights(line.output); }), "average_weights first"));
  const Update update = sgd(0.1).apply({line.w}, slopes);
  CHECK(contains(error_of([&] { average_weights(update, 1); }), "decay"));
  CHECK(contains(error_of([&] { average_weights({}, 0.9); }), "assigns none"));
  const Update guarded = apply_if(less(line.loss, 9.0), update);
  CHECK(contains(error_of([&] { average_weights(guarded, 0.9); }), "average first"));
  CHECK_FALSE(line.graph.find_state("w/average").valid());
}

}  // namespace

TEST_SUITE_END();
