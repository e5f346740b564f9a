// Where gradients met that belong to a HostScope or a KeepDtypeScope, their sum and the zeros
// beside it belonged to none: f64 that the NPU does not add, and sums in 16 bits. Bodies of loops
// and conds had this at each value of theirs.
#include <cmath>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/precision/keep_dtype.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;
using doctest::Approx;

constexpr double kStart = 1.1F, kFactor = 1.01F;

Value step(const Value& v, const Value& w) { return v * w + sin(v) * w * 0.1; }

// The same in f64, with the slope by w.
struct Dual {
  double value = kStart, slope = 0;

  Dual after(int turns) const {
    Dual d = *this;
    for (int i = 0; i < turns; ++i) {
      const double s = std::sin(d.value), c = std::cos(d.value);
      d = {(d.value + 0.1 * s) * kFactor, d.value + 0.1 * s + kFactor * (1 + 0.1 * c) * d.slope};
    }
    return d;
  }
};

enum class StepsForm { kUnrolled, kLoop, kSegments, kWhile, kCond };

// Three steps, or one in a branch; each in a HostScope of its own where `inside`.
Value three_steps(StepsForm form, const Value& start, const Value& w, bool inside) {
  Graph& g = start.graph();
  const BodyFunction turn = [&](const Values& v) -> Values {
    std::optional<HostScope> host;
    if (inside) host.emplace(g);
    return {step(v[0], w)};
  };
  const BodyFunction same = [](const Values& v) { return v; };
  switch (form) {
    case StepsForm::kUnrolled:
      return turn(turn(turn({start})))[0];
    case StepsForm::kLoop:
      return while_loop({start}, {}, turn, {.trip_count = 3})[0];
    case StepsForm::kSegments:
      return while_loop({start}, {}, turn, {.trip_count = 3, .recompute_every = 2})[0];
    case StepsForm::kWhile: {
      const auto below = [&](const Values& v) {
        std::optional<HostScope> host;
        if (inside) host.emplace(g);
        return less(sum(v[0]), 3.5);
      };
      return while_loop({start}, below, turn, {.max_trips = 5})[0];
    }
    case StepsForm::kCond: {
      std::optional<HostScope> host;
      if (inside) host.emplace(g);
      const Value below = less(sum(start), 100.0);
      host.reset();
      return cond(below, {start}, turn, same)[0];
    }
  }
  return start;
}

int turns_of(StepsForm form) {
  if (form == StepsForm::kCond) return 1;
  if (form != StepsForm::kWhile) return 3;
  int turns = 0;
  while (turns < 5 && 3 * Dual().after(turns).value < 3.5) ++turns;
  return turns;
}

constexpr StepsForm kForms[] = {StepsForm::kUnrolled, StepsForm::kLoop, StepsForm::kSegments,
                                StepsForm::kWhile, StepsForm::kCond};

}  // namespace

TEST_CASE("gradients of f64 work on the host add up on the host") {
  for (const StepsForm form : kForms) {
    for (const bool inside : {false, true}) {
      CAPTURE(static_cast<int>(form));
      CAPTURE(inside);
      Graph g;
      const Value x = g.state("x", constant({3}, static_cast<float>(kStart)));
      const Value w = g.state("w", constant({3}, static_cast<float>(kFactor)));
      std::optional<HostScope> host(std::in_place, g);
      const Value wide = cast(w, f64), start = cast(x, f64);
      if (inside) host.reset();
      const Value last = three_steps(form, start, wide, inside);
      if (inside) host.emplace(g);
      const Value loss = sum(last);
      host.reset();
      const Value slope = gradients(loss, {w})[0];
      Session session(g, device("npu"));
      const Tensor result = session.run(slope, {});
      const double expected = Dual().after(turns_of(form)).slope;
      for (int64_t i = 0; i < 3; ++i) CHECK(result.at(i) == Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("gradients that are taken outside of a HostScope add up where their users are") {
  Graph g;
  const Value w = g.state("w", constant({3}, static_cast<float>(kFactor)));
  Value wide, loss;
  {
    const HostScope host(g);
    wide = cast(w, f64);
    loss = cast(sum(wide * wide + sin(wide)), f32);
  }
  // The second one, which nothing uses, has zeros.
  Value unused;
  {
    const HostScope host(g);
    unused = wide * 2.0;
  }
  const Values slopes = gradients(loss, {wide, unused});
  Values results;
  {
    const HostScope host(g);
    for (const Value& slope : slopes) results.push_back(cast(slope, f32));
  }
  Session session(g, device("npu"));
  const auto got = session.run(results, {});
  CHECK(got[0].at(2) == Approx(2 * kFactor + std::cos(kFactor)).epsilon(1e-6));
  CHECK(got[1].at(2) == 0);
}

TEST_CASE("gradients of what keeps its dtypes add up in them") {
  for (const std::string precision : {"fp16", "force_fp16", "mixed_float16"}) {
    for (const StepsForm form : kForms) {
      CAPTURE(precision);
      CAPTURE(static_cast<int>(form));
      Graph g;
      const Value x = g.state("x", constant({3}, static_cast<float>(kStart)));
      const Value w = g.state("w", constant({3}, static_cast<float>(kFactor)));
      Value loss;
      {
        const KeepDtypeScope keep(g);
        loss = sum(three_steps(form, x, w, false));
      }
      const Value slope = gradients(loss, {w})[0];
      Session session(g, device("cpu"), {.precision = Precision::named(precision)});
      const double expected = Dual().after(turns_of(form)).slope;
      CHECK(session.run(slope, {}).at(1) == Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_SUITE_END();
