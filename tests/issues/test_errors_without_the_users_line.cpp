// Errors of Tensor::at, Shape, DeviceQueue, load_backend_plugin and of a training's options did not
// say which line of the user's program they are about.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/queue/device_queue.h"
#include "keel/core/tensor/tensor.h"
#include "keel/data/data.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// This line, as errors name it.
std::string user_line(int line) {
  return "test_errors_without_the_users_line.cpp:" + std::to_string(line) + ")";
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an element out of range is an error with the line that asks for it") {
  Tensor t = Tensor::of<float>({2}, {1, 2});
  const std::string read = error_of([&] { t.at(2); });
  CHECK(contains(read, "tensor: index: expected 0 to 1"));
  CHECK_MESSAGE(contains(read, user_line(__LINE__ - 2)), read);
  const std::string written = error_of([&] { t.set(-1, 0); });
  CHECK_MESSAGE(contains(written, user_line(__LINE__ - 1)), written);
}

TEST_CASE("a shape with a dimension below -1 or too many is an error with its line") {
  const std::string below = error_of([] { Shape({-2}); });
  CHECK_MESSAGE(contains(below, user_line(__LINE__ - 1)), below);
  const std::string many = error_of([] { Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); });
  CHECK_MESSAGE(contains(many, user_line(__LINE__ - 1)), many);
  const auto takes = [](const Shape& shape) { return shape.rank(); };
  const std::string implicit = error_of([&] { takes({3, -7}); });
  CHECK_MESSAGE(contains(implicit, user_line(__LINE__ - 1)), implicit);
}

TEST_CASE("a queue that cannot be made is an error with the line that wrote its options") {
  const ElementSpec element{{{"x", {f32, {4}}}}};
  const Device on = device("cpu");
  const std::string depth = error_of([&] { DeviceQueue(on, element, {.depth = -1}); });
  CHECK_MESSAGE(contains(depth, user_line(__LINE__ - 1)), depth);
  const std::string shared = error_of(
      [&] { std::make_shared<DeviceQueue>(on, element, DeviceQueueOptions{.depth = -1}); });
  CHECK_MESSAGE(contains(shared, user_line(__LINE__ - 1)), shared);
  // Neither the queue's own line nor that of the standard library, which std::make_shared would
  // give.
  const ElementSpec open{{{"x", {f32, {-1}}}}};
  const std::string defaults = error_of([&] { std::make_shared<DeviceQueue>(on, open); });
  CHECK_MESSAGE(!contains(defaults, ".h:"), defaults);
}

TEST_CASE("a plugin that cannot be loaded is an error with the line that asks for it") {
  const std::string error = error_of([] { load_backend_plugin("/nowhere/plugin.so"); });
  CHECK_MESSAGE(contains(error, user_line(__LINE__ - 1)), error);
}

TEST_CASE("layers of a net that take no line of their own name that of the net's call") {
  Graph g;
  const Scope root(g);
  const Value x = g.input("x", f32, {2, 4, 6});
  const auto square_of = [](Operand v) { return matmul(v, v); };
  Sequential block(root / "block"), attention(root / "attention"), squares(root / "squares");
  block.add<TransformerBlock>(8, 2);
  attention.add<MultiHeadAttention>(8, 2);
  squares.add(square_of);
  const Residual around(root / "around", square_of);
  const auto fails = [&](const auto& net) { return error_of([&] { net(x, Mode::kTraining); }); };
  const std::string line = user_line(__LINE__ - 1);
  for (const std::string& error : {fails(block), fails(attention), fails(squares), fails(around)}) {
    CHECK_MESSAGE(contains(error, line), error);
    CHECK_MESSAGE(!contains(error, "layers.h"), error);
  }
  const std::string plain = error_of([&] { sequential(x, {square_of}); });
  CHECK_MESSAGE(contains(plain, user_line(__LINE__ - 1)), plain);

  // A layer that asks what it is given, of whatever type, is given a Value.
  Sequential ranks(root / "ranks");
  ranks.add([](const auto& v) { return v * static_cast<float>(v.shape().rank()); })
      .add([](auto v, Mode) {
        return reshape(v, {v.shape()[0], -1});
      });
  CHECK(ranks(x, Mode::kEvaluation).shape() == Shape{2, 24});
}

TEST_CASE("options and hooks of a training that fail are errors with the line of the fit") {
  Graph graph;
  const Value x = graph.input("x", f32, {-1});
  const Value w = graph.state("w", ones({}));
  const Value loss = log(mean(x * w) - 1.0f);
  const Update update = sgd(0.1).minimize(loss, {w});
  Session session(graph, device("cpu"));
  const Dataset items = Dataset::from_tensors({{"x", Tensor(f32, {4})}}).batch(2).repeat();
  Trainer trainer(session,
                  {.update = update, .fetches = {loss}, .source = feed(items, session.spec({x}))});
  const auto fails = [&](const TrainOptions& options) {
    return error_of([&] { trainer.fit(options); });
  };
  const std::string line = user_line(__LINE__ - 2);
  const std::string none = fails({.steps = 1, .loop_size = 0});
  CHECK_MESSAGE(contains(none, line), none);
  const std::string ending = fails({.steps = 1, .hooks = {SummaryHook{.path = "summary.txt"}}});
  CHECK_MESSAGE(contains(ending, line), ending);
  const std::string folder = fails({.steps = 1, .hooks = {SummaryHook{.path = "/nowhere/s.csv"}}});
  CHECK_MESSAGE(contains(folder, line), folder);
  const std::string nan = fails({.steps = 1, .hooks = {NanGuardHook{}}});
  CHECK_MESSAGE(contains(nan, "is nan in step 1"), nan);
  CHECK_MESSAGE(contains(nan, line), nan);
  struct Own : Error {
    using Error::Error;
  };
  const auto own = [](const std::string&) { throw Own({.op = "own"}); };
  CHECK_THROWS_AS(
      trainer.fit({.steps = 1, .hooks = {LoggingHook{.every_n_steps = 1, .write = own}}}), Own);
  session.set_loop_size(3);
  const std::string two = fails({.steps = 1, .loop_size = 2});
  CHECK_MESSAGE(contains(two, "LOOP_SIZE_MISMATCH"), two);
  CHECK_MESSAGE(contains(two, line), two);
}

}  // namespace keel
