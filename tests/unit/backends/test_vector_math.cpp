// The vector unit's functions of floats against the C library in double, over the whole range of
// f32.
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/half.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace vector_test;

struct Function {
  const char* op;
  double (*exact)(double);
  double ulps;
  float from, to;  // where the bound in ULP holds
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double gelu(double x) {
  if (std::isinf(x)) return x > 0 ? x : 0.0;
  return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
double reciprocal(double x) { return 1.0 / x; }
double square(double x) { return x * x; }
double relu(double x) { return x <= 0 ? 0.0 : x; }
double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

const Function kFunctions[] = {
    {"exp", [](double x) { return std::exp(x); }, 4, -kInf, kInf},
    {"expm1", [](double x) { return std::expm1(x); }, 4, -kInf, kInf},
    {"log", [](double x) { return std::log(x); }, 4, -kInf, kInf},
    {"log1p", [](double x) { return std::log1p(x); }, 4, -kInf, kInf},
    {"tanh", [](double x) { return std::tanh(x); }, 4, -kInf, kInf},
    {"sigmoid", &sigmoid, 4, -kInf, kInf},
    {"erf", [](double x) { return std::erf(x); }, 4, -kInf, kInf},
    {"gelu", &gelu, 6, -kInf, kInf},
    {"sin", [](double x) { return std::sin(x); }, 4, -1e5f, 1e5f},
    {"cos", [](double x) { return std::cos(x); }, 4, -1e5f, 1e5f},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0.5, -kInf, kInf},
    {"rsqrt", &rsqrt, 1.51, -kInf, kInf},
    {"reciprocal", &reciprocal, 0.5, -kInf, kInf},
    {"square", &square, 0.5, -kInf, kInf},
    {"relu", &relu, 0, -kInf, kInf},
    {"sign", &sign, 0, -kInf, kInf},
    {"abs", [](double x) { return std::fabs(x); }, 0, -kInf, kInf},
    {"neg", [](double x) { return -x; }, 0, -kInf, kInf},
    {"floor", [](double x) { return std::floor(x); }, 0, -kInf, kInf},
    {"ceil", [](double x) { return std::ceil(x); }, 0, -kInf, kInf},
    {"round", [](double x) { return std::nearbyint(x); }, 0, -kInf, kInf},
};

// Every exponent and sign, mantissas spread over all of them, and the values that functions stumble
// over.
std::vector<float> whole_range() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 70001) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const float v :
       {0.0f,       1.0f,       0x1p-149f, 0x1p-126f,      0x1.fffffep127f, kInf,
        0.5f,       1.5f,       2.5f,      0x1.fffffep-2f, 88.72283f,       88.722839f,
        87.33654f,  103.97208f, 104.0f,    16777216.0f,    8388607.5f,      1e5f,
        3.1415927f, 1.5707964f, 0.94f,     4.0f,           13.5f,           14.0f}) {
    values.push_back(v);
    values.push_back(-v);
    values.push_back(std::nextafter(v, kInf));
    values.push_back(-std::nextafter(v, 0.0f));
  }
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  // Of all floats, those of which gelu is furthest off without and with fused multiply-add.
  values.push_back(-0.140416741f);
  values.push_back(-0.140042886f);
  // The stretch where most models live.
  Numbers numbers(11);
  for (int i = 0; i < 20000; ++i) values.push_back(numbers.uniform() * 20.0f);
  return values;
}

// The distance in units in the last place of an f32 near `exact`.
double ulps_off(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0.0 : 1e30;
  const auto nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0.0 : 1e30;
  const double magnitude = std::max(std::fabs(exact), 0x1p-126);
  const double ulp = std::ldexp(1.0, std::ilogb(magnitude) - 23);
  return std::fabs(static_cast<double>(got) - exact) / ulp;
}

}  // namespace

TEST_CASE("vector math: functions of f32 over the whole range") {
  const std::vector<float> in = whole_range();
  on_every_isa([&] {
    for (const Function& f : kFunctions) {
      const auto out = run<float>(f.op, f32, f32, in.size(), in);
      double worst = 0;
      float worst_at = 0;
      for (size_t i = 0; i < in.size(); ++i) {
        if (in[i] < f.from || in[i] > f.to) continue;
        const double off = ulps_off(out[i], f.exact(static_cast<double>(in[i])));
        if (off > worst) {
          worst = off;
          worst_at = in[i];
        }
      }
      CAPTURE(std::string(f.op));
      CAPTURE(worst_at);
      CHECK(worst <= f.ulps + 1e-6);
    }
  });
}

TEST_CASE("vector math: sine and cosine of large arguments") {
  std::vector<float> in;
  for (float x = 1e5f; x < 3e9f; x *= 1.0007f) {
    in.push_back(x);
    in.push_back(-x);
  }
  for (const float x : {0x1p31f, 0x1p32f, 1e20f, 0x1.fffffep127f}) in.push_back(x);
  on_every_isa([&] {
    const auto sines = run<float>("sin", f32, f32, in.size(), in);
    const auto cosines = run<float>("cos", f32, f32, in.size(), in);
    for (size_t i = 0; i < in.size(); ++i) {
      const double x = static_cast<double>(in[i]);
      CHECK(std::fabs(static_cast<double>(sines[i]) - std::sin(x)) <= 1e-6);
      CHECK(std::fabs(static_cast<double>(cosines[i]) - std::cos(x)) <= 1e-6);
    }
  });
}

TEST_CASE("vector math: signs of zero are kept by odd functions") {
  const std::vector<float> zeros(17, -0.0f);
  on_every_isa([&] {
    for (const char* op :
         {"expm1", "log1p", "tanh", "erf", "sin", "sqrt", "floor", "ceil", "round"}) {
      CAPTURE(std::string(op));
      for (const float v : run<float>(op, f32, f32, zeros.size(), zeros)) {
        CHECK((v == 0.0f && std::signbit(v)));
      }
    }
  });
}

TEST_CASE("vector math: every length and unaligned ends") {
  Numbers numbers(5);
  on_every_isa([&] {
    for (size_t n = 0; n <= 70; ++n) {
      std::vector<float> in(n);
      for (float& v : in) v = numbers.uniform();
      const auto exponentials = run<float>("exp", f32, f32, n, in);
      const auto sums = run<float>("add", f32, f32, n, in, in);
      const auto less = run<uint8_t>("less", f32, boolean, n, in, std::vector<float>{0.25f});
      for (size_t i = 0; i < n; ++i) {
        CHECK(ulps_off(exponentials[i], std::exp(static_cast<double>(in[i]))) <= 4.0);
        CHECK(sums[i] == in[i] + in[i]);
        CHECK((less[i] != 0) == (in[i] < 0.25f));
      }
    }
  });
}

TEST_CASE("vector math: the result may replace a source") {
  Numbers numbers(6);
  std::vector<float> start(1037);
  for (float& v : start) v = numbers.uniform();
  on_every_isa([&] {
    const auto instruction = vector::find_instruction("exp", f32, f32);
    const auto expected = run<float>("exp", f32, f32, start.size(), start);
    std::vector<float> data = start;
    VectorCall call;
    call.dst = data.data();
    call.src[0] = data.data();
    call.n = data.size();
    instruction(call);
    CHECK(same_bits(data, expected));
  });
}

TEST_CASE("vector math: half precision results are those of f32 rounded once") {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  std::vector<float> as_half(65536), as_bfloat(65536);
  for (size_t i = 0; i < patterns.size(); ++i) {
    as_half[i] = Half::from_bits(patterns[i]);
    as_bfloat[i] = BFloat16::from_bits(patterns[i]);
  }
  on_every_isa([&] {
    for (const char* op : {"exp", "relu", "reciprocal", "square", "neg"}) {
      const auto halves = run<uint16_t>(op, f16, f16, patterns.size(), patterns);
      const auto bfloats = run<uint16_t>(op, bf16, bf16, patterns.size(), patterns);
      const auto from_half = run<float>(op, f32, f32, patterns.size(), as_half);
      const auto from_bfloat = run<float>(op, f32, f32, patterns.size(), as_bfloat);
      size_t wrong = 0;
      for (size_t i = 0; i < patterns.size(); ++i) {
        if (std::isnan(from_half[i])) {
          wrong += !std::isnan(static_cast<float>(Half::from_bits(halves[i])));
        } else {
          wrong += halves[i] != Half(from_half[i]).bits;
        }
        if (std::isnan(from_bfloat[i])) {
          wrong += !std::isnan(static_cast<float>(BFloat16::from_bits(bfloats[i])));
        } else {
          wrong += bfloats[i] != BFloat16(from_bfloat[i]).bits;
        }
      }
      CAPTURE(std::string(op));
      CHECK(wrong == 0);
    }
  });
}

TEST_SUITE_END();
