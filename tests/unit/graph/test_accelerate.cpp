// Accelerated trainings: the change of precision at its step for every loop size, by steps and by
// the loss, resumed ones, and what is refused.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/keel.h"

#include "runtime_for_tests.h"
#include "sine_rows_for_tests.h"
#include "support/temp_folder.h"
#include "unit/graph/precision_of_mode_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::of_mode;
using keel_test::TempFolder;

struct TanhModel {
  TanhModel() {
    loss = mean(square(tanh(matmul(x, w)) - 0.5f));
    update = sgd(0.05, {.momentum = 0.9}).minimize(loss);
  }
  Graph graph;
  Value x = graph.input("x", f32, {8, 12});
  Value w = graph.state("w", uniform({12, 6}, -1, 1));
  Value loss;
  Update update;
};

struct AcceleratedRun {
  TrainReport report;
  std::string sha;
  std::vector<double> losses;
  int64_t compiles = 0;
};

AcceleratedRun train_accelerated(int64_t steps, int64_t loop_size,
                                 const std::optional<AccelerateTrainMode>& mode,
                                 const TellMeStepOrLoss& tell = {},
                                 const Precision& precision = {}) {
  TanhModel m;
  Session session(m.graph, device("npu"), {.precision = precision});
  std::optional<AcceleratedTraining> accelerate;
  if (mode) {
    accelerate.emplace();
    accelerate->mode = *mode;
    accelerate->tell = tell;
    accelerate->tell.loss = m.loss;
  }
  Trainer trainer(session,
                  {.update = m.update, .fetches = {m.loss}, .source = sine_rows(session.device())},
                  accelerate);
  AcceleratedRun result;
  result.report = trainer.fit({.steps = steps,
                               .loop_size = loop_size,
                               .on_step = [&](int64_t, std::span<const double> values, uint32_t) {
                                 result.losses.push_back(values[0]);
                               }});
  result.sha = session.state_sha256();
  result.compiles = session.compiles();
  return result;
}

// The same by hand: two sessions, the states carried over.
AcceleratedRun by_hand(int64_t fast_steps, int64_t steps, const char* fast_mode) {
  const TempFolder files;
  const std::string file = files.file("states");
  AcceleratedRun result;
  for (const bool fast : {true, false}) {
    TanhModel m;
    Session session(m.graph, device("npu"), {.precision = fast ? of_mode(fast_mode) : Precision()});
    Trainer trainer(
        session, {.update = m.update, .fetches = {m.loss}, .source = sine_rows(session.device())});
    if (!fast) trainer.resume(file);
    trainer.fit({.steps = fast ? fast_steps : steps - fast_steps,
                 .on_step = [&](int64_t, std::span<const double> values, uint32_t) {
                   result.losses.push_back(values[0]);
                 }});
    if (fast) trainer.save(file);
    result.sha = session.state_sha256();
  }
  return result;
}

AccelerateTrainMode mode_of(const char* text) {
  return parse_accelerate_train_mode(text, "accelerate_train_mode");
}

// Sets an environment variable until it is destroyed.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace

TEST_CASE(
    "accelerate_train_mode: 90 of 100 steps are fast for every loop size with one more "
    "compilation") {
  const AcceleratedRun expected = by_hand(90, 100, "allow_mix_precision_fp16");
  for (const int64_t loop_size : {1, 7, 40, 100}) {
    CAPTURE(loop_size);
    const AcceleratedRun run = train_accelerated(100, loop_size, mode_of("fast|step|0.9"));
    CHECK(run.report.fast_steps == 90);
    CHECK(run.report.switched_at == 90);
    CHECK(run.report.steps == 100);
    CHECK(run.report.fast_seconds > 0);
    CHECK(run.report.fast_seconds < run.report.seconds);
    CHECK(!run.report.stopped_early);
    CHECK(run.compiles == 2);
    CHECK(run.losses == expected.losses);
    CHECK(run.sha == expected.sha);
  }
  CHECK(train_accelerated(100, 7, {}).compiles == 1);
  CHECK(train_accelerated(100, 7, mode_of("fast1|step|0.5")).sha ==
        by_hand(50, 100, "allow_mix_precision_bf16").sha);
}

TEST_CASE(
    "accelerate_train_mode: the loss ends the fast phase behind its step and never begins it "
    "again") {
  const std::vector<double> all = by_hand(60, 60, "allow_mix_precision_fp16").losses;
  // The first loss under a bound that later losses, of noisy batches, exceed again.
  const double bound = all[24];
  int64_t last = 0;
  while (all[static_cast<size_t>(last)] > bound) ++last;
  ++last;
  const AcceleratedRun expected = by_hand(last, 60, "allow_mix_precision_fp16");
  for (const int64_t loop_size : {1, 7, 60}) {
    CAPTURE(loop_size);
    const AcceleratedRun run =
        train_accelerated(60, loop_size, mode_of("fast|loss|1.25"), {.final_loss = bound / 1.25});
    CHECK(run.report.switched_at == last);
    CHECK(run.report.fast_steps == last);
    CHECK(run.report.steps == 60);
    CHECK(!run.report.stopped_early);
    CHECK(!run.report.stop_step);
    CHECK(run.losses == expected.losses);
    CHECK(run.sha == expected.sha);
  }
  const AcceleratedRun never = train_accelerated(60, 7, mode_of("fast|loss"), {.final_loss = -1});
  CHECK(!never.report.switched_at);
  CHECK(never.report.fast_steps == 60);
}

TEST_CASE("TellMeStepOrLoss: a loss of exactly 0 ends the fast phase") {
  Graph g;
  const Value x = g.input("x", f32, {8, 12});
  const Value w = g.state("w", zeros({}));
  const Value loss = sum(x) * 0.0f + w * 0.0f;
  Session session(g, device("npu"));
  Trainer trainer(
      session,
      {.update = Update{{{w, w + 0.0f}}}, .fetches = {loss}, .source = sine_rows(session.device())},
      AcceleratedTraining{.mode = mode_of("fast|loss"), .tell = {.loss = loss, .final_loss = 0.0}});
  CHECK(trainer.fit({.steps = 5}).switched_at == 1);
}

TEST_CASE("accelerate_train_mode: a saved file holds where the loss ended the fast phase") {
  const TempFolder files;
  const std::string file = files.file("states");
  const auto run = [&](bool resumed) {
    TanhModel m;
    Session session(m.graph, device("npu"));
    Trainer trainer(
        session, {.update = m.update, .fetches = {m.loss}, .source = sine_rows(session.device())},
        AcceleratedTraining{.mode = mode_of("fast|loss"),
                            .tell = {.loss = m.loss, .final_loss = 1e9}});
    if (resumed) trainer.resume(file);
    const TrainReport report = trainer.fit({.steps = 5});
    if (!resumed) trainer.save(file);
    return report;
  };
  CHECK(run(false).fast_steps == 1);
  const TrainReport second = run(true);
  CHECK(second.fast_steps == 0);
  CHECK(second.switched_at == 1);
}

TEST_CASE("accelerate_train_mode: a training that is resumed goes on in its phase") {
  const TempFolder files;
  const std::string file = files.file("states");
  const auto run = [&](int64_t until, bool resumed, std::optional<int64_t> switched_at) {
    TanhModel m;
    Session session(m.graph, device("npu"));
    Trainer trainer(
        session, {.update = m.update, .fetches = {m.loss}, .source = sine_rows(session.device())},
        AcceleratedTraining{.mode = mode_of("fast|step|0.5"),
                            .tell = {.total_step = 40},
                            .switched_at = switched_at});
    if (resumed) trainer.resume(file);
    const TrainReport report = trainer.fit({.steps = until - session.step(), .loop_size = 7});
    trainer.save(file);
    return std::pair(report, session.state_sha256());
  };
  const std::string whole = run(40, false, {}).second;
  CHECK(run(12, false, {}).first.fast_steps == 12);
  const auto [second, sha] = run(30, true, {});
  CHECK(second.fast_steps == 8);
  CHECK(second.switched_at == 20);
  const auto [third, end] = run(40, true, 20);
  CHECK(third.fast_steps == 0);
  CHECK(third.switched_at == 20);
  CHECK(end == whole);
}

TEST_CASE("TellMeStepOrLoss: the environment tells what the caller does not") {
  {
    const Variable total("TOTAL_STEP", "50"), now("STEP_NOW", "10");
    // Steps 11 to 45 of the job's 50 are fast.
    CHECK(train_accelerated(40, 7, mode_of("fast|step|0.9")).report.switched_at == 35);
    CHECK(train_accelerated(40, 7, mode_of("fast|step|0.9"), {.total_step = 20, .step_now = 0})
              .report.switched_at == 18);
  }
  {
    const Variable target("TARGET_LOSS", "1e9");
    CHECK(train_accelerated(5, 2, mode_of("fast|loss")).report.switched_at == 1);
    const Variable now("LOSS_NOW", "7");
    CHECK(train_accelerated(5, 2, mode_of("fast|loss")).report.fast_steps == 0);
  }
  {
    const Variable target("TARGET_LOSS", "low");
    CHECK(contains(error_of([] { train_accelerated(5, 2, mode_of("fast|loss")); }), "TARGET_LOSS"));
  }
  CHECK(contains(error_of([] { train_accelerated(5, 2, mode_of("fast|loss")); }),
                 "expected a number, or the environment variable TARGET_LOSS, got neither"));
}

TEST_CASE("TellMeStepOrLoss: STEP_NOW counts from the first of several fits") {
  const Variable total("TOTAL_STEP", "50"), now("STEP_NOW", "10");
  TanhModel m;
  Session session(m.graph, device("npu"));
  Trainer trainer(session,
                  {.update = m.update, .fetches = {m.loss}, .source = sine_rows(session.device())},
                  AcceleratedTraining{.mode = mode_of("fast|step|0.9")});
  // Steps 11 to 45 of the job's 50 are fast.
  CHECK(trainer.fit({.steps = 20, .loop_size = 7}).fast_steps == 20);
  const TrainReport second = trainer.fit({.steps = 20, .loop_size = 7});
  CHECK(second.fast_steps == 15);
  CHECK(second.switched_at == 35);
}

TEST_CASE("accelerate_train_mode: a final loss below 0 is neared from above") {
  const auto bound = [](double final_loss) {
    return loss_bound({.mode = mode_of("fast|loss|1.25"), .tell = {.final_loss = final_loss}});
  };
  CHECK(bound(8) == 10);
  CHECK(bound(0) == 0);
  CHECK(bound(-8) == -6);
}

TEST_CASE("accelerate_train_mode: no step is lost to the rounding of a ratio") {
  for (int64_t hundredths = 20; hundredths <= 90; ++hundredths) {
    const std::string ratio = "0." + std::to_string(hundredths);
    CAPTURE(ratio);
    const AccelerateTrainMode mode = mode_of(("fast|step|" + ratio).c_str());
    for (int64_t total = 1; total <= 1000; ++total)
      REQUIRE(last_fast_step(mode, total) == total * hundredths / 100);
    CHECK(last_fast_step(mode, 1'000'000'000) == hundredths * 10'000'000);
    CHECK(last_fast_step(mode, 999'999'999) == hundredths * 10'000'000 - 1);
  }
}

TEST_CASE("accelerate_train_mode: modes read as they are written and others are refused") {
  CHECK(to_string(mode_of("fast|step")) == "fast|step|0.9");
  CHECK(to_string(mode_of("fast1|loss|")) == "fast1|loss|1.05");
  CHECK(to_string(mode_of("fast|loss|1.5")) == "fast|loss|1.5");
  for (const char* text :
       {"fast", "", "|", "fast|", "quick|step", "fast|steps", "fast|step|0.1", "fast|step|0.95",
        "fast|loss|1", "fast|loss|1.6", "fast|step|x", "fast|step|0.9|1", "fast2|loss"}) {
    CAPTURE(text);
    CHECK(contains(error_of([&] { mode_of(text); }), "accelerate_train_mode: expected"));
  }
  CHECK(last_fast_step(mode_of("fast|step|0.9"), 100) == 90);
  CHECK(last_fast_step(mode_of("fast|step|0.5"), 7) == 3);

  const auto error = [](const Precision& precision) {
    return error_of([&] { train_accelerated(5, 2, mode_of("fast|step"), {}, precision); });
  };
  for (const char* base : {"force_fp32", "allow_mix_precision", "cube_fp16in_fp32out"}) {
    CHECK(contains(error(of_mode(base)), std::string("which the training ends in, got ") + base));
  }
  for (const char* base : {"allow_fp32_to_fp16", "must_keep_origin_dtype"})
    CHECK_NOTHROW(train_accelerated(5, 2, mode_of("fast|step"), {}, of_mode(base)));
  const Backend& npu = device("npu").backend();
  CHECK(contains(error_of([&] {
                   fast_precision(mode_of("fast1|step"), {}, npu, npu::options("ascend910").get());
                 }),
                 "ascend910 has no bf16"));
}

TEST_SUITE_END();
