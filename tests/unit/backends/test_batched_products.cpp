// Products whose batch shares a matrix: one product over the rows of the whole batch, forward and
// for the gradient of that matrix, with what follows it. Values are small integers, so that every
// order of sums is exact.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/products/product_matrices.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::run_case;
using testing::StepCase;

Tensor digits(const Shape& shape, int64_t factor, DType dtype = f32) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, static_cast<double>(i * factor % 7) - 3);
  return t;
}

ProductMatrices matrices_of(const Shape& a, const Shape& b, MatmulAttributes options = {}) {
  Graph g;
  return product_matrices(matmul(g.input("a", f32, a), g.input("b", f32, b), options).node());
}

// How many products there are, each of how many rows.
std::pair<size_t, int64_t> cut(const Shape& a, const Shape& b, MatmulAttributes options = {}) {
  const ProductMatrices p = matrices_of(a, b, options);
  return {p.batch.size(), p.m};
}

using Cut = std::pair<size_t, int64_t>;

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("matrices that meet one matrix in turn are one with all their rows") {
  CHECK(cut({4, 3, 5}, {5, 2}) == Cut{1, 12});
  CHECK(cut({4, 3, 5}, {2, 5}, {.transpose_b = true}) == Cut{1, 12});
  CHECK(cut({2, 1, 4, 5}, {1, 1, 5, 2}) == Cut{1, 8});
  CHECK(cut({2, 3, 4, 5}, {2, 1, 5, 2}) == Cut{2, 12});
  CHECK(cut({2, 3, 4, 5}, {3, 5, 2}) == Cut{6, 4});
  CHECK(cut({4, 3, 5}, {4, 5, 2}) == Cut{4, 3});
  CHECK(cut({3, 5}, {4, 5, 2}) == Cut{4, 3});
  CHECK(cut({2, 1, 3, 5}, {4, 5, 2}) == Cut{8, 3});
  CHECK(cut({4, 5, 3}, {5, 2}, {.transpose_a = true}) == Cut{4, 3});
  CHECK(cut({3, 5}, {5, 2}) == Cut{1, 3});
  CHECK(cut({0, 3, 5}, {5, 2}) == Cut{0, 3});
  CHECK(cut({4, 0, 5}, {5, 2}) == Cut{1, 0});
  const ProductMatrices p = matrices_of({2, 3, 4, 5}, {2, 1, 5, 2});
  CHECK(p.batch[1].a == 60);
  CHECK(p.batch[1].b == 10);
  CHECK(p.batch[1].c == 24);
}

TEST_CASE("products of a shared matrix equal the reference with what follows them") {
  const std::pair<Shape, Shape> shapes[] = {{{4, 3, 5}, {5, 2}},          {{7, 33, 20}, {20, 40}},
                                            {{2, 3, 4, 5}, {2, 1, 5, 2}}, {{3, 1, 70}, {70, 9}},
                                            {{2, 65, 8}, {8, 33}},        {{5, 1, 1}, {1, 1}}};
  for (const auto& pair : shapes) {
    const Shape &a = pair.first, &b = pair.second;
    for (const bool transposed : {false, true}) {
      for (const int behind : {0, 1, 2}) {
        CAPTURE(to_string(a));
        CAPTURE(behind);
        const int64_t n = b.back(), k = b[b.rank() - 2];
        Shape right(b.dims().first(b.rank() - 2));
        right.push_back(transposed ? n : k);
        right.push_back(transposed ? k : n);
        const StepCase c{[&](Graph& g) {
                           const Value left = g.input("a", f32, a);
                           const Value y =
                               matmul(left, g.input("b", f32, right), {.transpose_b = transposed});
                           const Value bias = g.input("bias", f32, {n});
                           Values outputs = {behind == 0 ? y : relu(y + bias)};
                           if (behind == 2) outputs = {max(relu(y + bias), {-1})};
                           return std::pair{Update{}, outputs};
                         },
                         {digits(a, 3), digits(right, 5), digits({n}, 2)}};
        const auto expected = run_case(c, "ref", false);
        for (const char* where : {"cpu", "npu"}) {
          CAPTURE(where);
          CHECK(all_equal(run_case(c, where, true), expected));
          CHECK(all_equal(run_case(c, where, false), expected));
        }
      }
    }
  }
}

TEST_CASE("row-wise ops follow a product of a shared matrix") {
  const StepCase c{
      [](Graph& g) {
        const Value a = g.input("a", f32, {6, 20, 12}), b = g.input("b", f32, {12, 16});
        return std::pair{Update{}, Values{softmax(matmul(a, b))}};
      },
      {digits({6, 20, 12}, 3), digits({12, 16}, 5)}};
  for (const char* where : {"cpu", "npu"}) {
    CAPTURE(where);
    CHECK(all_equal(run_case(c, where, true), run_case(c, where, false)));
  }
}

TEST_CASE("the gradient of a shared matrix is one product") {
  for (const bool transposed : {false, true}) {
    for (const Shape& a : {Shape{4, 3, 5}, Shape{2, 3, 4, 5}, Shape{0, 3, 5}}) {
      CAPTURE(to_string(a));
      const Shape b = transposed ? Shape{6, 5} : Shape{5, 6};
      const auto make = [&](bool shared) {
        return StepCase{[&a, &b, transposed, shared](Graph& g) {
                          const Value left = g.input("a", f32, a), right = g.input("b", f32, b);
                          Shape repeated(a.dims().first(a.rank() - 2));
                          for (const int64_t dim : b.dims()) repeated.push_back(dim);
                          const Value y =
                              matmul(left, shared ? right : broadcast_to(right, repeated),
                                     {.transpose_b = transposed});
                          return std::pair{Update{}, gradients(sum(y * y), {left, right})};
                        },
                        {digits(a, 3), digits(b, 5)}};
      };
      const auto expected = run_case(make(false), "ref", false);
      for (const char* where : {"ref", "cpu", "npu"}) {
        CAPTURE(where);
        CHECK(all_equal(run_case(make(true), where, true), expected));
      }
    }
  }
  Graph g;
  const Value a = g.input("a", f32, {4, 3, 5}), b = g.input("b", f32, {5, 6});
  const Values to_b = gradients(sum(matmul(a, b)), {b});
  const auto graph = specialise({.graph = &g,
                                 .fetches = to_b,
                                 .update = {},
                                 .input_types = {{"a", a.type()}, {"b", b.type()}}});
  const std::vector<bool> live = live_nodes(*graph);
  std::string products;
  for (const Node& node : graph->nodes()) {
    if (live[node.id()] && node.has(kProduct)) products += to_string(node.type());
  }
  CHECK(products == "f32[5, 6]");
}

TEST_SUITE_END();

}  // namespace keel
