// Products of long rows of numbers of one sign left the documented error bound, which did not grow
// with their length; what AVX512_BF16 and AMX make of subnormals stood nowhere.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"
#include "keel/ops/product_bound.h"

#include "unit/vector_for_tests.h"

namespace keel {
namespace {

enum class Data { kPositive, kConstant };

Tensor drawn_operand(DType dtype, const Shape& shape, Data data, uint32_t seed) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    seed = seed * 1664525 + 1013904223;
    // A tenth has the same rounding error at every addition.
    t.set(i, data == Data::kConstant ? 0.1 : static_cast<double>(seed >> 8) * 0x1p-24);
  }
  return t;
}

struct ProductForm {
  DType dtype;
  MatmulAttributes options;
  bool fused;  // with something behind it that changes nothing
};

double ulp_of(DType dtype, double x) {
  const int digits = dtype == f64 ? 53 : dtype == f32 ? 24 : dtype == f16 ? 11 : 8;
  return std::ldexp(1.0, std::ilogb(x) - digits + 1);
}

struct BoundCase {
  ProductForm form;
  Data data;
  int64_t m, k, n;
};

// Sums that owe nothing to the library, in double, and for f64 in something wider.
template <class Sum>
std::vector<double> expected_product(const Tensor& left, const Tensor& right) {
  const int64_t m = left.shape()[0], k = left.shape()[1], n = right.shape()[1];
  std::vector<double> result;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      Sum sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<Sum>(left.at(i * k + p)) * static_cast<Sum>(right.at(p * n + j));
      }
      result.push_back(static_cast<double>(sum));
    }
  }
  return result;
}

// on_each(f) calls f for each way in which `where` computes.
template <class OnEach>
void check_bound(const std::string& where, const BoundCase& c, const OnEach& on_each) {
  CAPTURE(where);
  CAPTURE(std::string(name_of(c.form.dtype)));
  CAPTURE(c.form.options.wide);
  CAPTURE(c.form.fused);
  CAPTURE(static_cast<int>(c.data));
  CAPTURE(c.m);
  CAPTURE(c.k);
  CAPTURE(c.n);
  const DType dtype = c.form.dtype;
  const Tensor left = drawn_operand(dtype, {c.m, c.k}, c.data, 3);
  const Tensor right = drawn_operand(dtype, {c.k, c.n}, c.data, 4);
  const std::vector<double> expected = dtype == f64 ? expected_product<long double>(left, right)
                                                    : expected_product<double>(left, right);
  const double u = dtype == f64 ? 0x1p-53 : 0x1p-24;
  Graph g;
  const Value a = g.input("a", dtype, left.shape()), b = g.input("b", dtype, right.shape());
  Value y = matmul(a, b, c.form.options);
  if (c.form.fused) y = relu(y) * 1.0;
  on_each([&] {
    Session session(g, device(where));
    const Tensor got = session.run({y}, {{a, left}, {b, right}})[0];
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double limit =
          ulp_of(got.dtype(), expected[i]) + product_roundings(c.k) * u * expected[i];
      worst = std::max(worst, std::fabs(got.at(static_cast<int64_t>(i)) - expected[i]) / limit);
    }
    CHECK(worst <= 1);
  });
}

// Products of matrices, of a few rows and columns, and of vectors.
template <class OnEach>
void check_forms(const std::string& where, const std::vector<ProductForm>& forms,
                 const OnEach& on_each) {
  for (const ProductForm& form : forms) {
    for (const Data data : {Data::kPositive, Data::kConstant}) {
      for (const int64_t k : {1000, 3000, 10000}) {
        check_bound(where, {form, data, 17, k, 18}, on_each);
        check_bound(where, {form, data, 3, k, 2}, on_each);
        check_bound(where, {form, data, 1, k, 5}, on_each);
        check_bound(where, {form, data, 5, k, 1}, on_each);
      }
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("long products of positive numbers stay in their bound on cpu") {
  const std::vector<ProductForm> forms{{f32, {}, false}, {f32, {}, true},
                                       {f64, {}, false}, {f16, {.wide = true}, false},
                                       {f16, {}, false}, {bf16, {.wide = true}, true}};
  check_forms("cpu", forms, [](const auto& f) { f(); });
}

TEST_CASE("long products of positive numbers stay in their bound on npu") {
  const std::vector<ProductForm> forms{{f32, {}, false},
                                       {f32, {}, true},
                                       {f16, {.wide = true}, false},
                                       {bf16, {.wide = true}, true},
                                       {bf16, {}, false}};
  check_forms("npu", forms, [](const auto& f) { vector_test::on_every_isa(f); });
}

// ops/README.md: where a host multiplies bf16 by AVX512_BF16 or AMX, numbers below 2^-126 count as
// 0; the other sets of instructions and `ref` keep them.
TEST_CASE("subnormal bf16 operands count as themselves or as 0 as documented") {
  const double subnormal = 0x1p-133, infinity = std::numeric_limits<double>::infinity();
  const auto product = [](const std::string& where, double x, double y) {
    Graph g;
    const Value a = g.input("a", bf16, {1, 1}), b = g.input("b", bf16, {1, 1});
    Session session(g, device(where));
    return session
        .run({matmul(a, b, {.wide = true})},
             {{a, Tensor::full(bf16, {1, 1}, x)}, {b, Tensor::full(bf16, {1, 1}, y)}})[0]
        .at(0);
  };
  CHECK(product("ref", subnormal, 0x1p127) == 0x1p-6);
  CHECK(product("ref", subnormal, infinity) == infinity);
  vector_test::on_every_isa([&] {
    const vector::HostIsa isa = vector::host_isa();
    const bool flushes = isa == vector::HostIsa::kAvx512Bf16 || isa == vector::HostIsa::kAmx;
    for (const char* where : {"cpu", "npu"}) {
      CHECK(product(where, subnormal, 0x1p127) == (flushes ? 0 : 0x1p-6));
      CHECK(std::isnan(product(where, subnormal, infinity)) == flushes);
      // Normal numbers whose product is subnormal.
      CHECK(product(where, 0x1p-100, 0x1p-40) == (flushes ? 0 : 0x1p-140));
    }
  });
}

TEST_SUITE_END();

}  // namespace keel
