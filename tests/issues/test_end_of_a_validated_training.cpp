// What a validated training ends with: its best states came back with another count of updates, or
// not at all where they were the first ones; patience waited for ever for a first number, and a
// training that had done all its steps was called stopped; one that ended early threw its last
// steps away unseen. An evaluation began where an open feeder stood.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/evaluator.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/temp_folder.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::TempFolder;

std::function<double()> values(std::vector<double> list) {
  return [list = std::move(list), next = size_t{0}]() mutable { return list.at(next++); };
}

}  // namespace

TEST_CASE("best states come back with the updates that had been applied until then") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    HalvingModel m;
    // Steps 3, 4, ... update; the first two, of x = 0 and 1, do not.
    const Update update = apply_if(greater(max(m.x), 1.0f), m.update);
    Session session(m.graph, device(name));
    Trainer trainer(
        session,
        {.update = update, .fetches = {m.total}, .source = halving_feeder(device(name), 1000)});
    const TrainReport report =
        trainer.fit({.steps = 8,
                     .validation = ValidationOptions{
                         .measure = values({1, 9, 2, 3}), .every_n_steps = 2, .keep_best = true}});
    CHECK(report.kept_best);
    CHECK(session.step() == 4);
    CHECK(session.updates_applied() == 2);
    trainer.fit({.steps = 3});
    CHECK(session.step() == 7);
    CHECK(session.updates_applied() == 5);
  }
}

TEST_CASE("a training that begins with its best states can end with them") {
  for (const bool beaten : {false, true}) {
    CAPTURE(beaten);
    HalvingModel m;
    Session session(m.graph, device("ref"));
    Trainer trainer(
        session,
        {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 1000)});
    trainer.fit({.steps = 3});
    const Tensor w = session.read(m.w);
    const TrainReport report = trainer.fit(
        {.steps = 4,
         .validation = ValidationOptions{.measure = values({0.5, beaten ? 0.9 : 0.6, 0.4}),
                                         .every_n_steps = 2,
                                         .keep_best = true,
                                         .best_before = ValidationBest{.value = 0.8, .step = 3}}});
    CHECK(report.kept_best);
    CHECK(session.step() == (beaten ? 6 : 3));
    CHECK(trainer.cursor().position == (beaten ? 6 : 3));
    CHECK(bit_equal(session.read(m.w), w) == !beaten);
  }
}

TEST_CASE("patience ends a training whose measurements are no numbers from the start") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  Trainer trainer(
      session,
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 1000)});
  const TrainReport report =
      trainer.fit({.steps = 100,
                   .validation = ValidationOptions{
                       .measure = [] { return std::numeric_limits<double>::quiet_NaN(); },
                       .every_n_steps = 2,
                       .patience = 3}});
  CHECK(report.steps == 6);
  CHECK(report.out_of_patience);
  CHECK(report.stopped_early);
  CHECK_FALSE(report.best);
}

TEST_CASE("a training that did all its steps was not stopped early") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  Trainer trainer(
      session,
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 1000)});
  const auto patient = [&](int64_t steps) {
    return trainer.fit(
        {.steps = steps,
         .validation = ValidationOptions{
             .measure = values({1, 1, 1}), .every_n_steps = 2, .patience = 2, .target = 5}});
  };
  TrainReport report = patient(6);
  CHECK(report.steps == 6);
  CHECK(report.out_of_patience);
  CHECK_FALSE(report.stopped_early);
  report = patient(7);
  CHECK(report.steps == 6);
  CHECK(report.stopped_early);
}

TEST_CASE("a training that ends early is judged at its last step") {
  const auto fit = [](int64_t elements, const TrainOptions& given, double stop_at = 1e9) {
    HalvingModel m;
    Session session(m.graph, device("ref"));
    const Value stop = greater(max(m.x), static_cast<float>(stop_at));
    Trainer trainer(session, {.update = m.update,
                              .fetches = {m.total},
                              .source = halving_feeder(device("ref"), elements),
                              .stop_when = stop});
    TrainOptions options = given;
    options.steps = 40;
    // The later, the better.
    options.validation =
        ValidationOptions{.measure = [&] { return static_cast<double>(session.step()); },
                          .every_n_steps = 10,
                          .keep_best = true};
    TrainReport report = trainer.fit(options);
    CHECK(report.best->step == session.step());
    return report;
  };
  const auto judged_at = [](const TrainReport& report) {
    std::vector<int64_t> steps;
    for (const ValidationResult& result : report.validations) steps.push_back(result.step);
    return steps;
  };
  using Steps = std::vector<int64_t>;
  CHECK(judged_at(fit(25, {})) == Steps{10, 20, 25});
  CHECK(judged_at(fit(20, {})) == Steps{10, 20});
  const auto stop_at = [](int64_t step) {
    TrainOptions options;
    options.every_n_steps.push_back(
        {.n = step, .hook = [](int64_t) { return LoopControl::kStop; }});
    return options;
  };
  CHECK(judged_at(fit(1000, stop_at(15))) == Steps{10, 15});
  CHECK(judged_at(fit(1000, stop_at(10))) == Steps{10});
  // Step n has x = n - 1, and the step that stops the loop is done.
  CHECK(judged_at(fit(1000, {}, 11.5)) == Steps{10, 13});
  CHECK(judged_at(fit(1000, {}, 3.5)) == Steps{5});
}

TEST_CASE("the judgement of a last step neither ends a training nor writes its checkpoint again") {
  const TempFolder files;
  HalvingModel m;
  Session session(m.graph, device("ref"));
  Trainer trainer(
      session,
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 25)});
  const TrainReport report = trainer.fit(
      {.steps = 40,
       .validation =
           ValidationOptions{
               .measure = values({1, 1, 9}), .every_n_steps = 10, .patience = 2, .target = 9},
       .checkpoint = CheckpointOptions{
           .folder = files.file("checkpoints"), .every_n_steps = 5, .waits_for_writer = true}});
  REQUIRE(report.validations.size() == 3);
  CHECK(report.end_of_data);
  CHECK_FALSE(report.stopped_early);
  CHECK_FALSE(report.target_reached);
  CHECK_FALSE(report.out_of_patience);
  CHECK(report.checkpoint.saved == 5);
}

TEST_CASE("an evaluation begins at the beginning where its feeder is open further on") {
  HalvingModel m;
  const Value total = sum(m.x);
  Session session(m.graph, device("ref"));
  const auto feeder = halving_feeder(device("ref"), 3);
  feeder->stop();
  feeder->open({0, 2, 0});
  Evaluator evaluator(session, {.sums = {total}, .source = feeder, .batches = 3, .items = 3});
  CHECK(evaluator.means() == std::vector<double>{6 / 3.0});
}

TEST_SUITE_END();
