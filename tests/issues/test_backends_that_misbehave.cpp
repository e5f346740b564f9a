// What a backend of others throws, returns and reports is not taken at its word: an exception that
// was no Error, or nothing where a program must be, ended the process without a word; a report of
// more steps than were asked for was counted into the session; and a launch that ended without
// MetricsQueue::end_launch() was waited for without an end.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/checked_backend.h"
#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/declining_backend.h"
#include "support/error_of.h"
#include "unit/runtime_for_tests.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

enum class Odd { kNothing, kInt, kException, kNull };

// Each of its calls that makes something does what `odd` says instead.
class OddBackend : public keel_test::DecliningBackend {
 public:
  explicit OddBackend(const Odd& odd) : DecliningBackend("ref", "none"), odd_(odd) {}
  std::vector<DeviceInfo> devices() const override {
    return misbehaves() ? std::vector<DeviceInfo>{} : DecliningBackend::devices();
  }
  Support supports(const Node& node, const DeviceOptions* options) const override {
    misbehaves();
    return DecliningBackend::supports(node, options);
  }
  std::shared_ptr<Buffer> allocate(int index, size_t bytes, const std::string& holder) override {
    return misbehaves() ? nullptr : DecliningBackend::allocate(index, bytes, holder);
  }
  SlotMemory allocate_slot(int index, size_t bytes, const std::string& holder) override {
    return misbehaves() ? SlotMemory{} : DecliningBackend::allocate_slot(index, bytes, holder);
  }
  std::unique_ptr<Stream> make_stream(int index, StreamKind kind) override {
    return misbehaves() ? nullptr : DecliningBackend::make_stream(index, kind);
  }
  std::unique_ptr<Program> compile(int index, const Graph& graph,
                                   const CompileOptions& options) override {
    return misbehaves() ? nullptr : DecliningBackend::compile(index, graph, options);
  }
  int64_t transfer_device_ns(int index, size_t bytes, const DeviceOptions* options) const override {
    misbehaves();
    return DecliningBackend::transfer_device_ns(index, bytes, options);
  }

 private:
  bool misbehaves() const {
    if (odd_ == Odd::kInt) throw 42;
    if (odd_ == Odd::kException) throw std::runtime_error("on fire");
    return odd_ == Odd::kNull;
  }
  const Odd& odd_;
};

// A program that says of its launches what it is told to.
class ReportingProgram : public Program {
 public:
  using Report = std::function<void(LaunchReport& report)>;
  ReportingProgram(std::unique_ptr<Program> program, const Report& report, bool launches)
      : program_(std::move(program)), report_(report), launches_(launches) {}
  const ProgramInfo& info() const override { return program_->info(); }
  void launch(Stream& stream, LaunchArgs& args) override {
    if (!launches_) return;
    program_->launch(stream, args);
    stream.synchronize();
    report_(args.report);
  }
  std::string describe() const override { return program_->describe(); }

 private:
  std::unique_ptr<Program> program_;
  const Report& report_;
  bool launches_;
};

// `declined`: an op that it does not run; "sunk_loop" for loops that the host drives.
class ReportingBackend : public keel_test::DecliningBackend {
 public:
  ReportingBackend(const std::string& declined, ReportingProgram::Report report,
                   bool launches = true)
      : DecliningBackend("ref", declined), report_(std::move(report)), launches_(launches) {}
  std::unique_ptr<Program> compile(int index, const Graph& graph,
                                   const CompileOptions& options) override {
    return std::make_unique<ReportingProgram>(DecliningBackend::compile(index, graph, options),
                                              report_, launches_);
  }

 private:
  ReportingProgram::Report report_;
  bool launches_;
};

// Returns what a loop of 5 steps on the backend, and then a run of one, end with, and checks that
// nothing of the launch is taken for done.
struct Ends {
  explicit Ends(ReportingBackend& backend) {
    Graph g;
    const Value w = g.state("w", constant({3}, 1));
    const Update update{{{w, w + w}}};
    Session session(g, backend.device());
    Loop looping = session.sink({.update = update, .fetches = {sum(w)}});
    loop = error_of([&] { looping.run(5); });
    CHECK(looping.failed_report().steps == 0);
    CHECK(contains(error_of([&] { session.read(w); }), "lost"));
    CHECK(!error_of([&] { session.step(); }).empty());
    Graph other;
    const Value v = other.state("v", constant({3}, 1));
    Session second(other, backend.device());
    run = error_of([&] { second.run(Update{{{v, v + v}}}, {}); });
    CHECK(contains(error_of([&] { second.read(v); }), "lost"));
  }
  std::string loop, run;
};

void check_report_refused(const ReportingProgram::Report& report, const std::string& loop,
                          const std::string& run) {
  for (const char* declined : {"none", "sunk_loop"}) {
    CAPTURE(declined);
    ReportingBackend backend(declined, report);
    const Ends ends(backend);
    const bool driven = std::string(declined) == "sunk_loop";
    CHECK_MESSAGE(contains(ends.loop, "loop on modest:0"), ends.loop);
    CHECK_MESSAGE(contains(ends.loop, driven ? run : loop), ends.loop);
    CHECK_MESSAGE(contains(ends.run, "run on modest:0"), ends.run);
    CHECK_MESSAGE(contains(ends.run, run), ends.run);
    CHECK_MESSAGE(contains(ends.run, "test_backends_that_misbehave.cpp:"), ends.run);
  }
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("what a plugin's backend throws becomes an error that names it and the call") {
  Odd odd = Odd::kNothing;
  CheckedBackend checked(std::make_unique<OddBackend>(odd), "odd");
  Graph g;
  g.set_outputs({g.input("x", f32, {2})});
  const auto check = [&](const char* call, const std::function<void()>& make) {
    CAPTURE(call);
    odd = Odd::kNothing;
    CHECK(error_of(make).empty());
    odd = Odd::kInt;
    const std::string named = std::string("backend odd: ") + call;
    CHECK(error_of(make) == named + ": it threw something that is no exception");
    odd = Odd::kException;
    CHECK(error_of(make) == named + ": on fire");
    odd = Odd::kNull;
    return error_of(make);
  };
  CHECK(check("supports", [&] { checked.supports(g.node(0), nullptr); }).empty());
  CHECK(check("transfer_device_ns", [&] { checked.transfer_device_ns(0, 8, nullptr); }).empty());
  CHECK(check("devices", [&] { checked.devices(); }) == "backend odd: it has no device now");
  CHECK(check("allocate", [&] { checked.allocate(0, 8, "x"); }) ==
        "backend odd: allocate gave no buffer");
  CHECK(check("allocate_slot", [&] { checked.allocate_slot(0, 8, "x"); }) ==
        "backend odd: allocate_slot gave no buffer");
  CHECK(check("make_stream", [&] { checked.make_stream(0, StreamKind::kCompute); }) ==
        "backend odd: make_stream gave no stream");
  CHECK(check("compile", [&] { checked.compile(0, g, {}); }) ==
        "backend odd: compile gave no program");
  CHECK(checked.name() == "odd");
}

TEST_CASE("a report of steps that a launch cannot have done is refused") {
  check_report_refused([](LaunchReport& report) { report.steps += 1000; },
                       "steps: expected 0 to 5, got 1005", "steps: expected 0 to 1, got 1001");
  check_report_refused([](LaunchReport& report) { report.steps = -5; },
                       "steps: expected 0 to 5, got -5", "steps: expected 0 to 1, got -5");
  check_report_refused([](LaunchReport& report) { report.busy_ns = -9; },
                       "busy_ns: expected at least 0, got -9",
                       "busy_ns: expected at least 0, got -9");
  check_report_refused([](LaunchReport& report) { report = LaunchReport(); },
                       "steps: expected at least 1, or why there was none",
                       "steps: expected at least 1, or why there was none");
}

TEST_CASE("a failure that only the report of a launch tells of is an error") {
  ReportingBackend silent("none", [](LaunchReport& report) { report.failed = true; });
  ReportingBackend telling("none", [](LaunchReport& report) {
    report.failed = true;
    report.error = std::make_exception_ptr(Error("out of coolant"));
  });
  for (ReportingBackend* backend : {&silent, &telling}) {
    Graph g;
    const Value x = g.input("x", f32, {});
    Session session(g, backend->device());
    const std::string error = error_of([&] {
      session.run({x + x}, {{x, Tensor::scalar<float>(1)}});
    });
    CHECK_MESSAGE(contains(error, "run on modest:0"), error);
    CHECK_MESSAGE(contains(error, backend == &silent ? "it failed" : "out of coolant"), error);
  }
}

TEST_CASE("a launch that is over without an end in the metrics queue is an error") {
  ReportingBackend backend("none", {}, /*launches=*/false);
  const Ends ends(backend);
  CHECK_MESSAGE(contains(ends.loop, "loop on modest:0: launch: it is over"), ends.loop);
  CHECK_MESSAGE(contains(ends.loop, "end_launch()"), ends.loop);
  CHECK_MESSAGE(contains(ends.run, "why there was none"), ends.run);
}

TEST_CASE("a kernel library that plans no kernel is named with the op and its line") {
  class EmptyLibrary : public KernelLibrary {
   public:
    Support supports(const Node&) const override { return {true, ""}; }
    KernelPlan plan(const Node&, const StateLayouts&) const override { return {}; }
    KernelPlan plan_copy(size_t) const override { return {}; }
    int64_t control_ns(TaskKind) const override { return 0; }
  };
  HostBackend empty("empty", "plans nothing", std::make_unique<EmptyLibrary>());
  Graph g;
  const Value x = g.input("x", f32, {2});
  Session session(g, Device(&empty, 0));
  const std::string error = error_of([&] {
    session.run({exp(x)}, {{x, Tensor::of<float>({2}, {1, 2})}});
  });
  CHECK_MESSAGE(contains(error, "exp: kernel: the backend's kernel library planned none"), error);
  CHECK_MESSAGE(contains(error, "test_backends_that_misbehave.cpp:"), error);
}

TEST_CASE("a launch that waits longer for its data than for an end is not taken for over") {
  const Device on = device("ref:0");
  testing::HalvingModel model;
  Session session(model.graph, on);
  auto late = std::make_shared<testing::NumberFeeder>(
      on, testing::halving_element(), [](int64_t i, const std::vector<void*>& fields) {
        if (i == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
        std::fill_n(static_cast<float*>(fields[0]), 2, 1.0f);
        return true;
      });
  late->open({});
  Loop loop = session.sink({.update = model.update, .fetches = {model.total}, .source = late});
  CHECK(loop.run(3).steps == 3);
}

TEST_SUITE_END();

}  // namespace keel
