// Ranks leave a loop together: a step tells with its last sum that all go on, and where one is not
// sure they vote. Ranks are threads; steps and votes are counted by hand.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/group/group_agreement.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/all_reduce.h"
#include "keel/ops/random.h"

#include "ranks_for_tests.h"
#include "runtime_for_tests.h"
#include "support/built_in_backends.h"
#include "support/declining_backend.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::DecliningBackend;
using keel_test::kBuiltInBackends;

constexpr int64_t kDepth = 32;

// A rank's training: w counts the sums of its steps, one more on each rank in each step.
struct Counting {
  explicit Counting(const std::shared_ptr<Group>& ranks) : group(ranks) {
    total = all_reduce({one + w * 0.0f}, group, {.bucket = 1, .buckets = 2})[0];
    update.assignments.push_back({w, w + total});
  }
  // Elements are no part of the values, but each step takes one.
  void take_elements() {
    x = graph.input("x", f32, {1});
    fetches = {sum(x)};
  }
  LoopReport run(const std::string& backend, int64_t steps, LoopSource source = {}) {
    Session session(graph, device(backend));
    Loop loop = session.sink({.update = update,
                              .fetches = fetches,
                              .source = std::move(source),
                              .stop_when = stop_when,
                              .agreement = make_group_agreement(group)});
    group->times().record(0, std::numeric_limits<int64_t>::max(), 1000);
    const LoopReport report = loop.run(steps);
    CHECK(session.read(w).data<float>()[0] == static_cast<float>(report.steps * group->size()));
    return report;
  }
  int64_t votes() const {
    const std::vector<CollectiveSpan>& spans = group->times().recorded();
    return std::count_if(spans.begin(), spans.end(), [](const CollectiveSpan& span) {
      return std::string_view(span.name.data()) == "votes";
    });
  }

  std::shared_ptr<Group> group;
  Graph graph;
  Value w = graph.state("w", zeros({1}));
  Value one = graph.constant(Tensor::of<float>({1}, {1}));
  Value total;
  Value x, stop_when;
  Values fetches;
  Update update;
};

// A queue in which so many elements wait.
std::shared_ptr<DeviceQueue> filled_queue(const std::string& backend, int64_t elements) {
  auto queue = std::make_shared<DeviceQueue>(device(backend), ElementSpec{{{"x", {f32, {1}}}}},
                                             DeviceQueueOptions{.depth = kDepth});
  for (int64_t i = 0; i < elements; ++i) {
    *static_cast<float*>(queue->reserve()->fields[0]) = static_cast<float>(i);
    queue->commit({0, i + 1, 0});
  }
  return queue;
}

}  // namespace

TEST_CASE("rank votes: a launch has one before its first step and one behind its last") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    none_failed(run_ranks(3, [&](const std::shared_ptr<Group>& group) {
      Counting model(group);
      CHECK(model.run(backend, 20).steps == 20);
      CHECK(model.votes() == 2);
      CHECK(group->step() == 20);
    }));
    none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Counting model(group);
      model.take_elements();
      CHECK(model.run(backend, 20, filled_queue(backend, 20)).steps == 20);
      CHECK(model.votes() == 2);
    }));
  }
}

TEST_CASE("rank votes: the group is at the step that is under way without a trainer") {
  // Hears of each op the number of its step and the group's.
  struct Listener final : OpObserver {
    explicit Listener(const Group& of) : group(of) {}
    void before(const OpRun& op) override { heard.emplace_back(op.step, group.step()); }
    void after(const OpRun&, uint32_t) override {}
    const Group& group;
    std::vector<std::pair<int64_t, int64_t>> heard;
  };
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    DecliningBackend modest(backend, "sunk_loop");
    for (const Device& on : {device(backend), modest.device()}) {
      none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Counting model(group);
        Session session(model.graph, on);
        Loop loop =
            session.sink({.update = model.update, .agreement = make_group_agreement(group)});
        CHECK(group->step() == 0);
        Listener listener(*group);
        for (const int64_t last : {20, 40}) {
          loop.run(20, {.observer = &listener});
          CHECK(group->step() == last);
        }
        CHECK(listener.heard.front().first == 1);
        CHECK(listener.heard.back().first == 40);
        for (const auto& [step, of_group] : listener.heard) CHECK(step == of_group);
      }));
    }
  }
}

TEST_CASE("rank votes: the end of a rank's data ends the loop of all behind one step") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      const bool ends = group->rank() == 1;
      Counting model(group);
      model.take_elements();
      const auto queue = filled_queue(backend, ends ? 6 : 20);
      if (ends) queue->finish();
      const LoopReport report = model.run(backend, 20, queue);
      CHECK(report.steps == 6);
      CHECK(report.end_of_data == ends);
      CHECK(report.left_with_others == !ends);
      CHECK(report.verdict == LoopVote::kEndOfData);
      CHECK(model.votes() == 2);
      CHECK(queue->counters().dequeued == 6);
    }));
  }
}

TEST_CASE("rank votes: fewer steps and other loop sizes of one rank count for all") {
  none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Counting model(group);
    const LoopReport report = model.run("cpu", group->rank() == 0 ? 9 : 200);
    CHECK(report.steps == 9);
    CHECK(report.verdict == LoopVote::kStepsDone);
  }));
}

TEST_CASE("rank votes: data that fails on one rank ends all with an error behind one step") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    const auto errors = on_local_ranks(2, [&](const std::shared_ptr<Group>& group) {
      const bool fails = group->rank() == 1;
      Counting model(group);
      model.take_elements();
      const auto queue = filled_queue(backend, fails ? 6 : 20);
      if (fails) queue->fail(Error("row 6 is torn"));
      model.run(backend, 20, queue);
    });
    CHECK_MESSAGE(contains(errors[1], "row 6 is torn"), errors[1]);
    CHECK_MESSAGE(!errors[0].empty(), errors[0]);
  }
}

TEST_CASE("rank votes: an element that comes late is waited for") {
  none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Counting model(group);
    model.take_elements();
    const auto queue = filled_queue("cpu", 5);
    const bool late = group->rank() == 1;
    // The other rank has as many as can wait, this one's come when it has none left.
    std::thread producer([&] {
      for (int64_t i = 5; i < 40; ++i) {
        if (late) wait_until([&] { return queue->counters().dequeued == i; });
        DeviceQueue::Slot* slot = queue->reserve();
        *static_cast<float*>(slot->fields[0]) = 1;
        queue->commit({0, i + 1, 0});
      }
    });
    const LoopReport report = model.run("cpu", 40, queue);
    producer.join();
    CHECK(report.steps == 40);
    // Rank 1 is seldom sure from the fifth step on: an element may come before the step's sum.
    CHECK(model.votes() > 2);
    CHECK(model.votes() <= 37);
  }));
}

TEST_CASE("rank votes: a stop that one rank is asked for ends all behind one step") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    std::vector<int64_t> steps(2);
    none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Counting model(group);
      Session session(model.graph, device(backend));
      Loop loop = session.sink({.update = model.update,
                                .fetches = {sum(model.total)},
                                .agreement = make_group_agreement(group)});
      const auto stop = [&](int64_t step, std::span<const double>) {
        return group->rank() == 1 && step == 13 ? LoopControl::kStop : LoopControl::kContinue;
      };
      const LoopReport report = loop.run(1000000, {.on_step = stop});
      CHECK(report.steps >= 13);
      CHECK(report.steps < 1000000);
      CHECK(report.verdict == LoopVote::kStop);
      steps[static_cast<size_t>(group->rank())] = report.steps;
    }));
    CHECK(steps[0] == steps[1]);
  }
}

TEST_CASE("rank votes: a stop value that sums lead to is voted for behind each step") {
  for (const std::string& backend : kBuiltInBackends) {
    for (const bool fused : {true, false}) {
      CAPTURE(backend);
      CAPTURE(fused);
      none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Counting model(group);
        const Value far = all_reduce({model.w}, group, {.bucket = 0, .buckets = 2})[0];
        model.stop_when = greater(sum(far * 2.0f + 1.0f), 40.0f);
        model.fetches = {model.stop_when};
        Session session(
            model.graph, device(backend),
            {.disabled_passes = fused ? std::vector<std::string>{}
                                      : std::vector<std::string>{"fuse", "recompute_cheap"}});
        Loop loop = session.sink({.update = model.update,
                                  .fetches = model.fetches,
                                  .stop_when = model.stop_when,
                                  .agreement = make_group_agreement(group)});
        group->times().record(0, 1000, 1000);
        const LoopReport report = loop.run(1000);
        // In step k, from 0, w is 2 k on each rank: 8 k + 1 > 40 in the sixth.
        CHECK(report.steps == 6);
        CHECK(report.verdict == LoopVote::kStopWhen);
        CHECK(model.votes() == 7);
      }));
    }
  }
}

TEST_CASE("rank votes: a stop value of one rank's own is voted for behind each step") {
  for (const std::string& backend : kBuiltInBackends) {
    CAPTURE(backend);
    none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Counting model(group);
      model.stop_when = greater(sum(model.w), group->rank() == 1 ? 9.0f : 900.0f);
      const LoopReport report = model.run(backend, 1000);
      // In step k, from 0, w is 2 k.
      CHECK(report.steps == 6);
      CHECK(report.stopped == (group->rank() == 1));
      CHECK(report.verdict == LoopVote::kStopWhen);
      CHECK(model.votes() == 7);
    }));
  }
}

TEST_CASE(
    "rank votes: ranks whose sums stop them at other thresholds or not at all leave together") {
  for (const std::string& backend : kBuiltInBackends) {
    for (const bool one_has_none : {false, true}) {
      CAPTURE(backend);
      CAPTURE(one_has_none);
      none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
        Counting model(group);
        const bool first = group->rank() == 1;
        const Value far = all_reduce({model.w}, group, {.bucket = 0, .buckets = 2})[0];
        if (first || !one_has_none) model.stop_when = greater(sum(far), first ? 9.0f : 900.0f);
        if (one_has_none) model.fetches = {sum(far)};
        const LoopReport report = model.run(backend, 1000);
        // In step k, from 0, w is 2 k on each rank: 4 k > 9 in the fourth.
        CHECK(report.steps == 4);
        CHECK(report.stopped == first);
        CHECK(report.verdict == LoopVote::kStopWhen);
      }));
    }
  }
}

TEST_CASE("rank votes: a last sum of another group says nothing of the ranks of the loop") {
  const auto others = make_local_groups(2);
  none_failed(run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Counting model(group);
    const auto& other = others[static_cast<size_t>(group->rank())];
    model.fetches = {sum(all_reduce({model.total}, other)[0])};
    const LoopReport report = model.run("cpu", 10);
    CHECK(report.steps == 10);
    CHECK(model.votes() == 11);
  }));
}

TEST_SUITE_END();
