// The best states of an accelerated training came back without their phase: steps that are in mixed
// precision behind them were done in full, and a saved file told of a change that was yet to come.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/temp_folder.h"
#include "unit/runtime_for_tests.h"
#include "unit/sine_rows_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::TempFolder;

// The first half of all steps is fast, or, with a final loss that any is better than, the first.
struct PhasedTraining {
  explicit PhasedTraining(int64_t total_step, AccelerateTrigger trigger = AccelerateTrigger::kStep)
      : session(graph, device("npu")),
        trainer(session,
                {.update = sgd(0.05, {.momentum = 0.9}).minimize(loss),
                 .fetches = {loss},
                 .source = sine_rows(session.device())},
                AcceleratedTraining{
                    .mode = {.trigger = trigger,
                             .ratio = trigger == AccelerateTrigger::kStep ? 0.5 : 1.25},
                    .tell = {.total_step = total_step, .loss = loss, .final_loss = 1e9}}) {}

  // Measures every 5 steps; that of `best` is the best.
  ValidationOptions validation(int64_t best) {
    return {.measure = [this, best] { return session.step() == best ? 1.0 : 0.0; },
            .every_n_steps = 5,
            .keep_best = true};
  }

  Graph graph;
  Value loss = mean(square(
      tanh(matmul(graph.input("x", f32, {8, 12}), graph.state("w", uniform({12, 6}, -1, 1)))) -
      0.5f));
  Session session;
  Trainer trainer;
};

}  // namespace

TEST_CASE("a training goes on from its best states as one that was never beyond them") {
  PhasedTraining whole(20);
  CHECK(whole.trainer.fit({.steps = 20}).fast_steps == 10);
  for (const int64_t best : {5, 10, 15}) {
    CAPTURE(best);
    PhasedTraining t(20);
    const TrainReport first = t.trainer.fit({.steps = 20, .validation = t.validation(best)});
    CHECK(first.kept_best);
    CHECK(first.switched_at == 10);
    CHECK(t.session.step() == best);
    const TrainReport second = t.trainer.fit({.steps = 20 - best});
    CHECK(second.fast_steps == std::max<int64_t>(0, 10 - best));
    CHECK(second.switched_at == 10);
    CHECK(t.session.state_sha256() == whole.session.state_sha256());
  }
}

TEST_CASE("best states and a file that was saved of them go on in the same phase") {
  const TempFolder files;
  // Where the fit ends says how many steps are half of all.
  struct Case {
    AccelerateTrigger trigger;
    int64_t best, fast_steps_behind;
  };
  for (const Case& c :
       {Case{AccelerateTrigger::kStep, 5, 12}, Case{AccelerateTrigger::kStep, 10, 10},
        Case{AccelerateTrigger::kStep, 15, 0}, Case{AccelerateTrigger::kLoss, 5, 0}}) {
    CAPTURE(c.best);
    PhasedTraining t(0, c.trigger);
    ValidationOptions validation = t.validation(c.best);
    validation.on_result = [&](const ValidationResult& result) {
      if (result.step == c.best) t.trainer.save(files.file("of_hook"));
    };
    t.trainer.fit({.steps = 20, .validation = validation});
    t.trainer.save(files.file("of_best"));
    CHECK(t.trainer.fit({.steps = 30}).fast_steps == c.fast_steps_behind);
    for (const char* file : {"of_hook", "of_best"}) {
      CAPTURE(file);
      PhasedTraining resumed(0, c.trigger);
      resumed.trainer.resume(files.file(file));
      CHECK(resumed.session.step() == c.best);
      CHECK(resumed.trainer.fit({.steps = 30}).fast_steps == c.fast_steps_behind);
      CHECK(resumed.session.state_sha256() == t.session.state_sha256());
    }
  }
}

TEST_CASE("best states out of a folder of checkpoints go on in the phase of their file") {
  const TempFolder folder;
  const CheckpointOptions checkpoint{
      .folder = folder.path(), .keep = 1, .keep_best = true, .waits_for_writer = true};
  PhasedTraining whole(20);
  whole.trainer.fit({.steps = 20});
  {
    PhasedTraining t(20);
    ValidationOptions validation = t.validation(5);
    validation.keep_best = false;
    t.trainer.fit({.steps = 15, .validation = validation, .checkpoint = checkpoint});
  }
  PhasedTraining t(20);
  t.trainer.resume(folder.path());
  CHECK(t.session.step() == 15);
  ValidationOptions validation = t.validation(5);
  validation.best_before = ValidationBest{.value = 1, .step = 5, .since = 2};
  const TrainReport second =
      t.trainer.fit({.steps = 5, .validation = validation, .checkpoint = checkpoint});
  CHECK(second.kept_best);
  CHECK(second.fast_steps == 0);
  CHECK(t.session.step() == 5);
  CHECK(t.trainer.fit({.steps = 15}).fast_steps == 5);
  CHECK(t.session.state_sha256() == whole.session.state_sha256());
}

TEST_SUITE_END();
