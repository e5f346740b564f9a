// Handles that hold nothing (default made, or moved from) crashed: each use is an Error that names
// the user's line.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/feed/feed.h"
#include "keel/data/pipeline/dataset.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// `use`, on line `used`, must be refused in these words.
void check_refused(int used, const std::string& words, const std::function<void()>& use) {
  const std::string text = error_of(use);
  CAPTURE(text);
  CHECK(contains(text, "test_empty_and_moved_handles.cpp:" + std::to_string(used) + ")"));
  CHECK(contains(text, words));
}

}  // namespace

TEST_SUITE_BEGIN("handles");

TEST_CASE("an empty value can be asked nothing but whether it is valid") {
  const std::string empty = "expected a value of a graph, got an empty Value";
  check_refused(__LINE__, empty, [] { Value().shape(); });
  check_refused(__LINE__, empty, [] { Value().dtype(); });
  check_refused(__LINE__, empty, [] { Value().type(); });
  check_refused(__LINE__, empty, [] { Value().node(); });
  check_refused(__LINE__, empty, [] { Value().graph(); });
  CHECK_FALSE(Value().valid());
}

TEST_CASE("a value that its graph does not have is refused") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  check_refused(__LINE__, "one of the graph's 1 nodes", [&] { Value(&g, 99, 0).shape(); });
  check_refused(__LINE__, "one of the 1 outputs of input", [&] { Value(&g, 0, 7).shape(); });
  check_refused(__LINE__, "one of the 1 outputs of input", [&] { Value(&g, 0, 7) + x; });
  CHECK(contains(error_of([&] { g.node(99); }), "one of its 1 nodes, got 99"));
}

TEST_CASE("every function that takes values refuses an empty one") {
  Graph g;
  const Value x = g.input("x", f32, {2, 2});
  const Value w = g.state("w", zeros({2, 2}));
  const Value none;
  const std::string empty = "got an empty Value";
  check_refused(__LINE__, "add: a: expected a Value, got an empty Value", [&] { none + 1.0f; });
  check_refused(__LINE__, "add: b: expected a Value, got an empty Value", [&] { x + none; });
  check_refused(__LINE__, "exp: ", [&] { exp(none); });
  check_refused(__LINE__, empty, [&] { exp(none); });
  check_refused(__LINE__, empty, [&] { sum(none, {0}); });
  check_refused(__LINE__, empty, [&] { reshape(none, {4}); });
  check_refused(__LINE__, empty, [&] { transpose(none); });
  check_refused(__LINE__, empty, [&] { squeeze(none); });
  check_refused(__LINE__, empty, [&] { expand_dims(none, {0}); });
  check_refused(__LINE__, empty, [&] { slice(none, {0}, {1}); });
  check_refused(__LINE__, "split: x: expected a Value, got an empty", [&] { split(none, 2); });
  check_refused(__LINE__, empty, [&] { concat({x, none}); });
  check_refused(__LINE__, empty, [&] { softmax(none); });
  check_refused(__LINE__, empty, [&] { argmax(none); });
  check_refused(__LINE__, empty, [&] { gather(none, none); });
  check_refused(__LINE__, empty, [&] { cast(none, f16); });
  check_refused(__LINE__, empty, [&] { dropout(none, 0.5); });
  check_refused(__LINE__, empty, [&] { sum_to_shape(none, {}); });
  check_refused(__LINE__, "x: expected a Value, got a number", [&] { sum_to_shape(1, {}); });
  check_refused(__LINE__, empty, [&] { dense(none, 3); });
  check_refused(__LINE__, empty, [&] { sequential(none, {}); });
  check_refused(__LINE__, empty, [&] { mean_squared_error(none, x); });
  check_refused(__LINE__, empty, [&] { cross_entropy(x, none); });
  check_refused(__LINE__, empty, [&] { accuracy(none, x); });
  check_refused(__LINE__, empty, [&] { gradients(none, {x}); });
  check_refused(__LINE__, empty, [&] { gradients(sum(x), {none}); });
  check_refused(__LINE__, "minimize: loss: expected a Value", [&] { sgd(0.1).minimize(none); });
  check_refused(__LINE__, empty, [&] { sgd(0.1).minimize(none); });
  check_refused(__LINE__, empty, [&] { sgd(0.1).apply({w}, {none}); });
  check_refused(__LINE__, empty, [&] { global_norm({none}); });
  check_refused(__LINE__, empty, [&] { clip_by_global_norm({x, none}, 1); });
  check_refused(__LINE__, empty, [&] { g.set_outputs({none}); });
  check_refused(__LINE__, empty, [&] { g.add_update(none, x); });
  check_refused(__LINE__, empty, [&] { g.add("neg", {none}, {}, CallSite::here()); });

  Session session(g, device("cpu"));
  check_refused(__LINE__, empty, [&] { session.run({none}); });
  check_refused(__LINE__, empty, [&] { session.run({x}, {{none, Tensor(f32, {2, 2})}}); });
  check_refused(__LINE__, empty, [&] { session.run(Update{{{w, none}}}, {}); });
  check_refused(__LINE__, empty, [&] { session.spec({none}); });
  check_refused(__LINE__, empty, [&] { session.read(none); });
  check_refused(__LINE__, empty, [&] { session.write(none, Tensor(f32, {2, 2})); });
  auto loop = session.sink({.update = Update{{{w, w + 1}}}, .fetches = {sum(w)}});
  const LoopReport report = loop.run(1);
  check_refused(__LINE__, empty, [&] { report[none]; });
  check_refused(__LINE__, empty, [&] { report.tensor(none); });
  check_refused(__LINE__, "one of the loop's 0 fetches", [&] { LoopReport()[w]; });
}

TEST_CASE("an empty tensor is refused with the user's line") {
  const Tensor none;
  const std::string empty = "got an empty Tensor";
  check_refused(__LINE__, empty, [&] { none.item<float>(); });
  check_refused(__LINE__, empty, [&] { none.data<float>(); });
  check_refused(__LINE__, empty, [&] { none.cast(f16); });
  check_refused(__LINE__, empty, [&] { none.reshaped({0}); });
  CHECK(contains(error_of([&] { none.at(0); }), empty));
  check_refused(__LINE__, empty, [&] { from_tensor(none); });
  Graph g;
  check_refused(__LINE__, empty, [&] { g.constant(none); });
  check_refused(__LINE__, empty, [&] { g.state("w", {.kind = "value", .type = {f32, {}}}); });
}

TEST_CASE("a tensor that was moved from is empty") {
  Tensor from = Tensor::of<float>({2}, {1, 2});
  const Tensor to = std::move(from);
  CHECK(from.empty());
  CHECK(from.num_elements() == 0);
  CHECK(from.num_bytes() == 0);
  CHECK(from.raw() == nullptr);
  CHECK(from.shape() == Shape{});
  from = to;
  CHECK(bit_equal(from, to));
  Tensor& itself = from;
  from = std::move(itself);
  CHECK(bit_equal(from, to));
}

TEST_CASE("a session that was moved from refuses every call") {
  Graph g;
  const Value w = g.state("w", zeros({}));
  Session from(g, device("cpu"));
  Session to = std::move(from);
  const std::string moved = "the session was moved from";
  check_refused(__LINE__, moved, [&] { from.run({w}); });
  check_refused(__LINE__, moved, [&] { from.sink({.update = Update{{{w, w}}}}); });
  check_refused(__LINE__, moved, [&] { from.sink(); });
  check_refused(__LINE__, moved, [&] { from.spec({}); });
  check_refused(__LINE__, moved, [&] { from.read(w); });
  check_refused(__LINE__, moved, [&] { from.write(w, Tensor::scalar(1.0f)); });
  check_refused(__LINE__, moved, [&] { from.save("nowhere"); });
  check_refused(__LINE__, moved, [&] { from.load("nowhere"); });
  check_refused(__LINE__, moved, [&] { from.state_sha256(); });
  check_refused(__LINE__, moved, [&] { from.step(); });
  check_refused(__LINE__, moved, [&] { from.compiles(); });
  check_refused(__LINE__, moved, [&] { from.set_loop_size(3); });
  check_refused(__LINE__, moved, [&] { from.loop_size(); });
  check_refused(__LINE__, moved, [&] { from.graph(); });
  check_refused(__LINE__, moved, [&] { from.device(); });
  check_refused(__LINE__, moved, [&] { from.describe({}, {w}); });
  CHECK(contains(from.loop_placement({.fetches = {w}}).reason, moved));
  CHECK(to.run({w})[0].item<float>() == 0);
  from = std::move(to);
  CHECK(from.run({w})[0].item<float>() == 0);
}

TEST_CASE("a loop that was moved from refuses every call but requests to stop") {
  Graph g;
  const Value w = g.state("w", zeros({}));
  Session session(g, device("cpu"));
  Loop from = session.sink({.update = Update{{{w, w + 1}}}, .fetches = {w}});
  Loop to = std::move(from);
  const std::string moved = "the loop was moved from";
  check_refused(__LINE__, moved, [&] { from.run(1); });
  check_refused(__LINE__, moved, [&] { from.run(); });
  check_refused(__LINE__, moved, [&] { from.failed_report(); });
  check_refused(__LINE__, moved, [&] { from.queue(); });
  check_refused(__LINE__, moved, [&] { from.describe(); });
  check_refused(__LINE__, moved, [&] { from.program(); });
  check_refused(__LINE__, moved, [&] { from.compile_report(); });
  check_refused(__LINE__, moved, [&] { from.placement(); });
  check_refused(__LINE__, moved, [&] { from.kind(); });
  from.request_stop();
  CHECK_FALSE(from.withdraw_stop());
  CHECK(to.run(2).steps == 2);
}

TEST_CASE("datasets and optimizers and schedules that were moved from are as they were") {
  Dataset from = Dataset::from_tensors({{"x", Tensor(f32, {4, 2})}});
  const Dataset to = std::move(from);
  CHECK(from.size() == to.size());
  CHECK(contains(error_of([] { Dataset(nullptr); }), "expected a stage, got none"));

  Graph g;
  const Value w = g.state("w", ones({}));
  Schedule rate = step_decay(0.5, 1, 1);
  Schedule other = std::move(rate);
  Optimizer optimizer = sgd(rate);
  Optimizer second = std::move(optimizer);
  Session session(g, device("cpu"));
  session.run(optimizer.minimize(w * w), {});
  CHECK(session.read(w).item<float>() == 0);  // 1 - 0.5 * 2
  check_refused(__LINE__, "expected a function, got none", [] { Schedule{Schedule::Function{}}; });
  check_refused(__LINE__, "sgd2: rule: expected a", [] { Optimizer("sgd2", 0.1, nullptr); });
}

TEST_CASE("a device that is none is refused with the user's line") {
  Graph g;
  check_refused(__LINE__, "no device is set", [&] { Session(g, Device()); });
  const Dataset data = Dataset::from_tensors({{"x", Tensor(f32, {4, 2})}});
  check_refused(__LINE__, "no device is set", [&] { feed(data, FeedSpec{Device(), data.spec()}); });
  const Value w = g.state("w", zeros({}));
  Session session(g, device("cpu"));
  const Update update{{{w, w + 1}}};
  const SinkOptions unfed{.update = update};
  check_refused(__LINE__, "source: expected a feeder", [&] { Trainer(session, unfed); });
  const std::shared_ptr<DeviceQueue> queue;
  const SinkOptions queued{.update = update, .source = queue};
  check_refused(__LINE__, "an open queue, got nothing", [&] { session.sink(queued); });
}

TEST_SUITE_END();

}  // namespace keel
