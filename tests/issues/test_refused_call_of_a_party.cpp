// A callback that used its own session was refused, as it should be, but in doing so it voted that
// its party had failed, while that party's loop went on: the loop waited for the others for ever.
// Likewise a second thread's call, and a Trainer's fit inside its own fit.
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "keel/core/group/agreement.h"
#include "keel/graph/runtime/loop_size.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/gather.h"
#include "keel/ops/ops.h"

#include "support/declining_backend.h"
#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::DecliningBackend;

constexpr int64_t kPartySteps = 30;

// Counts; what it computes besides takes longer than the other party's vote.
struct Party {
  Party(const Device& on, std::shared_ptr<LoopAgreement> party, int64_t size)
      : agreement(std::move(party)), session(graph, on) {
    const Value w = graph.state("w", zeros({size, size}));
    fetch = next + mean(matmul(matmul(w, w), w));
  }
  Loop loop() {
    return session.sink({.update = update, .fetches = {fetch}, .agreement = agreement});
  }
  std::shared_ptr<LoopAgreement> agreement;
  Graph graph;
  Value count = graph.state("count", from_tensor(Tensor::scalar<float>(0)));
  Value next = count + 1.0f;
  Value fetch;
  Update update{{{count, next}}};
  Session session;
};

// Both parties run all of their steps although one's callback makes `call` in its third step.
void check_unhurt(const Device& on, const std::string& expected,
                  const std::function<void(Party&, Loop&)>& call) {
  const auto agreements = make_local_agreements(2);
  Party slow(on, agreements[0], 200), fast(device("cpu"), agreements[1], 1);
  Loop slow_loop = slow.loop(), fast_loop = fast.loop();
  std::array<std::string, 2> errors;
  std::array<LoopReport, 2> reports;
  std::thread other(
      [&] { errors[1] = error_of([&] { reports[1] = fast_loop.run(kPartySteps); }); });
  std::string refusal;
  errors[0] = error_of([&] {
    reports[0] = slow_loop.run(kPartySteps, {.on_step = [&](int64_t step, std::span<const double>) {
                                 if (step == 3) refusal = error_of([&] { call(slow, slow_loop); });
                               }});
  });
  other.join();
  CHECK(contains(refusal, expected));
  CHECK(errors == std::array<std::string, 2>{});
  CHECK(reports[0].steps == kPartySteps);
  CHECK(reports[1].steps == kPartySteps);
  // And the next launch is in step as well.
  std::thread again([&] { reports[1] = fast_loop.run(2); });
  reports[0] = slow_loop.run(2);
  again.join();
  CHECK(reports[0].steps == 2);
  CHECK(slow.session.step() == kPartySteps + 2);
  CHECK(fast.session.step() == kPartySteps + 2);
}

void run_once(Party&, Loop& loop) { loop.run(1); }

}  // namespace

TEST_CASE("a refused call of a party votes nothing: its own loop in a callback") {
  check_unhurt(device("cpu"), "a loop of this session is running", run_once);
  check_unhurt(device("npu"), "a loop of this session is running", run_once);
}

TEST_CASE("a refused call of a party votes nothing: a loop that the host drives") {
  DecliningBackend modest("cpu", "sunk_loop");
  check_unhurt(modest.device(), "a loop of this session is running", run_once);
}

TEST_CASE("a refused call of a party votes nothing: a number of steps that cannot be") {
  check_unhurt(device("cpu"), "a loop of this session is running",
               [](Party&, Loop& loop) { loop.run(0); });
}

TEST_CASE("a refused call of a party votes nothing: another loop of the same party") {
  const auto agreements = make_local_agreements(2);
  Party slow(device("cpu"), agreements[0], 200), fast(device("cpu"), agreements[1], 1);
  Loop slow_loop = slow.loop(), second = slow.loop(), fast_loop = fast.loop();
  std::string refusal;
  std::thread other([&] { CHECK(fast_loop.run(kPartySteps).steps == kPartySteps); });
  const LoopReport report =
      slow_loop.run(kPartySteps, {.on_step = [&](int64_t step, std::span<const double>) {
                      if (step == 3) refusal = error_of([&] { second.run(1); });
                    }});
  other.join();
  CHECK(report.steps == kPartySteps);
  CHECK(contains(refusal, "a loop of this session is running"));
}

TEST_CASE("a refused call of a party votes nothing: another thread") {
  check_unhurt(device("cpu"), "another thread is in Loop::run", [](Party&, Loop& loop) {
    std::string error;
    std::thread([&] { error = error_of([&] { loop.run(1); }); }).join();
    throw Error(error);
  });
}

TEST_CASE("a refused call of a party is told to the others where no loop of its own runs") {
  const auto agreements = make_local_agreements(2);
  Party a(device("cpu"), agreements[0], 1), b(device("cpu"), agreements[1], 1);
  Loop party = a.loop(), other_party = b.loop();
  Loop alone = a.session.sink({.update = a.update, .fetches = {a.fetch}});
  std::string refusal, heard;
  std::thread other([&] { heard = error_of([&] { other_party.run(5); }); });
  alone.run(3, {.on_step = [&](int64_t step, std::span<const double>) {
              if (step == 2) refusal = error_of([&] { party.run(5); });
            }});
  other.join();
  CHECK(contains(refusal, "a loop of this session is running"));
  CHECK(contains(heard, "another party of it failed"));
}

TEST_CASE("a party whose NPU_LOOP_SIZE is no number tells the others") {
  const auto agreements = make_local_agreements(2);
  Party a(device("cpu"), agreements[0], 1), b(device("cpu"), agreements[1], 1);
  Loop party = a.loop(), other_party = b.loop();
  setenv(kLoopSizeVariable, "many", 1);
  const std::string refusal = error_of([&] { party.run(); });
  unsetenv(kLoopSizeVariable);
  CHECK(contains(refusal, "NPU_LOOP_SIZE"));
  CHECK(contains(error_of([&] { other_party.run(5); }), "another party of it failed"));
}

namespace {

// A trainer that is a party.
struct PartyTrainer {
  explicit PartyTrainer(std::shared_ptr<LoopAgreement> party)
      : agreement(std::move(party)), session(graph, device("cpu")) {
    feeder = std::make_shared<NumberFeeder>(
        device("cpu"), ElementSpec{{{"number", {i64, {}}}}},
        [](int64_t i, const std::vector<void*>& fields) {
          *static_cast<int64_t*>(fields[0]) = i % 3;
          return i < 1000;
        },
        DeviceQueueOptions{.depth = 2});
    feeder->open({});
    trainer = std::make_unique<Trainer>(session, step());
  }
  SinkOptions step() const {
    return {
        .update = {{{count, next}}}, .fetches = {count}, .source = feeder, .agreement = agreement};
  }
  std::shared_ptr<LoopAgreement> agreement;
  Graph graph;
  Value number = graph.input("number", i64, {});
  Value count = graph.state("count", from_tensor(Tensor::scalar<float>(0)));
  Value table = graph.constant(Tensor::of<float>({3}, {1, 1, 1}));
  Value next = count + gather(table, number);
  Session session;
  std::shared_ptr<NumberFeeder> feeder;
  std::unique_ptr<Trainer> trainer;
};

// Both fit for 20 steps although one's step callback, or its hook, makes `call` at step 7.
void check_fits_unhurt(bool in_hook, const std::string& expected,
                       const std::function<void(PartyTrainer&)>& call) {
  const auto agreements = make_local_agreements(2);
  PartyTrainer a(agreements[0]), b(agreements[1]);
  std::array<std::string, 2> errors;
  std::array<TrainReport, 2> reports;
  std::string refusal;
  TrainOptions options{.steps = 20, .loop_size = 5};
  const TrainOptions plain = options;
  const auto at_seven = [&](int64_t step) {
    if (step == 7) refusal = error_of([&] { call(a); });
  };
  if (in_hook)
    options.every_n_steps = {{1, at_seven}};
  else
    options.on_step = [&](int64_t step, std::span<const double>) { at_seven(step); };
  std::thread other([&] { errors[1] = error_of([&] { reports[1] = b.trainer->fit(plain); }); });
  errors[0] = error_of([&] { reports[0] = a.trainer->fit(options); });
  other.join();
  CHECK(contains(refusal, expected));
  CHECK(errors == std::array<std::string, 2>{});
  CHECK(reports[0].steps == 20);
  CHECK(reports[1].steps == 20);
  CHECK(a.trainer->failed_report().steps == 0);
}

}  // namespace

TEST_CASE("a refused fit votes nothing and leaves the fit under way as it was") {
  const char* const under_way = "a fit() of this trainer is under way";
  for (const bool in_hook : {false, true}) {
    check_fits_unhurt(in_hook, under_way, [](PartyTrainer& a) { a.trainer->fit({.steps = 1}); });
    check_fits_unhurt(in_hook, under_way, [](PartyTrainer& a) { a.trainer->fit({.steps = -1}); });
  }
  check_fits_unhurt(false, "a loop of this session is running",
                    [](PartyTrainer& a) { a.session.updates_applied(); });
}

TEST_CASE("a fit of another trainer in a step callback votes nothing") {
  const auto agreements = make_local_agreements(2);
  PartyTrainer a(agreements[0]), b(agreements[1]);
  Trainer second(a.session, a.step());
  std::string refusal;
  std::thread other([&] { CHECK(b.trainer->fit({.steps = 20, .loop_size = 20}).steps == 20); });
  TrainOptions options{.steps = 20, .loop_size = 20};
  options.on_step = [&](int64_t step, std::span<const double>) {
    if (step == 7) refusal = error_of([&] { second.fit({.steps = 1}); });
  };
  CHECK(a.trainer->fit(options).steps == 20);
  other.join();
  CHECK(contains(refusal, "a loop of this session is running"));
}

TEST_SUITE_END();
