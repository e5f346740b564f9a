// Data sink on and off: who feeds a step changes nothing that it computes, and how often host and
// device meet is what one works out by hand.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/feed/feed.h"
#include "keel/data/formats/digits.h"
#include "keel/graph/runtime/evaluator.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/ops.h"

#include "models/classifier.h"
#include "runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

DeviceQueueOptions fed_by(bool sink) { return {.data_sink = sink}; }

// The halving model (runtime_for_tests.h) with elements of 8 bytes, a loop and its session.
struct Halving {
  Halving(const std::string& backend, bool sink, int64_t elements = 100000, bool fetch_next = false)
      : session(model.graph, device(backend), {.data_sink = sink}),
        feeder(halving_feeder(device(backend), elements, fed_by(sink))),
        loop(session.sink(
            {.update = model.update,
             .fetches = fetch_next ? Values{model.total, model.next} : Values{model.total},
             .source = feeder})) {}
  HalvingModel model;
  Session session;
  std::shared_ptr<NumberFeeder> feeder;
  Loop loop;
};

const LabelledImages& digits() {
  static const LabelledImages images = make_digits({.train_count = 200, .test_count = 1}).train;
  return images;
}

// Trains a model of the examples, and keeps what is to be the same.
struct ExampleTraining {
  ExampleTraining(const std::string& name, const std::string& backend, bool sink, int threads,
                  int64_t batch = 8)
      : model(keel_examples::find_model(name).build(graph)),
        update(sgd(0.1).minimize(model.loss)),
        session(graph, device(backend), {.seed = 3, .threads = threads, .data_sink = sink}),
        feeder(feed(Dataset::from_images(digits()).shuffle(5).batch(batch).repeat(),
                    session.spec({model.image, model.label}))),
        trainer(session, {.update = update, .fetches = {model.loss}, .source = feeder}) {}

  TrainReport fit(int64_t steps, std::optional<int64_t> loop_size = {}) {
    return trainer.fit(
        {.steps = steps,
         .loop_size = loop_size,
         .on_step = [&](int64_t, std::span<const double> row) { losses.push_back(row[0]); }});
  }

  Graph graph;
  keel_examples::Classifier model;
  Update update;
  Session session;
  std::shared_ptr<Feeder> feeder;
  Trainer trainer;
  std::vector<double> losses;
};

}  // namespace

TEST_CASE("data sink: losses and states are the same bits on and off") {
  unsetenv(kLoopSizeVariable);
  for (const std::string& backend : backend_names()) {
    for (const char* name : {"softmax", "mlp", "lenet"}) {
      for (const int threads : {1, 2}) {
        if (backend == "ref" && threads > 1) continue;  // It computes on the thread that calls.
        CAPTURE(backend);
        CAPTURE(name);
        CAPTURE(threads);
        const int64_t steps = backend == "ref" ? 2 : 7;
        ExampleTraining on(name, backend, true, threads), off(name, backend, false, threads);
        const TrainReport sunk = on.fit(steps, 5), driven = off.fit(steps);
        CHECK(off.losses == on.losses);
        CHECK(off.losses.size() == static_cast<size_t>(steps));
        CHECK(off.session.state_sha256() == on.session.state_sha256());
        CHECK(driven.cursor == sunk.cursor);
        CHECK(driven.launches == steps);
        CHECK(driven.loop_size == 1);
        CHECK(off.trainer.loop().kind() == LoopKind::kHost);
        CHECK(contains(off.trainer.loop().placement().reason, "data_sink is off"));
        CHECK(on.trainer.loop().kind() == LoopKind::kDevice);
        CHECK(off.trainer.loop().compile_report().inserted_ops.empty());
      }
    }
  }
}

// An element is one field of 2 floats. The device's own memory is the host's on cpu, where the
// producer writes into it: nothing is copied for the queue. The npu prices a transfer of each slot,
// which is as long as a line of 64 bytes.
TEST_CASE("data sink: round trips and transfers of a hundred steps are as worked out by hand") {
  struct Case {
    bool sink;
    int64_t calls, steps;  // of each call
    int64_t launches, round_trips, results;
  };
  for (const std::string& backend : backend_names()) {
    for (const Case& c : {Case{false, 100, 1, 100, 100, 100}, Case{false, 1, 100, 100, 100, 100},
                          Case{true, 100, 1, 100, 100, 100}, Case{true, 1, 100, 1, 1, 1}}) {
      CAPTURE(backend);
      CAPTURE(c.sink);
      CAPTURE(c.calls);
      Halving h(backend, c.sink);
      Transfers transfers;
      int64_t launches = 0, round_trips = 0;
      for (int64_t call = 0; call < c.calls; ++call) {
        const LoopReport report = h.loop.run(c.steps);
        CHECK(report.steps == c.steps);
        CHECK(report.elements_ahead <= (c.sink ? 128 : 0));
        transfers += report.transfers;
        launches += report.launches;
        round_trips += report.host_syncs;
      }
      CHECK(launches == c.launches);
      CHECK(round_trips == c.round_trips);
      const bool free_of_copies = c.sink && backend != "npu";
      CHECK(transfers.to_device == (free_of_copies ? 0 : 100));
      CHECK(transfers.to_device_bytes == (free_of_copies ? 0 : c.sink ? 100 * 64 : 100 * 8));
      CHECK(transfers.to_host == c.results);
      CHECK(transfers.to_host_bytes == c.results * 4);
    }
  }
}

TEST_CASE("data sink: a fetch above rank 0 costs one copy and one round trip a call more") {
  Halving h("npu", false, 100, /*fetch_next=*/true);
  const LoopReport report = h.loop.run(10);
  CHECK(report.host_syncs == 11);
  CHECK(report.transfers.to_host == 11);
  CHECK(report.transfers.to_host_bytes == 10 * 4 + 8);
  Halving sunk("npu", true, 100, /*fetch_next=*/true);
  const LoopReport expected = sunk.loop.run(10);
  CHECK(bit_equal(report.tensor(h.model.next), expected.tensor(sunk.model.next)));
  CHECK(bit_equal(report.tensor(h.model.total), expected.tensor(sunk.model.total)));
}

TEST_CASE("data sink: a trainer sums the transfers of its launches") {
  unsetenv(kLoopSizeVariable);
  Halving h("npu", false);
  Trainer trainer(h.session, {.update = h.model.update,
                              .fetches = {h.model.total},
                              .source = halving_feeder(device("npu"), 1000, fed_by(false))});
  const TrainReport report = trainer.fit({.steps = 9});
  CHECK(report.host_syncs == 9);
  CHECK(report.transfers.to_device == 9);
  CHECK(report.transfers.to_device_bytes == 72);
  CHECK(report.transfers.to_host == 9);
}

TEST_CASE("data sink: off makes no element before its step asks for it") {
  std::atomic<int64_t> made{0};
  HalvingModel m;
  Session session(m.graph, device("cpu"), {.data_sink = false});
  auto feeder = std::make_shared<NumberFeeder>(
      device("cpu"), halving_element(),
      [&](int64_t i, const std::vector<void*>& fields) {
        ++made;
        auto* x = static_cast<float*>(fields[0]);
        x[0] = static_cast<float>(i);
        x[1] = 1;
        return true;
      },
      fed_by(false));
  feeder->open({});
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = feeder});
  CHECK(made == 0);
  for (const int64_t steps : {1, 2, 4}) {
    const int64_t before = made;
    const LoopReport report = loop.run(steps);
    CHECK(made == before + steps);
    CHECK(report.elements_ahead == 0);
    CHECK(report.cursor.position == made);
  }
}

TEST_CASE("data sink: off and a loop size of more than one is an error that names both") {
  unsetenv(kLoopSizeVariable);
  const auto is_conflict = [](const std::string& error, const std::string& size) {
    return contains(error, size) && contains(error, "data_sink") && contains(error, "device queue");
  };
  HalvingModel m;
  CHECK(is_conflict(
      error_of([&] { Session(m.graph, device("ref"), {.loop_size = 10, .data_sink = false}); }),
      "SessionOptions::loop_size says 10"));
  Session session(m.graph, device("ref"), {.data_sink = false});
  CHECK(session.loop_size().value() == 1);
  CHECK(is_conflict(error_of([&] { session.set_loop_size(2); }), "set_loop_size says 2"));
  Trainer trainer(session, {.update = m.update,
                            .fetches = {m.total},
                            .source = halving_feeder(device("ref"), 1000, fed_by(false))});
  CHECK(is_conflict(error_of([&] { trainer.fit({.steps = 20, .loop_size = 5}); }),
                    "TrainOptions::loop_size says 5"));
  CHECK(
      is_conflict(error_of([&] { trainer.fit({.steps = 20, .loop_tuner = LoopTuner::plateau()}); }),
                  "TrainOptions::loop_tuner looks for a size"));
  setenv(kLoopSizeVariable, "25", 1);
  CHECK(is_conflict(error_of([&] { trainer.fit({.steps = 20}); }), "NPU_LOOP_SIZE says 25"));
  CHECK(trainer.fit({.steps = 2, .loop_size = 1}).steps == 2);  // what is explicit comes first
  unsetenv(kLoopSizeVariable);
  CHECK(session.step() == 2);
  session.set_loop_size(1);
  CHECK(trainer.fit({.steps = 3}).launches == 3);
}

TEST_CASE("data sink: the loop size that a program reads from flags has the same conflict") {
  unsetenv(kLoopSizeVariable);
  LoopSize size(100);
  size.without_data_sink("--data-sink off");
  CHECK(size.value() == 1);
  CHECK(size.source() == "default");
  CHECK(contains(error_of([&] { size.set("30", "--loop-size"); }), "--loop-size says 30"));
  CHECK(contains(error_of([&] { size.set("30", "--loop-size"); }), "--data-sink off"));
  CHECK(size.value() == 1);
  size.set("1", "--loop-size");
  CHECK(size.value() == 1);
  LoopSize early;
  early.set(8, "--loop-size");
  CHECK(contains(error_of([&] { early.without_data_sink("--data-sink off"); }),
                 "--loop-size says 8"));
  CHECK(early.value() == 8);  // it stayed as it was
  early.change(9);
  CHECK(early.value() == 9);
}

TEST_CASE("data sink: a queue of the other kind is refused and so is a depth without a sink") {
  HalvingModel m;
  for (const bool sink : {false, true}) {
    Session session(m.graph, device("npu"), {.data_sink = sink});
    CHECK(session.spec({m.x}).data_sink == sink);
    const std::string error = error_of([&] {
      session.sink({.update = m.update,
                    .fetches = {m.total},
                    .source = halving_feeder(device("npu"), 10, fed_by(!sink))});
    });
    CHECK(contains(error, sink ? "a queue with data_sink on" : "a queue with data_sink off"));
    CHECK(contains(error, "session.spec()"));
  }
  const std::string error = error_of(
      [&] { DeviceQueue(device("npu"), halving_element(), {.depth = 4, .data_sink = false}); });
  CHECK(contains(error, "depth"));
  CHECK(contains(error, "data_sink is off"));
  DeviceQueue queue(device("npu"), halving_element(), {.depth = 1, .data_sink = false});
  CHECK_FALSE(queue.data_sink());
  std::vector<void*> fields(1);
  CHECK(contains(error_of([&] { queue.dequeue(fields, nullptr, nullptr); }), "data_sink is off"));
}

TEST_CASE("data sink: an error in the map is told as with a queue and the steps before it count") {
  const auto fails_at = [](int32_t bad) {
    return [bad](const ItemView& in, const ItemSlot& out) {
      if (in.data<int32_t>(0)[0] == bad) throw std::runtime_error("bad record");
      out.data<float>(0)[0] = static_cast<float>(in.data<int32_t>(0)[0]);
      out.data<float>(0)[1] = 1;
    };
  };
  std::vector<int32_t> numbers(40);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i);
  Tensor all(i32, {40});
  std::memcpy(all.raw(), numbers.data(), all.num_bytes());
  const Dataset items = Dataset::from_tensors({{"n", all}});
  std::vector<std::string> errors, states;
  for (const bool sink : {true, false}) {
    HalvingModel m;
    Session session(m.graph, device("cpu"), {.data_sink = sink});
    const auto feeder =
        feed(items.map({{{"x", {f32, {2}}}}}, fails_at(17), {.name = "check"}).batch(1),
             session.spec({m.x}));
    Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = feeder});
    errors.push_back(error_of([&] { loop.run(40); }));
    CHECK(loop.failed_report().steps == 17);
    CHECK(loop.failed_report().failed);
    CHECK(loop.failed_report().cursor.position == 17);
    CHECK(session.step() == 17);
    states.push_back(session.state_sha256());
  }
  CHECK(contains(errors[0], "map 'check': item 17: bad record"));
  CHECK(contains(errors[1], "map 'check': item 17: bad record"));
  CHECK(states[0] == states[1]);
}

TEST_CASE("data sink: a training goes on from a file of the other kind as if it had not stopped") {
  unsetenv(kLoopSizeVariable);
  const keel_test::TempFolder folder;
  const std::string file = folder.file("states");
  ExampleTraining whole("softmax", "npu", true, 1);
  whole.fit(40, 9);  // 25 batches an epoch: the second one is begun
  for (const bool first : {false, true}) {
    CAPTURE(first);
    ExampleTraining before("softmax", "npu", first, 1);
    before.fit(27);
    before.trainer.save(file);
    const Cursor place = before.trainer.cursor();
    ExampleTraining after("softmax", "npu", !first, 1);
    after.trainer.resume(file);
    CHECK(after.trainer.cursor() == place);
    after.losses = before.losses;
    after.fit(13);
    CHECK(after.losses == whole.losses);
    CHECK(after.session.state_sha256() == whole.session.state_sha256());
    CHECK(after.trainer.cursor() == whole.trainer.cursor());
  }
}

TEST_CASE("data sink: the host hands over row numbers of a set that stays on the device") {
  std::vector<std::string> states;
  for (const bool sink : {true, false}) {
    Graph graph;
    const auto model = keel_examples::find_model("softmax").build(graph);
    const Update update = sgd(0.1).minimize(model.loss);
    Session session(graph, device("npu"), {.seed = 3, .data_sink = sink});
    const Dataset items = Dataset::from_images(digits()).cache(device("npu"));
    Loop loop = session.sink({.update = update,
                              .fetches = {model.loss},
                              .source = feed(items.shuffle(5).batch(8).repeat(),
                                             session.spec({model.image, model.label}))});
    const LoopReport report = loop.run(30);
    CHECK(report.steps == 30);
    CHECK(report.transfers.to_device == 30);
    CHECK(report.transfers.to_device_bytes == 30 * (sink ? 64 : 8 * 4));  // an i32 for each row
    states.push_back(session.state_sha256());
  }
  CHECK(states[0] == states[1]);
}

TEST_CASE("data sink: the end of the data and a padded last batch are the same on and off") {
  std::vector<std::vector<double>> means;
  for (const bool sink : {true, false}) {
    Halving h("npu", sink, /*elements=*/7);
    LoopReport report = h.loop.run(10);
    CHECK(report.end_of_data);
    CHECK(report.steps == 7);
    CHECK(report.cursor.position == 7);
    report = h.loop.run(10);
    CHECK(report.end_of_data);
    CHECK(report.steps == 0);

    // 50 items in batches of 8: the last one holds 2.
    Graph graph;
    const auto model = keel_examples::find_model("softmax").build(graph);
    const Value mask = graph.input("mask", boolean, {-1});
    const Value sum_of_losses =
        sum(where(mask, softmax_cross_entropy(model.logits, model.label), 0.0f));
    Session session(graph, device("npu"), {.seed = 3, .data_sink = sink});
    Evaluator evaluator(
        session, {.sums = {sum_of_losses},
                  .source = feed(Dataset::from_images(digits()).take(50).batch(8, Tail::kPad),
                                 session.spec({model.image, model.label, mask})),
                  .batches = 7,
                  .items = 50});
    means.push_back(evaluator.means());
    CHECK(evaluator.means() == means.back());
  }
  CHECK(means[0] == means[1]);
  CHECK(means[0].at(0) > 0);
}

TEST_CASE("data sink: stop_when and hooks end a training at the same step") {
  unsetenv(kLoopSizeVariable);
  std::vector<std::string> states;
  for (const bool sink : {true, false}) {
    HalvingModel m;
    const Value late = greater(m.total, 59.0f);
    Session session(m.graph, device("cpu"), {.data_sink = sink});
    Trainer trainer(session, {.update = m.update,
                              .fetches = {m.total},
                              .source = halving_feeder(device("cpu"), 1000, fed_by(sink)),
                              .stop_when = late});
    HalvingExpectation expected;
    int64_t wanted = 1;
    while (expected.advance() <= 59) ++wanted;
    TrainReport report = trainer.fit({.steps = 200});
    CHECK(report.stop_step == wanted);
    CHECK(report.steps == wanted);
    report = trainer.fit({.steps = 200, .every_n_steps = {{1, [&](int64_t step) {
                                                             return step == wanted + 1
                                                                        ? LoopControl::kStop
                                                                        : LoopControl::kContinue;
                                                           }}}});
    CHECK(report.steps == 1);
    CHECK(trainer.cursor().position == wanted + 1);
    states.push_back(session.state_sha256());
  }
  CHECK(states[0] == states[1]);
}

TEST_CASE("data sink: a request ends the wait for an element that is not lost") {
  std::atomic<bool> let_go{false};
  HalvingModel m;
  Session session(m.graph, device("ref"), {.data_sink = false});
  auto feeder = std::make_shared<NumberFeeder>(
      device("ref"), halving_element(),
      [&](int64_t i, const std::vector<void*>& fields) {
        while (i == 3 && !let_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        auto* x = static_cast<float*>(fields[0]);
        x[0] = static_cast<float>(i);
        x[1] = 1;
        return true;
      },
      fed_by(false));
  feeder->open({});
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = feeder});
  std::thread other([&] {
    while (feeder->queue()->counters().dequeued < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    loop.request_stop();
  });
  LoopReport report = loop.run(10);
  other.join();
  CHECK(report.cancelled);
  CHECK(report.steps <= 3);
  let_go = true;
  const int64_t done = report.steps;
  report = loop.run(10 - done);
  CHECK(report.steps == 10 - done);
  CHECK(report.cursor.position == 10);
  Halving whole("ref", true);
  whole.loop.run(10);
  CHECK(session.state_sha256() == whole.session.state_sha256());
}

TEST_CASE("data sink: a wait beyond getnext_timeout names the queue") {
  HalvingModel m;
  Session session(m.graph, device("ref"), {.data_sink = false});
  auto queue = std::make_shared<DeviceQueue>(
      device("ref"), halving_element(),
      DeviceQueueOptions{
          .name = "train", .getnext_timeout = std::chrono::milliseconds(20), .data_sink = false});
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = queue});
  const std::string error = error_of([&] { loop.run(1); });
  CHECK(contains(error, "queue 'train'"));
  CHECK(contains(error, "no element within 20 ms"));
}

TEST_SUITE_END();
