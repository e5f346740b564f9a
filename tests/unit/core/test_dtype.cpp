// Element types and conversions between them.
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "keel/core/base/dtype.h"
#include "keel/core/base/error.h"
#include "keel/core/tensor/convert.h"

namespace {

using keel::BFloat16;
using keel::convert_element;
using keel::Half;

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("dtypes have names sizes and kinds") {
  const struct {
    keel::DType dtype;
    const char* name;
    size_t bytes;
    bool is_float;
    bool is_integer;
  } rows[] = {{keel::f64, "f64", 8, true, false}, {keel::f32, "f32", 4, true, false},
              {keel::f16, "f16", 2, true, false}, {keel::bf16, "bf16", 2, true, false},
              {keel::i64, "i64", 8, false, true}, {keel::i32, "i32", 4, false, true},
              {keel::u8, "u8", 1, false, true},   {keel::boolean, "bool", 1, false, false}};
  for (const auto& row : rows) {
    CHECK(std::string(keel::name_of(row.dtype)) == row.name);
    CHECK(keel::parse_dtype(row.name) == row.dtype);
    CHECK(keel::size_of(row.dtype) == row.bytes);
    CHECK(keel::is_float(row.dtype) == row.is_float);
    CHECK(keel::is_integer(row.dtype) == row.is_integer);
    CHECK(keel::is_number(row.dtype) == (row.is_float || row.is_integer));
    CHECK(keel::visit_dtype(row.dtype, []<class T>() { return sizeof(T); }) == row.bytes);
    CHECK(keel::visit_dtype(row.dtype, []<class T>() { return keel::dtype_of<T>; }) == row.dtype);
  }
  for (const char* name : {"", "f", "F32", "float", "f32 ", "u16"}) {
    CHECK_THROWS_AS(keel::parse_dtype(name), keel::Error);
  }
}

TEST_CASE("float to integer truncates and saturates and NaN is zero") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(convert_element<int32_t>(2.9) == 2);
  CHECK(convert_element<int32_t>(-2.9) == -2);
  CHECK(convert_element<int32_t>(2147483647.5) == INT32_MAX);
  CHECK(convert_element<int32_t>(2147483648.0) == INT32_MAX);
  CHECK(convert_element<int32_t>(-2147483648.9) == INT32_MIN);
  CHECK(convert_element<int32_t>(-2147483649.0) == INT32_MIN);
  CHECK(convert_element<int32_t>(infinity) == INT32_MAX);
  CHECK(convert_element<int32_t>(-infinity) == INT32_MIN);
  CHECK(convert_element<int32_t>(std::nan("")) == 0);
  CHECK(convert_element<int32_t>(2147483520.0f) == 2147483520);
  CHECK(convert_element<int32_t>(2147483648.0f) == INT32_MAX);
  CHECK(convert_element<int64_t>(9223372036854774784.0) == 9223372036854774784);
  CHECK(convert_element<int64_t>(9223372036854775808.0) == INT64_MAX);
  CHECK(convert_element<int64_t>(-9223372036854775808.0) == INT64_MIN);
  CHECK(convert_element<int64_t>(-1e300) == INT64_MIN);
  CHECK(convert_element<int64_t>(std::nanf("")) == 0);
  CHECK(convert_element<uint8_t>(255.9) == 255);
  CHECK(convert_element<uint8_t>(256.0) == 255);
  CHECK(convert_element<uint8_t>(-0.5) == 0);
  CHECK(convert_element<uint8_t>(-1.0) == 0);
  CHECK(convert_element<uint8_t>(Half(300.0f)) == 255);
  CHECK(convert_element<uint8_t>(BFloat16(-3.0f)) == 0);
  CHECK(convert_element<int64_t>(Half::from_bits(0x7c00)) == INT64_MAX);
  CHECK(convert_element<int32_t>(Half::from_bits(0x7e00)) == 0);
}

TEST_CASE("integers wrap into smaller ones") {
  CHECK(convert_element<uint8_t>(int32_t{256}) == 0);
  CHECK(convert_element<uint8_t>(int32_t{-1}) == 255);
  CHECK(convert_element<int32_t>(int64_t{1} << 32) == 0);
  CHECK(convert_element<int32_t>((int64_t{1} << 31)) == INT32_MIN);
  CHECK(convert_element<int64_t>(uint8_t{200}) == 200);
  CHECK(convert_element<int32_t>(true) == 1);
}

TEST_CASE("to bool is not zero and NaN is not zero") {
  CHECK(convert_element<bool>(0.5));
  CHECK_FALSE(convert_element<bool>(-0.0));
  CHECK(convert_element<bool>(std::nan("")));
  CHECK(convert_element<bool>(uint8_t{2}));
  CHECK_FALSE(convert_element<bool>(Half::from_bits(0x8000)));
  CHECK(convert_element<bool>(Half::from_bits(0x0001)));
  CHECK(convert_element<bool>(BFloat16::from_bits(0x7fc0)));
  CHECK(convert_element<double>(true) == 1.0);
  CHECK(convert_element<Half>(true).bits == 0x3c00);
  CHECK(convert_element<BFloat16>(true).bits == 0x3f80);
}

TEST_CASE("a double rounds once on its way to 16 bits") {
  // Just above the tie between 1 and the next half: a float in between would land on the tie and go
  // down.
  CHECK(convert_element<Half>(1.0 + 0x1p-11 + 0x1p-40).bits == 0x3c01);
  CHECK(convert_element<Half>(1.0 + 0x1p-11).bits == 0x3c00);
  CHECK(convert_element<Half>(1.0 + 0x1p-10 + 0x1p-11 - 0x1p-40).bits == 0x3c01);
  CHECK(convert_element<BFloat16>(1.0 + 0x1p-8 + 0x1p-40).bits == 0x3f81);
  CHECK(convert_element<BFloat16>(1.0 + 0x1p-8).bits == 0x3f80);
}

TEST_CASE("a 64-bit integer rounds once on its way to 16 bits") {
  // 2^62 + 2^54 is the tie between two bfloat16; one more decides it, and a double in between would
  // lose that one.
  const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 54);
  CHECK(convert_element<BFloat16>(tie).bits == 0x5e80);
  CHECK(convert_element<BFloat16>(tie + 1).bits == 0x5e81);
  CHECK(convert_element<BFloat16>(-tie - 1).bits == 0xde81);
  CHECK(convert_element<BFloat16>(tie - 1).bits == 0x5e80);
  const int64_t odd_tie = (int64_t{1} << 62) + 3 * (int64_t{1} << 54);
  CHECK(convert_element<BFloat16>(odd_tie).bits == 0x5e82);
  CHECK(convert_element<BFloat16>(odd_tie - 1).bits == 0x5e81);
  CHECK(convert_element<BFloat16>(INT64_MIN).bits == 0xdf00);
  CHECK(convert_element<BFloat16>(INT64_MAX).bits == 0x5f00);
  CHECK(convert_element<Half>(int64_t{65519}).bits == 0x7bff);
  CHECK(convert_element<Half>(int64_t{65520}).bits == 0x7c00);
  CHECK(convert_element<Half>(int32_t{2049}).bits == 0x6800);
  CHECK(convert_element<Half>(int32_t{-2051}).bits == 0xe802);
  CHECK(convert_element<float>(int64_t{16777217}) == 16777216.0f);
}

TEST_CASE("narrowing floats round to nearest even") {
  CHECK(convert_element<float>(1.0 + 0x1p-24) == 1.0f);
  CHECK(convert_element<float>(1.0 + 0x1p-23 + 0x1p-24) == 1.0f + 0x1p-22f);
  CHECK(std::isinf(convert_element<float>(1e300)));
  CHECK(convert_element<BFloat16>(Half(65504.0f)).bits == 0x4780);
  CHECK(convert_element<Half>(BFloat16(70000.0f)).bits == 0x7c00);
}

TEST_SUITE_END();
