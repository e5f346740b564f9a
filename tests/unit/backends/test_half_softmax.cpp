// Softmax and its logarithm in f16 and bf16: computed in f32 and rounded once, as one task.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/options.h"
#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

using namespace keel;

TEST_SUITE_BEGIN("unit");

namespace {

Tensor values_of(DType dtype, int64_t rows, int64_t columns, double scale) {
  Tensor x(dtype, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i)
    x.set(i, scale * std::sin(0.7 * static_cast<double>(i)) + static_cast<double>(i % 5));
  return x;
}

Tensor computed(const Tensor& x, bool logarithm, const char* name) {
  Graph g;
  const Value in = g.input("x", x.dtype(), x.shape());
  Session session(
      g, device(name),
      {.device_options = std::string(name) == "npu" ? npu::options("ascend910b2") : nullptr});
  return session.run(logarithm ? log_softmax(in) : softmax(in), {{in, x}});
}

// The logarithm of each element of softmax, in double.
std::vector<double> expected_logarithms(const Tensor& x) {
  const int64_t columns = x.shape().back();
  std::vector<double> logarithms;
  for (int64_t row = 0; row < x.num_elements(); row += columns) {
    double top = x.at(row), sum = 0;
    for (int64_t i = row; i < row + columns; ++i) top = std::max(top, x.at(i));
    for (int64_t i = row; i < row + columns; ++i) sum += std::exp(x.at(i) - top);
    for (int64_t i = row; i < row + columns; ++i)
      logarithms.push_back(x.at(i) - top - std::log(sum));
  }
  return logarithms;
}

Tensor in_double(const Tensor& x) {
  Tensor wide(f64, x.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) wide.set(i, x.at(i));
  return wide;
}

// Counts the elements that are not the expected ones rounded to the dtype: NaN for NaN, the same
// infinity, and finite ones within half a unit in the last place and what f32 rounds.
int64_t count_of_others(const Tensor& results, const Tensor& expected) {
  const double half_ulp = 1.01 * std::ldexp(1.0, results.dtype() == f16 ? -11 : -8);
  int64_t others = 0;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double got = results.at(i), wanted = expected.at(i);
    const bool same = std::isnan(wanted) ? std::isnan(got)
                      : std::isinf(wanted)
                          ? got == wanted
                          : std::abs(got - wanted) <= std::abs(wanted) * half_ulp + 1e-6;
    if (!same) ++others;
  }
  return others;
}

}  // namespace

TEST_CASE("half softmax: results are rounded once from f32 and the same on cpu and npu") {
  for (const DType dtype : {f16, bf16}) {
    // Half a unit in the last place, and 1 % of that for what f32 rounds.
    const double half_ulp = 1.01 * std::ldexp(1.0, dtype == f16 ? -11 : -8);
    const double smallest = std::ldexp(1.0, -24);
    for (const int64_t columns : {1, 10, 17, 129, 1000, 9001}) {
      const Tensor x = values_of(dtype, 37, columns, 3);
      const std::vector<double> logarithms = expected_logarithms(x);
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(columns);
        CAPTURE(logarithm);
        const Tensor on_cpu = computed(x, logarithm, "cpu"), on_npu = computed(x, logarithm, "npu");
        int64_t apart = 0, wrong = 0;
        for (int64_t i = 0; i < x.num_elements(); ++i) {
          const double log = logarithms[static_cast<size_t>(i)];
          const double expected = logarithm ? log : std::exp(log);
          if (on_cpu.at(i) != on_npu.at(i)) ++apart;
          // A logarithm near 0 is the difference of what f32 has rounded.
          const double bound =
              std::abs(expected) * half_ulp + std::max(smallest, logarithm ? 1e-6 : 0);
          if (!(std::abs(on_npu.at(i) - expected) <= bound)) ++wrong;
        }
        CHECK(apart == 0);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("half softmax: infinities and NaN are what ref makes of them in double") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // A pair stands in the middle and at the end of a row whose other elements are finite.
  const std::pair<double, double> planted[] = {{nan, 1},     {1, nan},    {inf, 1},    {1, inf},
                                               {-inf, 1},    {1, -inf},   {inf, -inf}, {inf, inf},
                                               {-inf, -inf}, {nan, -inf}, {2, 1}};
  for (const DType dtype : {f16, bf16}) {
    for (const int64_t columns : {1, 2, 10, 17, 129, 1000}) {
      Tensor x(dtype, {static_cast<int64_t>(std::size(planted)) + 2, columns});
      for (int64_t i = 0; i < x.num_elements(); ++i) x.set(i, static_cast<double>(i % 7) - 3);
      for (size_t row = 0; row < std::size(planted); ++row) {
        const auto first = static_cast<int64_t>(row) * columns;
        x.set(first + columns / 2, planted[row].first);
        x.set(first + columns - 1, planted[row].second);
      }
      for (int64_t i = x.num_elements() - 2 * columns; i < x.num_elements(); ++i)
        x.set(i, i < x.num_elements() - columns ? -inf : inf);
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(columns);
        CAPTURE(logarithm);
        const Tensor expected = computed(in_double(x), logarithm, "ref");
        for (const char* backend : {"cpu", "npu"}) {
          CAPTURE(backend);
          CHECK(count_of_others(computed(x, logarithm, backend), expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("half softmax: rows without elements no rows and single elements") {
  for (const DType dtype : {f16, bf16}) {
    for (const char* backend : {"cpu", "npu"}) {
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(backend);
        CAPTURE(logarithm);
        for (const Shape& shape :
             {Shape{0, 5}, Shape{5, 0}, Shape{0, 0}, Shape{0}, Shape{3, 0, 2}}) {
          const Tensor none = computed(Tensor(dtype, shape), logarithm, backend);
          CHECK(none.shape() == shape);
          CHECK(none.dtype() == dtype);
        }
        Tensor x(dtype, {37, 1});
        for (int64_t i = 0; i < 37; ++i) x.set(i, static_cast<double>(i - 18) * 1000);
        const Tensor ones = computed(x, logarithm, backend);
        for (int64_t i = 0; i < 37; ++i) CHECK(ones.at(i) == (logarithm ? 0 : 1));
      }
    }
  }
}

TEST_CASE("half softmax: logarithms beyond the largest f16 stop there where the device saturates") {
  Tensor x(f16, {1, 2});
  x.set(0, 65504);
  x.set(1, -65504);
  Graph g;
  const Value in = g.input("x", f16, {1, 2});
  const auto run = [&](const char* preset) {
    Session session(g, device("npu"), {.device_options = npu::options(preset)});
    return session.run(log_softmax(in), {{in, x}}).at(1);
  };
  CHECK(run("ascend910") == -65504);
  CHECK(std::isinf(run("ascend910b2")));
}

TEST_SUITE_END();
