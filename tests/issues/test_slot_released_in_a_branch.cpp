// A loop in a branch put the release of the queue's slot into that branch: in steps that took the
// other one the slot was never given back, and after as many of them as the queue is deep the
// training hung.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "unit/runtime_for_tests.h"

namespace keel {
namespace {

using testing::NumberFeeder;

// Elements -1, 1, -1, 1 ...
std::shared_ptr<Feeder> signs(const Device& on) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {2}}}}},
      [](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        x[0] = i % 2 == 0 ? -1.0f : 1.0f;
        x[1] = 0;
        return true;
      },
      DeviceQueueOptions{.depth = 2});
  feeder->open({});
  return feeder;
}

Values counted_to_three(const Values& v) {
  const auto below = [](const Values& inner) { return less(inner[0], 3.0f); };
  const auto next = [](const Values& inner) { return Values{inner[0] + 1.0f}; };
  return {v[0] + while_loop({v[0] * 0.0f}, below, next)[0]};
}

Values same(const Values& v) { return v; }

}  // namespace

TEST_SUITE_BEGIN("loop");

TEST_CASE("the queue's slot is given back in steps that leave out a branch with a loop") {
  for (const std::string& name : backend_names()) {
    for (const bool in_then : {true, false}) {
      CAPTURE(name);
      CAPTURE(in_then);
      Graph g;
      const Value x = g.input("x", f32, {2});
      const Value total = g.state("total", zeros({}));
      const Value turns = g.state("turns", zeros({}));
      const Value flag = greater(sum(x), 0.0f);
      const Value next = in_then ? cond(flag, {turns}, counted_to_three, same)[0]
                                 : cond(flag, {turns}, same, counted_to_three)[0];
      Session session(g, device(name));
      Loop loop = session.sink({.update = Update{{{total, total + sum(x)}, {turns, next}}},
                                .source = signs(device(name))});
      CHECK(loop.run(20).steps == 20);
      CHECK(session.read(turns).item<float>() == 30);
      CHECK(session.read(total).item<float>() == 0);
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
