// Reductions that go over the same values in one task, on the devices that have such tasks: the
// bits of a session that does not fuse, whatever the shapes, dtypes, threads and values; the
// statistics of norms, whose gradients are made of them, beside those of plain loops in double.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/reduce_plan.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/backends/npu/options.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/parallel_for.h"
#include "keel/core/tensor/buffer.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/batch_norm.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/fusing.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::contains;
using testing::kFusingDevices;
using testing::Reduced;
using testing::run_case;
using testing::StepCase;

// Values in (-1, 1), or small numbers of integers, so that no product of them leaves the dtype.
Tensor factors(DType dtype, const Shape& shape, uint32_t seed) {
  return testing::noise(dtype, shape, seed, 2.0f);
}

// Runs, chunks and rows of all kinds: one result and many, one column, none at all.
const Reduced kSiblingReductions[] = {{{100}, {}},
                                      {{100, 10}, {0}},
                                      {{100, 10}, {1}},
                                      {{100, 512}, {0}},
                                      {{64, 513}, {1}, true},
                                      {{70001}, {}},
                                      {{3, 40000}, {1}},
                                      {{40000, 3}, {0}},
                                      {{5000, 1}, {0}, true},
                                      {{5, 6, 7}, {0, 2}},
                                      {{30, 50, 40}, {0, 2}, true},
                                      {{4, 300, 5, 60}, {1, 3}},
                                      {{20, 28, 28, 16}, {0, 1, 2}, true},
                                      {{2, 9001}, {0}},
                                      {{17, 3000}, {0}},
                                      {{0, 5}, {0}},
                                      {{5, 0}, {0}},
                                      {{3, 0, 4}, {1}}};

using Reduce = Value (*)(Operand, const std::vector<int64_t>&, bool, CallSite);

// Reduces x, x * y and (x - y)^2, all of which are of one dtype.
StepCase three_of(Reduce reduce, const Reduced& r, const Tensor& x, const Tensor& y) {
  return {[=](Graph& g) {
            const Value a = g.input("x", x.dtype(), x.shape());
            const Value b = g.input("y", y.dtype(), y.shape());
            return std::pair(Update{}, Values{reduce(a, r.axes, r.keepdims, {}),
                                              reduce(a * b, r.axes, r.keepdims, {}),
                                              reduce(square(a - b), r.axes, r.keepdims, {})});
          },
          {x, y}};
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("sibling reductions: any shape gives the bits of separate tasks and about those of ref") {
  for (const Reduced& r : kSiblingReductions) {
    CAPTURE(to_string(r.shape));
    CAPTURE(r.axes.size());
    const StepCase c = three_of(&sum, r, factors(f32, r.shape, 1), factors(f32, r.shape, 2));
    const std::vector<Tensor> expected = run_case(c, "ref:0", false);
    for (const char* where : kFusingDevices) {
      CAPTURE(std::string(where));
      std::string tasks;
      const auto apart = run_case(c, where, false);
      const auto together = run_case(c, where, true, &tasks);
      CAPTURE(tasks);
      CHECK(contains(tasks, "sum + sum"));
      CHECK(all_equal(together, apart));
      for (const int threads : {1, 2, 5}) {
        const ComputeThreads scope(threads);
        CHECK(all_equal(run_case(c, where, true), apart));
      }
      const double count = static_cast<double>(r.shape.num_elements()) + 1;
      for (size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(together[i].shape() == expected[i].shape());
        for (int64_t e = 0; e < expected[i].num_elements(); ++e)
          CHECK(std::abs(together[i].at(e) - expected[i].at(e)) <= count * 1e-6);
      }
    }
  }
}

TEST_CASE("sibling reductions: each op and dtype gives the bits of separate tasks") {
  for (const Reduce reduce : {Reduce(&sum), Reduce(&prod), Reduce(&max), Reduce(&min)}) {
    for (const DType dtype : {f64, f32, f16, bf16, i32, i64, u8}) {
      for (const Reduced& r : {Reduced{{70, 90}, {0}}, Reduced{{70, 90}, {1}}, Reduced{{40000}, {}},
                               Reduced{{6, 5000}, {0}}}) {
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(to_string(r.shape));
        const StepCase c =
            three_of(reduce, r, factors(dtype, r.shape, 1), factors(dtype, r.shape, 2));
        for (const char* where : kFusingDevices) {
          CAPTURE(std::string(where));
          if (dtype == f64 && device(where).backend().name() == "npu") continue;  // has no f64
          CHECK(all_equal(run_case(c, where, true), run_case(c, where, false)));
        }
      }
    }
  }
}

TEST_CASE("sibling reductions: computed operands share scratch to its last element") {
  constexpr int64_t kRows = 3;
  for (const int64_t operands : {3, 4}) {
    // An equal part of what a chunk of the widest accumulators takes, from an aligned byte on.
    const auto all = static_cast<int64_t>(kReduceChunk * sizeof(int64_t));
    const auto alignment = static_cast<int64_t>(Buffer::kAlignment);
    const int64_t limit = all / operands / alignment * alignment / 4;
    const int64_t unaligned = all / operands / 4;
    for (const int64_t run : {limit - 1, limit, limit + 1, unaligned, unaligned + 1}) {
      CAPTURE(operands);
      CAPTURE(run);
      const Tensor x = factors(f32, {kRows, run}, 1), y = factors(f32, {kRows, run}, 2);
      const StepCase c{[=](Graph& g) {
                         const Value a = g.input("x", f32, {kRows, run});
                         const Value b = g.input("y", f32, {kRows, run});
                         Values sums{sum(a * b, {1}), sum(square(a - b), {1}), sum(abs(a), {1})};
                         if (operands == 4) sums.push_back(sum(a + b, {1}));
                         return std::pair(Update{}, sums);
                       },
                       {x, y}};
      for (const char* where : kFusingDevices) {
        CAPTURE(std::string(where));
        const auto got = run_case(c, where, true);
        CHECK(all_equal(got, run_case(c, where, false)));
        for (int64_t row = 0; row < kRows; ++row) {
          std::vector<double> expected(4, 0);
          for (int64_t i = row * run; i < (row + 1) * run; ++i) {
            const double p = x.at(i), q = y.at(i);
            expected[0] += p * q;
            expected[1] += (p - q) * (p - q);
            expected[2] += std::abs(p);
            expected[3] += p + q;
          }
          for (size_t i = 0; i < static_cast<size_t>(operands); ++i) {
            CAPTURE(i);
            CHECK(std::abs(got[i].at(row) - expected[i]) <= 1e-6 * static_cast<double>(run));
          }
        }
      }
    }
  }
}

TEST_CASE("sibling reductions: a recomputed block that reduces twice runs without cse") {
  const Tensor x = factors(f32, {1000, 512}, 3);
  const auto run = [&](const char* where, std::vector<std::string> disabled, bool joins) {
    Graph g;
    const Value v = g.input("x", f32, {1000, 512});
    Value result = v;
    {
      const RecomputeScope scope(g);
      const Value once = sum(exp(v), {0}, true), again = sum(exp(v), {0}, true);
      result = square(v * once + again);
    }
    const Value loss = sum(result);
    const Values fetches{loss, gradients(loss, {v})[0]};
    disabled.push_back("cse");
    Session session(g, device(where), {.disabled_passes = std::move(disabled)});
    CHECK(contains(session.describe(Update{}, fetches, Feeds{{v, x}}), "exp + sum + sum") == joins);
    return session.run(Update{}, fetches, Feeds{{v, x}});
  };
  for (const char* where : kFusingDevices) {
    CAPTURE(std::string(where));
    CHECK(all_equal(run(where, {}, true), run(where, {"fuse"}, false)));
  }
}

TEST_CASE("sibling reductions: NaN and infinities come through as they do apart") {
  Tensor x = factors(f32, {50, 33}, 4);
  x.set(7, std::numeric_limits<double>::quiet_NaN());
  x.set(40, std::numeric_limits<double>::infinity());
  for (const Reduce reduce : {Reduce(&sum), Reduce(&max), Reduce(&min)}) {
    for (const int64_t axis : {0, 1}) {
      const StepCase c = three_of(reduce, {{50, 33}, {axis}}, x, factors(f32, {50, 33}, 5));
      for (const char* where : kFusingDevices) {
        const auto together = run_case(c, where, true);
        CHECK(all_equal(together, run_case(c, where, false)));
        for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(together[i].at(axis == 0 ? 7 : 0)));
      }
    }
  }
}

TEST_CASE("sibling reductions: batch norm keeps its digits whatever the mean and the spread") {
  // Columns of equal values, of 10000 with noise, of 10000 with noise of one step of f32, of noise.
  constexpr int64_t kRows = 4000;
  Tensor x = factors(f32, {kRows, 4}, 6);
  for (int64_t i = 0; i < kRows; ++i) {
    x.set(4 * i, 10000.3);
    x.set(4 * i + 1, 10000 + x.at(4 * i + 1));
    x.set(4 * i + 2, 10000 + (x.at(4 * i + 2) > 0 ? 1.0 / 1024 : 0));
  }
  std::vector<double> means(4, 0), variances(4, 0);
  for (int64_t i = 0; i < 4 * kRows; ++i) means[static_cast<size_t>(i % 4)] += x.at(i) / kRows;
  for (int64_t i = 0; i < 4 * kRows; ++i) {
    const double distance = x.at(i) - means[static_cast<size_t>(i % 4)];
    variances[static_cast<size_t>(i % 4)] += distance * distance / kRows;
  }
  const StepCase c{[](Graph& g) {
                     const Value v = g.input("x", f32, {kRows, 4});
                     const Value ones = g.input("ones", f32, {4}), zero = g.input("zero", f32, {4});
                     const BatchNormOutput norm = batch_norm(v, ones, zero);
                     return std::pair(Update{}, Values{norm.output, norm.mean, norm.variance});
                   },
                   {x, Tensor::full(f32, {4}, 1), Tensor(f32, {4})}};
  for (const char* where : kFusingDevices) {
    CAPTURE(std::string(where));
    const auto got = run_case(c, where, true);
    CHECK(all_equal(got, run_case(c, where, false)));
    for (int64_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      const auto at = static_cast<size_t>(i);
      // Sums of equal values round the same way each time.
      CHECK(got[1].at(i) == doctest::Approx(means[at]).epsilon(5e-5));
      CHECK(got[2].at(i) >= 0);
      // The variance loses no more than what the mean, rounded as its sum is, lies off the centre.
      CHECK(std::abs(got[2].at(i) - variances[at]) <= 1e-5 * variances[at] + 1e-9);
      const double root = std::sqrt(variances[at] + 1e-5);
      for (int64_t row = 0; row < kRows; row += 7) {
        const double normal = (x.at(4 * row + i) - means[at]) / root;
        CHECK(std::abs(got[0].at(4 * row + i) - normal) <= 2e-4 * (1 + std::abs(normal)));
      }
    }
  }
}

TEST_CASE("sibling reductions: the device model prices one read of what they share") {
  Graph g;
  const Value x = g.input("x", f32, {100, 28, 28, 16});
  const Value y = g.input("y", f32, {100, 28, 28, 16});
  g.set_outputs({sum(x, {0, 1, 2}), sum(x * y, {0, 1, 2})});
  const npu::NpuLibrary library(npu::default_preset());
  const auto together = fuse(g, [&](const Node& n) { return library.supports(n); });
  const Node& joined = keel_test::only_anchored(*together, kReduction);
  const auto price_of = [](const Node& node) {
    return npu::schedule(*npu::default_preset(), AnchoredNode(node)).price.total_ns;
  };
  Graph one, other;
  const Value z = one.input("x", f32, {100, 28, 28, 16});
  one.set_outputs({sum(z, {0, 1, 2})});
  const Value a = other.input("x", f32, {100, 28, 28, 16});
  const Value b = other.input("y", f32, {100, 28, 28, 16});
  other.set_outputs({sum(a * b, {0, 1, 2})});
  const auto fused_other = fuse(other, [&](const Node& n) { return library.supports(n); });
  const int64_t alone = price_of(one.outputs()[0].node());
  const int64_t product = price_of(keel_test::only_anchored(*fused_other, kReduction));
  CHECK(price_of(joined) < alone + product);
  CHECK(price_of(joined) >= product);
  const auto launch = npu::schedule(*npu::default_preset(), AnchoredNode(joined), {.cap = 1});
  CHECK(launch.price.bytes_in == 2 * 100 * 28 * 28 * 16 * 4);
  CHECK(launch.price.bytes_out == 2 * 16 * 4);
}

TEST_SUITE_END();

}  // namespace keel
