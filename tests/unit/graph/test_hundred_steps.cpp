// A hundred steps of a real model, cut into launches in different ways: the same steps, batches and
// bits.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/queue/device_queue.h"
#include "keel/data/feed/feed.h"
#include "keel/data/formats/digits.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/ops.h"

#include "models/classifier.h"

namespace keel {
namespace {

struct HundredSteps {
  TrainReport report;
  QueueCounters queue;
  std::string states;
  int64_t compiles = 0;
};

// All 100 batches of 10 images that there are, with this loop size.
HundredSteps train_hundred_steps(const std::string& backend, const LabelledImages& images,
                                 int64_t loop_size) {
  Graph graph;
  const auto model = keel_examples::find_model("softmax").build(graph);
  Session session(graph, device(backend), {.seed = 5});
  const auto feeder = feed(Dataset::from_images(images).shuffle(5).batch(10),
                           session.spec({model.image, model.label}));
  Trainer trainer(
      session,
      {.update = sgd(0.1).minimize(model.loss), .fetches = {model.loss}, .source = feeder});
  HundredSteps outcome;
  outcome.report = trainer.fit({.steps = 100, .loop_size = loop_size});
  outcome.queue = feeder->queue()->counters();
  outcome.states = session.state_sha256();
  outcome.compiles = session.compiles();
  return outcome;
}

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("a hundred steps are the same in launches of thirty and of one and of all") {
  const LabelledImages images = make_digits({.train_count = 1000, .test_count = 1}).train;
  for (const char* backend : {"cpu:0", "npu:0"}) {
    CAPTURE(std::string(backend));
    const HundredSteps thirties = train_hundred_steps(backend, images, 30);
    CHECK(thirties.report.launches == 4);  // 30 + 30 + 30 + 10
    const HundredSteps ones = train_hundred_steps(backend, images, 1);
    CHECK(ones.report.launches == 100);
    const HundredSteps all = train_hundred_steps(backend, images, 100);
    CHECK(all.report.launches == 1);
    for (const HundredSteps* outcome : {&thirties, &ones, &all}) {
      CHECK(outcome->report.steps == 100);
      CHECK_FALSE(outcome->report.end_of_data);
      CHECK(outcome->queue.dequeued == 100);
      CHECK(outcome->queue.released == 100);
      CHECK(outcome->queue.enqueued == 100);  // none is left
      CHECK(outcome->compiles == 1);
      CHECK(outcome->states == all.states);
      CHECK(outcome->report.last_metrics == all.report.last_metrics);
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
