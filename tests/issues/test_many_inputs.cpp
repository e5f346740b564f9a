// A run with 50,000 inputs took 34 s, since each feed was looked for among all others: counts that
// are linear pass in a second or two, and quadratic ones run into the time limit of the test.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/queue/device_queue.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

constexpr int kManyInputs = 50'000;

}  // namespace

TEST_SUITE_BEGIN("session");

TEST_CASE("a run feeds and fetches 50000 values") {
  Graph g;
  Values inputs;
  Feeds feeds;
  for (int i = 0; i < kManyInputs; ++i) {
    inputs.push_back(g.input("x" + std::to_string(i), f32, {}));
  }
  // In no order of the inputs.
  for (int i = 0; i < kManyInputs; ++i) {
    const int which = static_cast<int>((int64_t{7919} * i) % kManyInputs);
    feeds.emplace_back(inputs[static_cast<size_t>(which)],
                       Tensor::scalar(static_cast<float>(which)));
  }
  Session session(g, device("cpu"));
  for (int run = 0; run < 2; ++run) {
    const auto results = session.run(inputs, feeds);
    REQUIRE(results.size() == inputs.size());
    int wrong = 0;
    for (int i = 0; i < kManyInputs; ++i) {
      if (results[static_cast<size_t>(i)].item<float>() != static_cast<float>(i)) ++wrong;
    }
    CHECK(wrong == 0);
  }
  CHECK(session.compiles() == 1);
  CHECK(session.spec(inputs).element.fields.size() == inputs.size());

  feeds.push_back(feeds.front());
  CHECK(keel_test::contains(keel_test::error_of([&] { session.run(inputs, feeds); }),
                            "got two tensors; feed each input once"));
  feeds.resize(feeds.size() - 2);
  const std::string missing = keel_test::error_of([&] { session.run(inputs, feeds); });
  CHECK(keel_test::contains(missing, "feed this input"));
}

TEST_CASE("a sunk step takes 20000 fields and gives 20000 fetches") {
  constexpr int kFields = 20'000;
  Graph g;
  Values inputs;
  for (int i = 0; i < kFields; ++i) inputs.push_back(g.input("x" + std::to_string(i), f32, {}));
  const Value w = g.state("w", zeros({}));
  Session session(g, device("ref"));
  FeedSpec spec = session.spec(inputs);
  std::reverse(spec.element.fields.begin(), spec.element.fields.end());
  const auto queue =
      std::make_shared<DeviceQueue>(spec.device, spec.element, DeviceQueueOptions{.depth = 1});
  Loop loop = session.sink({.update = Update{{{w, w + 1}}}, .fetches = inputs, .source = queue});
  DeviceQueue::Slot* slot = queue->reserve();
  REQUIRE(slot != nullptr);
  for (int i = 0; i < kFields; ++i) {
    const auto value = static_cast<float>(kFields - 1 - i);
    std::memcpy(slot->fields[static_cast<size_t>(i)], &value, sizeof(value));
  }
  queue->commit({});
  queue->finish();
  const LoopReport report = loop.run(1);
  int wrong = 0;
  for (int i = 0; i < kFields; ++i) {
    if (report[inputs[static_cast<size_t>(i)]][0] != i) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a body captures 20000 values") {
  constexpr int kCaptured = 20'000;
  Graph g;
  const Value one = g.state("one", ones({}));
  Values outer;
  for (int i = 0; i < kCaptured; ++i) outer.push_back(one * static_cast<float>(i));
  const auto all = [&](const Values& v) {
    Value total = v[0];
    for (const Value& value : outer) total = total + value;
    return Values{total};
  };
  const auto out = cond(less(one, 2), {one}, all, all);
  CHECK(out[0].node().bodies()[1]->captures().size() == outer.size() + 1);
  CHECK(out[0].node().inputs().size() == outer.size() + 2);
}

TEST_SUITE_END();

}  // namespace keel
