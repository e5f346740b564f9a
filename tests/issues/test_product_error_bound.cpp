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

#include "unit/npu_isa_for_tests.h"

namespace keel {
namespace {

enum class Data { kPositive, kConstant };

Tensor numbers(DType dtype, const Shape& shape, Data data, uint32_t seed) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    seed = seed * 1664525 + 1013904223;
    // A tenth has the same rounding error at every addition.
    t.set(i, data == Data::kConstant ? 0.1 : static_cast<double>(seed >> 8) * 0x1p-24);
  }
  return t;
}

struct Form {
  DType dtype;
  MatmulAttributes options;
  bool fused;  // with something behind it that changes nothing
};

double ulp_of(DType dtype, double x) {
  const int digits = dtype == f64 ? 53 : dtype == f32 ? 24 : dtype == f16 ? 11 : 8;
  return std::ldexp(1.0, std::ilogb(x) - digits + 1);
}

// The worst error of [m, k] x [k, n] as a part of the bound that the op documents.
double worst(const std::string& where, const Form& form, Data data, int64_t m, int64_t k,
             int64_t n) {
  const Tensor left = numbers(form.dtype, {m, k}, data, 3),
               right = numbers(form.dtype, {k, n}, data, 4);
  Graph g;
  const Value a = g.input("a", form.dtype, {m, k}), b = g.input("b", form.dtype, {k, n});
  Value y = matmul(a, b, form.options);
  if (form.fused) y = relu(y) * 1.0;
  Session session(g, device(where));
  const Tensor got = session.run({y}, {{a, left}, {b, right}})[0];
  const double u = form.dtype == f64 ? 0x1p-53 : 0x1p-24;
  double result = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      long double sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<long double>(left.at(i * k + p)) *
               static_cast<long double>(right.at(p * n + j));
      }
      const auto expected = static_cast<double>(sum);
      const double limit = ulp_of(got.dtype(), expected) + product_roundings(k) * u * expected;
      result = std::max(result, std::fabs(got.at(i * n + j) - expected) / limit);
    }
  }
  return result;
}

void check_forms(const std::string& where, const std::vector<Form>& forms) {
  for (const Form& form : forms) {
    for (const Data data : {Data::kPositive, Data::kConstant}) {
      for (const int64_t k : {100, 1000, 1024, 3000, 10000}) {
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{20, 20}, {3, 2}, {1, 5}, {5, 1}}) {
          CAPTURE(where);
          CAPTURE(std::string(name_of(form.dtype)));
          CAPTURE(form.options.wide);
          CAPTURE(form.fused);
          CAPTURE(static_cast<int>(data));
          CAPTURE(k);
          CAPTURE(m);
          CHECK(worst(where, form, data, m, k, n) <= 1);
        }
      }
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("long products of positive numbers stay in their bound on cpu") {
  check_forms("cpu", {{f32, {}, false},
                      {f32, {}, true},
                      {f64, {}, false},
                      {f16, {.wide = true}, false},
                      {f16, {}, false},
                      {bf16, {.wide = true}, true}});
}

TEST_CASE("long products of positive numbers stay in their bound on npu") {
  npu_isa_test::on_every_isa([] {
    check_forms("npu", {{f32, {}, false},
                        {f32, {}, true},
                        {f16, {.wide = true}, false},
                        {bf16, {.wide = true}, true},
                        {bf16, {}, false}});
  });
}

// ops/README.md: where a host multiplies bf16 by AVX512_BF16 or AMX, numbers below 2^-126 count as
// 0; the other sets of instructions and the other backends keep them.
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
  for (const char* where : {"ref", "cpu"}) {
    CHECK(product(where, subnormal, 0x1p127) == 0x1p-6);
    CHECK(product(where, subnormal, infinity) == infinity);
  }
  npu_isa_test::on_every_isa([&] {
    const npu::HostIsa isa = npu::host_isa();
    const bool flushes = isa == npu::HostIsa::kAvx512Bf16 || isa == npu::HostIsa::kAmx;
    CHECK(product("npu", subnormal, 0x1p127) == (flushes ? 0 : 0x1p-6));
    CHECK(std::isnan(product("npu", subnormal, infinity)) == flushes);
    // Normal numbers whose product is subnormal.
    CHECK(product("npu", 0x1p-100, 0x1p-40) == (flushes ? 0 : 0x1p-140));
  });
}

TEST_SUITE_END();

}  // namespace keel
