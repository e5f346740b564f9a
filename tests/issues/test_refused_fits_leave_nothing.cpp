// A fit() that refused its options had changed the session's loop size, moved the data, or made the
// folder of its checkpoints or the file of a summary.
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/data.h"
#include "keel/graph/runtime/named_hooks.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel {
namespace {

using keel_test::contains;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

struct RefusingTrainer {
  explicit RefusingTrainer(std::shared_ptr<LoopAgreement> agreement = nullptr)
      : trainer(
            session,
            {.update = sgd(0.01).minimize(loss),
             .fetches = {loss},
             .source = feed(Dataset::from_tensors({{"x", Tensor(f32, {20, 2})}}).batch(4).repeat(),
                            session.spec({x})),
             .agreement = std::move(agreement)}) {}

  // The text of an error that is one of wrong arguments; "" where there is none.
  std::string refused(const TrainOptions& options) {
    try {
      trainer.fit(options);
    } catch (const Error& error) {
      CHECK(error.info().kind == ErrorKind::kInvalidArgument);
      CHECK(contains(error.what(), "test_refused_fits_leave_nothing.cpp"));
      return error.what();
    }
    return "";
  }

  Graph graph;
  Value x = graph.input("x", f32, {-1, 2});
  Value w = graph.state("w", ones({2}));
  Value loss = mean(square(w - x));
  Session session{graph, device("cpu")};
  Trainer trainer;
};

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a training of more steps than 64 bits count is refused before anything is done") {
  RefusingTrainer toy;
  toy.trainer.fit({.steps = 3});
  const int64_t position = toy.trainer.cursor().position;
  const std::string epochs =
      toy.refused({.epochs = kMost / 2, .steps_per_epoch = 20, .loop_size = 5});
  CAPTURE(epochs);
  CHECK(contains(epochs, "fit: epochs: expected at most 461168601842738790, got "));
  const std::string steps = toy.refused({.steps = kMost, .loop_size = 5, .resume_from = Cursor{}});
  CAPTURE(steps);
  CHECK(contains(steps, "fit: steps: expected at most 9223372036854775804, got "));
  CHECK(toy.trainer.cursor().position == position);
  CHECK(toy.session.loop_size().value() == 1);
  CHECK(toy.trainer.fit({.steps = 2, .loop_size = 2}).steps == 2);
}

TEST_CASE("what an agreement does not go with is refused before anything is done") {
  const keel_test::TempFolder files;
  const std::string folder = files.file("checkpoints");
  RefusingTrainer toy(make_local_agreements(1)[0]);
  const std::string why = toy.refused({.steps = 2,
                                       .loop_size = 5,
                                       .check_numerics = NumericsMode::kFirst,
                                       .checkpoint = CheckpointOptions{.folder = folder}});
  CHECK(contains(why, "check_numerics: expected off in a training with an agreement"));
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(toy.session.loop_size().value() == 1);
}

TEST_CASE("options that are wrong beside a summary leave no file of it") {
  const keel_test::TempFolder files;
  const std::string path = files.file("summary.csv");
  RefusingTrainer toy;
  const NamedHook summary = SummaryHook{.path = path};
  const auto validation =
      ValidationOptions{.measure = [] { return 1.0; }, .every_n_steps = 1, .patience = -1};
  CHECK(contains(toy.refused({.steps = 2, .hooks = {summary}, .validation = validation}),
                 "validation.patience"));
  CHECK_FALSE(std::filesystem::exists(path));
  const auto checkpoint = CheckpointOptions{.folder = files.file("c"), .keep = -1};
  CHECK(contains(toy.refused({.steps = 2, .hooks = {summary}, .checkpoint = checkpoint}),
                 "checkpoint.keep"));
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(toy.refused({.steps = 2, .hooks = {summary}}).empty());
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("a wrong NPU_LOOP_SIZE is refused before the loop size is set or a summary made") {
  const keel_test::TempFolder files;
  const std::string path = files.file("summary.csv");
  RefusingTrainer toy;
  const NamedHook summary = SummaryHook{.path = path};
  setenv(kLoopSizeVariable, "many", 1);
  const std::string why = toy.refused({.steps = 2, .loop_size = 5, .hooks = {summary}});
  unsetenv(kLoopSizeVariable);
  CAPTURE(why);
  CHECK(contains(why, "NPU_LOOP_SIZE"));
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(toy.session.loop_size().value() == 1);
  CHECK(toy.trainer.fit({.steps = 2, .loop_size = 2}).steps == 2);
}

TEST_SUITE_END();

}  // namespace keel
