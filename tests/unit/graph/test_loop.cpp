#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "keel/backends/common/host_backend.h"
#include "keel/backends/registry.h"
#include "keel/core/base/log.h"
#include "keel/ops/gather.h"

#include "counted_allocations.h"
#include "runtime_for_tests.h"
#include "support/fusion.h"
#include "unit/graph/loop_allocations_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

struct HalvedTotals {
  std::vector<double> totals;
  std::string states;
  bool operator==(const HalvedTotals&) const = default;
};

// Launches of the given sizes over one session.
HalvedTotals train_halving(const std::vector<int64_t>& sizes, int64_t depth, const Device& on) {
  HalvingModel m;
  Session session(m.graph, on);
  auto feeder = halving_feeder(on, 100, {.depth = depth});
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = feeder});
  HalvedTotals trained;
  for (const int64_t size : sizes) {
    const LoopReport report = loop.run(size);
    CHECK(report.steps == size);
    CHECK(report.launches == 1);
    const auto totals = report[m.total];
    trained.totals.insert(trained.totals.end(), totals.begin(), totals.end());
  }
  CHECK(session.compiles() == 1);
  CHECK(loop.queue()->counters().dequeued == 100);
  CHECK(loop.queue()->counters().released == 100);
  trained.states = session.state_sha256();
  return trained;
}

TEST_CASE("loop gives the same losses and states for every loop size and depth") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const Device on = device(name);
    const HalvedTotals whole = train_halving({100}, 4, on);
    HalvingExpectation expected;
    REQUIRE(whole.totals.size() == 100);
    for (const double total : whole.totals) CHECK(total == doctest::Approx(expected.advance()));
    CHECK(train_halving(std::vector<int64_t>(100, 1), 1, on) == whole);
    CHECK(train_halving({30, 30, 30, 10}, 2, on) == whole);
    std::vector<int64_t> sevens(14, 7);
    sevens.push_back(2);
    CHECK(train_halving(sevens, 8, on) == whole);
  }
}

TEST_CASE("loop agrees with steps that the host drives") {
  const Device on = device("ref");
  HalvingModel m;
  Session stepped(m.graph, on);
  Session sunk(m.graph, on);
  auto feeder = halving_feeder(on, 5);
  Loop loop = sunk.sink({.update = m.update, .fetches = {m.total, m.next}, .source = feeder});
  const LoopReport report = loop.run(5);
  for (int i = 0; i < 5; ++i) {
    const auto out = stepped.run(m.update, {m.total},
                                 {{m.x, Tensor::of<float>({1, 2}, {static_cast<float>(i), 1})}});
    CHECK(out[0].item<float>() == report[m.total][static_cast<size_t>(i)]);
  }
  CHECK(stepped.state_sha256() == sunk.state_sha256());
  CHECK(sunk.step() == 5);
  CHECK(bit_equal(report.tensor(m.next), sunk.read(m.w)));
  CHECK(report.tensor(m.total).item<float>() == report[m.total][4]);
  CHECK(report.cursor == Cursor{0, 5, 0});
  CHECK(report.wall_ns > 0);
  CHECK(contains(error_of([&] { static_cast<void>(report[m.next]); }), "rank 0"));
  CHECK(contains(error_of([&] { static_cast<void>(report[m.x]); }), "one of the loop's"));
}

TEST_CASE("loop reports the end of data with the steps done") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 7)});
  LoopReport report = loop.run(5);
  CHECK(!report.end_of_data);
  report = loop.run(5);
  CHECK(report.steps == 2);
  CHECK(report.end_of_data);
  CHECK(report[m.total].size() == 2);
  report = loop.run(5);
  CHECK(report.steps == 0);
  CHECK(report.end_of_data);
  CHECK(contains(error_of([&] { report.tensor(m.total); }), "at least one completed step"));
  CHECK(session.step() == 7);
}

TEST_CASE("loop refuses sizes below one and stays as it was") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 10)});
  const std::string before = session.state_sha256();
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}}) {
    CHECK(contains(error_of([&] { loop.run(wrong); }), "steps: expected at least 1, got "));
  }
  CHECK(session.state_sha256() == before);
  CHECK(loop.run(10).steps == 10);
}

TEST_CASE("loop calls back in step order") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total, m.next}, .source = halving_feeder(on, 3000)});
  std::vector<int64_t> steps;
  std::vector<double> totals;
  const auto thread = std::this_thread::get_id();
  const LoopCallbacks callbacks{.on_step = [&](int64_t step, std::span<const double> metrics) {
    CHECK(std::this_thread::get_id() == thread);
    REQUIRE(metrics.size() == 1);
    steps.push_back(step);
    totals.push_back(metrics[0]);
  }};
  const LoopReport first = loop.run(1, callbacks);
  const LoopReport second = loop.run(2999, callbacks);  // more rows than the ring holds
  REQUIRE(steps.size() == 3000);
  for (size_t i = 0; i < steps.size(); ++i) CHECK(steps[i] == static_cast<int64_t>(i) + 1);
  CHECK(second.first_step == 2);
  CHECK(std::equal(totals.begin() + 1, totals.end(), second[m.total].begin()));
}

TEST_CASE("loop stops when a callback asks for it") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 100000)});
  int64_t last = 0;
  const LoopReport report =
      loop.run(100000, {.on_step = [&](int64_t step, std::span<const double>) {
                 last = step;
                 return step == 3 ? LoopControl::kStop : LoopControl::kContinue;
               }});
  CHECK(last == 3);
  CHECK(report.stopped);
  CHECK(!report.cancelled);
  CHECK(report.steps >= 3);
  CHECK(report[m.total].size() == static_cast<size_t>(report.steps));
  CHECK(session.step() == report.steps);
  CHECK(loop.run(2).steps == 2);
}

TEST_CASE("loop rethrows what a callback throws") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 100000)});
  struct Mine {};
  int calls = 0;
  const LoopCallbacks callbacks{.on_step = [&](int64_t step, std::span<const double>) {
    ++calls;
    if (step == 2) throw Mine{};
  }};
  CHECK_THROWS_AS(loop.run(100000, callbacks), Mine);
  CHECK(calls == 2);
  const LoopReport& failed = loop.failed_report();
  CHECK(!failed.failed);
  CHECK(failed.steps >= 2);
  CHECK(failed.steps < 100000);
  CHECK(failed[m.total].size() == static_cast<size_t>(failed.steps));
  CHECK(session.step() == failed.steps);
  CHECK(loop.run(2).steps == 2);
}

TEST_CASE("loop refuses callbacks that use the session and names the hooks") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 10)});
  Loop other = session.sink({.fetches = {m.total}, .source = halving_feeder(on, 10)});
  const auto refused = [&](auto&& call) {
    const std::string error = error_of(
        [&] { loop.run(1, {.on_step = [&](int64_t, std::span<const double>) { call(); }}); });
    CHECK(contains(error, "Trainer"));
    CHECK(contains(error, "on_epoch_end"));
  };
  refused([&] { session.run({m.w}); });
  refused([&] { session.save("/tmp/never-written"); });
  refused([&] { session.read(m.w); });
  refused([&] { session.write(m.w, Tensor(f32, {2})); });
  refused([&] { loop.run(1); });
  refused([&] { other.run(1); });
  CHECK(loop.run(4).steps == 4);
  CHECK(other.run(2).steps == 2);
}

TEST_CASE("loop stops on request from another thread while it runs") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop = session.sink(
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, int64_t{1} << 40)});
  std::atomic<bool> begun{false};
  std::thread other([&] {
    while (!begun.load()) std::this_thread::yield();
    loop.request_stop();
  });
  const LoopReport report = loop.run(
      int64_t{1} << 40, {.on_step = [&](int64_t, std::span<const double>) { begun.store(true); }});
  other.join();
  CHECK(report.cancelled);
  CHECK(report.steps >= 1);
  CHECK(session.step() == report.steps);
  CHECK(loop.run(3).steps == 3);
}

TEST_CASE("loop stops on request while the queue is empty") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  auto queue = std::make_shared<DeviceQueue>(on, halving_element());
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = queue});
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    loop.request_stop();
  });
  LoopReport report = loop.run(5);
  other.join();
  CHECK(report.cancelled);
  CHECK(report.steps == 0);

  loop.request_stop();  // none runs: the next one stops
  report = loop.run(5);
  CHECK(report.cancelled);
  CHECK(report.steps == 0);
  loop.request_stop();
  CHECK(loop.withdraw_stop());
  CHECK(!loop.withdraw_stop());
  queue->reserve();
  queue->commit({});
  queue->finish();
  report = loop.run(5);
  CHECK(!report.cancelled);
  CHECK(report.steps == 1);
}

TEST_CASE("loop passes a producer's failure on and keeps the states") {
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
  const std::string error = error_of([&] { loop.run(10); });
  CHECK(contains(error, "loop on ref:0"));
  CHECK(contains(error, "item 3: bad record"));
  CHECK(loop.failed_report().failed);
  CHECK(loop.failed_report().steps == 3);
  CHECK(loop.failed_report()[m.total].size() == 3);
  CHECK(session.step() == 3);
  CHECK(session.read(m.w).data<float>()[0] == 1);
}

TEST_CASE("loop names the starved queue when its timeout passes") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  auto queue = std::make_shared<DeviceQueue>(
      on, halving_element(),
      DeviceQueueOptions{.name = "train", .getnext_timeout = std::chrono::milliseconds(5)});
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = queue});
  const std::string error = error_of([&] { loop.run(1); });
  CHECK(contains(error, "queue 'train'"));
  CHECK(contains(error, "dequeued 0"));
  CHECK(session.step() == 0);
}

TEST_CASE("loop keeps the states of the last complete step when one fails before it writes") {
  const Device on = device("ref");
  Graph g;
  const Value w = g.state("w", constant({3}, 1));
  const Value index = g.input("index", i64, {});
  const Update update{{{w, w + gather(w, index)}}};
  Session session(g, on);
  auto feeder = std::make_shared<NumberFeeder>(on, ElementSpec{{{"index", {i64, {}}}}},
                                               [](int64_t i, const std::vector<void*>& fields) {
                                                 *static_cast<int64_t*>(fields[0]) = i;
                                                 return true;
                                               });
  feeder->open({});
  Loop loop = session.sink({.update = update, .source = feeder});
  const std::string error = error_of([&] { loop.run(10); });
  CHECK(contains(error, "step 4"));
  CHECK(loop.failed_report().steps == 3);
  CHECK(session.read(w).data<float>()[0] == 8);  // doubled by each of three steps
  CHECK(session.step() == 3);
  CHECK(contains(error_of([&] { loop.run(1); }), "step 4"));
  session.write(w, Tensor::full(f32, {3}, 1));
  session.write(g.step(), Tensor::scalar<int64_t>(0));
  CHECK(session.read(w).data<float>()[0] == 1);
}

TEST_CASE("loop refuses queues that do not fit") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  const auto sink = [&](ElementSpec spec) {
    return error_of([&] {
      session.sink(
          {.update = m.update,
           .fetches = {m.total},
           .source = std::make_shared<DeviceQueue>(on, spec, DeviceQueueOptions{.name = "train"})});
    });
  };
  const std::string missing = sink({{{"y", {f32, {1, 2}}}}});
  CHECK(contains(missing, "input 'x'"));
  CHECK(contains(missing, "queue 'train' (y: f32[1, 2])"));
  const std::string mismatch = sink({{{"x", {f32, {1, 3}}}}});
  CHECK(contains(mismatch, "expected f32[?, 2], got f32[1, 3]"));
  CHECK(contains(sink({{{"x", {f64, {1, 2}}}}}), "got f64[1, 2]"));
  CHECK(sink({{{"label", {u8, {1}}}, {"x", {f32, {1, 2}}}}}).empty());
  CHECK(contains(error_of([&] {
                   session.sink({.update = m.update,
                                 .fetches = {m.total},
                                 .source = std::shared_ptr<DeviceQueue>()});
                 }),
                 "an open queue"));
  CHECK(contains(error_of([&] { session.sink({.update = m.update, .fetches = {m.total}}); }),
                 "sink: source: "));
}

TEST_CASE("loop runs a step without inputs") {
  const Device on = device("ref");
  Graph g;
  const Value w = g.state("w", constant({2}, 1));
  Session session(g, on);
  Loop loop = session.sink({.update = Update{{{w, w * 2.0f}}}, .fetches = {sum(w)}});
  CHECK(loop.run(5).steps == 5);
  CHECK(loop.queue() == nullptr);
  CHECK(session.read(w).data<float>()[0] == 32);
}

TEST_CASE("loop takes the session's loop size and its changes") {
  unsetenv(kLoopSizeVariable);
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 1000)});
  CHECK(loop.run().steps == 1);
  setenv(kLoopSizeVariable, "4", 1);
  CHECK(loop.run().steps == 4);
  session.set_loop_size(6);
  CHECK(loop.run().steps == 6);
  CHECK(!error_of([&] { session.set_loop_size(0); }).empty());
  CHECK(loop.run().steps == 6);
  CHECK(session.compiles() == 1);
  Session explicit_size(m.graph, on, {.loop_size = 3});
  CHECK(explicit_size
            .sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 9)})
            .run()
            .steps == 3);
  unsetenv(kLoopSizeVariable);
}

TEST_CASE("loop says once which loop size is in use") {
  unsetenv(kLoopSizeVariable);
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on, {.loop_size = 2});
  Loop loop =
      session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 1000)});
  std::vector<std::string> lines;
  const LogLevel level = log_level();
  set_log_sink([&](LogLevel, const std::string& line) { lines.push_back(line); });
  set_log_level(LogLevel::kInfo);
  loop.run();
  loop.run();
  set_log_level(level);
  set_log_sink({});
  size_t told = 0;
  for (const std::string& line : lines)
    told += contains(line, "loop size 2 (SessionOptions") ? 1 : 0;
  CHECK(told == 1);
}

TEST_CASE("loop outlives its session and evicted programs") {
  const Device on = device("ref");
  HalvingModel m;
  std::optional<Loop> loop;
  {
    Session session(m.graph, on, {.cached_programs = 1});
    loop =
        session.sink({.update = m.update, .fetches = {m.total}, .source = halving_feeder(on, 10)});
    session.run({m.w});  // puts the loop's program out of the cache
    CHECK(loop->run(2).steps == 2);
  }
  CHECK(loop->run(2).steps == 2);
}

TEST_CASE("loop follows its feeder to a fresh queue") {
  const Device on = device("ref");
  HalvingModel m;
  Session session(m.graph, on);
  auto feeder = halving_feeder(on, 4);
  Loop loop = session.sink({.update = m.update, .fetches = {m.total}, .source = feeder});
  CHECK(loop.run(10).steps == 4);
  feeder->stop();
  feeder->open({0, 2, 0});
  const LoopReport report = loop.run(10);
  CHECK(report.steps == 2);
  CHECK(report.cursor.position == 4);
  CHECK(session.compiles() == 1);
}

// Kernels that allocate nothing, for float `add` of equal shapes, `mul` by a scalar and i64 `add`.
class BareKernel : public Kernel {
 public:
  explicit BareKernel(const Node& node)
      : counts_(node.type().dtype == i64),
        product_(node.op_name() == "mul"),
        scalar_(node.input(1).shape().rank() == 0),
        size_(node.type().shape.num_elements()) {}
  void run(void* const* args, int, int) const override {
    if (counts_) {
      *static_cast<int64_t*>(args[2]) =
          *static_cast<const int64_t*>(args[0]) + *static_cast<const int64_t*>(args[1]);
      return;
    }
    const auto* a = static_cast<const float*>(args[0]);
    const auto* b = static_cast<const float*>(args[1]);
    auto* out = static_cast<float*>(args[2]);
    for (int64_t i = 0; i < size_; ++i) {
      const float other = b[scalar_ ? 0 : i];
      out[i] = product_ ? a[i] * other : a[i] + other;
    }
  }

 private:
  bool counts_;
  bool product_;
  bool scalar_;
  int64_t size_;
};

class BareLibrary : public KernelLibrary {
 public:
  Support supports(const Node& node) const override {
    return {node.op_name() == "add" || node.op_name() == "mul", "tests only"};
  }
  KernelPlan plan(const Node& node, const StateLayouts&) const override {
    KernelPlan plan;
    plan.kernel = std::make_unique<BareKernel>(node);
    return plan;
  }
  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    return plan;
  }
  int64_t control_ns(TaskKind) const override { return 0; }
};

void check_allocations(const Device& on) {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value w = g.state("w", constant({2}, 1));
  const Value total = g.state("total", constant({}, 0));
  const Value next = w * 0.5f + x;
  const Update update{{{w, next}, {total, total + 1.0f}}};
  Session session(g, on, {.disabled_passes = keel_test::fusion(on.name() != "bare:0")});
  auto feeder =
      std::make_shared<NumberFeeder>(on, ElementSpec{{{"x", {f32, {2}}}}},
                                     [](int64_t, const std::vector<void*>&) { return true; });
  feeder->open({});
  Loop loop = session.sink({.update = update, .fetches = {total, next}, .source = feeder});
  loop.run(100);
  const int64_t few = allocations_of(loop, 10);
  CHECK(few > 0);
  CHECK(allocations_of(loop, 2000) == few);
}

TEST_CASE("loop allocates nothing per step") {
  if (!can_count_allocations()) {
    MESSAGE("keel test skipped: a sanitizer owns the allocator");
    return;
  }
  HostBackend bare("bare", "kernels that allocate nothing", std::make_unique<BareLibrary>());
  check_allocations(Device(&bare, 0));
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    // ref wraps each operand in a Tensor for the op's reference function.
    if (name != "ref") check_allocations(device(name));
  }
}

}  // namespace

TEST_SUITE_END();
