// A small convolutional net in training: every backend, fused and not, sunk in launches of any
// size, in strict mode and in mixed precision. What is expected are the losses of `ref`.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/feed/feed.h"
#include "keel/data/formats/digits.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/ops.h"

#include "support/fusion.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

constexpr int64_t kBatch = 6, kSteps = 5;

const LabelledImages& images() {
  static const LabelledImages digits =
      make_digits({.train_count = kBatch * kSteps, .test_count = 1}).train;
  return digits;
}

// Convolutions with a stride, of groups and depthwise, both kinds of pooling, a dense layer.
struct ConvNet {
  ConvNet() {
    const auto weights = [&](const char* name, const Shape& shape) {
      return graph.state(name, normal(shape, 0, 0.2));
    };
    Value h = reshape(cast(image, f32) / 255.0, {-1, 28, 28, 1});
    h = conv2d(h, weights("first", {5, 5, 1, 6}), {.stride = {2}, .padding = "same"});
    h = relu(h + graph.state("first_bias", zeros({6})));
    h = max_pool2d(h, {.window = {3}, .stride = {2}, .padding = "same"});
    h = relu(conv2d(h, weights("depthwise", {3, 3, 1, 6}), {.padding = "same", .groups = 6}));
    h = relu(conv2d(h, weights("grouped", {3, 3, 3, 8}), {.groups = 2}));
    h = avg_pool2d(h, {.window = {2}, .stride = {2}, .padding = "same"});
    h = matmul(reshape(h, {-1, 72}), weights("dense", {72, 10}));
    loss = mean(softmax_cross_entropy(h + graph.state("dense_bias", zeros({10})), label));
    update = sgd(0.1).minimize(loss);
  }
  Graph graph;
  Value image = graph.input("image", u8, {-1, 784});
  Value label = graph.input("label", u8, {-1});
  Value loss;
  Update update;
};

Tensor rows_of(const Tensor& all, int64_t first) {
  std::vector<int64_t> dims(all.shape().begin(), all.shape().end());
  const int64_t row = all.num_elements() / dims[0];
  dims[0] = kBatch;
  Tensor rows(all.dtype(), Shape(dims));
  for (int64_t i = 0; i < rows.num_elements(); ++i) rows.set(i, all.at(first * row + i));
  return rows;
}

struct Outcome {
  std::vector<double> losses;
  std::string states;
};

// One step for each batch, driven by the host.
Outcome step(const Device& on, SessionOptions options) {
  ConvNet net;
  options.seed = 3;
  Session session(net.graph, on, options);
  Outcome outcome;
  for (int64_t i = 0; i < kSteps; ++i) {
    const Feeds feeds{{net.image, rows_of(images().images, i * kBatch)},
                      {net.label, rows_of(images().labels, i * kBatch)}};
    outcome.losses.push_back(session.run(net.update, {net.loss}, feeds).at(0).at(0));
  }
  outcome.states = session.state_sha256();
  return outcome;
}

// The same steps in launches of `loop_size`; the states behind them.
std::string sink(const Device& on, int64_t loop_size) {
  ConvNet net;
  Session session(net.graph, on, {.seed = 3});
  const auto feeder =
      feed(Dataset::from_images(images()).batch(kBatch), session.spec({net.image, net.label}));
  Trainer trainer(session, {.update = net.update, .fetches = {net.loss}, .source = feeder});
  CHECK(trainer.fit({.steps = kSteps, .loop_size = loop_size}).steps == kSteps);
  return session.state_sha256();
}

const Outcome& expected() {
  static const Outcome of_ref = step(device("ref:0"), {});
  return of_ref;
}

void check_losses(const Outcome& got, double bound) {
  REQUIRE(got.losses.size() == expected().losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(got.losses[i] - expected().losses[i]) < bound);
  }
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a convolutional net trains to the same losses on every backend") {
  for (const char* where : {"cpu:0", "npu:0"}) {
    CAPTURE(std::string(where));
    const Outcome fused = step(device(where), {});
    check_losses(fused, 1e-4);
    CHECK(step(device(where), {.disabled_passes = keel_test::fusion(false)}).states ==
          fused.states);
    CHECK(sink(device(where), 1) == fused.states);
    CHECK(sink(device(where), kSteps) == fused.states);
  }
}

TEST_CASE("a convolutional net learns its images by heart") {
  ConvNet net;
  Session session(net.graph, device("cpu:0"), {.seed = 3});
  const Feeds feeds{{net.image, rows_of(images().images, 0)},
                    {net.label, rows_of(images().labels, 0)}};
  const auto step = [&] { return session.run(net.update, {net.loss}, feeds).at(0).at(0); };
  const double first = step();
  double last = first;
  for (int i = 0; i < 60; ++i) last = step();
  CHECK(last < first / 4);
}

TEST_CASE("a convolutional net has the same bits in strict mode") {
  const std::unique_ptr<Backend> strict = keel_test::strict_npu();
  REQUIRE(strict != nullptr);
  const std::string plain = step(device("npu:0"), {}).states;
  CHECK(step(Device(strict.get(), 0), {}).states == plain);
  CHECK(sink(Device(strict.get(), 0), 2) == plain);
}

TEST_CASE("a convolutional net trains in mixed precision") {
  for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
    CAPTURE(std::string(where));
    check_losses(step(device(where), {.precision = "mixed_bf16"}), 0.05);
  }
}

TEST_SUITE_END();

}  // namespace keel
