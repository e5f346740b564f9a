// check_numerics: the op that made the first number which is not finite, or was stopped at the
// largest f16, by step, name, line and operands, for every loop size, and nothing else changed.
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/core/base/log.h"
#include "keel/core/device/numerics_watch.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr int64_t kCheckedSteps = 80;

// Elements of about 1; those of the planted steps, counted from 1, have a number of 1e30.
std::shared_ptr<NumberFeeder> planted_rows(const Device& on, std::vector<int64_t> planted) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {4, 6}}}}},
      [planted](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        for (int64_t k = 0; k < 24; ++k)
          x[k] = static_cast<float>(std::sin(0.3 * static_cast<double>(i * 24 + k)));
        for (const int64_t step : planted) {
          if (i + 1 == step) x[7] = 1e30f;
        }
        return true;
      });
  feeder->open({});
  return feeder;
}

struct GuardedModel {
  explicit GuardedModel(bool guarded) {
    {
      const NameScope head(graph, "head");
      squares = square(matmul(x, w));
    }
    line = __LINE__ - 2;
    loss = mean(squares);
    update = sgd(0.01).minimize(loss);
    if (guarded) update = apply_if(all_finite({loss}), update);
  }
  Graph graph;
  Value x = graph.input("x", f32, {4, 6});
  Value w = graph.state("w", uniform({6, 3}, -1, 1));
  Value squares, loss;
  Update update;
  int line = 0;
};

struct CheckedRun {
  TrainReport report;
  std::string sha;
  std::vector<double> losses;
  int line = 0;
};

CheckedRun train_checked(const char* backend, NumericsMode mode, int64_t loop_size,
                         std::vector<int64_t> planted, bool guarded = true,
                         int64_t steps = kCheckedSteps) {
  GuardedModel m(guarded);
  Session session(m.graph, device(backend));
  Trainer trainer(session, {.update = m.update,
                            .fetches = {m.loss},
                            .source = planted_rows(session.device(), std::move(planted))});
  CheckedRun result{.report = {}, .sha = {}, .losses = {}, .line = m.line};
  result.report = trainer.fit({.steps = steps,
                               .loop_size = loop_size,
                               .on_step = [&](int64_t, std::span<const double> values,
                                              uint32_t) { result.losses.push_back(values[0]); },
                               .check_numerics = mode});
  result.sha = session.state_sha256();
  return result;
}

// A step that finds in x, [4, 6], and has w, [6], what `planted` has from step 30 on there.
TrainReport train_with(const char* backend, float planted,
                       const std::function<Value(Graph&, const Value&)>& loss_of,
                       int64_t loop_size = 7, bool stops = false) {
  const auto feeder = std::make_shared<NumberFeeder>(
      device(backend), ElementSpec{{{"x", {f32, {4, 6}}}}},
      [planted](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        for (int64_t k = 0; k < 24; ++k)
          x[k] = static_cast<float>(std::sin(0.3 * static_cast<double>(i * 24 + k)));
        if (i + 1 == 30) x[7] = planted;
        return true;
      });
  feeder->open({});
  Graph g;
  const Value x = g.input("x", f32, {4, 6});
  const Value w = g.state("w", ones({}));
  const Value loss = loss_of(g, x * w);
  const Value stop_when = stops ? greater(loss, -1e30f) : Value();
  Session session(g, device(backend));
  Trainer trainer(session, {.update = Update{{{w, w * 0.99f}}},
                            .fetches = {loss},
                            .source = feeder,
                            .stop_when = stop_when});
  return trainer.fit({.steps = 40, .loop_size = loop_size, .check_numerics = NumericsMode::kFirst});
}

// An attention mask: -infinity where `x` is none of the first two columns.
Value masked(Graph& g, const Value& x) {
  Tensor inside(boolean, {6});
  for (int64_t i = 0; i < 2; ++i) inside.set(i, 1);
  const Value none = g.constant(Tensor::full(f32, {}, -std::numeric_limits<double>::infinity()));
  return named(select(g.constant(inside), x, none), "masked");
}

}  // namespace

TEST_CASE("check numerics: an overflow planted at step 57 is named there for every loop size") {
  for (const char* backend : {"cpu", "npu", "ref"}) {
    CAPTURE(backend);
    const CheckedRun plain = train_checked(backend, NumericsMode::kOff, 100, {57});
    CHECK(plain.report.numerics.empty());
    for (const int64_t loop_size : {1, 7, 100}) {
      CAPTURE(loop_size);
      const CheckedRun run = train_checked(backend, NumericsMode::kFirst, loop_size, {57});
      REQUIRE(run.report.numerics.size() == 1);
      const NumericsFinding& finding = run.report.numerics[0];
      CHECK(finding.step == 57);
      CHECK(finding.name == "head/square");
      CHECK(
          contains(to_string(finding.site), "test_numerics_check.cpp:" + std::to_string(run.line)));
      REQUIRE(finding.operands.size() == 1);
      CHECK(finding.operands[0].elements == 12);
      CHECK(std::max(-finding.operands[0].least, finding.operands[0].most) > 1e28);
      CHECK(finding.operands[0].finite());
      REQUIRE(finding.results.size() == 1);
      CHECK(finding.results[0].infinite == 3);
      CHECK(contains(to_string(finding), "step 57: head/square: 3 infinite numbers ("));
      CHECK(contains(to_string(finding), "; input 0 f32[12] from "));
      // Nothing else is changed.
      CHECK(run.report.steps == kCheckedSteps);
      CHECK(run.sha == plain.sha);
      REQUIRE(run.losses.size() == plain.losses.size());
      for (size_t i = 0; i < run.losses.size(); ++i) {
        const bool same = run.losses[i] == plain.losses[i] ||
                          (std::isnan(run.losses[i]) && std::isnan(plain.losses[i]));
        CHECK(same);
      }
    }
  }
}

TEST_CASE("check numerics: each step is named where each is asked for") {
  for (const int64_t loop_size : {1, 7, 100}) {
    CAPTURE(loop_size);
    const CheckedRun run = train_checked("npu", NumericsMode::kEvery, loop_size, {5, 6, 41, 57});
    std::vector<int64_t> steps;
    for (const NumericsFinding& finding : run.report.numerics) {
      steps.push_back(finding.step);
      CHECK(finding.name == "head/square");
    }
    CHECK(steps == std::vector<int64_t>{5, 6, 41, 57});
    CHECK(run.sha == train_checked("npu", NumericsMode::kOff, loop_size, {5, 6, 41, 57}).sha);
  }
}

TEST_CASE("check numerics: the first hundred steps are told of and no more") {
  std::vector<int64_t> planted(103);
  std::iota(planted.begin(), planted.end(), int64_t{2});
  int told = 0;
  set_log_sink([&](LogLevel, const std::string& line) { told += contains(line, "head/square"); });
  const CheckedRun run = train_checked("npu", NumericsMode::kEvery, 50, planted, true, 110);
  set_log_sink({});
  CHECK(told == 100);
  REQUIRE(run.report.numerics.size() == 100);
  CHECK(run.report.numerics.front().step == 2);
  CHECK(run.report.numerics.back().step == 101);
  CHECK(run.report.steps == 110);
}

TEST_CASE("check numerics: weights that are not finite from the start are nobody's fault") {
  GuardedModel m(false);
  Session session(m.graph, device("npu"));
  session.write(m.w, Tensor::full(f32, {6, 3}, std::nan("")));
  Trainer trainer(
      session,
      {.update = m.update, .fetches = {m.loss}, .source = planted_rows(session.device(), {})});
  CHECK(trainer.fit({.steps = 5, .check_numerics = NumericsMode::kEvery}).numerics.empty());
}

TEST_CASE("check numerics: a training that a hook ends is looked at to its last step") {
  GuardedModel m(false);
  Session session(m.graph, device("npu"));
  Trainer trainer(
      session, {.update = m.update, .fetches = {}, .source = planted_rows(session.device(), {7})});
  const TrainReport report =
      trainer.fit({.steps = kCheckedSteps,
                   .every_n_steps = {{.n = 9, .hook = [](int64_t) { return LoopControl::kStop; }}},
                   .check_numerics = NumericsMode::kFirst});
  CHECK(report.steps == 9);
  REQUIRE(report.numerics.size() == 1);
  CHECK(report.numerics[0].step == 7);
}

TEST_CASE("check numerics: weights that an update spoiled are named by the op that did") {
  // The loss shows it one step later only.
  for (const int64_t loop_size : {1, 7, 100}) {
    CAPTURE(loop_size);
    Graph g;
    const Value x = g.input("x", f32, {4, 6});
    const Value w = g.state("w", ones({6}));
    const Value loss = sum(x * w);
    const Value spoiled = named(w + log(relu(0.0f - sum(abs(x)) + 100.0f)), "next");
    Session session(g, device("npu"));
    Trainer trainer(session, {.update = Update{{{w, spoiled}}},
                              .fetches = {loss},
                              .source = planted_rows(session.device(), {30})});
    const TrainReport report =
        trainer.fit({.steps = 50, .loop_size = loop_size, .check_numerics = NumericsMode::kFirst});
    REQUIRE(report.numerics.size() == 1);
    CHECK(report.numerics[0].step == 30);
    CHECK(report.numerics[0].op == "log");
    CHECK(report.numerics[0].operands[0].least == 0);
  }
}

TEST_CASE("check numerics: what a device stops at the largest f16 is named too") {
  Graph g;
  const Value x = g.input("x", f32, {4, 6});
  const Value w = g.state("w", zeros({}));
  const Value half = cast(x, f16);
  const Value loss = sum(cast(half, f32)) * 1e-10f;
  Session session(g, device("npu"),
                  {.precision = "fp32", .device_options = npu::options("ascend910")});
  Trainer trainer(session, {.update = Update{{{w, w + loss}}},
                            .fetches = {loss},
                            .source = planted_rows(session.device(), {12})});
  const TrainReport report =
      trainer.fit({.steps = 20, .loop_size = 7, .check_numerics = NumericsMode::kFirst});
  REQUIRE(report.numerics.size() == 1);
  CHECK(report.numerics[0].step == 12);
  CHECK(report.numerics[0].op == "cast");
  CHECK(report.numerics[0].results[0].most == 65504);
  CHECK(contains(to_string(report.numerics[0]), "f16 results were stopped at +-65504"));
}

TEST_CASE(
    "check numerics: data that fail while steps are done again leave the training as it was") {
  const auto run = [](NumericsMode mode, std::string* error) {
    GuardedModel m(true);
    Session session(m.graph, device("npu"));
    int passes = 0;
    const auto feeder =
        std::make_shared<NumberFeeder>(session.device(), ElementSpec{{{"x", {f32, {4, 6}}}}},
                                       [&](int64_t i, const std::vector<void*>& fields) {
                                         if (i == 0 && ++passes == 2)
                                           throw Error("the disk is gone");
                                         auto* x = static_cast<float*>(fields[0]);
                                         for (int64_t k = 0; k < 24; ++k) x[k] = i == 4 ? 1e30f : 1;
                                         return true;
                                       });
    feeder->open({});
    Trainer trainer(session, {.update = m.update, .fetches = {m.loss}, .source = feeder});
    *error = error_of([&] { trainer.fit({.steps = 8, .loop_size = 8, .check_numerics = mode}); });
    CHECK(session.step() == 8);
    CHECK(trainer.cursor().position == 8);
    trainer.fit({.steps = 4});
    return session.state_sha256();
  };
  std::string none, error;
  const std::string plain = run(NumericsMode::kOff, &none);
  CHECK(none.empty());
  CHECK(run(NumericsMode::kFirst, &error) == plain);
  CHECK(contains(error, "the disk is gone"));
}

TEST_CASE("check numerics: infinities that are meant are passed over") {
  const auto loss_of = [](Graph& g, const Value& x) {
    const Value weights = softmax(masked(g, x));
    const Value padded =
        named(pad(x, {1, 0}, {1, 0}, -std::numeric_limits<double>::infinity()), "padded");
    const Value highest = maximum(slice(padded, {0, 0}, {4, 6}), slice(padded, {2, 0}, {6, 6}));
    return mean(weights) + mean(highest) * 1e-30f + mean(named(square(x), "squares"));
  };
  for (const char* backend : {"cpu", "npu", "ref"}) {
    for (const int64_t loop_size : {1, 40}) {
      CAPTURE(backend);
      const TrainReport report = train_with(backend, 1e30f, loss_of, loop_size);
      REQUIRE(report.numerics.size() == 1);
      CHECK(report.numerics[0].step == 30);
      CHECK(report.numerics[0].name == "squares");
      CHECK(report.numerics[0].blame == Blame::kMade);
      CHECK(train_with(backend, 1, loss_of, loop_size).numerics.empty());
    }
  }
}

TEST_CASE("check numerics: what makes NaN of an infinity that is meant is named") {
  const TrainReport report = train_with("npu", 1, [](Graph& g, const Value& x) {
    const Value least = min(masked(g, x), {1}, true);
    return sum(named(least - least, "spoiled"));
  });
  REQUIRE(report.numerics.size() == 1);
  CHECK(report.numerics[0].step == 1);
  CHECK(report.numerics[0].name == "spoiled");
  CHECK(report.numerics[0].operands[0].infinite == 4);
  CHECK(report.numerics[0].results[0].nan == 4);
  CHECK(report.numerics[0].blame == Blame::kMade);
}

TEST_CASE("check numerics: an overflow beside infinities that are meant is named by its sign") {
  const TrainReport report = train_with("npu", 1e30f, [](Graph& g, const Value& x) {
    return sum(named(exp(masked(g, x)), "exploded"));
  });
  REQUIRE(report.numerics.size() == 1);
  const NumericsFinding& finding = report.numerics[0];
  CHECK(finding.step == 30);
  CHECK(finding.name == "exploded");
  CHECK(finding.blame == Blame::kDoubtful);
  CHECK(finding.operands[0].negative_infinite == 16);
  CHECK(finding.results[0].negative_infinite == 0);
  CHECK_MESSAGE(contains(to_string(finding),
                         "step 30: exploded: 1 infinite numbers, and its inputs have some, too ("),
                to_string(finding));
}

TEST_CASE("check numerics: numbers that come with the data are named where they are read") {
  for (const float planted : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const TrainReport report = train_with("npu", planted, [](Graph& g, const Value& x) {
      return sum(exp(masked(g, minimum(x, 1.0f)))) + sum(maximum(x, 0.0f));
    });
    REQUIRE(report.numerics.size() == 1);
    CHECK(report.numerics[0].step == 30);
    CHECK(report.numerics[0].op == "mul");
    CHECK(report.numerics[0].blame != Blame::kMade);
  }
}

TEST_CASE("check numerics: what asks whether numbers are finite did not make them so") {
  const float infinity = std::numeric_limits<float>::infinity();
  const TrainReport report = train_with("npu", infinity, [](Graph&, const Value& x) {
    const Value loss = sum(maximum(x, 0.0f));
    return select(all_finite({x}), loss, loss);
  });
  REQUIRE(report.numerics.size() == 1);
  CHECK(report.numerics[0].step == 30);
  CHECK(report.numerics[0].blame == Blame::kCarried);
}

TEST_CASE("check numerics: a step that ends the training with finite numbers is not looked into") {
  const auto loss_of = [](Graph& g, const Value& x) { return mean(softmax(masked(g, x))); };
  const TrainReport report = train_with("npu", 1, loss_of, 7, true);
  CHECK(report.stop_step == 1);
  CHECK(report.numerics.empty());
}

TEST_CASE("check numerics: ranges say what there is") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor t = Tensor::of<float>({5}, {1.5f, infinity, -2, std::nanf(""), -infinity});
  const NumberRange range = range_of(t.raw(), f32, 5);
  CHECK(range.least == -2);
  CHECK(range.most == 1.5);
  CHECK(range.infinite == 2);
  CHECK(range.nan == 1);
  CHECK(to_string(range) == "f32[5] from -2 to 1.5, 2 infinite, 1 NaN");
  const Tensor none = Tensor::of<float>({1}, {infinity});
  CHECK(to_string(range_of(none.raw(), f32, 1)) == "f32[1], 1 infinite");
  const Tensor half = Tensor::full(f16, {2}, 3);
  CHECK(to_string(range_of(half.raw(), f16, 2)) == "f16[2] from 3 to 3");
  const Tensor whole = Tensor::full(i32, {2}, 3);
  CHECK(to_string(range_of(whole.raw(), i32, 2)) == "i32[2]");
}

TEST_SUITE_END();
