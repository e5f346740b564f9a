// Ranks that train together: threads of the test, each with a session and a group of its own.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/group/group_agreement.h"
#include "keel/data/feed/feed.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/graph/runtime/checkpoint_files.h"
#include "keel/graph/runtime/evaluator.h"
#include "keel/graph/runtime/rank_states.h"
#include "keel/graph/runtime/trainer.h"

#include "ranks_for_tests.h"
#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::TempFolder;

// The training that halves, of one rank; all draw the same numbers.
struct RankTraining {
  explicit RankTraining(const std::shared_ptr<Group>& group)
      : trainer(session, {.update = model.update,
                          .fetches = {model.total},
                          .source = halving_feeder(device("ref"), 1000),
                          .agreement = make_group_agreement(group)}) {}

  HalvingModel model;
  Session session{model.graph, device("ref")};
  Trainer trainer;
};

// Numbers whose sums depend on the order in which they are added.
Dataset rough_numbers(int64_t count) {
  Tensor x(f32, {count, 2});
  for (int64_t i = 0; i < 2 * count; ++i)
    x.data<float>()[static_cast<size_t>(i)] = 1.0f / static_cast<float>(i % 97 + 3);
  return Dataset::from_tensors({{"x", x}});
}

// `left_out`: batches of the pass that the evaluator is not told of.
std::vector<double> measure(const std::shared_ptr<Group>& group, int64_t items, int64_t batch,
                            int64_t left_out = 0) {
  Graph graph;
  const Value x = graph.input("x", f32, {-1, 2});
  const Value mask = graph.input("mask", boolean, {-1});
  const Value real = sum(select(mask, sum(x * x, {1}), 0.0f));
  const Value count = sum(cast(mask, f32));
  Session session(graph, device("ref"));
  Dataset batches = rough_numbers(items).batch(batch, Tail::kPad);
  if (group != nullptr) batches = batches.shard(group->size(), group->rank());
  Evaluator evaluator(session, {.sums = {real, count},
                                .source = feed(batches, session.spec({x, mask})),
                                .batches = (items + batch - 1) / batch - left_out,
                                .items = items,
                                .group = group});
  const std::vector<double> means = evaluator.means();
  CHECK(evaluator.means() == means);
  return means;
}

}  // namespace

TEST_CASE("ranks: they measure together what one of them measures bit for bit") {
  for (const int64_t items : {5, 40, 203}) {
    const std::vector<double> alone = measure(nullptr, items, 10);
    CHECK(alone[1] == 1);
    for (const int size : {1, 2, 3, 4}) {
      CAPTURE(items);
      CAPTURE(size);
      none_failed(on_local_ranks(size, [&](const std::shared_ptr<Group>& group) {
        if (measure(group, items, 10) != alone) throw Error("other means");
        group->leave();
      }));
    }
  }
}

TEST_CASE("ranks: all of them refuse a pass with more batches than they were told") {
  const auto errors = on_local_ranks(
      2, [](const std::shared_ptr<Group>& group) { measure(group, 30, 10, /*left_out=*/1); });
  for (const std::string& error : errors)
    CHECK_MESSAGE(contains(error, "expected 2 batches, got a pass of at least 3"), error);
  // The batch that is too much is that of a rank that was to have none.
  const auto without = on_local_ranks(
      2, [](const std::shared_ptr<Group>& group) { measure(group, 20, 10, /*left_out=*/1); });
  for (const std::string& error : without)
    CHECK_MESSAGE(contains(error, "expected 1 batches, got a pass of at least 2"), error);
}

TEST_CASE("ranks: all of them refuse a pass with fewer batches than they were told") {
  for (const int size : {1, 2, 3, 4}) {
    CAPTURE(size);
    const auto errors = on_local_ranks(
        size, [](const std::shared_ptr<Group>& group) { measure(group, 20, 10, /*left_out=*/-1); });
    for (const std::string& error : errors)
      CHECK_MESSAGE(contains(error, "expected 3 batches, got 2, then the data ended"), error);
  }
}

TEST_CASE("ranks: the states of all are those of the root") {
  none_failed(on_local_ranks(3, [](const std::shared_ptr<Group>& group) {
    Graph graph;
    const auto rank = static_cast<float>(group->rank());
    const Value w = graph.state("w", constant({2, 3}, rank + 1));
    const Value mean = graph.state("mean", constant({4}, rank + 5), {.trainable = false});
    Session session(graph, device("ref"), {.seed = static_cast<uint64_t>(group->rank())});
    session.write(graph.find_state("keel/step"), Tensor::scalar<int64_t>(group->rank() * 10));
    broadcast_states(session, *group, {.root = 1, .trainable_only = true});
    if (session.read(w).data<float>()[5] != 2) throw Error("w is not the root's");
    if (session.read(mean).data<float>()[0] != rank + 5) throw Error("mean is not its own");
    broadcast_states(session, *group, {.root = 1});
    if (session.read(mean).data<float>()[3] != 6) throw Error("mean is not the root's");
    if (session.step() != 10) throw Error("the step is not the root's");
    require_equal_states(session, *group);
    group->leave();
  }));
}

TEST_CASE("ranks: a root of states that is no rank is refused in the words of a broadcast") {
  none_failed(run_ranks(2, [](const std::shared_ptr<Group>& group) {
    Graph graph;
    graph.state("w", zeros({2}));
    Session session(graph, device("ref"));
    const std::string told = error_of([&] { broadcast_states(session, *group, {.root = 2}); });
    CHECK_MESSAGE(contains(told, "broadcast_states: root: expected a rank from 0 to 1, got 2 ("),
                  told);
  }));
}

TEST_CASE("ranks: states that differ are told with both sides") {
  const auto errors = on_local_ranks(2, [](const std::shared_ptr<Group>& group) {
    Graph graph;
    graph.state("w", constant({2}, group->rank()));
    Session session(graph, device("ref"));
    require_equal_states(session, *group);
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE(contains(error, "STATES_DIVERGED(rank 0 "), error);
  const auto named = on_local_ranks(2, [](const std::shared_ptr<Group>& group) {
    Graph graph;
    graph.state(group->rank() == 0 ? "w" : "v", zeros({2}));
    Session session(graph, device("ref"));
    broadcast_states(session, *group);
  });
  for (const std::string& error : named)
    CHECK_MESSAGE(contains(error, "STATES_DIVERGED(rank 0 "), error);
}

TEST_CASE("ranks: they stop together and rank 0 writes the checkpoints") {
  const TempFolder files;
  const std::string folder = files.file("checkpoints");
  none_failed(on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
    RankTraining rank(group);
    Session& session = rank.session;
    Trainer& trainer = rank.trainer;
    TrainOptions options{.steps = 20, .loop_size = 3, .group = group};
    options.checkpoint = CheckpointOptions{
        .folder = folder, .every_n_steps = 5, .keep = 0, .waits_for_writer = true};
    options.on_step = [&](int64_t step, std::span<const double>) {
      if (group->step() < step) throw Error("the group is at another step");
      return group->rank() == 1 && step == 13 ? LoopControl::kStop : LoopControl::kContinue;
    };
    const TrainReport report = trainer.fit(options);
    // The device may be a step or more ahead of a callback, on both alike.
    const std::vector<std::string> steps = group->all_gather(std::to_string(report.steps));
    if (steps[0] != steps[1]) throw Error("other steps: " + steps[0] + ", " + steps[1]);
    if (report.steps < 13 || report.steps >= 20) throw Error("stopped at " + steps[0]);
    if ((report.checkpoint.saved > 0) != (group->rank() == 0)) throw Error("others write, too");
    if (group->rank() == 0 && report.checkpoint.last_step != session.step())
      throw Error("the last checkpoint is not the end");
    group->leave();
  }));
  CHECK(checkpoints_in(folder).size() == 3);  // behind steps 5 and 10, and the end
}

TEST_CASE("ranks: the best before is read by rank 0 alone and all end with its states") {
  const TempFolder files;
  const auto fit = [&](const std::shared_ptr<Group>& group, int64_t steps,
                       std::optional<ValidationBest> before) {
    RankTraining rank(group);
    Session& session = rank.session;
    Trainer& trainer = rank.trainer;
    // As on another machine: rank 1 finds none of the files there.
    const std::string folder = files.file("of_rank_" + std::to_string(group->rank()));
    if (before && group->rank() == 0) trainer.resume(folder);
    broadcast_states(session, *group);
    TrainOptions options{.steps = steps, .group = group};
    options.resume_from = Cursor{.position = session.step()};
    options.checkpoint = CheckpointOptions{.folder = folder, .every_n_steps = 4};
    options.checkpoint->keep_best = true;
    options.validation = ValidationOptions{.measure = [&] { return session.step() == 4 ? 2 : 1; },
                                           .every_n_steps = 4,
                                           .keep_best = before.has_value(),
                                           .best_before = before};
    const TrainReport report = trainer.fit(options);
    require_equal_states(session, *group);
    if (before && (!report.kept_best || session.step() != 4 || trainer.cursor().position != 4))
      throw Error("not the states and the place of the best");
    const bool is_first = group->rank() == 0;
    if (report.checkpoint.best_file.empty() == is_first) throw Error("another rank has the best");
    group->leave();
  };
  none_failed(
      on_local_ranks(2, [&](const std::shared_ptr<Group>& group) { fit(group, 8, std::nullopt); }));
  none_failed(on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
    fit(group, 8, ValidationBest{.value = 2, .step = 4, .since = 1});
  }));
}

TEST_CASE("ranks: the time since the last checkpoint is rank 0's and ends no launch before") {
  const TempFolder files;
  none_failed(on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
    RankTraining rank(group);
    TrainOptions options{.steps = 60, .loop_size = 20, .group = group};
    options.checkpoint =
        CheckpointOptions{.folder = files.file("checkpoints"), .every_seconds = 3600};
    const TrainReport report = rank.trainer.fit(options);
    if (report.launches != 3) throw Error("launches: " + std::to_string(report.launches));
    group->leave();
  }));
}

TEST_CASE("ranks: a checkpoint of states that are not equal is none") {
  const TempFolder files;
  const std::string folder = files.file("checkpoints");
  const auto errors = on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
    RankTraining rank(group);
    rank.session.write(rank.model.w,
                       Tensor::of<float>({2}, {static_cast<float>(group->rank()), 0}));
    TrainOptions options{.steps = 4, .group = group};
    options.checkpoint = CheckpointOptions{.folder = folder, .every_n_steps = 2};
    rank.trainer.fit(options);
  });
  for (const std::string& error : errors)
    CHECK_MESSAGE(contains(error, "STATES_DIVERGED(rank 0 "), error);
  CHECK(checkpoints_in(folder).empty());
}

TEST_CASE("ranks: a training with a group needs its agreement") {
  auto groups = make_local_groups(2);
  HalvingModel model;
  Session session(model.graph, device("ref"));
  Trainer trainer(session, {.update = model.update, .source = halving_feeder(device("ref"), 10)});
  CHECK(contains(error_of([&] { trainer.fit({.steps = 1, .group = groups[0]}); }),
                 "a step with an agreement of the group"));
}

TEST_SUITE_END();
