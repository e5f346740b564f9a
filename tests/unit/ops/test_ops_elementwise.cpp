// The corner rules of element-wise ops (ops/README.md), broadcasting, and the errors of wrong
// operands. Expected values are literals from IEEE 754, NumPy's documentation or mathematics.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"
#include "unit/ops/not_finite_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

template <class T>
Value row(Graph& g, std::vector<T> values) {
  return g.constant(Tensor::of<T>(Shape{static_cast<int64_t>(values.size())}, values));
}
template <class T>
std::vector<T> exact(Value value) {
  const Tensor result = evaluate(value);
  const auto data = result.data<T>();
  return std::vector<T>(data.begin(), data.end());
}
std::string line(int number) { return "test_ops_elementwise.cpp:" + std::to_string(number); }

void check_nan(const Doubles& got, const std::vector<bool>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::isnan(got[i]) == expected[i]);
  }
}

TEST_CASE("binary ops broadcast like NumPy") {
  Graph g;
  const auto shape = [&](const Shape& a, const Shape& b) {
    return (g.constant(Tensor(f32, a)) + g.constant(Tensor(f32, b))).shape();
  };
  CHECK(shape({8, 1, 6, 1}, {7, 1, 5}) == Shape{8, 7, 6, 5});
  CHECK(shape({5, 4}, {1}) == Shape{5, 4});
  CHECK(shape({}, {2, 3}) == Shape{2, 3});
  CHECK(shape({0, 1}, {1, 3}) == Shape{0, 3});
  CHECK(shape({2, 0}, {1}) == Shape{2, 0});
  const Value column = g.constant(Tensor::of<float>({2, 1}, {10, 20}));
  CHECK(elements(column + row<float>(g, {1, 2, 3})) == Doubles{11, 12, 13, 21, 22, 23});
  CHECK(elements(row<float>(g, {1, 2, 3}) - column) == Doubles{-9, -8, -7, -19, -18, -17});
}

TEST_CASE("unknown dimensions broadcast") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 4});
  CHECK((x + g.constant(Tensor(f32, {4}))).shape() == Shape{-1, 4});
  CHECK((x + g.constant(Tensor(f32, {7, 1}))).shape() == Shape{7, 4});
  CHECK((x * 2).shape() == Shape{-1, 4});
}

TEST_CASE("gradients of broadcast operands are summed") {
  Graph g;
  const Value a = g.constant(Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Value b = row<double>(g, {1, 2, 3});
  const Value c = g.constant(Tensor::of<double>({2, 1}, {5, 7}));
  const Value s = g.constant(Tensor::scalar(2.0));
  const Values grads = gradients(sum(a * b * c * s), {b, c, s});
  CHECK(elements(grads[0]) == Doubles{66, 90, 114});
  CHECK(grads[1].shape() == Shape{2, 1});
  CHECK(elements(grads[1]) == Doubles{28, 64});
  CHECK(elements(grads[2]) == Doubles{294});
}

TEST_CASE("literals adopt the dtype beside them or fail") {
  Graph g;
  const Value bytes = row<uint8_t>(g, {250, 7});
  CHECK((bytes + 1).dtype() == u8);
  CHECK((1.5 * g.constant(Tensor(f16, {2}))).dtype() == f16);
  CHECK(exact<uint8_t>(bytes / 2) == std::vector<uint8_t>{125, 3});
  const std::string fraction = error_of([&] { bytes * 0.5; });
  CHECK(contains(fraction, "mul: literal"));
  CHECK(contains(fraction, line(__LINE__ - 2)));
  CHECK(contains(error_of([&] { bytes + 256; }), "fits u8"));
  CHECK(contains(error_of([&] { bytes - (-1); }), "fits u8"));
}

TEST_CASE("mixed dtypes name cast and the line") {
  Graph g;
  const Value a = g.constant(Tensor(f32, {2}));
  const Value b = g.constant(Tensor(f64, {2}));
  const std::string text = error_of([&] { a + b; });
  CHECK(contains(text, "add: b"));
  CHECK(contains(text, "cast"));
  CHECK(contains(text, "f32"));
  CHECK(contains(text, "got f64"));
  CHECK(contains(text, line(__LINE__ - 5)));
  CHECK(contains(error_of([&] { select(less(a, a), a, b); }), "cast"));
  CHECK(contains(error_of([&] { maximum(a, less(a, a)); }), "cast"));
}

TEST_CASE("wrong dtypes and shapes say what to do") {
  Graph g;
  const Value numbers = row<int32_t>(g, {1, 2});
  const std::string text = error_of([&] { exp(numbers); });
  CHECK(contains(text, "exp: x: expected a float dtype, got i32"));
  CHECK(contains(text, "cast(x, dtype)"));
  CHECK(contains(text, line(__LINE__ - 3)));
  CHECK(contains(error_of([&] { logical_and(numbers, numbers); }), "not_equal(x, 0)"));
  CHECK(contains(error_of([&] { select(numbers, numbers, numbers); }), "select: predicate"));
  const Value three = row<int32_t>(g, {1, 2, 3});
  const std::string shapes = error_of([&] { mul(numbers, three); });
  CHECK(contains(shapes, "mul: b: expected a shape that broadcasts with [2], got [3]"));
  CHECK(contains(error_of([&] { add(1, 2); }), "at least one Value"));
  CHECK(contains(error_of([&] { neg(less(three, 2)); }), "a number dtype"));
}

TEST_CASE("an operand passed through a layer keeps the line it came with") {
  Graph g;
  const Value numbers = row<int32_t>(g, {1, 2});
  const auto layer = [](const Operand& x) { return exp(x); };
  const std::string text = error_of([&] { layer(numbers); });
  CHECK(contains(text, line(__LINE__ - 1)));
}

TEST_CASE("integers wrap") {
  Graph g;
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  const Value x = row<int32_t>(g, {kMax, kMin});
  CHECK(exact<int32_t>(x + 1) == std::vector<int32_t>{kMin, kMin + 1});
  CHECK(exact<int32_t>(x * 2) == std::vector<int32_t>{-2, 0});
  CHECK(exact<int32_t>(-x) == std::vector<int32_t>{-kMax, kMin});
  CHECK(exact<int32_t>(abs(x)) == std::vector<int32_t>{kMax, kMin});
  CHECK(exact<int32_t>(square(row<int32_t>(g, {65536, -3}))) == std::vector<int32_t>{0, 9});
  const Value bytes = row<uint8_t>(g, {3, 200});
  CHECK(exact<uint8_t>(bytes - 5) == std::vector<uint8_t>{254, 195});
  CHECK(exact<uint8_t>(bytes * 2) == std::vector<uint8_t>{6, 144});
  CHECK(exact<uint8_t>(-bytes) == std::vector<uint8_t>{253, 56});
  const int64_t wide = std::numeric_limits<int64_t>::max();
  CHECK(exact<int64_t>(row<int64_t>(g, {wide}) + 2) ==
        std::vector<int64_t>{std::numeric_limits<int64_t>::min() + 1});
}

TEST_CASE("integer division truncates and is 0 by zero") {
  Graph g;
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  const Value a = row<int32_t>(g, {7, -7, 7, -7, 5, kMin});
  const Value b = row<int32_t>(g, {2, 2, -2, -2, 0, -1});
  CHECK(exact<int32_t>(a / b) == std::vector<int32_t>{3, -3, -3, 3, 0, kMin});
}

TEST_CASE("mod has the sign of the divisor") {
  Graph g;
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  const Value a = row<int32_t>(g, {7, -7, 7, -7, 5, kMin, 6});
  const Value b = row<int32_t>(g, {3, 3, -3, -3, 0, -1, -3});
  CHECK(exact<int32_t>(mod(a, b)) == std::vector<int32_t>{1, 2, -2, -1, 0, 0, 0});
  const Value x = row<double>(g, {5.5, -5.5, 5.5, -5.5, -1});
  const Value y = row<double>(g, {2, 2, -2, -2, kInf});
  CHECK(elements(mod(x, y)) == Doubles{1.5, 0.5, -0.5, -1.5, kInf});
  check_nan(elements(mod(x, 0)), {true, true, true, true, true});
  CHECK(exact<uint8_t>(mod(row<uint8_t>(g, {7, 7}), row<uint8_t>(g, {4, 0}))) ==
        std::vector<uint8_t>{3, 0});
}

TEST_CASE("integer powers wrap and negative exponents give 0") {
  Graph g;
  const Value a = row<int32_t>(g, {2, -3, 0, 2, 1, -1, -1, 2, 0});
  const Value b = row<int32_t>(g, {10, 3, 0, -1, -5, -5, -4, 32, -2});
  CHECK(exact<int32_t>(pow(a, b)) == std::vector<int32_t>{1024, -27, 1, 0, 1, -1, 1, 0, 0});
  CHECK(exact<uint8_t>(pow(row<uint8_t>(g, {3}), 6)) == std::vector<uint8_t>{217});
}

TEST_CASE("pow has finite gradients at 0") {
  Graph g;
  const Value a = row<double>(g, {0, 0, 3, 2});
  const Value b = row<double>(g, {2, 0, 0, 3});
  const Values grads = gradients(sum(pow(a, b)), {a, b});
  CHECK(elements(grads[0]) == Doubles{0, 0, 0, 12});
  const Doubles to_b = elements(grads[1]);
  CHECK(to_b[0] == 0);
  CHECK(to_b[1] == 0);
  CHECK(to_b[2] == doctest::Approx(1.0986122886681098));
  CHECK(to_b[3] == doctest::Approx(5.545177444479562));
}

TEST_CASE("NaN propagates through maximum minimum relu and clamp") {
  Graph g;
  const Value a = row<double>(g, {kNaN, 1, 2, kNaN});
  const Value b = row<double>(g, {1, kNaN, 3, kNaN});
  check_nan(elements(maximum(a, b)), {true, true, false, true});
  check_nan(elements(minimum(a, b)), {true, true, false, true});
  check_nan(elements(relu(a)), {true, false, false, true});
  check_nan(elements(clamp(a, 0, 1)), {true, false, false, true});
  check_nan(elements(sign(a)), {true, false, false, true});
}

TEST_CASE("ties share the gradient of maximum and minimum") {
  Graph g;
  const Value a = row<double>(g, {1, 2, 3, kNaN});
  const Value b = row<double>(g, {1, 3, 2, 1});
  const Values most = gradients(sum(maximum(a, b)), {a, b});
  CHECK(elements(most[0]) == Doubles{0.5, 0, 1, 0});
  CHECK(elements(most[1]) == Doubles{0.5, 1, 0, 0});
  const Values least = gradients(sum(minimum(a, b)), {a, b});
  CHECK(elements(least[0]) == Doubles{0.5, 1, 0, 0});
  CHECK(elements(least[1]) == Doubles{0.5, 0, 1, 0});
}

TEST_CASE("relu abs and sign at 0") {
  Graph g;
  const Value x = row<double>(g, {-2, 0, 2});
  CHECK(elements(gradients(sum(relu(x)), {x})[0]) == Doubles{0, 0, 1});
  CHECK(elements(gradients(sum(abs(x)), {x})[0]) == Doubles{-1, 0, 1});
  CHECK(elements(gradients(sum(sign(x)), {x})[0]) == Doubles{0, 0, 0});
  CHECK(elements(sign(x)) == Doubles{-1, 0, 1});
  CHECK(elements(relu(row<int32_t>(g, {-3, 0, 4}))) == Doubles{0, 0, 4});
}

TEST_CASE("clamp takes the upper limit last and passes gradients inside") {
  Graph g;
  const Value x = row<double>(g, {-1, 0, 0.5, 1, 2});
  CHECK(elements(clamp(x, 0, 1)) == Doubles{0, 0, 0.5, 1, 1});
  CHECK(elements(gradients(sum(clamp(x, 0, 1)), {x})[0]) == Doubles{0, 1, 1, 1, 0});
  CHECK(elements(clamp(x, 3, 1)) == Doubles{1, 1, 1, 1, 1});
}

TEST_CASE("round takes halves to even") {
  Graph g;
  const Value x = row<float>(g, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 2.4F});
  CHECK(elements(round(x)) == Doubles{0, 2, 2, 0, -2, 2});
  CHECK(elements(floor(x)) == Doubles{0, 1, 2, -1, -2, 2});
  CHECK(elements(ceil(x)) == Doubles{1, 2, 3, 0, -1, 3});
}

TEST_CASE("functions have their textbook values") {
  Graph g;
  const auto at = [&](double x) { return g.constant(Tensor::scalar(x)); };
  const auto value = [](Value v) { return elements(v).at(0); };
  CHECK(value(exp(at(1))) == doctest::Approx(2.718281828459045).epsilon(1e-15));
  CHECK(value(log(at(10))) == doctest::Approx(2.302585092994046).epsilon(1e-15));
  CHECK(value(log1p(at(1e-10))) == doctest::Approx(9.9999999995e-11).epsilon(1e-15));
  CHECK(value(expm1(at(1e-10))) == doctest::Approx(1.00000000005e-10).epsilon(1e-15));
  CHECK(value(sqrt(at(2))) == doctest::Approx(1.4142135623730951).epsilon(1e-15));
  CHECK(value(rsqrt(at(4))) == 0.5);
  CHECK(value(reciprocal(at(8))) == 0.125);
  CHECK(value(tanh(at(1))) == doctest::Approx(0.7615941559557649).epsilon(1e-15));
  CHECK(value(sigmoid(at(0))) == 0.5);
  CHECK(value(sigmoid(at(-1000))) == 0);
  CHECK(value(sigmoid(at(1000))) == 1);
  CHECK(value(erf(at(1))) == doctest::Approx(0.8427007929497149).epsilon(1e-15));
  CHECK(value(gelu(at(1))) == doctest::Approx(0.8413447460685429).epsilon(1e-15));
  CHECK(value(gelu(at(-10))) == doctest::Approx(-7.619853024160526e-23).epsilon(1e-12));
  CHECK(value(gelu(at(-kInf))) == 0);
  CHECK(value(gelu(at(kInf))) == kInf);
  CHECK(value(sin(at(1))) == doctest::Approx(0.8414709848078965).epsilon(1e-15));
  CHECK(value(cos(at(1))) == doctest::Approx(0.5403023058681398).epsilon(1e-15));
}

TEST_CASE("comparisons with NaN are false but for not_equal") {
  Graph g;
  const Value a = row<double>(g, {kNaN, 1, 1, 2});
  const Value b = row<double>(g, {kNaN, kNaN, 1, 1});
  CHECK(elements(equal(a, b)) == Doubles{0, 0, 1, 0});
  CHECK(elements(not_equal(a, b)) == Doubles{1, 1, 0, 1});
  CHECK(elements(less(a, b)) == Doubles{0, 0, 0, 0});
  CHECK(elements(less_equal(a, b)) == Doubles{0, 0, 1, 0});
  CHECK(elements(greater(a, b)) == Doubles{0, 0, 0, 1});
  CHECK(elements(greater_equal(a, b)) == Doubles{0, 0, 1, 1});
  CHECK(less(a, b).dtype() == boolean);
}

TEST_CASE("logic follows its tables") {
  Graph g;
  const Value a = g.constant(Tensor::of<bool>({4}, {false, false, true, true}));
  const Value b = g.constant(Tensor::of<bool>({4}, {false, true, false, true}));
  CHECK(elements(logical_and(a, b)) == Doubles{0, 0, 0, 1});
  CHECK(elements(logical_or(a, b)) == Doubles{0, 1, 1, 1});
  CHECK(elements(logical_xor(a, b)) == Doubles{0, 1, 1, 0});
  CHECK(elements(logical_not(a)) == Doubles{1, 1, 0, 0});
}

TEST_CASE("select takes literals and broadcasts its predicate") {
  Graph g;
  const Value p = g.constant(Tensor::of<bool>({2, 1}, {true, false}));
  const Value x = row<double>(g, {1, 2});
  CHECK(elements(select(p, x, 0)) == Doubles{1, 2, 0, 0});
  CHECK(elements(where(p, -1, x)) == Doubles{-1, -1, 1, 2});
  CHECK(elements(gradients(sum(select(p, x, x * 3)), {x})[0]) == Doubles{4, 4});
  // The branch that is not taken may be infinite or NaN.
  const Value y = row<double>(g, {0, 4});
  CHECK(elements(gradients(sum(select(greater(y, 0), y * y, 0)), {y})[0]) == Doubles{0, 8});
}

TEST_CASE("cast saturates truncates wraps and tests for zero") {
  Graph g;
  const Value x = row<double>(g, {-1.7, 1.7, 300, -1e30, kNaN, kInf});
  CHECK(exact<uint8_t>(cast(x, u8)) == std::vector<uint8_t>{0, 1, 255, 0, 0, 255});
  CHECK(exact<int32_t>(cast(x, i32)) == std::vector<int32_t>{-1, 1, 300,
                                                             std::numeric_limits<int32_t>::min(), 0,
                                                             std::numeric_limits<int32_t>::max()});
  CHECK(elements(cast(row<int32_t>(g, {-1, 256, 257}), u8)) == Doubles{255, 0, 1});
  CHECK(elements(cast(row<double>(g, {0, -0.0, 0.25, kNaN}), boolean)) == Doubles{0, 0, 1, 1});
  CHECK(elements(cast(row<double>(g, {2049, 65520, 1e-8}), f16)) == Doubles{2048, kInf, 0});
  CHECK(cast(x, f64) == x);
}

TEST_CASE("stop_gradient passes values and no gradient") {
  Graph g;
  const Value x = row<double>(g, {2, 3});
  CHECK(elements(stop_gradient(x)) == Doubles{2, 3});
  CHECK(elements(gradients(sum(x * stop_gradient(x)), {x})[0]) == Doubles{2, 3});
}

TEST_CASE("no gradient flows through integers") {
  Graph g;
  const Value x = row<double>(g, {1.5, 2.5});
  const Value whole = cast(cast(x, i32), f64);
  CHECK(elements(gradients(sum(x + whole), {x})[0]) == Doubles{1, 1});
}

TEST_CASE("softplus is stable at both ends on every backend") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> xs{-inf, -1000, -100, -50, -1, 0, 1, 50, 1000, 3e38, inf, std::nan("")};
  Tensor t(f32, {static_cast<int64_t>(xs.size())});
  for (size_t i = 0; i < xs.size(); ++i) t.set(static_cast<int64_t>(i), xs[i]);
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1});
    const Value y = softplus(x);
    Session session(g, device(backend));
    const Tensor values = session.run(y, {{x, t}});
    const Tensor slopes = session.run(gradients(sum(y), {x})[0], {{x, t}});
    // e^-50, log(1 + 1 / e), log(2) and log(1 + e) to 17 digits.
    const std::vector<double> expected{0,
                                       0,
                                       0,
                                       1.9287498479639178e-22,
                                       0.31326168751822281,
                                       0.69314718055994529,
                                       1.3132616875182228,
                                       50,
                                       1000,
                                       3e38,
                                       inf};
    for (size_t i = 0; i + 1 < expected.size(); ++i) {
      const double error = std::fabs(values.at(static_cast<int64_t>(i)) - expected[i]);
      CHECK(error <= 1e-6 * expected[i] + (i < 3 ? 1e-40 : 0));
    }
    CHECK(values.at(10) == inf);
    CHECK(std::isnan(values.at(11)));
    // The logistic function: half at 0, where a sum of a kink and a logarithm would give 0.
    CHECK(slopes.at(5) == 0.5);
    CHECK(slopes.at(0) == 0);
    CHECK(slopes.at(10) == 1);
    CHECK(slopes.at(4) == doctest::Approx(0.26894142136999512).epsilon(1e-6));
  }
}

}  // namespace

TEST_SUITE_END();
