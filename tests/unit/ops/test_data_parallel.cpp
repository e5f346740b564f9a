// Data parallel training: ranks that are threads train on parts of one batch. Expected values come
// from the same training on one rank, whose optimizer knows of no ranks, or are worked out by hand.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/registry.h"
#include "keel/core/group/group_agreement.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/conv.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/loss.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/data_parallel.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/layers.h"
#include "keel/ops/pool.h"
#include "keel/ops/random.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

#include "counted_allocations.h"
#include "ranks_for_tests.h"
#include "runtime_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr int64_t kGlobalRows = 16;  // of a global batch
constexpr int64_t kInputFeatures = 20;
constexpr int64_t kClasses = 5;

// A number for element `column` of row `row` of all data; no two rows are alike.
float feature(int64_t row, int64_t column) {
  return static_cast<float>(std::sin(static_cast<double>(row * 31 + column * 7) * 0.37));
}

// A feeder of the rows that are this rank's in each global batch.
std::shared_ptr<NumberFeeder> feed_rows(const Device& device, int64_t rank, int64_t ranks,
                                        int64_t batches, int64_t global_rows = kGlobalRows) {
  const int64_t rows = global_rows / ranks;
  const ElementSpec spec{{{"x", {f32, {rows, kInputFeatures}}}, {"y", {i32, {rows}}}}};
  auto feeder = std::make_shared<NumberFeeder>(
      device, spec, [=](int64_t step, const std::vector<void*>& fields) {
        for (int64_t i = 0; i < rows; ++i) {
          const int64_t row = step * global_rows + rank * rows + i;
          for (int64_t k = 0; k < kInputFeatures; ++k)
            static_cast<float*>(fields[0])[i * kInputFeatures + k] = feature(row, k);
          static_cast<int32_t*>(fields[1])[i] =
              (feature(row, 0) > 0 ? 2 : 0) + (feature(row, 3) > 0 ? 1 : 0);
        }
        return step < batches;
      });
  feeder->open({});
  return feeder;
}

// Give the logits of a model from its features.
Value dense_logits(Value x) {
  const Value hidden = relu(dense(x, 12, {.name = "hidden"}));
  return dense(hidden, kClasses, {.name = "out"});
}

Value deep_logits(Value x) {
  const Value wide = tanh(dense(x, 33, {.name = "wide"}));
  const Value hidden = tanh(dense(wide, 19, {.name = "hidden"}));
  return dense(dropout(hidden, 0.3), kClasses, {.name = "out"});
}

Value convolution_logits(Value x, const std::string& layout) {
  const bool last = layout == "NHWC";
  Graph& g = x.graph();
  const auto weights = [&](const char* name, int64_t in, int64_t out) {
    return g.state(name, uniform(last ? Shape{3, 3, in, out} : Shape{out, in, 3, 3}, -0.4, 0.4));
  };
  const Value image = reshape(x, last ? Shape{-1, 4, 5, 1} : Shape{-1, 1, 4, 5});
  const Conv2dAttributes same{.padding = "same", .layout = layout};
  Value h = relu(conv2d(image, weights("conv1", 1, 13), same));
  h = relu(conv2d(h, weights("conv2", 13, 14), same));
  h = max_pool2d(h, {.window = {2, 2}, .layout = layout});
  return dense(dropout(reshape(h, {-1, 56}), 0.4), kClasses, {.name = "out"});
}
Value channels_last_logits(Value x) { return convolution_logits(x, "NHWC"); }
Value channels_first_logits(Value x) { return convolution_logits(x, "NCHW"); }

Value embedding_logits(Value x) {
  const Value table = x.graph().state("table", uniform({7, 3}, -1, 1));
  const Value ids = cast(floor(abs(x) * 6.99f), i32);
  return dense(reshape(gather(table, ids), {-1, 3 * kInputFeatures}), kClasses, {.name = "out"});
}

// Weights that are used twice, statistics of a batch, and a loop that drops elements: computed part
// by part.
Value mixed_logits(Value x) {
  const Value w = x.graph().state("w", uniform({kInputFeatures, kInputFeatures}, -0.2, 0.2));
  const Value h = tanh(matmul(tanh(matmul(x, w)), w));
  const Value spread = h - mean(h, {0}, true);
  const Values looped = while_loop(
      {spread}, [](const Values& v) { return v[0].graph().constant(Tensor::scalar(true)); },
      [](const Values& v) { return Values{dropout(tanh(v[0] * 1.5f), 0.2)}; }, {.trip_count = 3});
  return dense(looped[0], kClasses, {.name = "out"});
}

struct Classifier {
  explicit Classifier(Value (*logits)(Value) = dense_logits) {
    loss = mean(softmax_cross_entropy(logits(x), y));
  }
  Graph graph;
  Value x = graph.input("x", f32, {-1, kInputFeatures});
  Value y = graph.input("y", i32, {-1});
  Value loss;
};

struct TrainedClassifier {
  std::string states;
  std::vector<float> losses;
  bool operator==(const TrainedClassifier&) const = default;
};

struct Training {
  std::string device = "cpu";  // or a preset of the npu
  int ranks = 1;
  int64_t micro_shards = 4;
  int64_t loop_size = 7;
  int64_t steps = 7;
  int64_t bucket_bytes = 500;  // so small that there are several
  int64_t rows = kGlobalRows;
  Value (*logits)(Value) = dense_logits;
};

// Trains on ranks; checks that all end with the same, which is returned.
TrainedClassifier train_classifier(const Training& training) {
  std::vector<TrainedClassifier> trained(static_cast<size_t>(training.ranks));
  const auto errors = run_ranks(training.ranks, [&](const std::shared_ptr<Group>& group) {
    TrainedClassifier& own = trained[static_cast<size_t>(group->rank())];
    Classifier model(training.logits);
    const DataParallel ranks(
        group, {.micro_shards = training.micro_shards, .bucket_bytes = training.bucket_bytes});
    const Values states = trainable_states(model.loss);
    const GlobalGradients global = ranks.gradients(model.loss, states);
    const Update update =
        adam(0.01).apply(states, clip_by_global_norm(global.gradients, 0.5), global.loss);
    const bool is_preset = training.device == "ascend910";
    const Device on = device(is_preset ? "npu" : training.device);
    SessionOptions options;
    if (is_preset) options.device_options = npu::options(training.device);
    Session session(model.graph, on, options);
    const auto feeder = feed_rows(on, group->rank(), group->size(), training.steps, training.rows);
    Loop loop = session.sink({.update = update,
                              .fetches = {global.loss},
                              .source = feeder,
                              .agreement = make_group_agreement(group)});
    for (int64_t done = 0; done < training.steps;) {
      const int64_t steps = std::min(training.loop_size, training.steps - done);
      const auto keep = [&own](int64_t, std::span<const double> row) {
        own.losses.push_back(static_cast<float>(row[0]));
      };
      REQUIRE(loop.run(steps, {.on_step = keep}).steps == steps);
      done += steps;
    }
    own.states = session.state_sha256();
  });
  CHECK(errors == no_errors(training.ranks));
  for (const TrainedClassifier& one : trained) CHECK(one == trained[0]);
  return trained[0];
}

TEST_CASE("data_parallel: with four micro-shards one and two and four ranks train to equal bits") {
  // The 910 computes products of f32 in f16.
  for (const std::string name : {"cpu", "npu", "ref", "ascend910"}) {
    CAPTURE(name);
    const TrainedClassifier alone = train_classifier({.device = name});
    REQUIRE(alone.losses.size() == 7);
    for (const int ranks : {2, 4}) {
      CAPTURE(ranks);
      CHECK(train_classifier({.device = name, .ranks = ranks}) == alone);
    }
  }
}

TEST_CASE("data_parallel: ranks train models of all kinds to equal bits") {
  struct Kind {
    const char* name;
    Value (*logits)(Value);
  };
  for (const Kind kind : {Kind{"dropout", deep_logits},
                          {"NHWC", channels_last_logits},
                          {"NCHW", channels_first_logits},
                          {"embedding", embedding_logits},
                          {"mixed", mixed_logits}}) {
    CAPTURE(kind.name);
    // Each of 4 parts has one row, 3, 7, 25.
    for (const int64_t rows : {4, 12, 28, 100}) {
      CAPTURE(rows);
      for (const std::string name : {"cpu", "npu", "ref"}) {
        if (name == "ref" && rows != 12) continue;
        CAPTURE(name);
        const Training training{
            .device = name, .loop_size = 3, .steps = 3, .rows = rows, .logits = kind.logits};
        const TrainedClassifier alone = train_classifier(training);
        for (const int ranks : {2, 4}) {
          CAPTURE(ranks);
          Training shared = training;
          shared.ranks = ranks;
          CHECK(train_classifier(shared) == alone);
        }
      }
    }
  }
}

TEST_CASE("data_parallel: loop sizes and buckets change no bit") {
  const TrainedClassifier usual = train_classifier({.ranks = 2, .loop_size = 100, .steps = 100});
  for (const int64_t loop_size : {1, 7})
    CHECK(train_classifier({.ranks = 2, .loop_size = loop_size, .steps = 100}) == usual);
  CHECK(train_classifier({.ranks = 2, .loop_size = 100, .steps = 100, .bucket_bytes = 1 << 20}) ==
        usual);
  CHECK(train_classifier({.ranks = 4, .loop_size = 7, .steps = 100}) == usual);
  CHECK(usual.losses.back() < 0.8f * usual.losses.front());
}

TEST_CASE("data_parallel: the number of micro-shards is what bits depend on") {
  // Rounding differs, what is trained does not.
  const TrainedClassifier four = train_classifier({.micro_shards = 4});
  const TrainedClassifier one = train_classifier({.micro_shards = 1});
  REQUIRE(one.losses.size() == four.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i)
    CHECK(one.losses[i] == doctest::Approx(four.losses[i]).epsilon(1e-5));
}

TEST_CASE("data_parallel: a step with sums over ranks allocates nothing") {
  if (!can_count_allocations()) {
    MESSAGE("allocations cannot be counted in this build");
    return;
  }
  std::barrier<> together(2);
  const auto check = [&](const char* name) {
    const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Classifier model;
      const Values states = trainable_states(model.loss);
      const GlobalGradients global = DataParallel(group, {.micro_shards = 4, .bucket_bytes = 500})
                                         .gradients(model.loss, states);
      const Update update = adam(0.01).apply(states, global.gradients, global.loss);
      Session session(model.graph, device(name));
      Loop loop = session.sink({.update = update,
                                .fetches = {global.loss},
                                .source = feed_rows(device(name), group->rank(), 2, 1000),
                                .agreement = make_group_agreement(group)});
      const auto allocations = [&](int64_t steps) {
        const auto run = [&] {
          together.arrive_and_wait();
          loop.run(steps);
          together.arrive_and_wait();
        };
        if (group->rank() != 0) {
          run();
          return int64_t{0};
        }
        return count_allocations(run);
      };
      allocations(10);
      const int64_t few = allocations(10);
      CHECK(allocations(500) == few);
    });
    CHECK(errors == no_errors(2));
  };
  check("cpu");
  check("npu");
}

TEST_CASE("data_parallel: says why bits are not equal across ranks") {
  Classifier model;
  const auto why = [&](int ranks, int64_t micro_shards) {
    const auto groups = make_local_groups(ranks);
    return DataParallel(groups[0], {.micro_shards = micro_shards}).why_not_bit_equal(model.loss);
  };
  CHECK(why(2, 4) == "");
  CHECK(why(4, 4) == "");
  CHECK(why(3, 4) == "4 micro-shards are no multiple of 3 ranks");
  CHECK(why(3, 6) == "6 micro-shards are no power of two");
  CHECK(default_micro_shards(1) == 1);
  CHECK(default_micro_shards(3) == 4);
  CHECK(default_micro_shards(4) == 4);
  CHECK(contains(error_of([] { DataParallel(nullptr, {.micro_shards = -1}); }), "micro_shards"));
}

// One step of w -= rate * mean of (x w - y) x, in numbers that f32 holds exactly.
TEST_CASE("data_parallel: two ranks move weights as one rank does with all rows") {
  for (const std::string name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Graph g;
      const Value x = g.input("x", f32, {-1, 1});
      const Value w = g.state("w", from_tensor(Tensor::of<float>({1, 1}, {2})));
      const Value loss = mean(square(matmul(x, w)));
      const Update update = data_parallel(sgd(0.5), group).minimize(loss);
      Session session(g, device(name));
      // Rows 1, 3 on rank 0 and 5, 1 on rank 1; the mean of 2 x x w is 2 * 36 / 4 * 2 = 36.
      const Tensor rows = group->rank() == 0 ? Tensor::of<float>({2, 1}, {1, 3})
                                             : Tensor::of<float>({2, 1}, {5, 1});
      session.run(update, Values{}, {{x, rows}});
      CHECK(session.read(w).item<float>() == 2 - 0.5f * 36);
    });
    CHECK(errors == no_errors(2));
  }
}

TEST_CASE("data_parallel: one rank trains with the optimizer itself") {
  const auto text = [](const auto& minimize) {
    Classifier model;
    const Update update = minimize(model.loss);
    for (const Assignment& a : update.assignments) model.graph.add_update(a.state, a.next);
    return print_graph(model.graph, {.sites = false});
  };
  const std::string plain = text([](const Value& loss) { return adam(0.1).minimize(loss); });
  CHECK(text([](const Value& loss) { return data_parallel(adam(0.1), nullptr).minimize(loss); }) ==
        plain);
  CHECK(
      text([](const Value& loss) {
        return npu_distributed_optimizer_wrapper(adam(0.1), make_local_groups(1)[0]).minimize(loss);
      }) == plain);
}

TEST_CASE("data_parallel: a state without a gradient stays and others move by the mean") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value a = g.state("a", ones({2}));
    const Value b = g.state("b", ones({2}));
    const Value x = g.input("x", f32, {2});
    const auto optimizer = data_parallel(sgd(1.0), group);
    const Update update = optimizer.apply({a, b}, {Value(), x * 2.0f});
    CHECK(update.assignments.size() == 1);
    CHECK(optimizer.apply({a, b}, {Value(), Value()}).empty());
    CHECK(contains(error_of([&] { optimizer.apply({a, b}, {x}); }), "one for each state"));
    Session session(g, device("cpu"));
    const float own = group->rank() == 0 ? 1 : 4;
    session.run(update, Values{}, {{x, Tensor::of<float>({2}, {own, own})}});
    CHECK(session.read(a).at(0) == 1);
    CHECK(session.read(b).at(0) == 1 - (2 + 8) / 2);
  });
  CHECK(errors == no_errors(2));
}

TEST_CASE("data_parallel: an embedding's gradient is summed over the ranks' ids") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value table = g.state("table", zeros({4, 2}));
    const Value ids = g.input("ids", i64, {-1});
    const Value loss = mean(gather(table, ids));
    const Update update = data_parallel(sgd(4.0), group).minimize(loss);
    Session session(g, device("cpu"));
    // Ids 1, 3 and 1, 0: of 4 rows of 2 elements each slope is 1 / 8 for each time it is read.
    const Tensor own =
        group->rank() == 0 ? Tensor::of<int64_t>({2}, {1, 3}) : Tensor::of<int64_t>({2}, {1, 0});
    session.run(update, Values{}, {{ids, own}});
    const Tensor moved = session.read(table);
    const double expected[] = {-0.5, -0.5, -1, -1, 0, 0, -0.5, -0.5};
    for (int64_t i = 0; i < 8; ++i) CHECK(moved.at(i) == expected[i]);
  });
  CHECK(errors == no_errors(2));
}

TEST_CASE("data_parallel: the norm that clips is that of the mean gradient") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value w = g.state("w", zeros({2}));
    const Value x = g.input("x", f32, {2});
    const Value loss = sum(w * x);
    const Update update = data_parallel(sgd(1.0), group, {.clip_norm = 1.0}).minimize(loss);
    Session session(g, device("cpu"));
    // The mean of (6, 0) and (0, 8) is (3, 4), of norm 5.
    const Tensor own =
        group->rank() == 0 ? Tensor::of<float>({2}, {6, 0}) : Tensor::of<float>({2}, {0, 8});
    session.run(update, Values{}, {{x, own}});
    CHECK(session.read(w).at(0) == doctest::Approx(-0.6));
    CHECK(session.read(w).at(1) == doctest::Approx(-0.8));
  });
  CHECK(errors == no_errors(2));
}

TEST_CASE("data_parallel: a step that overflows on one rank is skipped on all") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value w = g.state("w", ones({2}));
    const Value x = g.input("x", f32, {2});
    const Value loss = sum(w * x);
    const LossScaler scaler(
        g, ExponentialLossScale{
               .init_loss_scale = 8, .decr_every_n_nan_or_inf = 1, .decr_ratio = 0.5});
    const Values states = trainable_states(loss);
    const GlobalGradients global = DataParallel(group).gradients(loss, states, {.scaler = &scaler});
    Update update = apply_if(global.finite, sgd(1.0).apply(states, global.gradients, global.loss));
    update += scaler.update(global.finite);
    Session session(g, device("cpu"));
    const float infinity = std::numeric_limits<float>::infinity();
    const float bad = group->rank() == 1 ? infinity : 1;
    CHECK_FALSE(
        session.run(update, global.finite, {{x, Tensor::of<float>({2}, {bad, 1})}}).item<bool>());
    CHECK(session.read(w).at(0) == 1);
    CHECK(session.read(scaler.scale()).item<float>() == 4);
    CHECK(session.updates_applied() == 0);
    CHECK(
        session.run(update, global.finite, {{x, Tensor::of<float>({2}, {0.5f, 1})}}).item<bool>());
    CHECK(session.read(w).at(0) == 0.5);
    CHECK(session.updates_applied() == 1);
  });
  CHECK(errors == no_errors(2));
}

TEST_CASE(
    "data_parallel: an f16 number that one device stops at its largest skips the step on all") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value w = g.state("w", ones({2}, f16));
    const Value x = g.input("x", f16, {2});
    const Value loss = sum(w * x);
    const LossScaler scaler(g, FixedLossScale{.scale = 8});
    const Values states = trainable_states(loss);
    const GlobalGradients global = DataParallel(group).gradients(loss, states, {.scaler = &scaler});
    const Update update =
        apply_if(global.finite, sgd(1.0).apply(states, global.gradients, global.loss));
    Session session(g, device("npu"), {.device_options = npu::options("ascend910")});
    const auto step = [&](float own) {
      const Tensor rows = Tensor::of<float>({2}, {own, 0}).cast(f16);
      return session.run(update, global.finite, {{x, rows}}).item<bool>();
    };
    // 8 * 60000 / 2 is beyond f16, and no number of rank 0 shows it.
    CHECK_FALSE(step(group->rank() == 1 ? 60000 : 1));
    CHECK(session.read(w).at(0) == 1);
    CHECK(step(group->rank() == 1 ? 0.5f : 1));
    CHECK(session.read(w).at(0) == 1 - 0.75);
  });
  CHECK(errors == no_errors(2));
}

TEST_CASE("data_parallel: a stop that one rank wants ends the loops of all behind one step") {
  std::vector<int64_t> steps(2);
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Classifier model;
    const Value mine = greater(model.graph.step(), group->rank() == 1 ? 4 : 1000);
    const Values states = trainable_states(model.loss);
    const GlobalGradients global =
        DataParallel(group).gradients(model.loss, states, {.flags = {mine}});
    const Update update = sgd(0.1).apply(states, global.gradients, global.loss);
    Session session(model.graph, device("cpu"));
    // Without an agreement: the flag alone has to end both.
    Loop loop = session.sink({.update = update,
                              .source = feed_rows(device("cpu"), group->rank(), 2, 20),
                              .stop_when = global.flags[0]});
    const LoopReport report = loop.run(20);
    CHECK(report.stopped);
    steps[static_cast<size_t>(group->rank())] = report.steps;
  });
  CHECK(errors == no_errors(2));
  // The step that begins with keel/step 5 is the sixth.
  CHECK(steps == std::vector<int64_t>{6, 6});
}

TEST_CASE("data_parallel: running statistics are means over the ranks") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value x = g.input("x", f32, {2});
    const Value w = g.state("w", ones({2}));
    const Value seen = g.state("seen", zeros({2}), {.trainable = false});
    const Value product = w * x;
    g.attach_update(product, seen, product);
    const Value loss = sum(product);
    const Update update = data_parallel(sgd(1.0), group, {.micro_shards = 4}).minimize(loss);
    Session session(g, device("cpu"));
    const float own = group->rank() == 0 ? 2 : 6;
    session.run(update, Values{}, {{x, Tensor::of<float>({2}, {own, -own})}});
    CHECK(session.read(seen).at(0) == 4);
    CHECK(session.read(seen).at(1) == -4);
    CHECK(session.read(w).at(0) == 1 - 4);
    CHECK(contains(DataParallel(group).why_not_bit_equal(loss), "running statistics"));
  });
  CHECK(errors == no_errors(2));
}

TEST_CASE("data_parallel: refuses f64 weights on several ranks") {
  Graph g;
  const Value w = g.state("w", zeros({2}, f64));
  const auto groups = make_local_groups(2);
  CHECK(contains(error_of([&] { data_parallel(sgd(1.0), groups[0]).minimize(sum(square(w))); }),
                 "ranks sum in f32"));
}

}  // namespace

TEST_SUITE_END();
