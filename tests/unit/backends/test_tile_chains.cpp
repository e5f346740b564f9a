// Several chains of an element-wise cluster, which each group of elements goes through together: of
// the steps of an optimizer, in tasks of their own, behind products and before sums. Bits are those
// of a step that fuses nothing.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/tile_program.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/reduce.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/fusion.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::noise;
using testing::StepCase;
using testing::tasks_with_checked_bits;

// Two moments that are each read again, and what they make of a third value.
Values moments(const Value& gradient, const Value& m, const Value& v, const Value& w) {
  const Value first = m * 0.9f + gradient * 0.1f;
  const Value second = v * 0.99f + square(gradient) * 0.01f;
  return {first, second, w - first * 0.125f / (sqrt(second) * 3.0f + 0.25f)};
}

void check_bits(const StepCase& c, const std::vector<std::string>& devices = {"npu:0", "cpu:0"}) {
  for (const std::string& where : devices) {
    CAPTURE(where);
    static_cast<void>(tasks_with_checked_bits(c, where));
  }
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("tile chains: a task of several chains") {
  for (const DType dtype : {f32, f64}) {
    CAPTURE(name_of(dtype));
    std::vector<std::string> devices = {"cpu:0"};
    if (dtype != f64) devices.emplace_back("npu:0");  // which has no f64
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{130}, Shape{3, 700}, Shape{9, 5000}}) {
      CAPTURE(to_string(shape));
      const auto build = [&](Graph& g) {
        const Value x = g.input("x", dtype, shape), m = g.input("m", dtype, shape);
        const Value v = square(g.input("v", dtype, shape)), w = g.input("w", dtype, shape);
        // The exponential stands between two runs of chains, and reads what the first one makes.
        Values all = moments(x, m, v, w);
        const Value between = exp(all[2]);
        all.push_back(moments(between, m, v, all[0])[2] + all[1]);
        return std::pair(Update{}, all);
      };
      check_bits({build,
                  {noise(dtype, shape, 1, 0), noise(dtype, shape, 2, 0), noise(dtype, shape, 3, 0),
                   noise(dtype, shape, 4, 0)}},
                 devices);
    }
  }
}

TEST_CASE("tile chains: pieces of products by rows and by columns go through several chains") {
  // A step of rows, of columns, of one column, and more columns than a piece has.
  constexpr int64_t kSizes[][3] = {{300, 40, 64}, {40, 90, 300}, {77, 30, 1}, {20, 9, 1100}};
  for (const auto& size : kSizes) {
    const int64_t m = size[0], k = size[1], n = size[2];
    CAPTURE(n);
    const Shape all{m, n};
    for (const DType dtype : {f32, bf16}) {
      CAPTURE(name_of(dtype));
      const auto build = [&](Graph& g) {
        const Value a = g.input("a", dtype, {m, k}), b = g.input("b", dtype, {k, n});
        const Value product = cast(matmul(a, b), f32);
        const Value first = g.state("first", zeros(all)), second = g.state("second", zeros(all));
        const Value w = g.state("w", zeros(all)), row = g.input("row", f32, {n});
        const Values next = moments(product * row, first, second, w + row);
        Update update;
        update.assignments = {{first, next[0]}, {second, next[1]}, {w, next[2]}};
        return std::pair(update, Values{sum(next[2] * next[1], {0})});
      };
      check_bits(
          {build, {noise(dtype, {m, k}, 1, 0), noise(dtype, {k, n}, 2, 0), noise(f32, {n}, 3, 0)}});
    }
  }
}

// All values are made before the first is read, and each is read twice, so that chains do not take
// them with them.
TEST_CASE("tile chains: more values wait than a group has room for") {
  constexpr size_t kValues = 18;
  const auto number = [](size_t i) { return static_cast<float>(i % 5) - 2.5f; };
  const Shape shape{3, 333};
  Graph g;
  const Value x = g.input("x", f32, shape);
  Values made, chosen;
  for (size_t i = 0; i < kValues; ++i) made.push_back(x * number(i));
  for (size_t i = 0; i < kValues; i += 2) {
    chosen.push_back(
        select(less(made[i], made[i + 1]), made[(i + 5) % kValues], made[(i + 8) % kValues]));
  }
  g.set_outputs(chosen);
  const TileProgram program(g, vector::instruction_lookup());
  const Tensor input = noise(f32, shape, 1, 0);
  std::vector<Tensor> results;
  std::vector<void*> args = {const_cast<void*>(input.raw())};
  for (size_t i = 0; i < chosen.size(); ++i) args.push_back(results.emplace_back(f32, shape).raw());
  program.run(args.data(), 0, shape.num_elements());
  size_t wrong = 0;
  for (size_t i = 0; i < kValues; i += 2) {
    for (size_t at = 0; at < static_cast<size_t>(shape.num_elements()); ++at) {
      const float v = input.data<float>()[at];
      const size_t taken = v * number(i) < v * number(i + 1) ? i + 5 : i + 8;
      wrong += results[i / 2].data<float>()[at] != v * number(taken % kValues);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("tile chains: chains of two dtypes are not one") {
  const Shape shape{700};
  Graph g;
  const Value x = g.input("x", f32, shape), wide = cast(x, f64);
  g.set_outputs({x * 2.5f + x, wide / 3.0f - wide});
  const TileProgram program(g, vector::instruction_lookup());
  const Tensor input = noise(f32, shape, 1, 0);
  Tensor narrow_result(f32, shape), wide_result(f64, shape);
  void* const args[] = {const_cast<void*>(input.raw()), narrow_result.raw(), wide_result.raw()};
  program.run(args, 0, shape.num_elements());
  size_t wrong = 0;
  for (size_t i = 0; i < static_cast<size_t>(shape.num_elements()); ++i) {
    const float v = input.data<float>()[i];
    const double w = v;
    wrong += narrow_result.data<float>()[i] != v * 2.5f + v;
    wrong += wide_result.data<double>()[i] != w / 3.0 - w;
  }
  CHECK(wrong == 0);
}

TEST_CASE("tile chains: strict runs give the same bits") {
  const auto strict = keel_test::strict_npu();
  REQUIRE(strict != nullptr);
  const Shape shape{30, 170};
  Graph g;
  Values inputs;
  Feeds feeds;
  for (const char* name : {"x", "m", "v", "w"}) {
    inputs.push_back(g.input(name, f32, shape));
    feeds.push_back({inputs.back(), noise(f32, shape, static_cast<uint32_t>(feeds.size() + 1), 0)});
  }
  const Values fetches = moments(inputs[0], inputs[1], square(inputs[2]), inputs[3]);
  Session checked(g, Device(strict.get(), 0)), plain(g, device("npu:0"));
  CHECK(all_equal(checked.run(fetches, feeds), plain.run(fetches, feeds)));
}

TEST_SUITE_END();

}  // namespace keel
