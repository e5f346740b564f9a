// all_gather, and gradients of embeddings' tables that travel as ids and rows. The ranks are
// threads. Expected values are worked out by hand or in double, or are those of whole tables.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/group/group.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/all_reduce.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/loss.h"
#include "keel/ops/nn/data_parallel.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/layers.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

#include "ranks_for_tests.h"
#include "runtime_for_tests.h"
#include "support/built_in_backends.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::kBuiltInBackends;

TEST_CASE("all_gather: each rank gets the values of all in their order and in every step") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    for (const int size : {1, 2, 3}) {
      const auto errors = run_ranks(size, [&](const std::shared_ptr<Group>& group) {
        Graph g;
        const Value x = g.input("x", f32, {-1, 3});
        const Value y = g.input("y", f32, {});
        const Values all = all_gather({x + 0.5f, y}, group);
        Session session(g, device(name));
        for (int step = 0; step < 3; ++step) {
          const auto value = [&](int rank, int64_t i) {
            return static_cast<float>(100 * rank + 10 * step) + static_cast<float>(i);
          };
          Tensor own(f32, {2, 3});
          for (int64_t i = 0; i < 6; ++i)
            own.data<float>()[static_cast<size_t>(i)] = value(group->rank(), i);
          const std::vector<Tensor> out =
              session.run(all, {{x, own}, {y, Tensor::scalar(value(group->rank(), 7))}});
          if (!(out[0].shape() == Shape{size, 2, 3} && out[1].shape() == Shape{size}))
            throw Error("shapes");
          for (int rank = 0; rank < size; ++rank) {
            for (int64_t i = 0; i < 6; ++i)
              if (out[0].at(rank * 6 + i) != value(rank, i) + 0.5) throw Error("x");
            if (out[1].at(rank) != value(rank, 7)) throw Error("y");
          }
        }
      });
      CHECK(errors == no_errors(size));
    }
  }
}

TEST_CASE("all_gather: refuses what it cannot gather") {
  Graph g;
  const auto groups = make_local_groups(2);
  const Value whole = g.input("ids", i32, {3});
  CHECK(contains(error_of([&] { all_gather({whole}, groups[0]); }), "f32, in which ranks sum"));
  CHECK(contains(error_of([&] { all_gather({}, groups[0]); }), "all_gather: values"));
  const Value deep = g.input("deep", f32, {1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(contains(error_of([&] { all_gather({deep}, groups[0]); }), "fewer axes than 8"));
  const Value x = g.input("x", f32, {3});
  CHECK(contains(error_of([&] { all_gather({x}, groups[0], {.scale = 0.5}); }),
                 "1, since nothing is summed"));
}

TEST_CASE("all_gather: graphs of it print the same on all ranks and parse") {
  std::vector<std::string> texts;
  for (const auto& group : make_local_groups(2)) {
    Graph g;
    all_gather({g.input("x", f32, {3})}, group, {.bucket = 1, .buckets = 2});
    texts.push_back(print_graph(g, {.sites = false}));
  }
  CHECK(texts[0] == texts[1]);
  CHECK(contains(texts[0], "all_gather"));
  CHECK(print_graph(*parse_graph(texts[0]), {.sites = false}) == texts[0]);
}

constexpr int64_t kTableRows = 60;
constexpr int64_t kWidth = 3;
constexpr int64_t kIds = 8;  // of a global batch

// The ids of a step: some rows are looked up twice on a rank, some on several ranks, most never.
int32_t id_of(int64_t step, int64_t i) {
  return static_cast<int32_t>((i % 3 == 0 ? 5 : 7 * i + 11 * step) % kTableRows);
}
float target_of(int64_t step, int64_t i) {
  return static_cast<float>(std::sin(static_cast<double>(step * 13 + i)));
}

struct TrainedTable {
  std::string states;
  std::vector<double> table;
  std::string tasks;
};

// Trains a table and a layer behind it for three steps.
TrainedTable train_table(const std::string& name, int ranks, int64_t shards,
                         std::optional<bool> gather_rows, bool known_sizes = true) {
  std::vector<TrainedTable> by_rank(static_cast<size_t>(ranks));
  const auto errors = run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
    TrainedTable& own = by_rank[static_cast<size_t>(group->rank())];
    const int64_t count = kIds / ranks;
    Graph g;
    const Value ids = g.input("ids", i32, {known_sizes ? count : -1});
    const Value y = g.input("y", f32, {known_sizes ? count : -1});
    const Value table = g.state("table", normal({kTableRows, kWidth}, 0, 1));
    const Value out = reshape(dense(gather(table, ids), 1, {.name = "out"}), {-1});
    const Value loss = mean((out - y) * (out - y));
    const Update update =
        data_parallel(sgd(0.5), group, {.micro_shards = shards, .gather_rows = gather_rows})
            .minimize(loss);
    Session session(g, device(name));
    for (int64_t step = 0; step < 3; ++step) {
      Tensor own_ids(i32, {count}), own_y(f32, {count});
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = group->rank() * count + i;
        own_ids.data<int32_t>()[static_cast<size_t>(i)] = id_of(step, at);
        own_y.data<float>()[static_cast<size_t>(i)] = target_of(step, at);
      }
      const Feeds feeds = {{ids, own_ids}, {y, own_y}};
      if (step == 0) own.tasks = session.describe(update, Values{}, feeds);
      session.run(update, Values{}, feeds);
    }
    own.states = session.state_sha256();
    const Tensor after = session.read(table);
    for (int64_t i = 0; i < kTableRows * kWidth; ++i) own.table.push_back(after.at(i));
  });
  CHECK(errors == no_errors(ranks));
  for (const TrainedTable& one : by_rank) CHECK(one.states == by_rank[0].states);
  return by_rank[0];
}

TEST_CASE("gathered gradients: the bits are those of sums of whole tables") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    for (const int ranks : {2, 4}) {
      CAPTURE(ranks);
      const std::string alone = train_table(name, 1, ranks, std::nullopt).states;
      const TrainedTable gathered = train_table(name, ranks, ranks, true);
      CHECK(contains(gathered.tasks, "gathered bucket 1 of 2"));
      const TrainedTable whole = train_table(name, ranks, ranks, false);
      CHECK_FALSE(contains(whole.tasks, "gathered bucket"));
      CHECK(gathered.states == whole.states);
      CHECK(gathered.states == alone);
    }
  }
}

TEST_CASE("gathered gradients: a rank of several micro-shards sums whole tables") {
  const TrainedTable two = train_table("cpu", 2, 4, true);
  CHECK_FALSE(contains(two.tasks, "gathered bucket"));
  CHECK(two.states == train_table("cpu", 1, 4, std::nullopt).states);
}

TEST_CASE("gathered gradients: they are near those of one rank without micro-shards") {
  const TrainedTable alone = train_table("cpu", 1, 1, std::nullopt);
  for (const int ranks : {2, 4, 8}) {
    const TrainedTable gathered = train_table("cpu", ranks, ranks, true);
    REQUIRE(gathered.table.size() == alone.table.size());
    for (size_t i = 0; i < alone.table.size(); ++i)
      CHECK(gathered.table[i] == doctest::Approx(alone.table[i]).epsilon(1e-5));
  }
}

TEST_CASE("gathered gradients: a step by hand in double") {
  // The loss is the mean of row elements times their place: each look-up of row r adds i + 1 of the
  // global batch times (k + 1) / (ids * width) to its slope.
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    constexpr int64_t kOwn = 4;
    const int64_t all = kOwn * ranks;
    std::vector<double> expected(static_cast<size_t>(kTableRows * kWidth), 0.25);
    for (int64_t i = 0; i < all; ++i) {
      for (int64_t k = 0; k < kWidth; ++k)
        expected[static_cast<size_t>(id_of(0, i) * kWidth + k)] -=
            0.5 * static_cast<double>((i + 1) * (k + 1)) / static_cast<double>(all * kWidth);
    }
    const auto errors = run_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
      Graph g;
      const Value ids = g.input("ids", i64, {kOwn});
      const Value weights = g.input("weights", f32, {kOwn, kWidth});
      const Value table = g.state("table", constant({kTableRows, kWidth}, 0.25));
      const Value loss = mean(gather(table, ids) * weights);
      const Update update = data_parallel(sgd(0.5), group, {.gather_rows = true}).minimize(loss);
      Session session(g, device("cpu"));
      Tensor own_ids(i64, {kOwn}), own_weights(f32, {kOwn, kWidth});
      for (int64_t i = 0; i < kOwn; ++i) {
        const int64_t at = group->rank() * kOwn + i;
        own_ids.data<int64_t>()[static_cast<size_t>(i)] = id_of(0, at);
        for (int64_t k = 0; k < kWidth; ++k)
          own_weights.data<float>()[static_cast<size_t>(i * kWidth + k)] =
              static_cast<float>((at + 1) * (k + 1));
      }
      session.run(update, Values{}, {{ids, own_ids}, {weights, own_weights}});
      const Tensor after = session.read(table);
      for (int64_t i = 0; i < kTableRows * kWidth; ++i) {
        if (std::abs(after.at(i) - expected[static_cast<size_t>(i)]) > 1e-6)
          throw Error("element " + std::to_string(i));
      }
    });
    CHECK(errors == no_errors(ranks));
  }
}

// The tasks of a training of `loss` of a table and 4 ids.
std::string tasks_of(const std::function<Value(const Value& table, const Value& ids)>& loss,
                     DType dtype = f32, int64_t rows = kTableRows,
                     std::optional<bool> gather_rows = true) {
  std::string tasks;
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value ids = g.input("ids", i32, {4});
    const Value table = g.state("table", zeros({rows, kWidth}, dtype));
    const Update update =
        data_parallel(sgd(0.5), group, {.gather_rows = gather_rows}).minimize(loss(table, ids));
    Session session(g, device("cpu"));
    const std::string text =
        session.describe(update, Values{}, {{ids, Tensor::of<int32_t>({4}, {1, 2, 3, 4})}});
    if (group->rank() == 0) tasks = text;
  });
  CHECK(errors == no_errors(2));
  return tasks;
}

TEST_CASE("gathered gradients: rows travel where the table has four times as many elements") {
  // Two ranks look up 4 rows each: 2 x 4 x 4 elements, beside 60 x 3.
  CHECK(contains(train_table("cpu", 2, 2, std::nullopt).tasks, "gathered bucket"));
  CHECK_FALSE(contains(train_table("cpu", 2, 2, false).tasks, "gathered bucket"));
  // With one of 42 x 3 they are a bit more than a quarter, with 43 x 3 less.
  const auto mean_of_rows = [](const Value& t, const Value& i) { return mean(gather(t, i)); };
  CHECK_FALSE(contains(tasks_of(mean_of_rows, f32, 42, std::nullopt), "gathered bucket"));
  CHECK(contains(tasks_of(mean_of_rows, f32, 43, std::nullopt), "gathered bucket"));
  // Sizes that are not known when the step is built.
  CHECK_FALSE(contains(train_table("cpu", 2, 2, std::nullopt, false).tasks, "gathered bucket"));
  const TrainedTable asked = train_table("cpu", 2, 2, true, false);
  CHECK(contains(asked.tasks, "gathered bucket"));
  CHECK(asked.states == train_table("cpu", 2, 2, false, false).states);
}

TEST_CASE("gathered gradients: a table that is read in another way is summed whole") {
  CHECK(contains(tasks_of([](const Value& t, const Value& i) { return mean(gather(t, i)); }),
                 "gathered bucket"));
  CHECK_FALSE(contains(
      tasks_of([](const Value& t, const Value& i) { return mean(gather(t, i)) + mean(t * t); }),
      "gathered bucket"));
  CHECK_FALSE(contains(tasks_of([](const Value& t, const Value& i) {
                         return mean(gather(t, i)) + mean(gather(t, i) * 2.0f);
                       }),
                       "gathered bucket"));
  CHECK_FALSE(contains(tasks_of([](const Value& t, const Value&) {
                         return mean(gather(t, t.graph().constant(Tensor::scalar<int32_t>(1)), 1));
                       }),
                       "gathered bucket"));
  CHECK_FALSE(
      contains(tasks_of([](const Value& t, const Value& i) { return mean(gather(t, i)); }, f16),
               "gathered bucket"));
}

}  // namespace

TEST_SUITE_END();
