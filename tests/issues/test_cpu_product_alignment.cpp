// The bits of a small product on cpu depended on where its result lay in memory: with fusion off,
// or as one of a batch, it could differ from the same product by itself.
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/fusion.h"

namespace keel {
namespace {

Tensor noise(DType dtype, const Shape& shape, uint32_t seed) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, static_cast<double>((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-23 - 1.0);
  }
  return t;
}

struct ProductCase {
  DType dtype;
  int64_t batch, m, k, n;
  MatmulAttributes options;
};

Shape left_of(const ProductCase& c) {
  return c.options.transpose_a ? Shape{c.batch, c.k, c.m} : Shape{c.batch, c.m, c.k};
}
Shape right_of(const ProductCase& c) {
  return c.options.transpose_b ? Shape{c.batch, c.n, c.k} : Shape{c.batch, c.k, c.n};
}

// The product and something element-wise behind it.
std::vector<Tensor> run_product(const ProductCase& c, const Tensor& left, const Tensor& right,
                                bool fuse) {
  Graph g;
  const Value a = g.input("a", c.dtype, left.shape()), b = g.input("b", c.dtype, right.shape());
  const Value y = matmul(a, b, c.options) * 3.0;
  Session session(g, device("cpu"), {.disabled_passes = keel_test::fusion(fuse)});
  return session.run({y}, {{a, left}, {b, right}});
}

// Element 0 lies `shift` elements behind an aligned address: everything is a slice of one state.
Tensor run_shifted(const ProductCase& c, const Tensor& left, const Tensor& right, int64_t shift) {
  Graph g;
  const int64_t a_size = left.num_elements(), b_size = right.num_elements();
  const Value all = g.input("all", c.dtype, {shift + a_size + b_size});
  const Value a = reshape(slice(all, {shift}, {shift + a_size}), left.shape());
  const Value b = reshape(slice(all, {shift + a_size}, {shift + a_size + b_size}), right.shape());
  const Value y = matmul(a, b, c.options) * 3.0;
  Tensor together(c.dtype, {shift + a_size + b_size});
  for (int64_t i = 0; i < a_size; ++i) together.set(shift + i, left.at(i));
  for (int64_t i = 0; i < b_size; ++i) together.set(shift + a_size + i, right.at(i));
  Session session(g, device("cpu"));
  return session.run({y}, {{all, together}})[0];
}

Tensor matrix(const Tensor& batch, int64_t index) {
  const Shape& shape = batch.shape();
  Tensor one(batch.dtype(), {1, shape[1], shape[2]});
  std::memcpy(one.raw(),
              static_cast<const char*>(batch.raw()) + static_cast<size_t>(index) * one.num_bytes(),
              one.num_bytes());
  return one;
}

std::string text(const ProductCase& c) {
  return std::string(name_of(c.dtype)) + " " + to_string(left_of(c)) + " x " +
         to_string(right_of(c)) + (c.options.transpose_a ? " ta" : "") +
         (c.options.transpose_b ? " tb" : "") + (c.options.wide ? " wide" : "");
}

void check_aligned(const ProductCase& c, const Tensor& left, const Tensor& right) {
  CAPTURE(text(c));
  const Tensor fused = run_product(c, left, right, true)[0];
  CHECK(bit_equal(fused, run_product(c, left, right, false)[0]));
  CHECK(bit_equal(fused, run_shifted(c, left, right, 1)));
  for (int64_t i = 0; i < c.batch; ++i) {
    CAPTURE(i);
    const Tensor alone = run_product(c, matrix(left, i), matrix(right, i), false)[0];
    CHECK(bit_equal(alone, matrix(fused, i)));
  }
}

void check_aligned(const ProductCase& c) {
  check_aligned(c, noise(c.dtype, left_of(c), 1), noise(c.dtype, right_of(c), 2));
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("bits of a product on cpu do not depend on where it lies") {
  // They are on both sides of where Eigen, which multiplies f64, would compute element by element,
  // of vectors and of one panel.
  const std::vector<ProductCase> shapes = {
      {f32, 3, 1, 2, 3, {}},    {f32, 3, 3, 5, 7, {}},    {f32, 2, 2, 7, 5, {}},
      {f32, 3, 1, 17, 1, {}},   {f32, 3, 1, 18, 1, {}},   {f32, 2, 3, 13, 3, {}},
      {f32, 2, 3, 14, 3, {}},   {f32, 3, 1, 33, 5, {}},   {f32, 3, 5, 33, 1, {}},
      {f32, 2, 1, 1500, 3, {}}, {f32, 2, 7, 1500, 1, {}}, {f32, 2, 1, 1500, 1, {}},
      {f32, 2, 9, 11, 21, {}},  {f32, 2, 17, 1, 17, {}},  {f32, 1, 1, 3, 17, {}}};
  for (const ProductCase& shape : shapes) {
    for (const DType dtype : {f32, f64, f16, bf16}) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          ProductCase c = shape;
          c.dtype = dtype;
          c.options = {.transpose_a = ta, .transpose_b = tb};
          check_aligned(c);
          if (size_of(dtype) != 2) continue;
          c.options.wide = true;
          check_aligned(c);
        }
      }
    }
  }
}

TEST_CASE("bits of no small product on cpu depend on where it lies") {
  // Their sizes come to less than 20, so that Eigen by itself would compute those of f64 element by
  // element: where the result is aligned by vectors, which begin with 0 and may multiply and add at
  // once, and one by one elsewhere. Signs of zeros show it on processors without such vectors, too.
  int64_t products = 0;
  for (const int64_t m : {1, 2, 3, 6}) {
    for (const int64_t n : {1, 2, 3, 6}) {
      for (const int64_t k : {1, 2, 3, 4, 5, 7, 8, 11, 13}) {
        if (m + n + k >= 20) continue;
        for (const bool ta : {false, true}) {
          const ProductCase c{f64, 3, m, k, n, {.transpose_a = ta}};
          check_aligned({f32, 3, m, k, n, c.options});
          check_aligned(c);
          check_aligned(c, Tensor::full(f64, left_of(c), 0), Tensor::full(f64, right_of(c), -1));
        }
        ++products;
      }
    }
  }
  CHECK(products == 133);
}

TEST_SUITE_END();

}  // namespace keel
