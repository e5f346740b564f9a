// A schedule made within the function of another one got the rate of an earlier one that lay at the
// same address and was gone.
#include <utility>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;

// How far one step without gradients of its own moves a state, which is the rate.
double rate_of(const Schedule& schedule) {
  Graph g;
  const Value w = g.state("w", zeros({}));
  const Value slope = g.constant(Tensor::scalar(1.0f));
  Session session(g, device("ref"));
  session.run(sgd(schedule).apply({w}, {slope}), Values{}, {});
  return -session.read(w).at(0);
}

}  // namespace

TEST_CASE("schedules made within a schedule have rates of their own") {
  const auto always = [](double rate) {
    return Schedule([rate](Value updates, CallSite) { return add(mul(updates, 0), rate); });
  };
  // Each is gone when the next is made, mostly in the memory that it has left.
  const Schedule factorial([&](ScheduleStep& step) {
    Value product = always(1).at(step, f32);
    for (const double factor : {2, 3, 4, 5}) {
      const Value next = always(factor).at(step, f32);
      product = mul(product, next);
    }
    return product;
  });
  CHECK(rate_of(factorial) == 120);
  const Schedule product([](ScheduleStep& step) {
    const Value cosine = cosine_decay(0.5, 10).at(step, f32);
    const Value stairs = step_decay(0.25, 4, 0.5).at(step, f32);
    return mul(cosine, stairs);
  });
  CHECK(rate_of(product) == 0.5 * 0.25);

  // Kept ones give the same, and one that is asked twice is one schedule.
  const Schedule cosine = cosine_decay(0.5, 10), stairs = step_decay(0.25, 4, 0.5);
  CHECK(rate_of(Schedule([=](ScheduleStep& step) {
          return mul(mul(cosine.at(step, f32), stairs.at(step, f32)), cosine.at(step, f32));
        })) == 0.5 * 0.25 * 0.5);
}

TEST_SUITE_END();
