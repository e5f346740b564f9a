// Tensors as text. Every expected string is what NumPy 1.24 prints for str() of the array named.
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/tensor/tensor.h"

namespace {

using keel::Half;
using keel::Shape;
using keel::Tensor;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
std::string text(const Shape& shape, std::initializer_list<T> values) {
  return to_string(Tensor::of<T>(shape, values));
}

// 1-D, f64.
std::string doubles(std::initializer_list<double> values) {
  return text<double>({static_cast<int64_t>(values.size())}, values);
}

template <class T>
Tensor arange(const Shape& shape) {
  std::vector<T> values(static_cast<size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), T{0});
  return Tensor::of(shape, values);
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("a scalar prints like a Python number") {
  CHECK(to_string(Tensor::scalar(0.1f)) == "0.1");
  CHECK(to_string(Tensor::scalar(Half(0.1f))) == "0.1");
  CHECK(to_string(Tensor::scalar(Half(49152.0f))) == "49150.0");
  CHECK(to_string(Tensor::scalar(67108872.0f)) == "67108870.0");
  CHECK(to_string(Tensor::scalar(1e16)) == "1e+16");
  CHECK(to_string(Tensor::scalar(1e-5)) == "1e-05");
  CHECK(to_string(Tensor::scalar(1.5e-7f)) == "1.5e-07");
  CHECK(to_string(Tensor::scalar(-0.0)) == "-0.0");
  CHECK(to_string(Tensor::scalar(int32_t{-3})) == "-3");
  CHECK(to_string(Tensor::scalar(true)) == "True");
  CHECK(to_string(Tensor::scalar(kNan)) == "nan");
  CHECK(to_string(Tensor::scalar(-kInfinity)) == "-inf");
}

TEST_CASE("floats are aligned at their points") {
  CHECK(doubles({1, 2.5, -3}) == "[ 1.   2.5 -3. ]");
  CHECK(text<float>({3}, {0.1f, 0.25f, 100}) == "[  0.1    0.25 100.  ]");
  CHECK(doubles({1.0 / 3, 2.0 / 3}) == "[0.33333333 0.66666667]");
  CHECK(doubles({0.12345678901}) == "[0.12345679]");
  CHECK(doubles({1, 1000}) == "[   1. 1000.]");
  CHECK(doubles({-0.0, 1}) == "[-0.  1.]");
  CHECK(to_string(Tensor(keel::f64, {2, 3})) == "[[0. 0. 0.]\n [0. 0. 0.]]");
}

TEST_CASE("wide ranges print in scientific form") {
  CHECK(doubles({1e8, 1}) == "[1.e+08 1.e+00]");
  CHECK(doubles({1e-5, 1.5}) == "[1.0e-05 1.5e+00]");
  CHECK(doubles({1, 1001}) == "[1.000e+00 1.001e+03]");
  CHECK(doubles({1e300, 1e-300}) == "[1.e+300 1.e-300]");
  CHECK(text<float>({2}, {16777216.0f, 0.5f}) == "[1.6777216e+07 5.0000000e-01]");
  CHECK(text<float>({1}, {0.0001f}) == "[1.e-04]");
  CHECK(text<Half>({2}, {Half(65504.0f), Half(6e-8)}) == "[6.55e+04 5.96e-08]");
  CHECK(text<Half>({2}, {Half(49152.0f), Half(0.5f)}) == "[4.915e+04 5.000e-01]");
  CHECK(text<float>({2, 2}, {0.001f, 123.456f, 7, -8}) ==
        "[[ 1.00000e-03  1.23456e+02]\n [ 7.00000e+00 -8.00000e+00]]");
}

TEST_CASE("nan and infinities have room") {
  CHECK(doubles({1e10, kNan, -kInfinity}) == "[1.e+10    nan   -inf]");
  CHECK(doubles({kNan, 1, kInfinity}) == "[nan  1. inf]");
  CHECK(doubles({kNan, -kInfinity}) == "[ nan -inf]");
}

TEST_CASE("integers and booleans are aligned right") {
  CHECK(text<int64_t>({2, 3}, {1, -20, 300, 4, 5, 6}) == "[[  1 -20 300]\n [  4   5   6]]");
  CHECK(text<bool>({2}, {true, false}) == "[ True False]");
  CHECK(text<bool>({1, 2}, {true, true}) == "[[ True  True]]");
  CHECK(text<uint8_t>({2}, {0, 255}) == "[  0 255]");
  CHECK(text<int64_t>({2}, {INT64_MIN, INT64_MAX}) ==
        "[-9223372036854775808  9223372036854775807]");
}

TEST_CASE("axes nest with empty lines between them") {
  CHECK(to_string(arange<int64_t>({2, 2, 2})) == "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
  CHECK(text<double>({1, 2, 1, 2}, {1, 2, 3, 4}) == "[[[[1. 2.]]\n\n  [[3. 4.]]]]");
}

TEST_CASE("empty tensors print as brackets") {
  CHECK(to_string(Tensor(keel::f32, {0})) == "[]");
  CHECK(to_string(Tensor(keel::f32, {0, 3})) == "[]");
  CHECK(to_string(Tensor(keel::f32, {2, 0})) == "[]");
  CHECK(to_string(Tensor()) == "(no tensor)");
}

TEST_CASE("long rows break at 75 columns") {
  CHECK(to_string(arange<int64_t>({30})) ==
        "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
        " 24 25 26 27 28 29]");
  std::vector<double> grid;
  for (int i = 0; i < 12; ++i) grid.push_back(i / 11.0);
  CHECK(to_string(Tensor::of({12}, grid)) ==
        "[0.         0.09090909 0.18181818 0.27272727 0.36363636 0.45454545\n"
        " 0.54545455 0.63636364 0.72727273 0.81818182 0.90909091 1.        ]");
}

TEST_CASE("more than 1000 elements are summarised") {
  CHECK(to_string(arange<int64_t>({1001})) == "[   0    1    2 ...  998  999 1000]");
  CHECK(to_string(arange<int64_t>({1001, 1})) ==
        "[[   0]\n [   1]\n [   2]\n ...\n [ 998]\n [ 999]\n [1000]]");
  CHECK(to_string(arange<int64_t>({2, 10, 100})) == R"([[[   0    1    2 ...   97   98   99]
  [ 100  101  102 ...  197  198  199]
  [ 200  201  202 ...  297  298  299]
  ...
  [ 700  701  702 ...  797  798  799]
  [ 800  801  802 ...  897  898  899]
  [ 900  901  902 ...  997  998  999]]

 [[1000 1001 1002 ... 1097 1098 1099]
  [1100 1101 1102 ... 1197 1198 1199]
  [1200 1201 1202 ... 1297 1298 1299]
  ...
  [1700 1701 1702 ... 1797 1798 1799]
  [1800 1801 1802 ... 1897 1898 1899]
  [1900 1901 1902 ... 1997 1998 1999]]])");
  CHECK(to_string(arange<double>({1000, 1000})) ==
        R"([[0.00000e+00 1.00000e+00 2.00000e+00 ... 9.97000e+02 9.98000e+02
  9.99000e+02]
 [1.00000e+03 1.00100e+03 1.00200e+03 ... 1.99700e+03 1.99800e+03
  1.99900e+03]
 [2.00000e+03 2.00100e+03 2.00200e+03 ... 2.99700e+03 2.99800e+03
  2.99900e+03]
 ...
 [9.97000e+05 9.97001e+05 9.97002e+05 ... 9.97997e+05 9.97998e+05
  9.97999e+05]
 [9.98000e+05 9.98001e+05 9.98002e+05 ... 9.98997e+05 9.98998e+05
  9.98999e+05]
 [9.99000e+05 9.99001e+05 9.99002e+05 ... 9.99997e+05 9.99998e+05
  9.99999e+05]])");
  CHECK(to_string(arange<int64_t>({1000})).find("...") == std::string::npos);
}

TEST_CASE("bfloat16 prints the fewest digits that tell it from its neighbours") {
  using keel::BFloat16;
  CHECK(to_string(Tensor::scalar(BFloat16(0.1f))) == "0.1");
  CHECK(text<BFloat16>({3}, {BFloat16(1.0f), BFloat16(3.1415926f), BFloat16(-0.5f)}) ==
        "[ 1.    3.14 -0.5 ]");
  CHECK(to_string(Tensor::scalar(BFloat16::from_bits(0x7f7f))) == "3.39e+38");
  CHECK(to_string(Tensor::scalar(BFloat16::from_bits(0x0001))) == "9e-41");
}

TEST_SUITE_END();
