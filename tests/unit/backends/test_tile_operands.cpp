// Operands of element-wise clusters that are read where they lie: columns of one element for each
// row, and slices of longer rows. Bits are those of a step that fuses nothing.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/count_of.h"
#include "support/fusion.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using keel_test::count_of;
using testing::all_equal;
using testing::contains;
using testing::error_of;
using testing::noise;
using testing::StepCase;
using testing::tasks_with_checked_bits;

// Parts of the last axis of a value of rank 2.
Value columns(const Value& x, int64_t begin, int64_t end) {
  return slice(x, {0, begin}, {kToEnd, end});
}

// What an lstm does with a product of four gates.
std::pair<Update, Values> gates(Graph& g, int64_t rows, int64_t size) {
  const Value x = square(g.input("x", f32, {rows, 4 * size}));
  const Value c = g.input("c", f32, {rows, size});
  const Value in = sigmoid(columns(x, 0, size)), forget = sigmoid(columns(x, size, 2 * size));
  const Value cell = tanh(columns(x, 2 * size, 3 * size));
  const Value next = forget * c + in * cell;
  return {Update{}, {next, columns(x, 3 * size, 4 * size) * tanh(next)}};
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("tile operands: a column has one element for all of a row") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    // A row of 5000 has no room among those that are spread out once.
    for (const int64_t row : {1, 2, 15, 16, 17, 64, 100, 700, 5000}) {
      CAPTURE(row);
      for (const int64_t rows : {2, 7, row < 5000 ? 300 : 11}) {
        CAPTURE(rows);
        const Shape column{3, rows, 1}, all{3, rows, row};
        const auto build = [&](Graph& g) {
          const Value x = g.input("x", f32, all), m = g.input("m", f32, column);
          const Value r = g.input("r", f32, column), w = g.input("w", f32, {row});
          const Value y = (x - m) * r * w;
          return std::pair(Update{}, Values{select(greater(y, m), exp(y), r), square(y) - x});
        };
        static_cast<void>(tasks_with_checked_bits(
            {build, {noise(all, 1), noise(column, 2), noise(column, 3), noise({row}, 4)}}, where));
      }
    }
  }
}

TEST_CASE("tile operands: columns behind products and before reductions") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    for (const int64_t n : {10, 16, 77, 300, 600}) {
      CAPTURE(n);
      const auto build = [&](Graph& g) {
        const Value x = g.input("x", f32, {50, 33}), w = g.input("w", f32, {33, n});
        const Value m = g.input("m", f32, {50, 1}), b = g.input("b", f32, {n});
        const Value y = (matmul(x, w) - m) * m + b;
        return std::pair(Update{}, Values{y, sum((square(y) - m) * b, {1}), sum(exp(y) * m, {0})});
      };
      static_cast<void>(tasks_with_checked_bits(
          {build, {noise({50, 33}, 1), noise({33, n}, 2), noise({50, 1}, 3), noise({n}, 4)}},
          where));
    }
  }
}

TEST_CASE("tile operands: slices of rows are read where they lie") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    for (const int64_t size : {32, 64, 100, 5000}) {
      CAPTURE(size);
      for (const int64_t rows : {1, 3, 50}) {
        CAPTURE(rows);
        const auto build = [&](Graph& g) { return gates(g, rows, size); };
        const std::string tasks = tasks_with_checked_bits(
            {build, {noise({rows, 4 * size}, 1), noise({rows, size}, 2)}}, where);
        CHECK(count_of("AI_VECTOR_CORE", tasks) == 2);
        CHECK(contains(tasks, "slice + slice + slice + slice + sigmoid"));
      }
    }
  }
}

TEST_CASE("tile operands: slices beside shared rows and of other dtypes and of one op alone") {
  for (const DType dtype : {f32, f16, i32, u8}) {
    CAPTURE(name_of(dtype));
    const Shape wide{4, 9, 90}, one{4, 9, 40};
    const auto build = [&](Graph& g) {
      const Value x = abs(g.input("x", dtype, wide)), y = g.input("y", dtype, one);
      const Value b = g.input("b", dtype, {40}), m = g.input("m", dtype, {4, 9, 1});
      const Value left = slice(x, {0, 0, 3}, {4, 9, 43}), right = slice(x, {0, 0, 50}, {4, 9, 90});
      const Value alone = slice(x, {0, 0, 7}, {4, 9, 40});
      return std::pair(Update{}, Values{select(less(left, right), left + b, maximum(right, m)) * y,
                                        alone + alone});
    };
    const StepCase c{build,
                     {noise(dtype, wide, 1, 50), noise(dtype, one, 2, 50),
                      noise(dtype, {40}, 3, 50), noise(dtype, {4, 9, 1}, 4, 50)}};
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(where);
      CHECK(count_of("AI_VECTOR_CORE", tasks_with_checked_bits(c, where)) == 3);
    }
  }
}

TEST_CASE("tile operands: strict runs give the same bits") {
  const auto strict = keel_test::strict_npu();
  REQUIRE(strict != nullptr);
  Graph g;
  const auto [update, outputs] = gates(g, 30, 40);
  const Value x = g.inputs()[0], m = g.input("m", f32, {30, 1}), b = g.input("b", f32, {160});
  const Values fetches = {outputs[0], outputs[1], square((x - m) * b) / exp(m)};
  const Feeds feeds = {{x, noise({30, 160}, 1)},
                       {g.inputs()[1], noise({30, 40}, 2)},
                       {m, noise({30, 1}, 3)},
                       {b, noise({160}, 4)}};
  Session checked(g, Device(strict.get(), 0)), plain(g, device("npu:0"));
  CHECK(contains(checked.describe({}, fetches, feeds), "parts of rows are not brought"));
  CHECK(all_equal(checked.run(fetches, feeds), plain.run(fetches, feeds)));
}

TEST_CASE("tile operands: large results of slices are stored past the caches") {
  const Shape wide{1100, 4100};
  const auto build = [&](Graph& g) {
    const Value x = square(g.input("x", f32, wide));
    return std::pair(Update{}, Values{columns(x, 0, 2048) - columns(x, 2052, 4100)});
  };
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    CHECK(
        contains(tasks_with_checked_bits({build, {noise(wide, 1)}}, where), "slice + slice + sub"));
  }
}

TEST_CASE("tile operands: other slices are tasks of their own") {
  const auto build = [](Graph& g) {
    const Value x = square(g.input("x", f32, {8, 160})), y = g.input("y", f32, {8, 40});
    const Value wide = g.state("wide", zeros({8, 160}));
    const Value column = columns(x, 5, 6), row = slice(x, {3, 7}, {4, 47});
    const Value leaves = columns(x, 0, 40), shared = columns(x, 40, 80);
    const Value apart = slice(x, {0, 80}, {8, 160}, {1, 2}), rows = slice(x, {4}, {8});
    const Value product = matmul(shared, y, {.transpose_b = true});
    const Value loaded = cast(columns(x, 100, 140), bf16);
    Update update;
    update.assignments.push_back({wide, wide * 0.5f + 1.0f});
    return std::pair(
        update, Values{leaves, exp(leaves) * y, exp(shared), product, exp(apart) * y, exp(rows),
                       square(y - column) * column, tanh(y * row), exp(columns(x, 3, 34)),
                       tanh(columns(wide, 0, 40)) * exp(y), cast(loaded, f32) * y,
                       matmul(loaded, cast(y, bf16), {.transpose_b = true})});
  };
  const StepCase c{build, {noise({8, 160}, 1), noise({8, 40}, 2)}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    CHECK_FALSE(contains(tasks_with_checked_bits(c, where), "slice + "));
  }
}

TEST_CASE("tile operands: a fused body that fuse did not make cannot broadcast a slice") {
  Graph g;
  const Value x = g.input("x", f32, {1, 900}), y = g.input("y", f32, {4, 300});
  const auto body = std::make_shared<Graph>(g.ops());
  const Value a = body->input("a", f32, {1, 900}), b = body->input("b", f32, {4, 300});
  body->set_outputs({b + slice(a, {0, 0}, {1, 300}), b * 2.0f});
  const Node& fused = g.add("fused", {x, y}, {}, CallSite::here(), {body});
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    Session session(g, device(where));
    CHECK(contains(
        error_of([&] {
          session.run({fused.output()}, {{x, noise({1, 900}, 1)}, {y, noise({4, 300}, 2)}});
        }),
        "a slice is broadcast"));
  }
}

TEST_SUITE_END();

}  // namespace keel
