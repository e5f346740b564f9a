// The vector unit's arithmetic, comparisons, logic, selections and casts against plain C++ element
// by element, and the choice of the host ISA.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/instruction_table.h"
#include "keel/core/base/error.h"
#include "keel/core/base/half.h"
#include "keel/core/device/float_status.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace vector_test;

const float kNaN = std::numeric_limits<float>::quiet_NaN();

const std::vector<float> kEdges = {0.0f,  -0.0f,     1.0f,       -1.0f,           2.5f, -2.5f, 3.0f,
                                   -3.0f, 0x1p-149f, -0x1p-126f, 0x1.fffffep127f, kInf, -kInf, kNaN,
                                   7.0f,  -7.0f,     0.3f,       -0.3f,           1e20f};

// Every pair of the values.
template <class T>
void all_pairs(const std::vector<T>& values, std::vector<T>& a, std::vector<T>& b) {
  for (const T x : values) {
    for (const T y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
}

bool same_value(float x, float y) { return (std::isnan(x) && std::isnan(y)) || x == y; }

template <class T>
std::vector<T> integer_edges() {
  const T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  std::vector<T> values = {0,
                           1,
                           2,
                           3,
                           5,
                           7,
                           10,
                           100,
                           low,
                           high,
                           static_cast<T>(low + 1),
                           static_cast<T>(high - 1),
                           static_cast<T>(high / 2)};
  if (std::is_signed_v<T>) {
    for (const int v : {-1, -2, -3, -7, -100}) values.push_back(static_cast<T>(v));
  }
  return values;
}

// What wraps is computed in 128 bits and cut off.
template <class T>
void check_integers(DType dtype) {
  using Wide = __int128;
  std::vector<T> a, b;
  all_pairs(integer_edges<T>(), a, b);
  const size_t n = a.size();
  const auto check = [&](const char* op, auto expected) {
    const auto got = run<T>(op, dtype, dtype, n, a, b);
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) {
      wrong += got[i] != static_cast<T>(expected(static_cast<Wide>(a[i]), static_cast<Wide>(b[i])));
    }
    CAPTURE(std::string(op));
    CHECK(wrong == 0);
  };
  check("add", [](Wide x, Wide y) { return x + y; });
  check("sub", [](Wide x, Wide y) { return x - y; });
  check("mul", [](Wide x, Wide y) { return x * y; });
  check("div", [](Wide x, Wide y) { return y == 0 ? Wide{0} : x / y; });
  check("mod", [](Wide x, Wide y) {
    if (y == 0) return Wide{0};
    const Wide rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  });
  check("maximum", [](Wide x, Wide y) { return x > y ? x : y; });
  check("minimum", [](Wide x, Wide y) { return x < y ? x : y; });
  const auto check_one = [&](const char* op, auto expected) {
    const auto got = run<T>(op, dtype, dtype, n, a);
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) {
      wrong += got[i] != static_cast<T>(expected(static_cast<Wide>(a[i])));
    }
    CAPTURE(std::string(op));
    CHECK(wrong == 0);
  };
  check_one("neg", [](Wide x) { return -x; });
  check_one("abs", [](Wide x) { return x < 0 ? -x : x; });
  check_one("sign", [](Wide x) { return x > 0 ? 1 : x < 0 ? -1 : 0; });
  check_one("square", [](Wide x) { return x * x; });
  check_one("relu", [](Wide x) { return x < 0 ? Wide{0} : x; });
  const auto check_test = [&](const char* op, auto expected) {
    const auto got = run<uint8_t>(op, dtype, boolean, n, a, b);
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) wrong += (got[i] == 1) != expected(a[i], b[i]) || got[i] > 1;
    CAPTURE(std::string(op));
    CHECK(wrong == 0);
  };
  check_test("equal", [](T x, T y) { return x == y; });
  check_test("not_equal", [](T x, T y) { return x != y; });
  check_test("less", [](T x, T y) { return x < y; });
  check_test("less_equal", [](T x, T y) { return x <= y; });
  check_test("greater", [](T x, T y) { return x > y; });
  check_test("greater_equal", [](T x, T y) { return x >= y; });
}

}  // namespace

TEST_CASE("vector: float arithmetic on edge values") {
  std::vector<float> a, b;
  all_pairs(kEdges, a, b);
  const size_t n = a.size();
  on_every_isa([&] {
    const auto check = [&](const char* op, auto expected) {
      const auto got = run<float>(op, f32, f32, n, a, b);
      for (size_t i = 0; i < n; ++i) {
        CAPTURE(std::string(op));
        CAPTURE(a[i]);
        CAPTURE(b[i]);
        CHECK(same_value(got[i], expected(a[i], b[i])));
      }
    };
    check("add", [](float x, float y) { return x + y; });
    check("sub", [](float x, float y) { return x - y; });
    check("mul", [](float x, float y) { return x * y; });
    check("div", [](float x, float y) { return x / y; });
    const auto nan_wins = [](float x, float y, float r) {
      return std::isnan(x) || std::isnan(y) ? kNaN : r;
    };
    check("maximum", [&](float x, float y) { return nan_wins(x, y, std::fmax(x, y)); });
    check("minimum", [&](float x, float y) { return nan_wins(x, y, std::fmin(x, y)); });
    check("mod", [](float x, float y) {
      const double rest = std::fmod(static_cast<double>(x), static_cast<double>(y));
      if (rest != 0.0 && (rest < 0) != (y < 0)) {
        return static_cast<float>(rest + static_cast<double>(y));
      }
      return static_cast<float>(rest);
    });
    check("pow", [](float x, float y) {
      return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
    });
    const auto test = [&](const char* op, auto expected) {
      const auto got = run<uint8_t>(op, f32, boolean, n, a, b);
      size_t wrong = 0;
      for (size_t i = 0; i < n; ++i) wrong += got[i] != (expected(a[i], b[i]) ? 1 : 0);
      CAPTURE(std::string(op));
      CHECK(wrong == 0);
    };
    test("equal", [](float x, float y) { return x == y; });
    test("not_equal", [](float x, float y) { return x != y; });
    test("less", [](float x, float y) { return x < y; });
    test("less_equal", [](float x, float y) { return x <= y; });
    test("greater", [](float x, float y) { return x > y; });
    test("greater_equal", [](float x, float y) { return x >= y; });
  });
}

TEST_CASE("vector: stores past the caches write the same bytes and no others") {
  Numbers numbers(7);
  std::vector<float> a(300), expected(300);
  for (float& v : a) v = numbers.uniform();
  on_every_isa([&] {
    const auto relu = vector::find_instruction("relu", f32, f32);
    for (size_t offset = 0; offset < 20; ++offset) {
      for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{33}, size_t{250}}) {
        std::vector<float> dst(300, 7.0f);
        VectorCall call;
        call.dst = dst.data() + offset;
        call.src[0] = a.data() + 3;
        call.n = n;
        call.streams = true;
        relu(call);
        std::fill(expected.begin(), expected.end(), 7.0f);
        for (size_t i = 0; i < n; ++i) expected[offset + i] = std::max(a[3 + i], 0.0f);
        CHECK(same_bits(dst, expected));
      }
    }
  });
}

TEST_CASE("vector: integers wrap around and divide by zero to zero") {
  on_every_isa([] {
    check_integers<int64_t>(i64);
    check_integers<int32_t>(i32);
    check_integers<uint8_t>(u8);
    const auto powers =
        run<int32_t>("pow", i32, i32, 7, std::vector<int32_t>{2, -3, 7, -1, 1, 0, 5},
                     std::vector<int32_t>{10, 3, 0, -3, -5, -1, -2});
    CHECK(powers == std::vector<int32_t>{1024, -27, 1, -1, 1, 0, 0});
    const auto wrapped =
        run<int64_t>("pow", i64, i64, 1, std::vector<int64_t>{3}, std::vector<int64_t>{41});
    CHECK(static_cast<uint64_t>(wrapped[0]) == 18026252303461234787u);
  });
}

TEST_CASE("vector: logic and selection") {
  const std::vector<uint8_t> a = {0, 0, 1, 1, 1}, b = {0, 1, 0, 1, 1};
  on_every_isa([&] {
    using Bytes = std::vector<uint8_t>;
    CHECK(run<uint8_t>("logical_and", boolean, boolean, 5, a, b) == Bytes{0, 0, 0, 1, 1});
    CHECK(run<uint8_t>("logical_or", boolean, boolean, 5, a, b) == Bytes{0, 1, 1, 1, 1});
    CHECK(run<uint8_t>("logical_xor", boolean, boolean, 5, a, b) == Bytes{0, 1, 1, 0, 0});
    CHECK(run<uint8_t>("logical_not", boolean, boolean, 5, a) == Bytes{1, 1, 0, 0, 0});
    const auto select = vector::find_instruction("select", i64, i64);
    REQUIRE((select != nullptr));
    const std::vector<int64_t> x = {1, 2, 3, 4, 5}, y = {-1, -2, -3, -4, -5};
    for (int scalars = 0; scalars < 8; ++scalars) {
      VectorCall call;
      std::vector<int64_t> dst(5, 99);
      call.dst = dst.data();
      call.src[0] = a.data();
      call.src[1] = x.data();
      call.src[2] = y.data();
      for (int s = 0; s < 3; ++s) call.scalar[s] = (scalars >> s & 1) != 0;
      call.n = 5;
      select(call);
      for (size_t i = 0; i < 5; ++i) {
        const bool chosen = a[call.scalar[0] ? 0 : i] != 0;
        CHECK(dst[i] == (chosen ? x[call.scalar[1] ? 0 : i] : y[call.scalar[2] ? 0 : i]));
      }
    }
  });
}

TEST_CASE("vector: casts of floats to integers saturate") {
  const std::vector<float> in = {0.0f,          0.9f,          -0.9f,          1.5f,   -1.5f,
                                 255.0f,        255.9f,        256.0f,         300.0f, -7.0f,
                                 2147483520.0f, 2147483648.0f, -2147483648.0f, -3e9f,  3e9f,
                                 1e19f,         -1e19f,        kInf,           -kInf,  kNaN};
  on_every_isa([&] {
    const auto to_i32 = run<int32_t>("cast", f32, i32, in.size(), in);
    const auto to_i64 = run<int64_t>("cast", f32, i64, in.size(), in);
    const auto to_u8 = run<uint8_t>("cast", f32, u8, in.size(), in);
    const auto to_bool = run<uint8_t>("cast", f32, boolean, in.size(), in);
    for (size_t i = 0; i < in.size(); ++i) {
      const long double v = std::isnan(in[i]) ? 0.0L : std::trunc(static_cast<long double>(in[i]));
      const auto stop = [&](long double low, long double high) {
        return std::min(std::max(v, low), high);
      };
      CAPTURE(in[i]);
      CHECK(static_cast<long double>(to_i32[i]) == stop(-2147483648.0L, 2147483647.0L));
      CHECK(static_cast<long double>(to_i64[i]) ==
            stop(-9223372036854775808.0L, 9223372036854775807.0L));
      CHECK(static_cast<long double>(to_u8[i]) == stop(0.0L, 255.0L));
      CHECK(to_bool[i] == (in[i] != 0.0f ? 1 : 0));
    }
  });
}

TEST_CASE("vector: floats rounded to bf16 in place are a cast there and back") {
  std::vector<float> in = {0.0f,     -0.0f,     1.00390625f, 1.01171875f, -3.3f,
                           1e-42f,   0x1p-134f, 0x1.8p-134f, 0x1p-133f,   3.4e38f,
                           -3.4e38f, kInf,      -kInf,       kNaN};
  for (int i = 0; i < 40; ++i) in.push_back(std::ldexp(1.0f + 0.0137f * static_cast<float>(i), i));
  on_every_isa([&] {
    for (const size_t n : {size_t{0}, size_t{1}, size_t{14}, in.size()}) {
      const auto rounded = run<float>("round_to_bf16", f32, f32, n, in);
      for (size_t i = 0; i < n; ++i) {
        CAPTURE(in[i]);
        const auto expected = static_cast<float>(BFloat16(in[i]));
        CHECK((rounded[i] == expected || (std::isnan(rounded[i]) && std::isnan(expected))));
        CHECK(std::signbit(rounded[i]) == std::signbit(in[i]));
      }
    }
  });
}

TEST_CASE("vector: one float rounded to bf16 is the result for all") {
  // bf16 has 8 bits for it: it is half way between two numbers, of which the greater one is even.
  const std::vector<float> one = {1.01171875f};
  on_every_isa([&] {
    for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{33}})
      CHECK(run<float>("round_to_bf16", f32, f32, n, one) == std::vector<float>(n, 1.015625f));
  });
}

TEST_CASE("vector: casts between integers wrap and to floats round once") {
  const std::vector<int64_t> in = {0,
                                   1,
                                   -1,
                                   255,
                                   256,
                                   -129,
                                   65504,
                                   65519,
                                   65520,
                                   70000,
                                   16777217,
                                   (1LL << 40) + 3,
                                   -(1LL << 40) - 3,
                                   0x7fffffffffffffff,
                                   33685504,
                                   33685505,
                                   4311810049LL};
  on_every_isa([&] {
    const size_t n = in.size();
    const auto to_i32 = run<int32_t>("cast", i64, i32, n, in);
    const auto to_u8 = run<uint8_t>("cast", i64, u8, n, in);
    const auto to_f32 = run<float>("cast", i64, f32, n, in);
    const auto to_f16 = run<uint16_t>("cast", i64, f16, n, in);
    const auto to_bf16 = run<uint16_t>("cast", i64, bf16, n, in);
    for (size_t i = 0; i < n; ++i) {
      CAPTURE(in[i]);
      CHECK(to_i32[i] == static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(in[i]))));
      CHECK(to_u8[i] == static_cast<uint8_t>(static_cast<uint64_t>(in[i])));
      CHECK(to_f32[i] == static_cast<float>(in[i]));
      if (std::abs(static_cast<double>(in[i])) < 0x1p53) {
        CHECK(to_f16[i] == Half(static_cast<double>(in[i])).bits);
        CHECK(to_bf16[i] == BFloat16(static_cast<double>(in[i])).bits);
      }
    }
  });
}

TEST_CASE("vector: casts to the 16-bit floats and back") {
  std::vector<float> in;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 30011) {
    const auto low = static_cast<uint32_t>(bits);
    float v;
    std::memcpy(&v, &low, 4);
    in.push_back(v);
  }
  for (uint32_t h = 0; h < 65536; ++h) {  // halves and what lies just beside the middle between two
    const float v = Half::from_bits(static_cast<uint16_t>(h));
    in.push_back(v);
    in.push_back(v * (1.0f + 0x1p-12f));
    in.push_back(v * (1.0f + 0x1p-11f));
    in.push_back(v + 0x1p-25f);
  }
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  on_every_isa([&] {
    const auto half = run<uint16_t>("cast", f32, f16, in.size(), in);
    const auto bfloat = run<uint16_t>("cast", f32, bf16, in.size(), in);
    size_t wrong = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      if (std::isnan(in[i])) {
        wrong += !std::isnan(static_cast<float>(Half::from_bits(half[i])));
        wrong += !std::isnan(static_cast<float>(BFloat16::from_bits(bfloat[i])));
      } else {
        wrong += half[i] != Half(in[i]).bits;
        wrong += bfloat[i] != BFloat16(in[i]).bits;
      }
    }
    CHECK(wrong == 0);
    const auto from_half = run<float>("cast", f16, f32, patterns.size(), patterns);
    const auto from_bfloat = run<float>("cast", bf16, f32, patterns.size(), patterns);
    for (size_t i = 0; i < patterns.size(); ++i) {
      wrong += !same_value(from_half[i], Half::from_bits(patterns[i]));
      wrong += !same_value(from_bfloat[i], BFloat16::from_bits(patterns[i]));
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("vector: saturating f16 results stop at the largest finite value and tell") {
  const std::vector<uint16_t> big(40, Half(60000.0f).bits);
  on_every_isa([&] {
    const auto add = vector::find_instruction("add", f16, f16, true);
    REQUIRE((add != nullptr));
    CHECK((add != vector::find_instruction("add", f16, f16)));
    std::vector<uint16_t> dst(40);
    uint32_t status = 0;
    VectorCall call;
    call.dst = dst.data();
    call.src[0] = big.data();
    call.src[1] = big.data();
    call.n = 40;
    call.status = &status;
    add(call);
    CHECK(status == kFloatStatusF16Overflow);
    for (const uint16_t v : dst) CHECK(v == 0x7bff);
    status = 0;
    std::vector<uint16_t> small(40, Half(1.0f).bits);
    call.src[1] = small.data();
    add(call);
    CHECK(status == 0);
    for (const uint16_t v : dst) CHECK(v == Half(60001.0f).bits);
    call.status = nullptr;
    call.src[1] = big.data();
    add(call);
    const auto cast = vector::find_instruction("cast", f32, f16, true);
    const std::vector<float> wide = {-kInf, kNaN, 70000.0f, 65519.0f, -65520.0f};
    call.src[0] = wide.data();
    call.n = 5;
    call.status = &status;
    cast(call);
    CHECK(dst[0] == 0xfbff);
    CHECK(std::isnan(static_cast<float>(Half::from_bits(dst[1]))));
    CHECK(dst[2] == 0x7bff);
    CHECK(dst[3] == 0x7bff);
    CHECK(dst[4] == 0xfbff);
    CHECK(status == kFloatStatusF16Overflow);
  });
}

TEST_CASE("vector: every pair of dtypes casts and every dtype is copied") {
  on_every_isa([] {
    for (const DType from : kDTypes) {
      for (const DType to : kDTypes) CHECK((vector::find_instruction("cast", from, to) != nullptr));
      CHECK((vector::find_instruction("copy", from, from) != nullptr));
      CHECK((vector::find_instruction("select", from, from) != nullptr));
    }
    CHECK((vector::find_instruction("no_such_op", f32, f32) == nullptr));
  });
}

TEST_CASE("vector: every instruction has passes and the same for each dtype") {
  using Family = vector::InstructionTable (*)();
  static constexpr Family families[] = {
      &vector::float_arithmetic_table, &vector::float_math_table, &vector::float_compare_table,
      &vector::integer_table,          &vector::logic_table,      &vector::cast_table};
  size_t seen = 0;
  on_every_isa([&] {
    for (const Family family : families) {
      const vector::InstructionTable table = family();
      for (size_t i = 0; i < table.count; ++i, ++seen) {
        CAPTURE(table.entries[i].op);
        CHECK(table.entries[i].passes > 0);
        CHECK(table.entries[i].passes == vector::instruction_passes(table.entries[i].op));
      }
    }
  });
  CHECK(seen > 100);
  CHECK(vector::instruction_passes("add") == 1);
  CHECK(vector::instruction_passes("cast") == 1);
  CHECK(vector::instruction_passes("div") == 4);
  CHECK(vector::instruction_passes("exp") == 12);
  CHECK(vector::instruction_passes("no_such_op") == 0);
}

TEST_CASE("host isa: names are selected or refused with the choices") {
  const vector::HostIsa before = vector::host_isa();
  for (const vector::HostIsa isa : vector::available_host_isas()) {
    CHECK(vector::select_host_isa(vector::name_of(isa)) == isa);
    CHECK(vector::host_isa() == isa);
  }
  CHECK_THROWS_WITH_AS(vector::select_host_isa("mmx"), doctest::Contains("scalar"), Error);
  CHECK(vector::host_isa() == vector::available_host_isas().back());  // a refusal changes nothing
  if (!vector::amx_status().available) {
    CHECK_THROWS_WITH_AS(vector::select_host_isa("amx"),
                         doctest::Contains(vector::amx_status().reason.c_str()), Error);
  }
  CHECK(vector::select_host_isa(nullptr) == vector::available_host_isas().back());
  CHECK(vector::select_host_isa("") == vector::available_host_isas().back());
  CHECK(vector::available_host_isa_names().rfind("scalar", 0) == 0);
  vector::select_host_isa(vector::name_of(before));
}

TEST_SUITE_END();
