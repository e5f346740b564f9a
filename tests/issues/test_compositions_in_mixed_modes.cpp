// Under a mixed mode the parts of what is composed of others followed their operands one by one: a
// mean over 78,400 pixels divided by infinity in f16, and a variance squared what does not fit.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;

constexpr int64_t kManyRows = 100000;

// Returns what a step gives under a mode, for x of [rows, 4].
std::vector<Tensor> run_in_mode(const std::string& where, const std::string& mode, const Tensor& x,
                                Values (*build)(const Value& x, const Value& w)) {
  Graph g;
  const Value in = g.input("x", f32, x.shape()), w = g.input("w", f32, {4, 4});
  Tensor ones(f32, {4, 4});
  for (int64_t i = 0; i < 4; ++i) ones.set(i * 4 + i, 1);
  SessionOptions options;
  options.precision = Precision::named(mode);
  Session session(g, device(where), options);
  return session.run(build(in, w), {{in, x}, {w, ones}});
}

// Rows that alternate between two numbers.
Tensor alternating(int64_t rows, double low, double high) {
  Tensor t(f32, {rows, 4});
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, i / 4 % 2 == 0 ? low : high);
  return t;
}

}  // namespace

TEST_CASE("means over more elements than f16 counts are right under mixed modes") {
  for (const char* where : {"cpu", "npu"}) {
    for (const char* mode : {"allow_mix_precision_fp16", "allow_mix_precision_bf16"}) {
      CAPTURE(std::string(where));
      CAPTURE(std::string(mode));
      const auto got = run_in_mode(
          where, mode, alternating(kManyRows, 0.25, 0.75), [](const Value& x, const Value& w) {
            const Value y = matmul(x, w), average = mean(y);
            return Values{average, gradients(average, {w})[0], mean(square(y) * 4.0f)};
          });
      CHECK(got[0].at(0) == doctest::Approx(0.5).epsilon(0.01));
      // Each weight meets one column of x: its mean, shared among four results.
      for (int64_t i = 0; i < 16; ++i) CHECK(got[1].at(i) == doctest::Approx(0.125).epsilon(0.05));
      CHECK(got[2].at(0) == doctest::Approx(1.25).epsilon(0.01));
    }
  }
}

TEST_CASE("norms and variances of large numbers are computed in f32 under mixed modes") {
  for (const char* where : {"cpu", "npu"}) {
    CAPTURE(std::string(where));
    Tensor x(f32, {64, 4});
    for (int64_t i = 0; i < x.num_elements(); ++i) x.set(i, i % 2 == 0 ? 1000 : -1000);
    const auto got =
        run_in_mode(where, "allow_mix_precision_fp16", x, [](const Value& in, const Value& w) {
          const Value y = matmul(in, w);
          return Values{var(y, {1}), layer_norm(y), cumsum(y * 0.001f, 0)};
        });
    CHECK(got[0].at(0) == doctest::Approx(1e6).epsilon(0.01));
    CHECK(got[1].at(0) == doctest::Approx(1).epsilon(0.01));
    CHECK(got[1].at(1) == doctest::Approx(-1).epsilon(0.01));
    CHECK(got[2].at(63 * 4) == doctest::Approx(64).epsilon(0.01));
  }
}

TEST_CASE("a number that f16 lacks keeps what it divides in f32") {
  for (const char* where : {"cpu", "npu"}) {
    CAPTURE(std::string(where));
    const auto got = run_in_mode(where, "allow_mix_precision_fp16", Tensor::full(f32, {2, 4}, 8),
                                 [](const Value& x, const Value& w) {
                                   return Values{matmul(x, w) / 100000.0f * 100000.0f};
                                 });
    CHECK(got[0].at(0) == doctest::Approx(8).epsilon(0.01));
  }
}

TEST_CASE("a tensor with a number that f16 lacks keeps what it is added to in f32") {
  // Causal masks, whose far numbers became infinite: the row of nothing else was NaN.
  Tensor mask(f32, {2, 2}), odd(f32, {2, 2});
  mask.set(0, -1e9);
  mask.set(1, -1e9);
  odd.set(0, std::numeric_limits<double>::infinity());
  odd.set(1, 1e9);
  for (const char* where : {"cpu", "npu"}) {
    CAPTURE(std::string(where));
    Graph g;
    const Value x = g.input("x", f32, {2, 2});
    const Value product = matmul(x, x), far = g.constant(mask);
    SessionOptions options;
    options.precision.mode_v2 = "mixed_float16";
    Session session(g, device(where), options);
    const Tensor fed = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
    const auto got = session.run(
        {softmax(product + far), softmax(2.0f * product + far), product + g.constant(odd)},
        {{x, fed}});
    // Beside -1e9 the products 7 and 10 are less than half a step of f32.
    CHECK(got[0].at(0) == 0.5);
    CHECK(got[0].at(1) == 0.5);
    CHECK(got[1].at(0) == 0.5);
    // 1 / (1 + exp(22 - 15))
    CHECK(got[0].at(2) == doctest::Approx(0.000911).epsilon(0.02));
    CHECK(std::isinf(got[2].at(0)));
    CHECK(got[2].at(1) == doctest::Approx(1e9));
  }
}

TEST_CASE("a guard that f16 rounds to 0 keeps what it guards in f32") {
  for (const char* where : {"cpu", "npu"}) {
    CAPTURE(std::string(where));
    const auto got = run_in_mode(
        where, "allow_mix_precision_fp16", Tensor(f32, {2, 4}), [](const Value& x, const Value& w) {
          const Value y = relu(matmul(x, w)), length = sqrt(sum(square(y)));
          const Value small = x.graph().constant(Tensor::of<float>({4}, {1, 0, 1e-9f, -1e-9f}));
          return Values{y / (y + 1e-8f), y / maximum(length, 1e-12f), log(y + 1e-10f),
                        rsqrt(y + 1e-8f), y + small};
        });
    CHECK(got[0].at(0) == 0);
    CHECK(got[1].at(0) == 0);
    CHECK(got[2].at(0) == doctest::Approx(-23.02585));  // -10 ln 10
    CHECK(got[3].at(0) == doctest::Approx(1e4));
    CHECK(got[4].at(1) == 0);
    CHECK(got[4].at(2) * 1e9 == doctest::Approx(1));
    CHECK(got[4].at(3) * 1e9 == doctest::Approx(-1));
  }
}

TEST_CASE("batch norm keeps its statistics finite under mixed modes") {
  for (const char* where : {"cpu", "npu"}) {
    CAPTURE(std::string(where));
    Graph g;
    const Scope root(g);
    const Value x = g.input("x", f32, {kManyRows, 4}),
                w = g.constant(Tensor::full(f32, {4, 4}, 0.5));
    const BatchNorm norm(root / "norm", 4);
    const Value y = norm(matmul(x, w), Mode::kTraining);
    SessionOptions options;
    options.precision = Precision::named("allow_mix_precision_fp16");
    Session session(g, device(where), options);
    const auto got = session.run({mean(square(y)), mean(y)}, {{x, alternating(kManyRows, 1, 3)}});
    CHECK(got[0].at(0) == doctest::Approx(1).epsilon(0.02));
    CHECK(std::fabs(got[1].at(0)) < 0.02);
  }
}

TEST_SUITE_END();
