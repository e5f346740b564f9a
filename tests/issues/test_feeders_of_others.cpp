// A training went on with whatever queue its feeder had: where an Evaluator had opened the feeder,
// or another Trainer had taken elements, it trained on the wrong ones in silence. An Evaluator that
// was told too few batches measured a part of its pass as if it were all.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/data.h"
#include "keel/graph/runtime/evaluator.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// A step that says which element it took.
struct Told {
  explicit Told(const std::string& backend, bool data_sink = true)
      : session(graph, device(backend), {.data_sink = data_sink}) {}

  // The numbers 0 to 11, one an element.
  std::shared_ptr<Feeder> feeder() {
    Tensor numbers(f32, {12});
    for (int64_t i = 0; i < 12; ++i) numbers.set(i, static_cast<double>(i));
    return feed(Dataset::from_tensors({{"x", numbers}}).batch(1).repeat(), session.spec({x}));
  }
  // The number `element` is where it is trained, and told in `taken`.
  TrainOptions steps(int64_t count) {
    return {.steps = count, .on_step = [this](int64_t, std::span<const double> values) {
              taken.push_back(values[0]);
            }};
  }

  Graph graph;
  Value x = graph.input("x", f32, {-1});
  Value w = graph.state("w", ones({}));
  Value element = mean(x);
  Update update = sgd(0.001).minimize(mean(square(x * w)), {w});
  Session session;
  std::vector<double> taken;
};

// Items in batches of four, the last one padded.
struct Padded {
  explicit Padded(const std::string& backend, bool data_sink)
      : session(graph, device(backend), {.data_sink = data_sink}) {}

  // What the evaluator says of a number that is 1 for each item.
  double mean_of_one(const Dataset& items, int64_t batches) {
    Evaluator evaluator(session,
                        {.sums = {sum(select(mask, x * 0.0f + 1.0f, 0.0f))},
                         .source = feed(items.batch(4, Tail::kPad), session.spec({x, mask})),
                         .batches = batches,
                         .items = 10});
    evaluator.means();
    return evaluator.means()[0];
  }

  Graph graph;
  Value x = graph.input("x", f32, {-1});
  Value mask = graph.input("mask", boolean, {-1});
  Session session;
};

std::string feeder_line(int line) {
  return "test_feeders_of_others.cpp:" + std::to_string(line) + ")";
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a training whose feeder an evaluator opens is refused and goes on where it was") {
  for (const std::string& name : backend_names()) {
    for (const int64_t loop_size : {1, 100}) {
      CAPTURE(name);
      CAPTURE(loop_size);
      Told m(name);
      const auto shared = m.feeder();
      Trainer trainer(m.session, {.update = m.update, .fetches = {m.element}, .source = shared});
      Evaluator evaluator(m.session,
                          {.sums = {m.element}, .source = shared, .batches = 3, .items = 3});
      TrainOptions options = m.steps(12);
      options.loop_size = loop_size;
      // A pass of this set has no end, of which the evaluator complains.
      const auto measure = [&] { return error_of([&] { evaluator.means(); }).empty() ? 1.0 : 0.0; };
      options.validation = ValidationOptions{.measure = measure, .every_n_steps = 4};
      const std::string error = error_of([&] { trainer.fit(options); });
      CHECK_MESSAGE(contains(error, feeder_line(__LINE__ - 1)), error);
      CHECK_MESSAGE(contains(error, "fit: source: "), error);
      CHECK_MESSAGE(contains(error, "opened"), error);
      CHECK(m.taken == std::vector<double>{0, 1, 2, 3});
      CHECK(trainer.cursor().position == 4);
      TrainOptions rest = m.steps(2);
      rest.resume_from = trainer.cursor();
      CHECK(trainer.fit(rest).steps == 2);
      CHECK(m.taken == std::vector<double>{0, 1, 2, 3, 4, 5});
      CHECK(trainer.fit(m.steps(1)).steps == 1);
      CHECK(m.taken.back() == 6);
    }
  }
}

TEST_CASE("what is saved while somebody else has the feeder goes on behind the last step") {
  const keel_test::TempFolder folder;
  Told m("cpu");
  const auto shared = m.feeder();
  Trainer trainer(m.session, {.update = m.update, .fetches = {m.element}, .source = shared});
  trainer.fit(m.steps(4));
  shared->open(Cursor{});
  trainer.save(folder.file("saved"));
  CHECK(contains(error_of([&] { trainer.fit(m.steps(1)); }), "opened"));
  trainer.resume(folder.file("saved"));
  trainer.fit(m.steps(1));
  CHECK(m.taken == std::vector<double>{0, 1, 2, 3, 4});
}

TEST_CASE("of two trainings on one feeder the second is refused") {
  Told m("cpu");
  const auto shared = m.feeder();
  const SinkOptions step{.update = m.update, .fetches = {m.element}, .source = shared};
  Trainer first(m.session, step), second(m.session, step);
  first.fit(m.steps(3));
  CHECK(contains(error_of([&] { second.fit(m.steps(3)); }), "taken elements from"));
  first.fit(m.steps(3));
  CHECK(m.taken == std::vector<double>{0, 1, 2, 3, 4, 5});
  TrainOptions moved = m.steps(1);
  moved.resume_from = Cursor{0, 9, 0};
  second.fit(moved);
  CHECK(m.taken.back() == 9);
  CHECK(contains(error_of([&] { first.fit(m.steps(1)); }), "opened"));
  CHECK(m.session.step() == 7);
}

// Its place was taken for the one at which the feeder had been opened: a file that it saved, or a
// feeder that was stopped, went on with elements that had been trained on.
TEST_CASE("a trainer on a feeder that is open further on begins where the feeder is") {
  for (const std::string& name : backend_names()) {
    for (const bool data_sink : {true, false}) {
      CAPTURE(name);
      CAPTURE(data_sink);
      const keel_test::TempFolder folder;
      Told m(name, data_sink);
      const auto shared = m.feeder();
      const SinkOptions step{.update = m.update, .fetches = {m.element}, .source = shared};
      Trainer(m.session, step).fit(m.steps(3));
      Trainer second(m.session, step);
      CHECK(second.cursor().position == 3);
      second.save(folder.file("saved"));
      shared->stop();
      second.fit(m.steps(2));
      CHECK(m.taken == std::vector<double>{0, 1, 2, 3, 4});
      second.resume(folder.file("saved"));
      second.fit(m.steps(1));
      CHECK(m.taken.back() == 3);
    }
  }
}

TEST_CASE("a feeder that a hook stops is none that somebody else has opened") {
  Told m("cpu");
  const auto shared = m.feeder();
  Trainer trainer(m.session, {.update = m.update, .fetches = {m.element}, .source = shared});
  TrainOptions options = m.steps(4);
  options.every_n_steps = {{2, [&](int64_t) { shared->stop(); }}};
  const std::string message = error_of([&] { trainer.fit(options); });
  CAPTURE(message);
  CHECK(contains(message, "not open"));
  trainer.fit(m.steps(2));
  CHECK(m.taken == std::vector<double>{0, 1, 2, 3});
}

TEST_CASE("an evaluator begins at the beginning where a loop has taken elements of its feeder") {
  Padded m("cpu", true);
  const Dataset ones_of_ten = Dataset::from_tensors({{"x", Tensor::full(f32, {10}, 1)}});
  const auto shared = feed(ones_of_ten.batch(4, Tail::kPad), m.session.spec({m.x, m.mask}));
  shared->stop();
  const Value real = sum(select(m.mask, m.x, 0.0f));
  Evaluator evaluator(m.session, {.sums = {real}, .source = shared, .batches = 3, .items = 10});
  Loop loop = m.session.sink({.fetches = {real}, .source = shared});
  loop.run(1);
  CHECK(evaluator.means() == std::vector<double>{1});
}

TEST_CASE("an evaluator that is told too few batches says so") {
  const Dataset ten = Dataset::from_tensors({{"x", Tensor(f32, {10})}});
  for (const std::string& name : backend_names()) {
    for (const bool data_sink : {true, false}) {
      CAPTURE(name);
      CAPTURE(data_sink);
      Padded m(name, data_sink);
      CHECK(m.mean_of_one(ten, 3) == 1);
      const std::string error = error_of([&] { m.mean_of_one(ten, 10 / 4); });
      CHECK_MESSAGE(contains(error, "expected 2 batches"), error);
      CHECK_MESSAGE(contains(error, "at least 3"), error);
      CHECK_MESSAGE(contains(error, "test_feeders_of_others.cpp:"), error);
      CHECK(contains(error_of([&] { m.mean_of_one(ten, 4); }), "got 3"));
      CHECK(contains(error_of([&] { m.mean_of_one(ten.repeat(), 3); }), "take()"));
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
