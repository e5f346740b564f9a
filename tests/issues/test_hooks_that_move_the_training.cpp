// A hook that ran an update left the trainer's count of steps behind keel/step: hooks, validations
// and checkpoints named steps that were others. What a hook wrote was found in the step behind it,
// or in none. A fit without a step began the data anew for the next one.
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/data.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/temp_folder.h"

namespace keel {
namespace {

// w follows x, and v is another one's.
struct FollowedInput {
  Graph graph;
  Value x = graph.input("x", f32, {-1, 2});
  Value w = graph.state("w", constant({2}, 2));
  Value v = graph.state("v", zeros({}));
  Value loss = mean(square(log(w) - x));
  Update update = sgd(0.01).minimize(loss, {w});
  Update other = sgd(0.01).apply({v}, {v + 1.0f});
  Session session{graph, device("cpu")};
  Trainer trainer{
      session,
      {.update = update,
       .fetches = {loss},
       .source =
           feed(Dataset::from_tensors({{"x", Tensor::full(f32, {20, 2}, 0.5)}}).batch(4).repeat(),
                session.spec({x}))}};
};

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("steps that a hook runs count as any") {
  const keel_test::TempFolder folder;
  FollowedInput toy;
  std::vector<int64_t> hooked, measured;
  const auto hook = [&](int64_t step) {
    CHECK(step == toy.session.step());
    hooked.push_back(step);
    toy.session.run(toy.other, Values{});
  };
  const auto measure = [&] {
    measured.push_back(toy.session.step());
    return static_cast<double>(toy.session.step());
  };
  const TrainReport report = toy.trainer.fit(
      {.steps = 20,
       .loop_size = 4,
       .every_n_steps = {{5, hook}},
       .validation = ValidationOptions{.measure = measure, .every_n_steps = 4, .keep_best = true},
       .checkpoint = CheckpointOptions{
           .folder = folder.path(), .every_n_steps = 7, .keep = 0, .keep_best = true}});
  CHECK(hooked == std::vector<int64_t>{5, 10, 15, 20});
  // The hook of step 15 did step 16, and that of step 20 another one, behind which all ends.
  CHECK(measured == std::vector<int64_t>{4, 8, 12, 20, 21});
  CHECK(report.best->step == 21);
  CHECK(toy.session.step() == 21);
  CHECK(report.steps == 17);
  CHECK(report.updates_applied == 21);
}

TEST_CASE("a training whose last step a hook runs is judged behind it") {
  FollowedInput toy;
  int measured = 0;
  const auto hook = [&](int64_t) { toy.session.run(toy.other, Values{}); };
  const TrainReport report =
      toy.trainer.fit({.steps = 20,
                       .every_n_steps = {{19, hook}},
                       .validation = ValidationOptions{.measure = [&] { return ++measured; },
                                                       .every_n_steps = 99}});
  CHECK(measured == 1);
  REQUIRE(report.best);
  CHECK(report.best->step == 20);
}

TEST_CASE("what is not finite behind a hook's write is found in the step that read it") {
  FollowedInput toy;
  const auto spoil = [&](int64_t step) {
    if (step == 10) toy.session.write(toy.w, Tensor::full(f32, {2}, 0));
  };
  const TrainReport report = toy.trainer.fit({.steps = 20,
                                              .loop_size = 4,
                                              .every_n_steps = {{5, spoil}},
                                              .check_numerics = NumericsMode::kFirst});
  REQUIRE(report.numerics.size() == 1);
  CHECK(report.numerics[0].step == 11);
  CHECK(report.float_status_step == 11);
}

TEST_CASE("a fit of no steps says where the data are") {
  FollowedInput toy;
  CHECK(toy.trainer.fit({.steps = 3}).cursor.position == 12);  // of 4 rows each
  CHECK(toy.trainer.fit({.steps = 0}).cursor.position == 12);
  const auto worse = [&] { return -static_cast<double>(toy.session.step()); };
  const TrainReport kept = toy.trainer.fit(
      {.steps = 4,
       .validation = ValidationOptions{.measure = worse, .every_n_steps = 2, .keep_best = true}});
  CHECK(kept.kept_best);
  CHECK(kept.best->step == 4);
  CHECK(kept.cursor.position == 16);
  CHECK(toy.trainer.cursor().position == 16);
}

TEST_SUITE_END();

}  // namespace keel
