// Rows that an element-wise cluster makes where a concat along the last axis would put them. Bits
// are those of a step that fuses nothing.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/tile_program.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/slice.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/count_of.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using keel_test::count_of;
using testing::all_equal;
using testing::contains;
using testing::noise;
using testing::run_case;
using testing::StepCase;
using testing::tasks_with_checked_bits;

// An lstm hands this back: gradients of four gates side by side, which products read, and one that
// is read by itself.
std::pair<Update, Values> gradients_of_gates(Graph& g, int64_t rows, int64_t size) {
  const Value gates = square(g.input("gates", f32, {rows, 4 * size}));
  const Value d = g.input("d", f32, {rows, size}), w = g.input("w", f32, {4 * size, 8});
  const auto gate = [&](int64_t i) {
    return slice(gates, {0, i * size}, {kToEnd, (i + 1) * size});
  };
  const Value in = gate(0), forget = gate(1), cell = tanh(gate(2)), out = gate(3);
  const Value dc = d * out * (1.0f - square(cell));
  const Value all = concat({dc * cell, dc * forget * (1.0f - forget), dc * in, d * cell}, 1);
  return {Update{}, {matmul(all, w), sum(all, {0}), exp(sum(dc * in, {1}, true))}};
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("tile joins: gradients of gates are made side by side") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    for (const int64_t size : {32, 64, 100, 1500}) {
      CAPTURE(size);
      for (const int64_t rows : {1, 3, 50}) {
        CAPTURE(rows);
        const auto build = [&](Graph& g) { return gradients_of_gates(g, rows, size); };
        const std::string tasks = tasks_with_checked_bits(
            {build,
             {noise(f32, {rows, 4 * size}, 1, 0), noise(f32, {rows, size}, 2, 0),
              noise(f32, {4 * size, 8}, 3, 0)}},
            where);
        CHECK(contains(tasks, " + concat  "));
        CHECK(count_of("  concat  ", tasks) == 0);
      }
    }
  }
}

TEST_CASE("tile joins: several joins of shared values in all dtypes") {
  for (const DType dtype : {f32, f16, bf16, i32, u8}) {
    CAPTURE(name_of(dtype));
    const Shape one{4, 9, 40};
    const auto build = [&](Graph& g) {
      const Value x = abs(g.input("x", dtype, one)), y = g.input("y", dtype, one);
      const Value b = g.input("b", dtype, {40}), m = g.input("m", dtype, {4, 9, 1});
      // A value that comes twice, one that leaves, too, and one that the unit reads again.
      const Value a = x + b, c = maximum(a, m), d = select(less(a, y), c, x);
      const Value first = concat({a, c, a}, 2), second = concat({d, c}, 2);
      return std::pair(Update{}, Values{first, second, c, d * a});
    };
    const StepCase c{build,
                     {noise(dtype, one, 1, 50), noise(dtype, one, 2, 50), noise(dtype, {40}, 3, 50),
                      noise(dtype, {4, 9, 1}, 4, 50)}};
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(where);
      CHECK(count_of("AI_VECTOR_CORE", tasks_with_checked_bits(c, where)) == 1);
    }
  }
}

TEST_CASE("tile joins: rows of more than the caches hold") {
  const Shape one{1100, 1030};
  const auto build = [&](Graph& g) {
    const Value x = g.input("x", f32, one), y = g.input("y", f32, one);
    const Value product = x * y;
    return std::pair(Update{}, Values{concat({product, product - y, sqrt(square(product))}, 1)});
  };
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    CHECK(count_of("AI_VECTOR_CORE",
                   tasks_with_checked_bits({build, {noise(f32, one, 1, 0), noise(f32, one, 2, 0)}},
                                           where)) == 1);
  }
}

TEST_CASE("tile joins: a state whose next value is joined as well") {
  const Shape one{6, 48};
  const auto build = [&](Graph& g) {
    const Value x = g.input("x", f32, one), state = g.state("s", {.type = {f32, one}});
    const Value next = state * 0.5f + x;
    Update update;
    update.assignments = {{state, next}};
    return std::pair(update, Values{concat({next, next - x, exp(state) * next}, 1)});
  };
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    const std::string tasks = tasks_with_checked_bits({build, {noise(f32, one, 1, 0)}}, where);
    CHECK(contains(tasks, " + concat"));
  }
}

TEST_CASE("tile joins: other joins are tasks of their own") {
  const auto build = [](Graph& g) {
    const Value x = exp(g.input("x", f32, {8, 40})), y = g.input("y", f32, {8, 40});
    const Value narrow = exp(g.input("n", f32, {8, 31})), w = g.input("w", f32, {40, 40});
    const Value product = matmul(y, w) + y;
    return std::pair(
        Update{}, Values{concat({x, y}, 1), concat({x, tanh(x)}, 0),
                         concat({narrow, tanh(narrow)}, 1), concat({product, product * 2.0f}, 1)});
  };
  const StepCase c{build,
                   {noise(f32, {8, 40}, 1, 0), noise(f32, {8, 40}, 2, 0), noise(f32, {8, 31}, 3, 0),
                    noise(f32, {40, 40}, 4, 0)}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    CHECK(count_of("  concat  ", tasks_with_checked_bits(c, where)) == 4);
  }
}

TEST_CASE("tile joins: strict runs give the same bits") {
  const auto strict = keel_test::strict_npu();
  REQUIRE(strict != nullptr);
  Graph g;
  const auto [update, fetches] = gradients_of_gates(g, 30, 40);
  const Feeds feeds = {{g.inputs()[0], noise(f32, {30, 160}, 1, 0)},
                       {g.inputs()[1], noise(f32, {30, 40}, 2, 0)},
                       {g.inputs()[2], noise(f32, {160, 8}, 3, 0)}};
  Session checked(g, Device(strict.get(), 0)), plain(g, device("npu:0"));
  CHECK(contains(checked.describe({}, fetches, feeds), "parts of rows are not brought"));
  CHECK(all_equal(checked.run(fetches, feeds), plain.run(fetches, feeds)));
}

TEST_CASE("tile joins: rows of another shape than the cluster's are not joined in it") {
  Graph body;
  const Value x = body.input("x", f32, {4, 64}), y = exp(body.input("y", f32, {1, 64}));
  body.set_outputs({x * 2.0f, concat({y, y}, 1)});
  const Support support = supports_tiles(body, vector::instruction_lookup());
  CHECK_FALSE(support.supported);
  CHECK(support.reason == "what is joined has another shape");
}

// A fused body that fuse did not make may join rows that it reads, or that all rows share.
TEST_CASE("tile joins: rows of inputs and constants are copied to their place") {
  Graph body;
  const Shape one{5, 64};
  const Value x = body.input("x", f32, one), y = body.input("y", f32, {64});
  const Value all = broadcast_to(y, one),
              number = broadcast_to(body.constant(Tensor::scalar(0.5f)), one);
  const Value joined = concat({x * y, all, number, all}, 1);
  body.set_outputs({joined, x - y});
  const InstructionLookup lookup = vector::instruction_lookup();
  REQUIRE(supports_tiles(body, lookup).supported);
  const TileProgram program(body, lookup);
  CHECK(program.moves_parts());
  // The joined rows take over no input, and the differences may.
  REQUIRE(program.in_place().size() == 1);
  CHECK(program.in_place()[0].output == 1);
  CHECK(program.in_place()[0].input == 0);
  const Tensor a = noise(f32, one, 1, 0), b = noise(f32, {64}, 2, 0);
  for (const int64_t cut : {0, 70, 320}) {
    Tensor rows = Tensor::full(f32, {5, 256}, -7), differences(f32, one);
    std::vector<void*> args = {const_cast<void*>(a.raw()), const_cast<void*>(b.raw()), rows.raw(),
                               differences.raw()};
    program.run(args.data(), 0, cut);
    program.run(args.data(), cut, 320);
    size_t wrong = 0;
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 64; ++j) {
        const float p = a.data<float>()[static_cast<size_t>(i * 64 + j)];
        const float q = b.data<float>()[static_cast<size_t>(j)];
        const float expected[4] = {p * q, q, 0.5f, q};
        for (int64_t part = 0; part < 4; ++part) {
          const auto at = static_cast<size_t>(i * 256 + part * 64 + j);
          if (rows.data<float>()[at] != expected[part]) ++wrong;
        }
        if (differences.data<float>()[static_cast<size_t>(i * 64 + j)] != p - q) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_SUITE_END();

}  // namespace keel
