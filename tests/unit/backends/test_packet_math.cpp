// exp and log of many numbers at a time: their accuracy, what has no usual value, and that an
// element's bits do not depend on its place.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/cpu/packet_math.h"

TEST_SUITE_BEGIN("unit");

namespace {

template <class T>
std::vector<T> exps(std::vector<T> x) {
  keel::cpu::exp_all(x.data(), x.data(), x.size());
  return x;
}

template <class T>
std::vector<T> logs(std::vector<T> x) {
  keel::cpu::log_all(x.data(), x.data(), x.size());
  return x;
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
void check_accuracy(double most_exponent) {
  constexpr double kMost = 4;  // units of the last place; Eigen's exp of floats needs them
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
  CHECK(worst_exp <= kMost);
  CHECK(worst_log <= kMost);
}

template <class T>
void check_limits() {
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
void check_places() {
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

}  // namespace

TEST_CASE("packet math: close to the true values") {
  check_accuracy<float>(80);
  check_accuracy<double>(700);
}

TEST_CASE("packet math: infinities and zeros and what is no number") {
  check_limits<float>();
  check_limits<double>();
}

TEST_CASE("packet math: the same bits in any place and alone") {
  check_places<float>();
  check_places<double>();
}

TEST_SUITE_END();
