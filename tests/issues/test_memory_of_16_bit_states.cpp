// Sums of gradients and what optimizers remember were kept in the dtype of the state: in 16 bits
// they stopped growing.
#include <cmath>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using doctest::Approx;

// A state whose gradient is 1 in each step, moved so little that it stays near 1.
struct OneSlope {
  Graph graph;
  Value w;
  Value slope;

  explicit OneSlope(DType dtype)
      : w(graph.state("w", ones({}, dtype))), slope(graph.constant(Tensor::full(dtype, {}, 1))) {}

  double state_after(const Update& update, const char* name, int steps) {
    Session session(graph, device("cpu"));
    session.sink({.update = update}).run(steps);
    const Value state = graph.find_state(name);
    CHECK((state == w || state.dtype() == f32));
    return session.read(state).at(0);
  }
};

}  // namespace

TEST_CASE("what optimizers remember of 16-bit states goes on growing") {
  for (const DType dtype : {f32, f16, bf16}) {
    CAPTURE(name_of(dtype));
    const auto after = [&](const Optimizer& optimizer, const char* slot, int steps) {
      OneSlope m(dtype);
      return m.state_after(optimizer.apply({m.w}, {m.slope}), slot, steps);
    };
    CHECK(after(adagrad(1e-6), "w/adagrad_s", 3000) == 3000);
    CHECK(after(adam(1e-6, {.beta2 = 0.999}), "w/adam_v", 1000) ==
          Approx(1 - std::pow(0.999, 1000)).epsilon(1e-4));
    CHECK(after(lamb(1e-6, {.beta2 = 0.999}), "w/adam_v", 1000) ==
          Approx(1 - std::pow(0.999, 1000)).epsilon(1e-4));
    CHECK(after(rmsprop(1e-6, {.decay = 0.999}), "w/rmsprop_v", 1000) ==
          Approx(1 - std::pow(0.999, 1000)).epsilon(1e-4));
    CHECK(after(lion(1e-6, {.beta2 = 0.999}), "w/lion_m", 1000) ==
          Approx(1 - std::pow(0.999, 1000)).epsilon(1e-4));
    CHECK(after(sgd(1e-6, {.momentum = 0.999}), "w/momentum", 1000) ==
          Approx((1 - std::pow(0.999, 1000)) / 0.001).epsilon(1e-4));
  }
}

TEST_CASE("sums of 16-bit gradients are exact") {
  for (const DType dtype : {f32, f16, bf16}) {
    CAPTURE(name_of(dtype));
    constexpr int kBatches = 4096;
    OneSlope m(dtype);
    const Accumulated gathered = accumulate_gradients({m.w}, {m.slope}, kBatches);
    CHECK(gathered.means[0].dtype() == f32);
    Update update = apply_if(gathered.complete, sgd(1).apply({m.w}, gathered.means));
    update += gathered.update;
    CHECK(m.state_after(update, "w/gradient_sum", kBatches - 1) == kBatches - 1);
    CHECK(m.state_after(update, "w", kBatches) == 0);
  }
}

TEST_CASE("Adam moves a 16-bit state by its rate with the usual epsilon") {
  for (const DType dtype : {f16, bf16}) {
    CAPTURE(name_of(dtype));
    OneSlope m(dtype);
    const Update update = adam(0.125).apply({m.w}, {m.slope});
    CHECK(std::abs(m.state_after(update, "w", 8)) < 1e-3);  // eight steps of 1/8
  }
}

TEST_SUITE_END();
