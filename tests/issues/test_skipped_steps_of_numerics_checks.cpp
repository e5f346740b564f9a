// A check of numerics found nothing in steps whose infinite numbers the training skipped: no number
// that is fetched and no state shows them.
#include <cmath>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/trainer.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "unit/runtime_for_tests.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using namespace keel::testing;

// Elements of about 1; those of steps 5 and 12, counted from 1, have one of 1000, whose exp is
// infinite in f32.
std::shared_ptr<NumberFeeder> rows_with_overflows(const Device& on) {
  auto feeder = std::make_shared<NumberFeeder>(
      on, ElementSpec{{{"x", {f32, {4, 6}}}}}, [](int64_t i, const std::vector<void*>& fields) {
        auto* x = static_cast<float*>(fields[0]);
        for (int64_t k = 0; k < 24; ++k)
          x[k] = static_cast<float>(std::sin(0.3 * static_cast<double>(i * 24 + k)));
        if (i + 1 == 5 || i + 1 == 12) x[7] = 1000;
        return true;
      });
  feeder->open({});
  return feeder;
}

struct CheckedTraining {
  TrainReport report;
  std::string sha;
};

CheckedTraining train_checked(const char* backend, NumericsMode mode, int64_t loop_size,
                              bool tells = true) {
  Graph g;
  const Value x = g.input("x", f32, {4, 6}), w = g.state("w", uniform({6, 3}, -1, 1));
  const Value good = all_finite({named(exp(x), "growth")});
  const Value skipped = cast(logical_not(good), f32);
  const Value loss = mean(square(matmul(minimum(x, 1.0f), w)));
  Session session(g, device(backend));
  Trainer trainer(session, {.update = apply_if(good, sgd(0.01).minimize(loss)),
                            .fetches = {loss, skipped},
                            .source = rows_with_overflows(session.device())});
  TrainOptions options{.steps = 20, .loop_size = loop_size, .check_numerics = mode};
  if (tells) options.dump.overflow = skipped;
  CheckedTraining result;
  result.report = trainer.fit(options);
  CHECK(session.updates_applied() == 18);
  result.sha = session.state_sha256();
  return result;
}

}  // namespace

TEST_CASE("steps that are skipped for an infinite number are named where the training tells them") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const CheckedTraining plain = train_checked(backend, NumericsMode::kOff, 7);
    CHECK(plain.report.numerics.empty());
    for (const int64_t loop_size : {1, 7, 100}) {
      CAPTURE(loop_size);
      const CheckedTraining every = train_checked(backend, NumericsMode::kEvery, loop_size);
      REQUIRE(every.report.numerics.size() == 2);
      CHECK(every.report.numerics[0].step == 5);
      CHECK(every.report.numerics[1].step == 12);
      for (const NumericsFinding& finding : every.report.numerics) CHECK(finding.name == "growth");
      CHECK(every.sha == plain.sha);
      const CheckedTraining first = train_checked(backend, NumericsMode::kFirst, loop_size);
      REQUIRE(first.report.numerics.size() == 1);
      CHECK(first.report.numerics[0].step == 5);
      CHECK(first.sha == plain.sha);
    }
    CHECK(train_checked(backend, NumericsMode::kEvery, 7, /*tells=*/false).report.numerics.empty());
  }
}

TEST_CASE("a value that tells of skipped steps and is not fetched is refused without a dump too") {
  HalvingModel m;
  const Value other = m.total * 2.0f;
  Session session(m.graph, device("ref"));
  Trainer trainer(
      session,
      {.update = m.update, .fetches = {m.total}, .source = halving_feeder(device("ref"), 1000)});
  TrainOptions options{.steps = 3, .check_numerics = NumericsMode::kEvery};
  options.dump.overflow = other;
  CHECK(contains(error_of([&] { trainer.fit(options); }),
                 "dump.overflow: expected a fetch of rank 0"));
  CHECK(session.step() == 0);
}

TEST_SUITE_END();
