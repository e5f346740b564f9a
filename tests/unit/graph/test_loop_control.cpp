// The loop around a sunk step: its control tasks and what they count, the stop that a step's own
// values ask for, the step boundary, and graphs that are prepared, frozen and run later.
#include <map>
#include <optional>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/log.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/runtime/trainer.h"

#include "runtime_for_tests.h"
#include "support/count_of.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::count_of;

using Types = std::vector<std::string>;

Types types_of(const CompileReport& report) {
  Types types;
  for (const InsertedOp& op : report.inserted_ops) types.push_back(op.type);
  return types;
}

// The lines that `call` logs at info level and above.
template <class F>
std::vector<std::string> logged(F&& call) {
  std::vector<std::string> lines;
  const LogLevel level = log_level();
  set_log_sink([&](LogLevel, const std::string& line) { lines.push_back(line); });
  set_log_level(LogLevel::kInfo);
  call();
  set_log_level(level);
  set_log_sink({});
  return lines;
}

// w counts the steps in f32; `reached` is true from the step on that makes it `limit`.
struct CountingModel {
  explicit CountingModel(float limit) { reached = greater_equal(next, limit); }
  Graph graph;
  Value w = graph.state("w", from_tensor(Tensor::scalar<float>(0)));
  Value next = w + 1.0f;
  Update update{{{w, next}}};
  Value reached;
};

TEST_CASE("loop control: N steps take N - 1 true branches one reset and one synchronisation") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    HalvingModel m;
    Session session(m.graph, on);
    Loop loop = session.sink(
        {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 1000)});
    for (const int64_t steps : {int64_t{1}, int64_t{10}, int64_t{10}, int64_t{37}}) {
      const LoopReport report = loop.run(steps);
      CHECK(report.steps == steps);
      CHECK(report.true_branches == steps - 1);
      CHECK(report.resets == 1);
      CHECK(report.host_syncs == 1);
      CHECK(report.kind == LoopKind::kDevice);
    }
    CHECK(session.compiles() == 1);
  }
}

TEST_CASE("loop control: the end of data resets the loop too") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 7)});
  const LoopReport report = loop.run(10);
  CHECK(report.end_of_data);
  CHECK(report.steps == 7);
  CHECK(report.true_branches == 7);  // the eighth step began, and met the end at its first task
  CHECK(report.resets == 1);
}

TEST_CASE("loop control: a failed launch leaves the counts of the next one alone") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  auto feeder = std::make_shared<NumberFeeder>(on, halving_element(),
                                               [](int64_t i, const std::vector<void*>&) -> bool {
                                                 if (i == 3) throw Error("item 3: bad record");
                                                 return true;
                                               });
  feeder->open({});
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = feeder});
  CHECK(!error_of([&] { loop.run(10); }).empty());
  CHECK(loop.failed_report().true_branches == 3);
  CHECK(loop.failed_report().resets == 0);
  feeder->stop();
  feeder->open({0, 4, 0});
  const LoopReport report = loop.run(5);
  CHECK(report.true_branches == 4);
  CHECK(report.resets == 1);
}

TEST_CASE("loop control: the inserted tasks are reported whatever N and logged with an N above 1") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    for (const int64_t steps : {int64_t{1}, int64_t{10}}) {
      HalvingModel m;
      Session session(m.graph, on, {.loop_size = steps});
      std::optional<Loop> loop;
      const auto lines = logged([&] {
        loop = session.sink(
            {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 100)});
        loop->run();
        loop->run();
      });
      const Types expected{"LOOP_INC", "LOOP_SWITCH", "LOOP_ACTIVE", "LOOP_RESET"};
      CHECK(types_of(loop->compile_report()) == expected);
      CHECK(loop->placement().kind == LoopKind::kDevice);
      CHECK(loop->placement().reason.empty());
      for (const std::string& type : expected) {
        const InsertedOp* op = nullptr;
        for (const InsertedOp& each : loop->compile_report().inserted_ops) {
          if (each.type == type) op = &each;
        }
        REQUIRE(op != nullptr);
        CHECK(contains(to_string(op->site), "test_loop_control.cpp:"));
        int64_t told = 0;
        for (const std::string& line : lines)
          told += contains(line, "Insert op success, name:" + op->name + ", type:" + type +
                                     ", loop size:10, loop kind:device.");
        CHECK(told == (steps == 1 ? 0 : 1));
        CHECK(count_of(type, loop->describe()) == 1);
      }
    }
  }
}

TEST_CASE("loop control: the log says that ops were inserted only for more than one step") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 100)});
  const auto told = [&](int64_t steps) {
    int64_t lines_of_switch = 0, all = 0;
    for (const std::string& line : logged([&] { loop.run(steps); })) {
      all += contains(line, "Insert op");
      lines_of_switch += contains(
          line, "type:LOOP_SWITCH, loop size:" + std::to_string(steps) + ", loop kind:device.");
    }
    CHECK(all == 4 * lines_of_switch);
    return lines_of_switch;
  };
  CHECK(loop.compile_report().loop_size == 1);
  CHECK(told(1) == 0);
  CHECK(told(4) == 1);
  CHECK(loop.compile_report().loop_size == 4);
  CHECK(told(4) == 0);
  CHECK(told(1) == 0);
  CHECK(loop.compile_report().loop_size == 1);
  CHECK(told(4) == 1);
  CHECK(told(7) == 1);
}

TEST_CASE("loop control: a training names its loop size once though launches are cut short") {
  unsetenv(kLoopSizeVariable);
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on, {.loop_size = 10});
  Trainer trainer(session,
                  {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 1000)});
  int64_t told = 0;
  for (const std::string& line : logged([&] {
         trainer.fit({.steps = 25, .every_n_steps = {{7, [](int64_t) {}}}});
       })) {
    if (!contains(line, "Insert op")) continue;
    CHECK(contains(line, "loop size:10, loop kind:device."));
    ++told;
  }
  CHECK(told == 4);
  CHECK(trainer.loop().compile_report().loop_size == 10);
}

TEST_CASE("loop control: a program that is no loop has nothing inserted") {
  HalvingModel m;
  Session session(m.graph, device("ref"));
  const auto lines = logged([&] { session.run({m.w}); });
  for (const std::string& line : lines) CHECK(!contains(line, "Insert op"));
}

TEST_CASE("stop_when ends the launch after the step in which it is true") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    for (const int64_t size : {int64_t{1}, int64_t{3}, int64_t{6}, int64_t{100}}) {
      CAPTURE(size);
      CountingModel m(6);
      Session session(m.graph, on);
      Loop loop = session.sink({.update = m.update, .fetches = {m.next}, .stop_when = m.reached});
      int64_t steps = 0;
      LoopReport report;
      do {
        report = loop.run(size);
        steps += report.steps;
        CHECK(report.launches == 1);
        CHECK(report.host_syncs == 1);
        CHECK(report.resets == 1);
        CHECK(report.true_branches == report.steps - 1);
        CHECK(report.stopped == (steps == 6));
      } while (!report.stopped && steps < 1000);
      CHECK(steps == 6);
      CHECK(report.stop_step == 6);
      CHECK(!report.cancelled);
      CHECK(!report.end_of_data);
      CHECK(session.step() == 6);
      CHECK(session.read(m.w).item<float>() == 6);  // that step's update included
      CHECK(report[m.next].back() == 6);
      // A later launch goes on: a step at a time, since the value stays true.
      report = loop.run(100);
      CHECK(report.steps == 1);
      CHECK(report.stop_step == 7);
      CHECK(session.read(m.w).item<float>() == 7);
      session.write(m.w, Tensor::scalar<float>(0));
      CHECK(loop.run(4).steps == 4);
      CHECK(!loop.run(1).stop_step.has_value());
      CHECK(session.compiles() == 1);
    }
  }
}

TEST_CASE("stop_when of a training stops every loop size at the same bits") {
  std::map<std::string, std::string> states;
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    for (const int64_t size : {int64_t{1}, int64_t{7}, int64_t{64}}) {
      HalvingModel m;
      const Value late = greater(m.total, 59.0f);  // first in the step of x = 30 or so
      Session session(m.graph, on);
      Trainer trainer(session, {.update = m.update,
                                .fetches = {m.total},
                                .source = halving_feeder(on, 1000),
                                .stop_when = late});
      const TrainReport report = trainer.fit({.steps = 200, .loop_size = size});
      HalvingExpectation expected;
      int64_t wanted = 1;
      while (expected.advance() <= 59) ++wanted;
      CHECK(report.steps == wanted);
      CHECK(report.stopped_early);
      CHECK(report.stop_step == wanted);
      CHECK(report.cursor.position == wanted);
      const std::string sha = session.state_sha256();
      CHECK(states.emplace(name, sha).first->second == sha);
    }
  }
}

TEST_CASE("stop_when may be a state a fetch a constant or a field of the queue") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    Graph g;
    const Value flag = g.input("flag", boolean, {});
    const Value old = g.state("old", from_tensor(Tensor::scalar<bool>(false)));
    const Value count = g.state("count", from_tensor(Tensor::scalar<float>(0)));
    const Value always = g.constant(Tensor::scalar<bool>(true));
    const Value negated = logical_not(flag);
    const Update update{{{old, flag}, {count, count + 1.0f}}};
    Session session(g, on);
    // Steps that a launch of 10 does where elements 3 and 4 (from 0) are true.
    const auto steps_with = [&](Value stop, const Values& fetches) {
      session.write(old, Tensor::scalar<bool>(false));
      auto feeder = std::make_shared<NumberFeeder>(on, ElementSpec{{{"flag", {boolean, {}}}}},
                                                   [](int64_t i, const std::vector<void*>& fields) {
                                                     *static_cast<bool*>(fields[0]) =
                                                         i == 3 || i == 4;
                                                     return true;
                                                   });
      feeder->open({});
      Loop loop =
          session.sink({.update = update, .fetches = fetches, .source = feeder, .stop_when = stop});
      const LoopReport report = loop.run(10);
      CHECK(report.stopped == (report.steps < 10));
      return report.steps;
    };
    CHECK(steps_with({}, {}) == 10);
    CHECK(steps_with(flag, {}) == 4);
    CHECK(steps_with(old, {}) == 5);  // its value when the step began
    CHECK(steps_with(old, {old}) == 5);
    CHECK(steps_with(flag, {flag, count}) == 4);
    CHECK(steps_with(always, {count}) == 1);
    CHECK(steps_with(negated, {}) == 1);
    CHECK(steps_with(logical_not(negated), {negated}) == 4);
  }
}

TEST_CASE("stop_when is a condition of the switch and has a price on the npu") {
  CountingModel m(6);
  Session session(m.graph, device("npu"));
  const Loop plain = session.sink({.update = m.update, .fetches = {m.next}});
  const Loop loop = session.sink({.update = m.update, .fetches = {m.next}, .stop_when = m.reached});
  const std::string text = loop.describe();
  CHECK(contains(text, "greater_equal"));
  CHECK(!contains(plain.describe(), "greater_equal"));
  const std::string line =
      text.substr(text.find("LOOP_SWITCH"),
                  text.find("\n", text.find("LOOP_SWITCH")) - text.find("LOOP_SWITCH"));
  CHECK(contains(line, " ns (device)"));
  CHECK(contains(line, "test_loop_control.cpp:"));
  CHECK(loop.program().info().step_device_ns.value() >
        plain.program().info().step_device_ns.value());
}

TEST_CASE("stop_when of another type or graph is refused at the user's line") {
  CountingModel m(6);
  CountingModel other(6);
  Session session(m.graph, device("ref"));
  auto line = 0;
  const auto refused = [&](Value stop) {
    try {
      line = __LINE__ + 1;
      session.sink({.update = m.update, .fetches = {m.next}, .stop_when = stop});
    } catch (const Error& error) {
      CHECK(error.info().site.line == line);
      CHECK(contains(error.info().site.file, "test_loop_control.cpp"));
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string number = refused(m.next);
  CHECK(contains(number, "stop_when: expected bool[], got f32[], the result of add at "));
  const Value row = m.graph.constant(Tensor(boolean, {3}));
  CHECK(contains(refused(row), "expected bool[], got bool[3]"));
  CHECK(contains(refused(other.reached), "stop_when"));
  CHECK(session.step() == 0);
}

TEST_CASE("step boundary: a graph describes its step and runs when it is frozen") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    HalvingModel m;
    m.graph.prepare_loop(m.update, {m.total});
    m.graph.freeze();
    Session session(m.graph, on);
    session.set_loop_size(10);
    Loop loop = session.sink({.source = halving_feeder(on, 1000)});
    CHECK(loop.run().steps == 10);
    CHECK(session.step() == 10);
    session.set_loop_size(4);
    const LoopReport report = loop.run();
    CHECK(report.steps == 4);
    CHECK(session.step() == 14);
    CHECK(session.compiles() == 1);

    HalvingModel plain;
    Session stepped(plain.graph, on);
    Loop same = stepped.sink(
        {.update = plain.update, .fetches = {plain.total}, .source = halving_feeder(on, 1000)});
    same.run(14);
    CHECK(session.state_sha256() == stepped.state_sha256());
  }
}

TEST_CASE("step boundary: a trainer takes a prepared graph and its stop value") {
  const Device on = device("ref");
  HalvingModel m;
  m.graph.prepare_loop(m.update, {m.total}, greater(m.total, 59.0f));
  m.graph.freeze();
  Session session(m.graph, on);
  Trainer trainer(session, {.source = halving_feeder(on, 1000)});
  const TrainReport report = trainer.fit({.steps = 200, .loop_size = 10});
  CHECK(report.stopped_early);
  CHECK(report.stop_step == report.steps);
  CHECK(trainer.loop().kind() == LoopKind::kDevice);
  CHECK(report.host_syncs == report.launches);
  CHECK(report.resets == report.launches);
  CHECK(report.true_branches == report.steps - report.launches);
}

TEST_CASE("step boundary: a frozen graph cannot be prepared or changed") {
  HalvingModel m;
  const Value small = less(m.w, 1.0f);
  m.graph.freeze();
  const auto frozen = [&](const char* op, auto&& change) {
    try {
      change();
    } catch (const Error& error) {
      CAPTURE(op);
      CHECK(contains(error.what(), std::string(op) + ": GRAPH_FROZEN"));
      CHECK(contains(error.what(), "the graph is frozen"));
      CHECK(contains(error.what(), "test_loop_control.cpp:"));
      return;
    }
    FAIL_CHECK(op << " changed a frozen graph");
  };
  frozen("prepare_loop", [&] { m.graph.prepare_loop(m.update, {m.total}); });
  frozen("add", [&] { static_cast<void>(m.w + m.w); });
  // Not "constant", which numbers among the operands and the count of a loop become.
  frozen("add", [&] { static_cast<void>(m.w + 1.0f); });
  const auto same = [](const Values& v) { return v; };
  frozen("while_loop", [&] { while_loop({m.w}, {}, same, {.trip_count = 2}); });
  frozen("cond", [&] { cond(small, {m.w, 2.0f}, same, same); });
  frozen("input", [&] { m.graph.input("y", f32, {}); });
  frozen("state", [&] { m.graph.state("v", from_tensor(Tensor::scalar<float>(0))); });
  frozen("constant", [&] { m.graph.constant(Tensor::scalar<float>(0)); });
  frozen("set_outputs", [&] { m.graph.set_outputs({m.total}); });
  frozen("add_update", [&] { m.graph.add_update(m.w, m.next); });
  frozen("attach_update", [&] { m.graph.attach_update(m.total, m.w, m.next); });
  CHECK(m.graph.outputs().empty());
  CHECK(m.graph.updates().empty());
  // What was there still runs.
  Session session(m.graph, device("ref"));
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 10)});
  session.set_loop_size(5);
  CHECK(loop.run().steps == 5);
}

TEST_CASE("step boundary: prepare_loop refuses what is no step and changes nothing then") {
  HalvingModel m;
  HalvingModel other;
  CHECK(contains(error_of([&] { m.graph.prepare_loop(other.update, {}); }), "of another graph"));
  CHECK(contains(error_of([&] { m.graph.prepare_loop(m.update, {Value()}); }), "an empty Value"));
  CHECK(contains(error_of([&] { m.graph.prepare_loop(m.update, {}, m.total); }), "a bool scalar"));
  CHECK(m.graph.outputs().empty());
  CHECK(find_step_boundary(m.graph) == nullptr);
  m.graph.prepare_loop(m.update, {m.total});
  CHECK(contains(error_of([&] { m.graph.prepare_loop(m.update, {m.total}); }),
                 "one that describes a step already"));
}

TEST_CASE("step boundary: it survives text and a rename and without its mark nothing is sunk") {
  HalvingModel m;
  m.graph.prepare_loop(m.update, {m.total}, greater(m.total, 59.0f));
  const std::string text = print_graph(m.graph);
  CHECK(count_of("{is_step_boundary=true}", text) == 1);
  const Device on = device("cpu");
  const auto steps_of = [&](const std::string& graph_text) {
    const auto graph = parse_graph(graph_text);
    verify(*graph);
    CHECK(print_graph(*graph) == graph_text);
    graph->freeze();
    Session session(*graph, on);
    auto feeder = halving_feeder(on, 1000);
    const LoopPlacement placement = session.loop_placement({.source = feeder->queue()});
    CHECK(placement.kind == LoopKind::kDevice);
    return session.sink({.source = feeder}).run(200).steps;
  };
  const int64_t steps = steps_of(text);
  CHECK(steps < 200);
  const auto replaced = [&](const std::string& with) {
    std::string changed = text;
    const std::string mark = "{is_step_boundary=true}";
    return changed.replace(changed.find(mark), mark.size(), with);
  };
  CHECK(steps_of(replaced("{name=\"IterationOp\", is_step_boundary=true}")) == steps);

  const auto unmarked = parse_graph(replaced("{name=\"IterationOp\"}"));
  Session session(*unmarked, on);
  auto feeder = halving_feeder(on, 1000);
  const std::string error = error_of([&] { session.sink({.source = feeder}); });
  CHECK(contains(error, "NO_STEP_BOUNDARY"));
  CHECK(contains(error, "prepare_loop"));
  CHECK(contains(error, "test_loop_control.cpp:"));
  const LoopPlacement placement = session.loop_placement({.source = feeder->queue()});
  CHECK(placement.kind == LoopKind::kNone);
  CHECK(contains(placement.reason, "NO_STEP_BOUNDARY"));
  CHECK(placement.site.known());
}

TEST_CASE("step boundary: a backend compiles no sunk loop without one and none with two") {
  const Device on = device("ref");
  const auto compiled = [&](int boundaries) {
    auto step = std::make_shared<Graph>();
    const Value w = step->state("w", from_tensor(Tensor::scalar<float>(0)));
    step->add_update(w, w + 1.0f);
    for (int i = 0; i < boundaries; ++i) add_step_boundary(*step, {}, CallSite::here());
    const auto graph = make_sunk_loop(step);
    return error_of([&] { on.backend().compile(on.index(), *graph, {}); });
  };
  CHECK(contains(compiled(0), "NO_STEP_BOUNDARY"));
  CHECK(compiled(1).empty());
  CHECK(contains(compiled(2), "one step boundary in a graph"));
}

TEST_CASE("loop size: a trainer says once which one is in use and again when it changes") {
  unsetenv(kLoopSizeVariable);
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Trainer trainer(session,
                  {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 1000)});
  const auto lines = logged([&] {
    trainer.fit({.steps = 50, .loop_size = 10});
    trainer.fit({.steps = 50});
    trainer.set_loop_size(4);
    trainer.fit({.steps = 50});
  });
  std::vector<std::string> told;
  for (const std::string& line : lines) {
    if (contains(line, "loop size ")) told.push_back(line);
  }
  REQUIRE(told.size() == 2);
  CHECK(contains(told[0], "loop size 10 (TrainOptions::loop_size)"));
  CHECK(contains(told[1], "loop size 4 (set_loop_size)"));
}

TEST_CASE("loop size: a wrong environment is an error also where something explicit is in force") {
  HalvingModel m;
  Session session(m.graph, device("ref"), {.loop_size = 3});
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 100)});
  for (const char* wrong : {"0", "-1", "ten", "2.5"}) {
    setenv(kLoopSizeVariable, wrong, 1);
    const std::string error = error_of([&] { loop.run(); });
    CHECK(contains(error, kLoopSizeVariable));
  }
  setenv(kLoopSizeVariable, "7", 1);
  CHECK(loop.run().steps == 3);
  unsetenv(kLoopSizeVariable);
}

TEST_CASE("loop reports how long the device waited for room in the metrics ring") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    HalvingModel m;
    Session session(m.graph, on);
    Loop loop = session.sink(
        {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 5000)});
    CHECK(loop.run(10).metrics_wait_ns == 0);
    // The host sits in the first row's callback until the device has begun a step for which the
    // ring (1024 rows) has no room.
    const LoopReport report =
        loop.run(2000, {.on_step = [&](int64_t step, std::span<const double>) {
                   if (step != 11) return;
                   while (loop.queue()->counters().dequeued < 10 + 1 + 1024 + 1)
                     std::this_thread::yield();
                   std::this_thread::sleep_for(std::chrono::milliseconds(5));
                 }});
    CHECK(report.steps == 2000);
    CHECK(report.metrics_wait_ns > 0);
  }
}

}  // namespace

TEST_SUITE_END();
