// Parties of a loop that leave it together: what they agree on, loops in one process that do, and
// kernels that wait for something outside.
#include <array>
#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include "keel/backends/common/host_backend.h"
#include "keel/core/group/agreement.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/gather.h"
#include "keel/ops/ops.h"

#include "host_launch_for_tests.h"
#include "runtime_for_tests.h"
#include "support/declining_backend.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::DecliningBackend;

// Adds what it is fed; fails for numbers below zero, wants to stop at `last`.
struct Party {
  Party(const Device& on, std::shared_ptr<LoopAgreement> agreement, int64_t elements,
        int64_t bad = -1, float last = -1)
      : session(graph, on) {
    feeder = std::make_shared<NumberFeeder>(
        on, ElementSpec{{{"number", {i64, {}}}}},
        [elements, bad](int64_t i, const std::vector<void*>& fields) {
          *static_cast<int64_t*>(fields[0]) = i == bad ? -1 : i % 3;
          return i < elements;
        },
        DeviceQueueOptions{.depth = 2});
    feeder->open({});
    loop.emplace(session.sink({.update = update,
                               .fetches = {count},
                               .source = feeder,
                               .stop_when = equal(next, last),
                               .agreement = std::move(agreement)}));
  }
  Graph graph;
  Value number = graph.input("number", i64, {});
  Value count = graph.state("count", from_tensor(Tensor::scalar<float>(0)));
  Value table = graph.constant(Tensor::of<float>({3}, {1, 1, 1}));
  Value next = count + gather(table, number);
  Update update{{{count, next}}};
  Session session;
  std::shared_ptr<NumberFeeder> feeder;
  std::optional<Loop> loop;
};

using Agreements = std::vector<std::shared_ptr<LoopAgreement>>;

// Runs both at the same time; what each threw.
std::array<std::string, 2> run_both(Party& a, Party& b, int64_t steps,
                                    std::array<LoopReport, 2>& reports) {
  std::array<std::string, 2> errors;
  std::thread other([&] { errors[1] = error_of([&] { reports[1] = b.loop->run(steps); }); });
  errors[0] = error_of([&] { reports[0] = a.loop->run(steps); });
  other.join();
  return errors;
}

// Calls f with each pair of devices: both looping by themselves, one or both driven by the host.
template <class F>
void for_pairs(F&& f) {
  for (const char* name : {"ref", "npu"}) {
    DecliningBackend modest(name, "sunk_loop");
    for (const std::pair<Device, Device>& on :
         {std::pair{device(name), device("cpu")}, std::pair{device(name), modest.device()},
          std::pair{modest.device(), modest.device()}}) {
      CAPTURE(on.first.name());
      CAPTURE(on.second.name());
      f(on.first, on.second, make_local_agreements(2));
    }
  }
}

TEST_CASE("agreement: the strongest vote counts for all and rounds follow each other") {
  const auto parties = make_local_agreements(3);
  const std::vector<std::array<LoopVote, 3>> rounds = {
      {LoopVote::kGoOn, LoopVote::kGoOn, LoopVote::kGoOn},
      {LoopVote::kGoOn, LoopVote::kEndOfData, LoopVote::kStopWhen},
      {LoopVote::kStepsDone, LoopVote::kGoOn, LoopVote::kGoOn},
      {LoopVote::kStop, LoopVote::kEndOfData, LoopVote::kStop}};
  const std::vector<LoopVote> expected = {LoopVote::kGoOn, LoopVote::kEndOfData,
                                          LoopVote::kStepsDone, LoopVote::kStop};
  std::array<std::vector<LoopVote>, 3> heard;
  std::vector<std::thread> threads;
  for (size_t party = 0; party < 3; ++party) {
    threads.emplace_back([&, party] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        for (const auto& votes : rounds)
          heard[party].push_back(parties[party]->agree(votes[party]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& votes : heard) {
    for (size_t i = 0; i < votes.size(); ++i) CHECK(votes[i] == expected[i % expected.size()]);
  }
  CHECK(!parties[0]->broken());
}

TEST_CASE("agreement: a failure is heard once by each party and a party that is gone for ever") {
  auto parties = make_local_agreements(2);
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::thread other([&] {
      CHECK(parties[1]->agree(LoopVote::kFailed) == LoopVote::kFailed);
      CHECK(parties[1]->agree(LoopVote::kStop) == LoopVote::kStop);  // of the next launch
    });
    CHECK(parties[0]->agree(LoopVote::kGoOn) == LoopVote::kFailed);
    CHECK(parties[0]->agree(LoopVote::kGoOn) == LoopVote::kStop);
    other.join();
    CHECK(!parties[0]->broken());
  }
  std::thread waits([&] { CHECK(parties[0]->agree(LoopVote::kGoOn) == LoopVote::kFailed); });
  parties[1].reset();
  waits.join();
  CHECK(parties[0]->broken());
  CHECK(parties[0]->agree(LoopVote::kGoOn) == LoopVote::kFailed);
}

TEST_CASE("agreement: two loops leave behind the same step where the data of one end") {
  for_pairs([](const Device& on, const Device& there, const Agreements& agreements) {
    Party a(on, agreements[0], 1000), b(there, agreements[1], 5);
    std::array<LoopReport, 2> reports;
    CHECK(run_both(a, b, 3, reports) == std::array<std::string, 2>{});
    CHECK(reports[0].steps == 3);
    CHECK(!reports[0].left_with_others);
    CHECK(run_both(a, b, 100, reports) == std::array<std::string, 2>{});
    CHECK(reports[0].steps == 2);
    CHECK(reports[1].steps == 2);
    CHECK(reports[1].end_of_data);
    CHECK(!reports[1].left_with_others);
    CHECK(!reports[0].end_of_data);
    CHECK(reports[0].left_with_others);
    CHECK(a.session.step() == 5);
    CHECK(b.session.step() == 5);
    // The element that the first one had taken for the sixth step is not lost.
    CHECK(a.loop->queue()->counters().dequeued == 5);
    CHECK(reports[0].cursor.position == 5);
  });
}

TEST_CASE("agreement: a stop and a stop_when of one party are both parties'") {
  for_pairs([](const Device& on, const Device& there, const Agreements& agreements) {
    Party a(on, agreements[0], 1 << 30), b(there, agreements[1], 1 << 30, -1, 7);
    std::array<LoopReport, 2> reports;
    CHECK(run_both(a, b, 1000, reports) == std::array<std::string, 2>{});
    for (const LoopReport& report : reports) CHECK(report.steps == 7);
    CHECK(reports[1].stop_step == 7);
    CHECK(!reports[0].stopped);
    CHECK(reports[0].left_with_others);

    std::thread stopper([&] {
      while (a.loop->queue()->counters().released < 12) std::this_thread::yield();
      a.loop->request_stop();
    });
    CHECK(run_both(a, b, int64_t{1} << 40, reports) == std::array<std::string, 2>{});
    stopper.join();
    CHECK(reports[0].cancelled);
    CHECK(!reports[1].cancelled);
    CHECK(reports[1].left_with_others);
    CHECK(reports[0].steps == reports[1].steps);
    CHECK(reports[0].steps >= 5);
    CHECK(a.session.step() == b.session.step());
    // And on again together.
    CHECK(run_both(a, b, 4, reports) == std::array<std::string, 2>{});
    CHECK(reports[0].steps == 4);
    CHECK(reports[1].steps == 4);
  });
}

TEST_CASE("agreement: an error of one party ends the other one's loop with an error") {
  for_pairs([](const Device& on, const Device& there, const Agreements& agreements) {
    Party a(on, agreements[0], 1000), b(there, agreements[1], 1000, 4);
    std::array<LoopReport, 2> reports;
    const auto errors = run_both(a, b, 100, reports);
    CHECK(contains(errors[1], "-1"));
    CHECK(contains(errors[0], "another party of it failed"));
    CHECK(b.session.step() == 4);
    CHECK(a.session.step() == 5);  // it had done the step by then
    CHECK(a.session.read(a.count).item<float>() == 5);
    CHECK(run_both(a, b, 2, reports) == std::array<std::string, 2>{});
    CHECK(a.session.step() == 7);
    CHECK(b.session.step() == 6);
  });
}

TEST_CASE("agreement: a party that waits for data hears of another one's failure") {
  for_pairs([](const Device& on, const Device& there, const Agreements& agreements) {
    std::atomic<bool> give{false};
    const auto fed_by = [](Party& party, const Device& device, NumberFeeder::Fill fill,
                           const std::shared_ptr<LoopAgreement>& agreement) {
      const auto feeder = std::make_shared<NumberFeeder>(
          device, ElementSpec{{{"number", {i64, {}}}}}, std::move(fill));
      feeder->open({});
      return party.session.sink({.update = party.update,
                                 .fetches = {party.count},
                                 .source = feeder,
                                 .agreement = agreement});
    };
    Party a(on, nullptr, 0), b(there, nullptr, 0);
    Loop waiting = fed_by(
        a, on,
        [&give](int64_t, const std::vector<void*>& fields) {
          while (!give) std::this_thread::yield();
          *static_cast<int64_t*>(fields[0]) = 0;
          return true;
        },
        agreements[0]);
    Loop failing = fed_by(
        b, there, [](int64_t, const std::vector<void*>&) -> bool { throw Error("no such file"); },
        agreements[1]);
    std::thread other([&] { CHECK(contains(error_of([&] { failing.run(3); }), "no such file")); });
    const std::string error = error_of([&] { waiting.run(3); });
    give = true;
    other.join();
    CHECK(contains(error, "another party of it failed"));
    CHECK(a.session.step() == 0);
  });
}

TEST_CASE("agreement: a party that cannot begin does not wait for the others a second time") {
  const auto agreements = make_local_agreements(2);
  Party a(device("cpu"), agreements[0], 10), b(device("cpu"), agreements[1], 10);
  CHECK(contains(error_of([&] { a.loop->run(0); }), "at least 1"));
  CHECK(contains(error_of([&] { a.loop->run(0); }), "at least 1"));
  CHECK(contains(error_of([&] { b.loop->run(1); }), "another party of it failed"));
  CHECK(contains(error_of([&] { b.loop->run(1); }), "another party of it failed"));
}

TEST_CASE("agreement: an element that waits for a party that fails is the next one again") {
  for_pairs([](const Device& on, const Device& there, const Agreements& agreements) {
    Party a(on, agreements[0], 100);
    Party b(there, nullptr, 0);
    const auto fails = std::make_shared<NumberFeeder>(
        there, ElementSpec{{{"number", {i64, {}}}}},
        [](int64_t, const std::vector<void*>&) -> bool { throw Error("no such file"); });
    for (int round = 0; round < 5; ++round) {
      fails->open({});
      Loop failing = b.session.sink(
          {.update = b.update, .fetches = {b.count}, .source = fails, .agreement = agreements[1]});
      std::thread other([&] { CHECK(!error_of([&] { failing.run(3); }).empty()); });
      CHECK(!error_of([&] { a.loop->run(3); }).empty());
      other.join();
      fails->stop();
    }
    // Alone, A now takes every element from the first on.
    Loop alone = a.session.sink({.update = a.update, .fetches = {a.count}, .source = a.feeder});
    CHECK(alone.run(3).cursor.position == 3);
    CHECK(a.session.step() == 3);
  });
}

namespace {

struct Fit {
  int64_t steps = 20;
  int64_t loop_size = 5;
  int64_t hook_stops_at = -1;
  int64_t hook_throws_at = -1;
  int64_t cancel_in = -1;  // the step in whose callback the trainer is cancelled
  int64_t callback_throws_at = -1;
};

// Both fit at the same time; what each reports, or threw.
struct Fits {
  std::array<TrainReport, 2> reports;
  std::array<std::string, 2> errors;
};

Fits fit_both(const Fit& first, const Fit& second, float stop_when = -1) {
  Fits fits;
  const auto agreements = make_local_agreements(2);
  const auto fit = [&](size_t i, const Fit& f) {
    Party party(device("cpu"), nullptr, 1000);
    Trainer trainer(party.session, {.update = party.update,
                                    .fetches = {party.count},
                                    .source = party.feeder,
                                    .stop_when = equal(party.next, i == 1 ? stop_when : -1),
                                    .agreement = agreements[i]});
    TrainOptions options{.steps = f.steps, .loop_size = f.loop_size};
    options.every_n_steps = {{1, [&f](int64_t at) {
                                if (at == f.hook_throws_at) throw Error("a hook failed");
                                return at == f.hook_stops_at ? LoopControl::kStop
                                                             : LoopControl::kContinue;
                              }}};
    options.on_step = [&](int64_t at, std::span<const double>, uint32_t) {
      if (at == f.cancel_in) trainer.cancel();
      if (at == f.callback_throws_at) throw Error("a callback failed");
    };
    fits.errors[i] = error_of([&] { fits.reports[i] = trainer.fit(options); });
  };
  std::thread other([&] { fit(1, second); });
  fit(0, first);
  other.join();
  return fits;
}

}  // namespace

TEST_CASE("agreement: trainers end together whoever of them wants to") {
  const auto check_left = [](const Fits& fits, int64_t steps) {
    CHECK(fits.errors == std::array<std::string, 2>{});
    CHECK(fits.reports[0].steps == steps);
    CHECK(fits.reports[1].steps == steps);
    CHECK(fits.reports[0].left_with_others);
    CHECK(!fits.reports[1].left_with_others);
  };
  check_left(fit_both({}, {.hook_stops_at = 10}), 10);
  check_left(fit_both({}, {.steps = 10}), 10);
  // In the last step of a launch and in the midst of one.
  check_left(fit_both({}, {}, 10), 10);
  check_left(fit_both({}, {}, 8), 8);
  for (const int64_t step : {int64_t{10}, int64_t{8}}) {
    const Fits fits = fit_both({}, {.cancel_in = step});
    CHECK(fits.errors == std::array<std::string, 2>{});
    CHECK(fits.reports[1].cancelled);
    CHECK(fits.reports[0].left_with_others);
    CHECK(fits.reports[0].steps == fits.reports[1].steps);
  }
}

TEST_CASE("agreement: trainers of unequal loop sizes do all of their steps") {
  const Fits fits = fit_both({.loop_size = 7}, {.loop_size = 3});
  CHECK(fits.errors == std::array<std::string, 2>{});
  for (const TrainReport& report : fits.reports) {
    CHECK(report.steps == 20);
    CHECK(!report.left_with_others);
  }
}

TEST_CASE("agreement: an exception of one trainer's hook ends the other's fit") {
  const Fits fits = fit_both({}, {.hook_throws_at = 10});
  CHECK(contains(fits.errors[1], "a hook failed"));
  CHECK(contains(fits.errors[0], "another party of it failed"));
}

TEST_CASE("agreement: whatever one trainer throws ends the other's fit") {
  // In the last step of a launch, in the midst of one, and before the first.
  for (const int64_t step : {int64_t{10}, int64_t{8}}) {
    const Fits fits = fit_both({}, {.callback_throws_at = step});
    CHECK(contains(fits.errors[1], "a callback failed"));
    const bool told = !fits.errors[0].empty() || fits.reports[0].left_with_others;
    CHECK(told);
  }
  const Fits fits = fit_both({}, {.loop_size = 0});
  CHECK(contains(fits.errors[1], "loop_size"));
  CHECK(contains(fits.errors[0], "another party of it failed"));
}

TEST_CASE("agreement: a loop that cannot begin tells the others") {
  const auto agreements = make_local_agreements(2);
  Party a(device("cpu"), agreements[0], 10), b(device("cpu"), agreements[1], 10);
  std::thread other([&] { CHECK(contains(error_of([&] { b.loop->run(2); }), "another party")); });
  CHECK(contains(error_of([&] { a.loop->run(0); }), "at least 1"));
  other.join();
  CHECK(a.loop->failed_report().steps == 0);
}

TEST_CASE("agreement: a party that fails twice while the others run is heard of twice") {
  const auto parties = make_local_agreements(2);
  CHECK(parties[1]->agree(LoopVote::kFailed) == LoopVote::kFailed);
  CHECK(parties[1]->agree(LoopVote::kFailed) == LoopVote::kFailed);
  CHECK(!parties[1]->broken());  // of its own failure it has heard
  CHECK(parties[0]->broken());
  CHECK(parties[0]->agree(LoopVote::kGoOn) == LoopVote::kFailed);
  CHECK(parties[0]->agree(LoopVote::kGoOn) == LoopVote::kFailed);
  CHECK(!parties[0]->broken());
  std::thread other([&] { CHECK(parties[1]->agree(LoopVote::kGoOn) == LoopVote::kStop); });
  CHECK(parties[0]->agree(LoopVote::kStop) == LoopVote::kStop);
  other.join();
}

// A library whose neg waits until it is told to give up, and whose other ops copy.
class WaitingKernel final : public Kernel {
 public:
  explicit WaitingKernel(std::atomic<bool>* waiting) : waiting_(waiting) {}
  void run(void* const*, int, int) const override {}
  bool waits() const override { return true; }
  bool run_waiting(void* const*, const AbortContext& abort) const override {
    waiting_->store(true);
    while (!abort.aborted()) std::this_thread::yield();
    return false;
  }

 private:
  std::atomic<bool>* waiting_;
};

class WaitingLibrary final : public KernelLibrary {
 public:
  explicit WaitingLibrary(std::atomic<bool>* waiting) : waiting_(waiting) {}
  Support supports(const Node&) const override { return {true, ""}; }
  KernelPlan plan(const Node& node, const StateLayouts&) const override {
    if (node.op_name() != "neg") return plan_copy(node.type().shape.num_bytes(node.type().dtype));
    KernelPlan plan;
    plan.kernel = std::make_unique<WaitingKernel>(waiting_);
    return plan;
  }
  KernelPlan plan_copy(size_t bytes) const override {
    KernelPlan plan;
    plan.kernel = make_copy_kernel(bytes);
    return plan;
  }
  int64_t control_ns(TaskKind) const override { return 0; }

 private:
  std::atomic<bool>* waiting_;
};

TEST_CASE("a kernel that waits for something outside is ended by a stop and gives its step up") {
  for (const bool strict : {false, true}) {
    std::atomic<bool> waiting{false}, stop{false};
    Graph g;
    g.set_outputs({abs(neg(g.input("x", f32, {2})))});
    HostLaunch launch(lower(g, WaitingLibrary(&waiting)), strict);
    launch.args.stop = &stop;
    std::thread stopper([&] {
      while (!waiting) std::this_thread::yield();
      stop = true;
    });
    launch.run();
    stopper.join();
    CHECK(launch.args.report.step_given_up);
    CHECK(launch.args.report.steps == 0);
  }
}

TEST_CASE("a kernel that waits for other parties is ended by their failure alone") {
  const auto agreements = make_local_agreements(2);
  std::atomic<bool> waiting{false}, stop{true};
  Graph g;
  g.set_outputs({neg(g.input("x", f32, {2}))});
  HostLaunch launch(lower(g, WaitingLibrary(&waiting)), false);
  launch.args.stop = &stop;  // to be agreed behind the step
  launch.args.agreement = agreements[0].get();
  std::thread other([&] {
    while (!waiting) std::this_thread::yield();
    agreements[1]->agree(LoopVote::kFailed);
  });
  const std::string error = error_of([&] { launch.run(); });
  other.join();
  CHECK(contains(error, "another party of it failed"));
  CHECK(contains(error, "neg"));
}

}  // namespace

TEST_SUITE_END();
