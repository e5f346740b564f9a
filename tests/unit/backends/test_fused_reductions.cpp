// Reductions fused with what is computed beside them, on the devices that do so: the bits of a
// session that does not fuse, whatever the shapes, dtypes, threads and places of the results;
// values close to those that `ref` gives in double.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/common/host_backend.h"
#include "keel/backends/common/task_list.h"
#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/npu_library.h"
#include "keel/backends/npu/options.h"
#include "keel/core/base/parallel_for.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/optimizers.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/fusing.h"
#include "support/fusion.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::contains;
using testing::kFusingDevices;
using testing::Reduced;
using testing::run_case;
using testing::StepCase;

// Values of any dtype, small enough that no sum leaves it.
Tensor summands(DType dtype, const Shape& shape, uint32_t seed) {
  return testing::noise(dtype, shape, seed, 3.0f);
}

// Runs, chunks and rows of all kinds: shorter and longer than an instruction takes, in and against
// the order of memory, few and many results, none at all.
const Reduced kFusedReductions[] = {{{}, {}},
                                    {{1}, {}},
                                    {{100}, {}},
                                    {{100, 10}, {0}},
                                    {{100, 10}, {1}},
                                    {{100, 512}, {0}},
                                    {{64, 513}, {1}, true},
                                    {{70001}, {}},
                                    {{3, 40000}, {1}},
                                    {{40000, 3}, {0}},
                                    {{5, 6, 7}, {0, 2}},
                                    {{30, 50, 40}, {0, 2}, true},
                                    {{40, 30, 50}, {1}},
                                    {{4, 300, 5, 60}, {1, 3}},
                                    {{2, 9001}, {0}},
                                    {{3, 2, 40001}, {1}},
                                    {{3000, 17}, {1}, true},
                                    {{17, 3000}, {0}},
                                    {{9, 1, 5000}, {0, 1}, true},
                                    {{60, 1500}, {0}},
                                    {{40, 9000}, {0}},
                                    {{2, 5, 3, 16400}, {0, 2}},
                                    {{0, 5}, {0}},
                                    {{5, 0}, {0}},
                                    {{3, 0, 4}, {1}}};

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("fused reductions: any shape gives the bits of separate tasks and about those of ref") {
  for (const Reduced& r : kFusedReductions) {
    CAPTURE(to_string(r.shape));
    CAPTURE(r.axes.size());
    const Shape last = r.shape.rank() == 0 ? Shape{} : Shape{r.shape.back()};
    const StepCase c{
        [&](Graph& g) {
          const Value a = g.input("a", f32, r.shape);
          const Value b = g.input("b", f32, last);
          const Value scale = g.input("scale", f32, {});
          const Value squares = square(a - b) * 0.5f;
          const Value total = sum(squares, r.axes, r.keepdims);
          return std::pair(Update{}, Values{total * scale + 1.0f});
        },
        {summands(f32, r.shape, 1), summands(f32, last, 2), Tensor::full(f32, {}, 0.37)}};
    const std::vector<Tensor> expected = run_case(c, "ref:0", false);
    for (const char* where : kFusingDevices) {
      CAPTURE(std::string(where));
      std::string tasks;
      const auto apart = run_case(c, where, false);
      const auto together = run_case(c, where, true, &tasks);
      CHECK(contains(tasks, "sum + mul + add"));
      CHECK(all_equal(together, apart));
      for (const int threads : {1, 2, 5}) {
        const ComputeThreads scope(threads);
        CHECK(all_equal(run_case(c, where, true), apart));
      }
      REQUIRE(together[0].shape() == expected[0].shape());
      const double count = static_cast<double>(r.shape.num_elements()) + 1;
      for (int64_t i = 0; i < expected[0].num_elements(); ++i) {
        const double error = std::abs(together[0].at(i) - expected[0].at(i));
        CHECK(error <= count * 1e-6);
      }
    }
  }
}

TEST_CASE("fused reductions: each op and dtype gives the bits of separate tasks") {
  using Reduce = Value (*)(Operand, const std::vector<int64_t>&, bool, CallSite);
  const std::pair<const char*, Reduce> ops[] = {
      {"sum", &sum}, {"prod", &prod}, {"max", &max}, {"min", &min}};
  const Reduced shapes[] = {{{70, 90}, {0}}, {{70, 90}, {1}}, {{40000}, {}}, {{6, 5000}, {0}}};
  for (const auto& [name, reduce] : ops) {
    const std::string op = name;
    for (const DType dtype : {f32, f16, bf16, i32, i64, u8}) {
      for (const Reduced& r : shapes) {
        CAPTURE(op);
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(to_string(r.shape));
        const Shape last{r.shape.back()};
        const StepCase c{
            [&, of = reduce](Graph& g) {
              const Value a = g.input("a", dtype, r.shape);
              const Value b = g.input("b", dtype, last);
              const Value x = of(a * b + a, r.axes, false, {});
              const Value y = x - g.input("c", dtype, {});
              return std::pair(Update{}, Values{y, neg(y)});
            },
            {summands(dtype, r.shape, 1), summands(dtype, last, 2), Tensor::full(dtype, {}, 1)}};
        for (const char* where : kFusingDevices) {
          CAPTURE(std::string(where));
          std::string tasks;
          const auto together = run_case(c, where, true, &tasks);
          CHECK(contains(tasks, op + " + sub + neg"));
          CHECK(all_equal(together, run_case(c, where, false)));
        }
      }
    }
  }
}

TEST_CASE("fused reductions: casts on either side round as if stored") {
  const StepCase c{[](Graph& g) {
                     const Value x = cast(g.input("x", f32, {300, 70}), bf16);
                     const Value y = cast(x * g.input("k", bf16, {70}), f32);
                     return std::pair(Update{}, Values{cast(sum(y, {0}) / 300.0f, f16)});
                   },
                   {summands(f32, {300, 70}, 1), summands(bf16, {70}, 2)}};
  for (const char* where : kFusingDevices) {
    std::string tasks;
    const auto together = run_case(c, where, true, &tasks);
    CHECK(contains(tasks, "cast + mul + cast + sum + div + cast"));
    CHECK(all_equal(together, run_case(c, where, false)));
  }
}

TEST_CASE("fused reductions: NaN and infinities come through as they do apart") {
  Tensor x = summands(f32, {50, 33}, 4);
  x.set(7, std::numeric_limits<double>::quiet_NaN());
  x.set(40, std::numeric_limits<double>::infinity());
  using Reduce = Value (*)(Operand, const std::vector<int64_t>&, bool, CallSite);
  for (const Reduce reduce : {Reduce(&max), Reduce(&min), Reduce(&sum)}) {
    const StepCase c{[=](Graph& g) {
                       const Value v = g.input("x", f32, {50, 33});
                       return std::pair(Update{}, Values{reduce(v * 2.0f, {0}, false, {}) + 1.0f,
                                                         reduce(v - 1.0f, {1}, false, {}) * 3.0f});
                     },
                     {x}};
    for (const char* where : kFusingDevices) {
      const auto together = run_case(c, where, true);
      CHECK(all_equal(together, run_case(c, where, false)));
      CHECK(std::isnan(together[0].at(7)));
      CHECK(std::isnan(together[1].at(0)));
    }
  }
}

TEST_CASE("fused reductions: a bias is updated in its own buffer") {
  const auto build = [](Graph& g) {
    const Value d = g.input("d", f32, {100, 40});
    const Value b = g.state("b", normal({40}, 0, 1));
    return Update{{{b, b - sum(d, {0}) * 0.25f}}};
  };
  const StepCase c{[&](Graph& g) { return std::pair(build(g), Values{}); },
                   {summands(f32, {100, 40}, 5)}};
  for (const char* where : kFusingDevices) {
    std::string tasks;
    const auto together = run_case(c, where, true, &tasks);
    CHECK(contains(tasks, "sum + mul + sub"));
    CHECK(all_equal(together, run_case(c, where, false)));
  }
  Graph g;
  const Update update = build(g);
  const npu::NpuLibrary library(npu::default_preset());
  const SupportsFunction supports = [&](const Node& n) { return library.supports(n); };
  SpecialiseRequest request{&g, {}, update, {{"d", {f32, {100, 40}}}}};
  const auto step = fold(*specialise(request));
  const auto fused = fuse(*step, supports);
  const TaskList list = lower(*fused, library);
  for (const StateInfo& state : list.info.states) {
    CAPTURE(state.name);
    CHECK(state.updated);
    CHECK_FALSE(state.second_buffer);
  }
}

TEST_CASE("fused reductions: a state that is reduced and updated is read whole first") {
  // The prologue reads the state that the epilogue writes; with keepdims over one row every element
  // of it goes into its own result.
  for (const Shape& shape : {Shape{1, 70000}, Shape{40, 300}}) {
    const StepCase c{[&](Graph& g) {
                       const Value w = g.state("w", normal({shape[1]}, 0, 1));
                       const Value x = g.input("x", f32, shape);
                       return std::pair(Update{{{w, w * 0.5f - sum(x * w, {0})}}}, Values{});
                     },
                     {summands(f32, shape, 6)}};
    for (const char* where : kFusingDevices) {
      CAPTURE(std::string(where));
      std::string tasks;
      const ComputeThreads three(3);
      const auto together = run_case(c, where, true, &tasks);
      CHECK(contains(tasks, "mul + sum + mul + sub"));
      CHECK(all_equal(together, run_case(c, where, false)));
    }
  }
}

TEST_CASE("fused reductions: a linear regression trains to the bits of separate tasks") {
  const auto train = [](const Optimizer& optimizer, const std::string& where, bool fuse,
                        std::string* tasks) {
    Graph g;
    const Value x = g.input("x", f32, {-1, 3});
    const Value y = g.input("y", f32, {-1, 1});
    const Value w = g.state("w", zeros({3, 1}));
    const Value b = g.state("b", zeros({1, 1}));
    const Value loss = mean(square(matmul(x, w) + b - y));
    const Update update = optimizer.minimize(loss);
    Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
    std::vector<Tensor> results;
    for (uint32_t step = 0; step < 5; ++step) {
      const Feeds feeds{{x, summands(f32, {64, 3}, step)}, {y, summands(f32, {64, 1}, step + 9)}};
      results.push_back(session.run(update, {loss}, feeds)[0]);
      if (tasks != nullptr) *tasks = session.describe(update, {loss}, feeds);
    }
    for (const Value& state : {w, b}) results.push_back(session.read(state));
    return results;
  };
  for (const char* where : kFusingDevices) {
    for (const bool plain : {true, false}) {
      const Optimizer optimizer = plain ? sgd(0.1) : adam(0.05);
      std::string tasks;
      const auto together = train(optimizer, where, true, &tasks);
      CAPTURE(tasks);
      CHECK(contains(tasks, "sum + div"));
      CHECK(contains(tasks, "gradient/sum + sgd/b/mul + sub") == plain);
      CHECK(all_equal(together, train(optimizer, where, false, nullptr)));
    }
  }
}

TEST_CASE("fused reductions: f16 that saturates does so before the epilogue and says so") {
  const auto options = npu::options("ascend910");
  // 300 * 300 and the sum of 40000 twice are beyond 65504, which halves to 32752.
  const auto run = [&](float value, bool squares, bool fuse, std::string* tasks) {
    const StepCase c{[=](Graph& g) {
                       const Value x = g.input("x", f16, {2, 40});
                       const Value total = sum(squares ? x * x : x, {0});
                       return std::pair(Update{}, Values{total * 0.5f});
                     },
                     {Tensor::full(f16, {2, 40}, static_cast<double>(value))}};
    return run_case(c, "npu:0", fuse, tasks, options)[0];
  };
  for (const bool squares : {false, true}) {
    std::string tasks;
    npu::clear_float_status(device("npu"));
    const Tensor together = run(squares ? 200.0f : 40000.0f, squares, true, &tasks);
    CHECK(contains(tasks, squares ? "mul + sum + mul" : "sum + mul"));
    CHECK(together.at(0) == 32752);
    CHECK(npu::float_status(device("npu")) == kFloatStatusF16Overflow);
    CHECK(bit_equal(together, run(squares ? 200.0f : 40000.0f, squares, false, nullptr)));
  }
  npu::clear_float_status(device("npu"));
  run(2.0f, true, true, nullptr);
  CHECK(npu::float_status(device("npu")) == 0);
}

TEST_CASE("fused reductions: what leaves too little for the threads stays apart and says why") {
  // One instruction takes all of it, so that one thread would compute 20 functions of each.
  const auto build = [](Graph& g, int64_t elements) {
    Value x = g.input("x", f32, {elements});
    for (int i = 0; i < 20; ++i) x = x * x + 0.5f;
    g.set_outputs({sum(x)});
  };
  for (const char* where : kFusingDevices) {
    for (const int64_t elements : {1000, 30000}) {
      Graph g;
      build(g, elements);
      const SupportsFunction supports = [&](const Node& n) {
        return device(where).backend().supports(n);
      };
      FuseReport report;
      const auto result = fuse(g, supports, &report);
      CHECK(keel_test::count_anchors(*result, kReduction) == (elements == 1000 ? 1u : 0u));
      CHECK(keel_test::reports(report, "the reduction is one block") == (elements != 1000));
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
