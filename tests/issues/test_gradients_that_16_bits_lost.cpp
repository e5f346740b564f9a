// Gradients of 16-bit states that a loss scale had saved were rounded back to 16 bits where they
// were divided by it, averaged over micro-batches or summed over ranks: small ones became 0.
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/data_parallel.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "unit/ranks_for_tests.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel::testing::none_failed;
using keel::testing::run_ranks;
using keel_test::contains;
using keel_test::error_of;

// A state of 0 whose gradient is 2^-26, for each dtype: less than half of the least f16.
struct SmallSlope {
  explicit SmallSlope(DType dtype)
      : x(graph.constant(Tensor::full(dtype, {2}, std::ldexp(1.0, -13)))),
        w(graph.state("w", zeros({2}, dtype))),
        loss(mul(sum(w * x), std::ldexp(1.0, -13))) {}

  // One step of each update leaves this in w, whose elements are alike.
  double state_after(const Update& update, int steps, const char* where) {
    Session session(graph, device(where));
    session.sink({.update = update}).run(steps);
    const Tensor state = session.read(w);
    CHECK(state.dtype() == w.dtype());
    CHECK(state.at(0) == state.at(1));
    return state.at(0);
  }

  Graph graph;
  Value x, w, loss;
};

const double kRate = std::ldexp(1.0, 26);
constexpr DType kFloats[] = {f64, f32, f16, bf16};

}  // namespace

TEST_CASE("an unscaled gradient of a 16-bit state is as small as it is") {
  for (const char* where : {"ref", "cpu"}) {
    for (const DType dtype : kFloats) {
      CAPTURE(where);
      CAPTURE(name_of(dtype));
      SmallSlope m(dtype);
      const LossScaler scaler(m.graph, FixedLossScale{.scale = 1024});
      const Values slopes = scaler.unscaled(gradients(scaler.scaled(m.loss), {m.w}));
      CHECK(slopes[0].type() == Type{dtype == f64 ? f64 : f32, {2}});
      CHECK(m.state_after(sgd(kRate).apply({m.w}, slopes), 1, where) == -1);
    }
  }
}

TEST_CASE("the mean of small unscaled gradients moves a 16-bit state") {
  for (const DType dtype : kFloats) {
    CAPTURE(name_of(dtype));
    SmallSlope m(dtype);
    const LossScaler scaler(m.graph, FixedLossScale{.scale = 1024});
    const Values slopes = scaler.unscaled(gradients(scaler.scaled(m.loss), {m.w}));
    const Accumulated gathered = accumulate_gradients({m.w}, slopes, 4);
    CHECK(gathered.means[0].type() == Type{dtype == f64 ? f64 : f32, {2}});
    const Values clipped = clip_by_value(gathered.means, 1);
    Update update = apply_if(gathered.complete, sgd(kRate).apply({m.w}, clipped));
    update += gathered.update;
    CHECK(m.state_after(update, 4, "cpu") == -1);
  }
}

TEST_CASE("gradients over micro-shards keep what the loss scale has saved") {
  for (const DType dtype : kFloats) {
    CAPTURE(name_of(dtype));
    for (const int64_t shards : {1, 2}) {
      CAPTURE(shards);
      Graph g;
      const Value w = g.state("w", zeros({}, dtype)), x = g.input("x", dtype, {-1});
      const Value loss = mul(mean(w * x), std::ldexp(1.0, -13));
      const LossScaler scaler(g, FixedLossScale{.scale = 1024});
      const GlobalGradients global =
          DataParallel(nullptr, {.micro_shards = shards}).gradients(loss, {w}, {.scaler = &scaler});
      const Update update =
          apply_if(global.finite, sgd(kRate).apply({w}, global.gradients, global.loss));
      Session session(g, device("cpu"));
      session.run(update, Values{}, {{x, Tensor::full(dtype, {4}, std::ldexp(1.0, -13))}});
      CHECK(session.read(w).at(0) == -1);
    }
  }
}

TEST_CASE("the mean over ranks of what 16 bits hold is not rounded to them") {
  none_failed(run_ranks(4, [](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value w = g.state("w", zeros({2}, f16));
    const Value slope = g.state("slope", zeros({2}, f16), {.trainable = false});
    const Update update = data_parallel(sgd(kRate), group).apply({w}, {slope});
    Session session(g, device("ref"));
    // The least f16, whose fourth part is none.
    const double own = group->rank() == 0 ? std::ldexp(1.0, -24) : 0;
    session.write(slope, Tensor::full(f16, {2}, own));
    session.sink({.update = update}).run(1);
    CHECK(session.read(w).at(0) == -1);
  }));
}

TEST_CASE("a gradient of another type than its state is refused with those that fit") {
  Graph g;
  const Value half = g.state("half", zeros({2}, f16)), single = g.state("single", zeros({2}));
  const Value wide = g.input("wide", f64, {2}), narrow = g.input("narrow", f16, {2});
  const Value other = g.input("other", f32, {3}), same = g.input("same", f32, {2});
  const auto refused = [](const Value& state, const Value& gradient) {
    return error_of([&] { sgd(0.1).apply({state}, {gradient}); });
  };
  CHECK(refused(half, narrow).empty());
  CHECK(refused(half, same).empty());
  const char* either = "sgd: gradient of half: expected f16[2] or f32[2], got ";
  CHECK(contains(refused(half, other), std::string(either) + "f32[3]"));
  CHECK(contains(refused(half, wide), std::string(either) + "f64[2]"));
  CHECK(contains(refused(single, narrow), "gradient of single: expected f32[2], got f16[2]"));
  CHECK(contains(refused(single, wide), "gradient of single: expected f32[2], got f64[2]"));
}

TEST_SUITE_END();
