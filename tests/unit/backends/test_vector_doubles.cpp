// What the vector library computes in f64, on every host ISA: arithmetic and functions against the
// C library in long double, casts against core's, reductions and softmax against loops in long
// double.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/reductions.h"
#include "keel/backends/common/vector/softmax.h"
#include "keel/core/tensor/convert.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace vector_test;

template <class T>
std::vector<T> exps(const std::vector<T>& x) {
  return run<T>("exp", dtype_of<T>, dtype_of<T>, x.size(), x);
}

template <class T>
std::vector<T> logs(const std::vector<T>& x) {
  return run<T>("log", dtype_of<T>, dtype_of<T>, x.size(), x);
}

// In units of the last place of what is right.
template <class T>
double error(T got, long double right) {
  const T nearest = static_cast<T>(right);
  const T place =
      std::nextafter(std::abs(nearest), std::numeric_limits<T>::infinity()) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(got) - right) /
                             static_cast<long double>(place));
}

template <class T>
void check_accuracy(double most_exponent, double most_ulps) {
  std::vector<T> x, y;
  for (double at = -1; at <= 1; at += 1.0 / 4096) {
    x.push_back(static_cast<T>(at * most_exponent));
    y.push_back(static_cast<T>(std::exp2(at * most_exponent)));
  }
  const std::vector<T> e = exps(x), l = logs(y);
  double worst_exp = 0, worst_log = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst_exp = std::max(worst_exp, error(e[i], std::exp(static_cast<long double>(x[i]))));
    worst_log = std::max(worst_log, error(l[i], std::log(static_cast<long double>(y[i]))));
  }
  CHECK(worst_exp <= most_ulps);
  CHECK(worst_log <= most_ulps);
}

template <class T>
void check_exp_and_log_limits() {
  using Limits = std::numeric_limits<T>;
  const T infinity = Limits::infinity(), nan = Limits::quiet_NaN();
  const std::vector<T> e = exps<T>({0, -T{0}, infinity, -infinity, nan, 1000, -1000});
  CHECK(e[0] == 1);
  CHECK(e[1] == 1);
  CHECK(e[2] == infinity);
  CHECK(e[3] == 0);
  CHECK(std::isnan(e[4]));
  CHECK(e[5] == infinity);
  CHECK(e[6] == 0);
  const std::vector<T> l = logs<T>({1, 0, -T{0}, infinity, -1, -infinity, nan});
  CHECK(l[0] == 0);
  CHECK(l[1] == -infinity);
  CHECK(l[2] == -infinity);
  CHECK(l[3] == infinity);
  for (const size_t i : {size_t{4}, size_t{5}, size_t{6}}) CHECK(std::isnan(l[i]));
}

template <class T>
void check_exp_and_log_places() {
  std::vector<T> x;
  for (int i = 0; i < 67; ++i) x.push_back(static_cast<T>(0.37) * static_cast<T>(i + 1));
  const std::vector<T> e = exps(x), l = logs(x);
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(exps<T>({x[i]})[0] == e[i]);
    CHECK(logs<T>({x[i]})[0] == l[i]);
    const std::vector<T> rest(x.begin() + static_cast<std::ptrdiff_t>(i), x.end());
    CHECK(exps(rest) == std::vector<T>(e.begin() + static_cast<std::ptrdiff_t>(i), e.end()));
  }
}

std::vector<double> edges() {
  using Limits = std::numeric_limits<double>;
  std::vector<double> values = {0.0,
                                1.0,
                                2.5,
                                3.5,
                                0.49999999999999994,
                                1e300,
                                7.25,
                                0.75,
                                1e-300,
                                Limits::denorm_min(),
                                Limits::max(),
                                Limits::min(),
                                Limits::infinity(),
                                4503599627370497.5};
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  values.push_back(Limits::quiet_NaN());
  return values;
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// `expected` of every pair of edge values, in lanes, behind them, and with a scalar operand.
template <class F>
void check_pairs(const char* op, F expected) {
  const std::vector<double> values = edges();
  for (const double b : values) {
    CAPTURE(std::string(op));
    CAPTURE(b);
    const std::vector<double> right(values.size(), b), one(1, b);
    const auto both = run<double>(op, f64, f64, values.size(), values, right);
    const auto scalar = run<double>(op, f64, f64, values.size(), values, one);
    size_t wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double right_answer = expected(values[i], b);
      wrong += !same(both[i], right_answer) || !same(scalar[i], right_answer);
    }
    CHECK(wrong == 0);
  }
}

template <class F>
void check_each(const char* op, F expected) {
  const std::vector<double> values = edges();
  const auto got = run<double>(op, f64, f64, values.size(), values);
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(std::string(op));
    CAPTURE(values[i]);
    CHECK(same(got[i], expected(values[i])));
  }
}

template <class To>
void check_casts() {
  const std::vector<double> values = edges();
  const auto got = run<To>("cast", f64, dtype_of<To>, values.size(), values);
  size_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const To right = convert_element<To>(values[i]);
    const bool is_nan = std::isnan(values[i]) && is_float(dtype_of<To>);
    wrong += !is_nan && std::memcmp(&got[i], &right, sizeof(To)) != 0;
  }
  CAPTURE(std::string(name_of(dtype_of<To>)));
  CHECK(wrong == 0);
}

std::vector<double> random_doubles(size_t n) {
  Numbers numbers(n + 5);
  std::vector<double> values(n);
  for (double& v : values) {
    v = static_cast<double>(numbers.uniform()) + static_cast<double>(numbers.uniform()) * 1e-9;
  }
  return values;
}

}  // namespace

TEST_CASE("vector f64: exp and log are close to the true values") {
  on_every_isa([] {
    check_accuracy<float>(80, 4);
    check_accuracy<double>(700, 2);
  });
}

TEST_CASE("vector f64: exp and log of infinities and zeros and what is no number") {
  on_every_isa([] {
    check_exp_and_log_limits<float>();
    check_exp_and_log_limits<double>();
    const double least = std::numeric_limits<double>::denorm_min();
    CHECK(exps<double>({-744.0})[0] == 2 * least);
    CHECK(exps<double>({-746.0})[0] == 0.0);
    CHECK(logs<double>({least})[0] == std::log(least));
    CHECK(exps<double>({709.75})[0] == doctest::Approx(std::exp(709.75)).epsilon(1e-15));
  });
}

TEST_CASE("vector f64: exp and log give the same bits in any place and alone") {
  on_every_isa([] {
    check_exp_and_log_places<float>();
    check_exp_and_log_places<double>();
  });
}

TEST_CASE("vector f64: arithmetic is IEEE's and corners are those of every dtype") {
  on_every_isa([] {
    check_pairs("add", [](double a, double b) { return a + b; });
    check_pairs("sub", [](double a, double b) { return a - b; });
    check_pairs("mul", [](double a, double b) { return a * b; });
    check_pairs("div", [](double a, double b) { return a / b; });
    check_pairs("maximum", [](double a, double b) {
      if (std::isnan(a) || std::isnan(b)) return std::nan("");
      if (a == b) return std::signbit(a) ? b : a;
      return a > b ? a : b;
    });
    check_pairs("minimum", [](double a, double b) {
      if (std::isnan(a) || std::isnan(b)) return std::nan("");
      if (a == b) return std::signbit(a) ? a : b;
      return a < b ? a : b;
    });
    check_each("neg", [](double a) { return -a; });
    check_each("abs", [](double a) { return std::fabs(a); });
    check_each("square", [](double a) { return a * a; });
    check_each("sqrt", [](double a) { return std::sqrt(a); });
    check_each("reciprocal", [](double a) { return 1.0 / a; });
    check_each("floor", [](double a) { return std::floor(a); });
    check_each("ceil", [](double a) { return std::ceil(a); });
    check_each("round", [](double a) { return std::nearbyint(a); });
    check_each("relu", [](double a) { return a <= 0 ? 0.0 : a; });
    check_each("sign", [](double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a; });
  });
}

TEST_CASE("vector f64: comparisons") {
  const std::vector<double> values = edges();
  on_every_isa([&] {
    for (const double b : values) {
      const std::vector<double> one(1, b);
      const size_t n = values.size();
      const auto less = run<uint8_t>("less", f64, boolean, n, values, one);
      const auto equal = run<uint8_t>("equal", f64, boolean, n, values, one);
      const auto other = run<uint8_t>("not_equal", f64, boolean, n, values, one);
      const auto greater = run<uint8_t>("greater_equal", f64, boolean, n, values, one);
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) {
        wrong += (less[i] != (values[i] < b)) + (equal[i] != (values[i] == b)) +
                 (other[i] != (values[i] != b)) + (greater[i] != (values[i] >= b));
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("vector f64: casts") {
  on_every_isa([] {
    check_casts<double>();
    check_casts<float>();
    check_casts<Half>();
    check_casts<BFloat16>();
    check_casts<int64_t>();
    check_casts<int32_t>();
    check_casts<uint8_t>();
    const std::vector<int64_t> whole = {std::numeric_limits<int64_t>::max(), -3, (1LL << 53) + 1};
    const auto wide = run<double>("cast", i64, f64, whole.size(), whole);
    for (size_t i = 0; i < whole.size(); ++i) CHECK(wide[i] == static_cast<double>(whole[i]));
    const std::vector<Half> halves = {Half(1.5f), Half::from_bits(1), Half(-65504.0f)};
    CHECK(run<double>("cast", f16, f64, 3, halves) == std::vector<double>{1.5, 0x1p-24, -65504.0});
  });
}

TEST_CASE("vector f64: reductions of rows and columns and in parts") {
  on_every_isa([] {
    for (const size_t n : {0u, 1u, 2u, 7u, 31u, 32u, 33u, 200u, 1001u}) {
      CAPTURE(n);
      std::vector<double> v = random_doubles(n);
      long double sum = 0;
      double largest = -INFINITY;
      for (const double x : v) {
        sum += static_cast<long double>(x);
        largest = std::max(largest, x);
      }
      const ReduceInstructions add = vector::find_reduction("sum", f64);
      REQUIRE(add.complete());
      double got = 7, top = 7;
      add.rows({v.data(), 1, n, n, &got});
      vector::find_reduction("max", f64).rows({v.data(), 1, n, n, &top});
      CHECK(std::fabs(static_cast<double>(static_cast<long double>(got) - sum)) <= 1e-13);
      CHECK(top == largest);
      // In parts, as reduce_run_width says.
      const size_t width = vector::reduce_run_width(f64);
      std::vector<double> along(width);
      for (double& x : along) add.identity("sum", f64, &x);
      const size_t rows = n / width;
      add.columns({v.data(), rows, width, width, along.data()});
      add.columns({v.data() + rows * width, 1, n % width, n % width, along.data()});
      double parts = 7;
      add.rows({along.data(), 1, width, width, &parts});
      CHECK(same(parts, got));
      if (n == 0) continue;
      v[n / 2] = std::numeric_limits<double>::quiet_NaN();
      vector::find_reduction("min", f64).rows({v.data(), 1, n, n, &got});
      CHECK(std::isnan(got));
    }
    const std::vector<double> zeros = {0.0, -0.0, 0.0};
    double got = 1;
    vector::find_reduction("max", f64).rows({zeros.data(), 1, 3, 3, &got});
    CHECK(same(got, 0.0));
    vector::find_reduction("min", f64).rows({zeros.data(), 1, 3, 3, &got});
    CHECK(same(got, -0.0));
  });
}

TEST_CASE("vector f64: softmax and its family") {
  on_every_isa([] {
    for (const size_t cols : {1u, 2u, 10u, 16u, 37u, 300u}) {
      CAPTURE(cols);
      constexpr size_t kRows = 3;
      std::vector<double> x = random_doubles(kRows * cols);
      for (double& v : x) v *= 30;
      std::vector<double> p(x.size()), logs(x.size()), gradient(x.size()), loss(kRows);
      vector::find_softmax(f64)({x.data(), cols, p.data(), cols, kRows, cols});
      vector::find_log_softmax(f64)({x.data(), cols, logs.data(), cols, kRows, cols});
      const std::vector<int64_t> labels = {0, static_cast<int64_t>(cols) - 1,
                                           static_cast<int64_t>(cols) / 2};
      vector::CrossEntropyCall call;
      call.logits = x.data();
      call.stride = call.gradient_stride = call.cols = cols;
      call.rows = kRows;
      call.labels = labels.data();
      call.label_dtype = i64;
      call.smoothing = 0.1;
      call.scale = 0.25;
      call.loss = loss.data();
      call.gradient = gradient.data();
      CHECK(vector::find_softmax_cross_entropy(f64)(call) == -1);
      for (size_t r = 0; r < kRows; ++r) {
        const double* row = x.data() + r * cols;
        const long double top = static_cast<long double>(*std::max_element(row, row + cols));
        long double sum = 0, expected_loss = 0;
        for (size_t c = 0; c < cols; ++c) sum += std::exp(static_cast<long double>(row[c]) - top);
        double worst = 0;
        for (size_t c = 0; c < cols; ++c) {
          const long double log_p = static_cast<long double>(row[c]) - top - std::log(sum);
          const bool hit = static_cast<size_t>(labels[r]) == c;
          const long double q = 0.1L / static_cast<long double>(cols) + (hit ? 0.9L : 0.0L);
          expected_loss -= q * log_p;
          const size_t at = r * cols + c;
          const auto off = [](double got, long double right) {
            return std::fabs(static_cast<double>(static_cast<long double>(got) - right));
          };
          worst = std::max({worst, off(p[at], std::exp(log_p)), off(logs[at], log_p) * 0.01,
                            off(gradient[at], (std::exp(log_p) - q) * 0.25L)});
        }
        CHECK(worst <= 1e-15);
        CHECK(loss[r] == doctest::Approx(static_cast<double>(expected_loss)).epsilon(1e-13));
      }
    }
  });
}

TEST_SUITE_END();
