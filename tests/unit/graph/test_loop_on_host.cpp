// Loops that a device declines to run by itself: the host drives them, says so, and gives the same.
#include <optional>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/log.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/gather.h"

#include "runtime_for_tests.h"
#include "support/declining_backend.h"
#include "support/logged_warnings.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::DecliningBackend;
using keel_test::LoggedWarnings;

TEST_CASE("host loop: the same rows states and fetches as a sunk loop bit for bit") {
  for (const std::string& name : backend_names()) {
    for (const char* declined : {"sunk_loop", "dequeue"}) {
      CAPTURE(name);
      CAPTURE(declined);
      const LoggedWarnings lines;
      DecliningBackend modest(name, declined);
      HalvingModel m;
      Session sunk(m.graph, device(name));
      Session driven(m.graph, modest.device());
      Loop there = sunk.sink({.update = m.update,
                              .fetches = {m.next, m.total},
                              .source = halving_feeder(device(name), 1000)});
      Loop here = driven.sink({.update = m.update,
                               .fetches = {m.next, m.total},
                               .source = halving_feeder(modest.device(), 1000)});
      for (const int64_t steps : {int64_t{1}, int64_t{10}, int64_t{23}}) {
        std::vector<int64_t> numbers;
        const LoopReport expected = there.run(steps);
        const LoopReport report =
            here.run(steps, {.on_step = [&](int64_t step, std::span<const double> row) {
                       numbers.push_back(step);
                       CHECK(row.size() == 1);
                     }});
        CHECK(report.steps == steps);
        CHECK(report.first_step == expected.first_step);
        CHECK(numbers.size() == static_cast<size_t>(steps));
        CHECK(numbers.front() == expected.first_step);
        CHECK(numbers.back() == expected.first_step + steps - 1);
        CHECK(std::equal(report[m.total].begin(), report[m.total].end(), expected[m.total].begin(),
                         expected[m.total].end()));
        CHECK(bit_equal(report.tensor(m.next), expected.tensor(m.next)));
        CHECK(report.cursor == expected.cursor);
        CHECK(report.kind == LoopKind::kHost);
        CHECK(report.launches == steps);
        CHECK(report.host_syncs >= steps);
        CHECK(report.true_branches == 0);
        CHECK(report.busy_ns > 0);
      }
      CHECK(driven.state_sha256() == sunk.state_sha256());
      CHECK(driven.step() == 34);
      CHECK(driven.compiles() == 1);
      CHECK(here.queue()->counters().released == 34);
      CHECK(here.compile_report().inserted_ops.empty());
    }
  }
}

TEST_CASE("host loop: the log names the loop size with the reason that nothing was inserted") {
  DecliningBackend modest("ref", "sunk_loop");
  HalvingModel m;
  Session session(m.graph, modest.device());
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(modest.device(), 100)});
  const auto of_inserted = [&](int64_t steps) {
    std::vector<std::string> told;
    set_log_sink([&](LogLevel, const std::string& line) {
      if (contains(line, "Insert op")) told.push_back(line);
    });
    const LogLevel before = log_level();
    set_log_level(LogLevel::kInfo);
    loop.run(steps);
    set_log_level(before);
    set_log_sink({});
    return told;
  };
  CHECK(of_inserted(1).empty());
  const auto told = of_inserted(5);
  REQUIRE(told.size() == 1);
  CHECK(told[0] ==
        "Insert op none, loop size:5, loop kind:host, reason:modest does not run sunk_loop: its "
        "control unit is too small.");
  CHECK(loop.compile_report().loop_size == 5);
}

TEST_CASE("host loop: the reason and the user's line are logged once and reported") {
  const LoggedWarnings lines;
  DecliningBackend modest("ref", "sunk_loop");
  HalvingModel m;
  Session session(m.graph, modest.device());
  const int line = __LINE__ + 1;
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(modest.device(), 100)});
  loop.run(2);
  loop.run(2);
  CHECK(loop.kind() == LoopKind::kHost);
  CHECK(std::string(name_of(loop.kind())) == "host");
  CHECK(loop.placement().reason == "modest does not run sunk_loop: its control unit is too small");
  CHECK(loop.placement().site.line == line);
  REQUIRE(lines.lines().size() == 1);
  CHECK(contains(lines.lines()[0], "driven by the host"));
  CHECK(contains(lines.lines()[0], loop.placement().reason));
  CHECK(contains(lines.lines()[0], "test_loop_on_host.cpp:" + std::to_string(line)));
  const LoopPlacement placement =
      session.loop_placement({.update = m.update,
                              .fetches = {m.total},
                              .source = halving_feeder(modest.device(), 1)->queue()});
  CHECK(placement.kind == LoopKind::kHost);
}

TEST_CASE("host loop: a step that cannot run at all is no loop and says why") {
  DecliningBackend modest("ref", "mul");
  HalvingModel m;
  Session session(m.graph, modest.device());
  auto feeder = halving_feeder(modest.device(), 100);
  const std::string error =
      error_of([&] { session.sink({.update = m.update, .fetches = {m.total}, .source = feeder}); });
  CHECK(contains(error, "its control unit is too small"));
  const LoopPlacement placement =
      session.loop_placement({.update = m.update, .fetches = {m.total}, .source = feeder->queue()});
  CHECK(placement.kind == LoopKind::kNone);
  CHECK(contains(placement.reason, "its control unit is too small"));
  CHECK(placement.site.known());
}

TEST_CASE("host loop: end of data callbacks requests and stop_when end it") {
  const LoggedWarnings lines;
  DecliningBackend modest("cpu", "sunk_loop");
  const Device on = modest.device();
  HalvingModel m;
  const Value late = greater(m.total, 59.0f);
  Session session(m.graph, on);
  {
    Loop loop =
        session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 7)});
    LoopReport report = loop.run(10);
    CHECK(report.end_of_data);
    CHECK(report.steps == 7);
    report = loop.run(10);
    CHECK(report.end_of_data);
    CHECK(report.steps == 0);
    CHECK(contains(error_of([&] { report.tensor(m.total); }), "at least one completed step"));
  }
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 1000)});
  LoopReport report = loop.run(100, {.on_step = [](int64_t step, std::span<const double>) {
                                 return step == 10 ? LoopControl::kStop : LoopControl::kContinue;
                               }});
  CHECK(report.stopped);
  CHECK(!report.stop_step);
  CHECK(report.steps == 3);
  struct Mine {};
  CHECK_THROWS_AS(loop.run(100, {.on_step =
                                     [](int64_t step, std::span<const double>) {
                                       if (step == 12) throw Mine{};
                                     }}),
                  Mine);
  CHECK(loop.failed_report().steps == 2);
  CHECK(session.step() == 12);
  loop.request_stop();
  report = loop.run(100);
  CHECK(report.cancelled);
  CHECK(report.steps == 0);

  for (const Values& fetches : {Values{m.total}, Values{m.total, late}, Values{}}) {
    HalvingExpectation expected;
    int64_t wanted = 1;
    while (expected.advance() <= 59) ++wanted;
    session.write(m.w, Tensor::of<float>({2}, {8, 16}));
    Loop stopping = session.sink({.update = m.update,
                                  .fetches = fetches,
                                  .source = halving_feeder(on, 1000),
                                  .stop_when = late});
    const int64_t before = session.step();
    report = stopping.run(200);
    CHECK(report.stopped);
    CHECK(report.steps == wanted);
    CHECK(report.stop_step == before + wanted);
  }
}

TEST_CASE("host loop: a request ends the wait for an element") {
  const LoggedWarnings lines;
  DecliningBackend modest("ref", "sunk_loop");
  HalvingModel m;
  Session session(m.graph, modest.device());
  auto queue = std::make_shared<DeviceQueue>(modest.device(), halving_element());
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = queue});
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    loop.request_stop();
  });
  const LoopReport report = loop.run(5);
  other.join();
  CHECK(report.cancelled);
  CHECK(report.steps == 0);
}

TEST_CASE("host loop: a producer's failure and a failed step keep the states of the steps before") {
  const LoggedWarnings lines;
  DecliningBackend modest("ref", "sunk_loop");
  const Device on = modest.device();
  Graph g;
  const Value w = g.state("w", constant({3}, 1));
  const Value index = g.input("index", i64, {});
  const Update update{{{w, w + gather(w, index)}}};
  Session session(g, on);
  const auto feeder_of = [&](int64_t failing) {
    auto feeder = std::make_shared<NumberFeeder>(
        on, ElementSpec{{{"index", {i64, {}}}}},
        [failing](int64_t i, const std::vector<void*>& fields) -> bool {
          if (i == failing) throw Error("item 2: bad record");
          *static_cast<int64_t*>(fields[0]) = i;
          return true;
        });
    feeder->open({});
    return feeder;
  };
  Loop first = session.sink({.update = update, .source = feeder_of(2)});
  CHECK(contains(error_of([&] { first.run(10); }), "item 2: bad record"));
  CHECK(first.failed_report().steps == 2);
  CHECK(session.read(w).data<float>()[0] == 4);
  Loop second = session.sink({.update = update, .source = feeder_of(-1)});
  const std::string error = error_of([&] { second.run(10); });
  CHECK(contains(error, "step 6"));  // index 3 of 3 in the fourth step of this launch
  CHECK(second.failed_report().steps == 3);
  CHECK(session.read(w).data<float>()[0] == 32);  // doubled by each of three more steps
  CHECK(session.step() == 5);
}

TEST_CASE("host loop: a trainer works on it") {
  const LoggedWarnings lines;
  DecliningBackend modest("npu", "sunk_loop");
  HalvingModel m;
  Session session(m.graph, modest.device());
  Trainer trainer(
      session,
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(modest.device(), 1000)});
  std::vector<int64_t> fives;
  const TrainReport report =
      trainer.fit({.steps = 23, .loop_size = 10, .every_n_steps = {{5, [&](int64_t step) {
                                                                      fives.push_back(step);
                                                                    }}}});
  CHECK(report.steps == 23);
  CHECK(report.launches == 23);
  CHECK(fives == std::vector<int64_t>{5, 10, 15, 20});
  CHECK(trainer.loop().kind() == LoopKind::kHost);
  HalvingExpectation expected;
  double total = 0;
  for (int i = 0; i < 23; ++i) total = expected.advance();
  CHECK(report.last_metrics.at(0) == doctest::Approx(total));
}

}  // namespace

TEST_SUITE_END();
