// A feeder that was stopped was taken for an open one: a training used up what was left in its
// closed queue and told of the end of the data, and a step was sunk on it.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/feed/feed.h"
#include "keel/graph/runtime/evaluator.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/ops.h"

#include "support/declining_backend.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::DecliningBackend;

constexpr const char* kNotOpen = "a feeder that is not open; open it: feeder->open(cursor)";

// What halving_feeder gives, from a dataset; of `count` elements, or without an end.
std::shared_ptr<Feeder> halves(const Device& on, std::optional<int64_t> count = {}) {
  Dataset numbers = Dataset::from_generator(halving_element(), [](int64_t i, const ItemSlot& out) {
    out.data<float>(0)[0] = static_cast<float>(i);
    out.data<float>(0)[1] = 1;
    return true;
  });
  if (count) numbers = numbers.take(*count);
  return feed(numbers, {on, halving_element()}, {.depth = 2});
}

// `stops`: between the two halves of the training.
std::string trained(const Device& on, bool stops) {
  HalvingModel m;
  Session session(m.graph, on);
  const auto feeder = halves(on);
  Trainer trainer(session, {.update = m.update, .fetches = {m.total}, .source = feeder});
  CHECK(trainer.fit({.steps = 7}).cursor.position == 7);
  if (stops) feeder->stop();
  const TrainReport report = trainer.fit({.steps = 30});
  CHECK(report.steps == 30);
  CHECK_FALSE(report.end_of_data);
  CHECK(report.cursor.position == 37);
  return session.state_sha256();
}

void check_refusals(const Device& on) {
  HalvingModel m;
  Session session(m.graph, on);
  const auto feeder = halves(on);
  const SinkOptions step{.update = m.update, .fetches = {m.total}, .source = feeder};
  Loop loop = session.sink(step);
  CHECK(loop.run(3).steps == 3);
  feeder->stop();
  CHECK(feeder->queue() == nullptr);
  CHECK(loop.queue() == nullptr);
  CHECK(contains(error_of([&] { loop.run(1); }), kNotOpen));
  CHECK(contains(error_of([&] { session.sink(step); }), kNotOpen));
  CHECK(session.step() == 3);
  feeder->open({0, 3, 0});
  CHECK(loop.run(3).cursor.position == 6);
}

}  // namespace

TEST_CASE("a training whose feeder was stopped goes on at its cursor") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    CHECK(trained(on, true) == trained(on, false));
  }
}

TEST_CASE("a feeder that was stopped is refused by sinks and loops until it is open again") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    check_refusals(device(name));
    DecliningBackend modest(name, "sunk_loop");
    check_refusals(modest.device());
  }
}

TEST_CASE("a trainer and an evaluator open a feeder that was stopped at the beginning") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  const auto feeder = halves(on);
  feeder->open({0, 40, 0});
  feeder->stop();
  Trainer trainer(session, {.update = m.update, .fetches = {m.total}, .source = feeder});
  CHECK(trainer.fit({.steps = 5}).cursor.position == 5);
  const auto others = halves(on, 3);
  others->open({0, 2, 0});
  others->stop();
  Evaluator evaluator(session, {.sums = {sum(m.x)}, .source = others, .batches = 3, .items = 3});
  others->stop();
  CHECK(evaluator.means() == std::vector<double>{6 / 3.0});
  others->stop();
  CHECK(evaluator.means() == std::vector<double>{6 / 3.0});
}

TEST_SUITE_END();
