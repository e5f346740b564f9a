#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/evaluator.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/graph/runtime/weights.h"

#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

// Trains the halving model; the validation sees the values that the test says, one after another.
struct ValidatedTraining {
  HalvingModel model;
  Session session{model.graph, device("ref")};
  std::shared_ptr<NumberFeeder> feeder = halving_feeder(device("ref"), 100000);
  Trainer trainer{session, {.update = model.update, .fetches = {model.total}, .source = feeder}};
  size_t measured = 0;

  std::function<double()> values(std::vector<double> list) {
    return [this, list = std::move(list)] { return list.at(measured++); };
  }
};

std::vector<int64_t> steps_of(const TrainReport& report) {
  std::vector<int64_t> steps;
  for (const ValidationResult& result : report.validations) steps.push_back(result.step);
  return steps;
}

std::vector<bool> bests_of(const TrainReport& report) {
  std::vector<bool> bests;
  for (const ValidationResult& result : report.validations) bests.push_back(result.best);
  return bests;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("validation: measured every n steps and behind the last one") {
  ValidatedTraining f;
  const TrainReport report = f.trainer.fit(
      {.steps = 7,
       .loop_size = 5,
       .validation = ValidationOptions{.measure = f.values({1, 2, 3, 4}), .every_n_steps = 2}});
  CHECK(steps_of(report) == std::vector<int64_t>{2, 4, 6, 7});
  CHECK(report.steps == 7);
  CHECK(report.launches == 4);
  CHECK_FALSE(report.stopped_early);
  CHECK(report.best->value == 4);
  CHECK(f.session.compiles() == 1);
}

TEST_CASE("validation: at the end of each epoch before its hook") {
  ValidatedTraining f;
  std::vector<int64_t> order;
  const TrainReport report =
      f.trainer.fit({.epochs = 2,
                     .steps_per_epoch = 3,
                     .on_epoch_end = [&](int64_t epoch) { order.push_back(epoch); },
                     .validation = ValidationOptions{.measure = f.values({5, 6}),
                                                     .on_result = [&](const ValidationResult& r) {
                                                       order.push_back(100 + r.step);
                                                     }}});
  CHECK(order == std::vector<int64_t>{103, 1, 106, 2});
  CHECK(steps_of(report) == std::vector<int64_t>{3, 6});
}

TEST_CASE("validation: patience counts what is no best and a NaN never is") {
  ValidatedTraining f;
  const TrainReport report = f.trainer.fit(
      {.steps = 100,
       .validation = ValidationOptions{.measure = f.values({0.5, 0.7, 0.6, kNaN, 0.7, 0.9}),
                                       .every_n_steps = 2,
                                       .patience = 3}});
  CHECK(report.steps == 10);
  CHECK(report.out_of_patience);
  CHECK(report.stopped_early);
  CHECK_FALSE(report.target_reached);
  CHECK(bests_of(report) == std::vector<bool>{true, true, false, false, false});
  CHECK(report.best->value == 0.7);
  CHECK(report.best->step == 4);
  CHECK(report.best->since == 3);
}

TEST_CASE("validation: smaller is better with a least gain") {
  ValidatedTraining f;
  const TrainReport report =
      f.trainer.fit({.steps = 4,
                     .validation = ValidationOptions{.measure = f.values({1.0, 0.95, 0.85, 0.8}),
                                                     .every_n_steps = 1,
                                                     .larger_is_better = false,
                                                     .min_gain = 0.1}});
  CHECK(bests_of(report) == std::vector<bool>{true, false, true, false});
}

TEST_CASE("validation: a target ends the training in both directions") {
  {
    ValidatedTraining f;
    const TrainReport report =
        f.trainer.fit({.steps = 100,
                       .validation = ValidationOptions{
                           .measure = f.values({0.1, 0.9, 1}), .every_n_steps = 5, .target = 0.9}});
    CHECK(report.steps == 10);
    CHECK(report.target_reached);
  }
  {
    ValidatedTraining f;
    const TrainReport report =
        f.trainer.fit({.steps = 100,
                       .validation = ValidationOptions{.measure = f.values({3, 2, 1}),
                                                       .every_n_steps = 5,
                                                       .larger_is_better = false,
                                                       .target = 2.5}});
    CHECK(report.steps == 10);
    CHECK(report.target_reached);
  }
}

TEST_CASE("validation: the best states come back with their place in the data") {
  ValidatedTraining f;
  const TrainReport report =
      f.trainer.fit({.steps = 6,
                     .validation = ValidationOptions{
                         .measure = f.values({1, 3, 2}), .every_n_steps = 2, .keep_best = true}});
  CHECK(report.kept_best);
  CHECK(report.steps == 6);
  CHECK(report.best->step == 4);
  CHECK(f.session.step() == 4);
  CHECK(f.trainer.cursor().position == 4);
  HalvingExpectation expected;
  for (int i = 0; i < 4; ++i) expected.advance();
  CHECK(f.session.read(f.model.w).at(0) == expected.first);
  CHECK(f.session.read(f.model.w).at(1) == expected.second);
  // What follows is step 5 with its element, as after resuming a file.
  const TrainReport next = f.trainer.fit({.steps = 1});
  CHECK(next.last_metrics.at(0) == expected.advance());
  CHECK(f.session.step() == 5);
}

TEST_CASE("validation: what was best before this fit has to be beaten") {
  ValidatedTraining f;
  const TrainReport report =
      f.trainer.fit({.steps = 4,
                     .validation = ValidationOptions{
                         .measure = f.values({0.4, 0.5}),
                         .every_n_steps = 2,
                         .patience = 4,
                         .keep_best = true,
                         .best_before = ValidationBest{.value = 0.8, .step = 1, .since = 1}}});
  CHECK(bests_of(report) == std::vector<bool>{false, false});
  CHECK(report.best->since == 3);
  CHECK_FALSE(report.kept_best);  // nobody has those states
  CHECK(f.session.step() == 4);
}

TEST_CASE("validation: wrong options are refused before anything is done") {
  ValidatedTraining f;
  const auto refused = [&](ValidationOptions options) {
    return error_of([&] { f.trainer.fit({.steps = 3, .validation = std::move(options)}); });
  };
  const auto one = [] { return 1.0; };
  CHECK(contains(refused({}), "measure"));
  CHECK(contains(refused({.measure = one}), "every_n_steps"));
  CHECK(contains(refused({.measure = one, .every_n_steps = -1}), "every_n_steps"));
  CHECK(contains(refused({.measure = one, .every_n_steps = 1, .min_gain = -1}), "min_gain"));
  CHECK(contains(refused({.measure = one, .every_n_steps = 1, .patience = -1}), "patience"));
  CHECK(contains(refused({.measure = one, .every_n_steps = 1, .target = kNaN}), "target"));
  const auto after = [&](ValidationBest best) {
    return refused({.measure = one, .every_n_steps = 1, .best_before = best});
  };
  CHECK(
      contains(after({.value = kNaN}), "validation.best_before.value: expected a number, got NaN"));
  CHECK(contains(after({.value = 1, .step = -1}), "validation.best_before.step"));
  CHECK(contains(after({.value = 1, .since = -1}), "validation.best_before.since"));
  CHECK(f.session.step() == 0);
}

TEST_CASE("validation: means of the epochs are those of their steps for every loop size") {
  std::vector<double> expected;
  HalvingExpectation model;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const int steps = epoch == 2 ? 2 : 4;
    double sum = 0;
    for (int i = 0; i < steps; ++i) sum += model.advance();
    expected.push_back(sum / steps);
  }
  for (const int64_t loop_size : {1, 3, 100}) {
    CAPTURE(loop_size);
    ValidatedTraining f;
    const TrainReport report =
        f.trainer.fit({.steps = 10, .steps_per_epoch = 4, .loop_size = loop_size});
    REQUIRE(report.epoch_means.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(report.epoch_means[i].epoch == static_cast<int64_t>(i) + 1);
      CHECK(report.epoch_means[i].steps == (i == 2 ? 2 : 4));
      CHECK(report.epoch_means[i].means.at(0) == doctest::Approx(expected[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("evaluator: sums over a pass divided by its items again and again") {
  HalvingModel model;
  const Value squares = sum(model.x * model.x);
  Session session(model.graph, device("ref"));
  const auto feeder = halving_feeder(device("ref"), 3);  // x = [[0, 1]], [[1, 1]], [[2, 1]]
  Evaluator evaluator(
      session, {.sums = {sum(model.x), squares}, .source = feeder, .batches = 3, .items = 2});
  for (int i = 0; i < 2; ++i) CHECK(evaluator.means() == std::vector<double>{6 / 2.0, 8 / 2.0});
  CHECK(session.compiles() == 1);
  CHECK(session.step() == 0);
}

TEST_CASE("evaluator: a pass of another length and options that cannot be are errors") {
  HalvingModel model;
  const Value total = sum(model.x);
  Session session(model.graph, device("ref"));
  const auto make = [&](EvaluatorOptions options) {
    return error_of([&] { Evaluator(session, options).means(); });
  };
  CHECK(contains(
      make({.sums = {total}, .source = halving_feeder(device("ref"), 3), .batches = 4, .items = 4}),
      "got 3"));
  CHECK(contains(make({.sums = {total}, .batches = 1, .items = 1}), "feeder"));
  CHECK(contains(make({.source = halving_feeder(device("ref"), 3), .batches = 1, .items = 1}),
                 "sums"));
  CHECK(contains(
      make({.sums = {total}, .source = halving_feeder(device("ref"), 3), .batches = 0, .items = 1}),
      "batches"));
  CHECK(contains(make({.sums = {model.x},
                       .source = halving_feeder(device("ref"), 3),
                       .batches = 3,
                       .items = 3}),
                 "scalars"));
}

TEST_CASE("weights: those of the same name and type are taken and the rest is told") {
  Graph graph;
  const Value a = graph.state("a", zeros({2}));
  const Value b = graph.state("b", zeros({3}));
  const Value c = graph.state("c", zeros({1}));
  Session session(graph, device("ref"));
  const std::map<std::string, Tensor> saved = {{"a", Tensor::of<float>({2}, {1, 2})},
                                               {"b", Tensor::of<float>({4}, {1, 2, 3, 4})},
                                               {"a/momentum", Tensor::of<float>({2}, {9, 9})},
                                               {kStepState, Tensor::scalar<int64_t>(7)}};
  const WeightsMatch match = load_weights(session, graph.states(), saved);
  CHECK(match.matched == std::vector<std::string>{"a"});
  CHECK(match.missing == std::vector<std::string>{"c"});
  REQUIRE(match.mismatched.size() == 1);
  CHECK(match.mismatched[0].name == "b");
  CHECK(match.left_aside == std::vector<std::string>{"a/momentum"});
  CHECK_FALSE(match.complete());
  CHECK(session.read(a).at(1) == 2);
  CHECK(session.read(b).at(0) == 0);
  CHECK(session.read(c).at(0) == 0);
  CHECK(session.step() == 0);
  const std::string text = describe(match);
  for (const char* part :
       {"1 state matches", "'c'", "'b' (f32[3], in the file f32[4])", "momentum"})
    CHECK_MESSAGE(contains(text, part), text);
}

TEST_SUITE_END();
