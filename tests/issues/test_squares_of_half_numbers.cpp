// Rules of imports made of several ops computed 16-bit floats in f16 between them: squares and sums
// that were beyond f16, or below it, gave zeros and infinities where the result is an ordinary
// number; and squares of integers wrapped. An acosh of numbers far below 1 was no NaN.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/graph_def_op.h"
#include "support/onnx_op.h"

namespace keel {
namespace {

using namespace keel_test;

Tensor halves(const Shape& shape, const std::vector<float>& values) {
  return Tensor::of<float>(shape, values).cast(f16);
}

// Four digits are what f16 has.
void check_near(const Tensor& got, const std::vector<double>& expected, double epsilon = 2e-3) {
  REQUIRE(got.num_elements() == static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(got.at(static_cast<int64_t>(i)) == doctest::Approx(expected[i]).epsilon(epsilon));
}

void check_halves(const OnnxOp& op, const std::vector<double>& expected) {
  CAPTURE(op.op);
  const Tensor got = op.run();
  CHECK(got.dtype() == f16);
  check_near(got, expected);
}

// The norm of a row, and the row divided by it, both in its own dtype.
void check_norms(const Tensor& row, double norm, const std::vector<double>& divided,
                 double epsilon) {
  const std::string dtype = name_of(row.dtype());
  CAPTURE(dtype);
  const Tensor size = OnnxOp{.op = "ReduceL2", .operands = {{"x", row}}}.run();
  CHECK(size.dtype() == row.dtype());
  REQUIRE(size.num_elements() == 1);
  // Not Approx alone, which takes numbers below 1 for equal.
  CHECK(size.at(0) / norm == doctest::Approx(1).epsilon(epsilon));
  const Tensor quotients = OnnxOp{.op = "LpNormalization", .operands = {{"x", row}}}.run();
  CHECK(quotients.dtype() == row.dtype());
  check_near(quotients, divided, epsilon);
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("norms of f16 in ONNX models neither overflow nor underflow") {
  const Tensor pair = halves({1, 2}, {300, 400});  // the norm is 500
  check_halves({.op = "LpNormalization", .operands = {{"x", pair}}}, {0.6, 0.8});
  check_halves({.op = "ReduceL2", .operands = {{"x", pair}}}, {500});
  check_halves({.op = "ReduceL2", .operands = {{"x", halves({2}, {3e-4f, 4e-4f})}}}, {5e-4});
  check_halves({.op = "ReduceLogSum", .operands = {{"x", halves({2}, {4e4f, 4e4f})}}},
               {std::log(8e4)});
  // A square of 2^-11 is 2^-22, below what f16 tells from 0 in steps of 2^-24; 64 of them are
  // 2^-16.
  check_halves({.op = "ReduceSumSquare",
                .operands = {{"x", Tensor::full(f16, {64}, std::ldexp(1.25, -11))}}},
               {1.5625 * std::ldexp(1, -16)});
  check_halves({.op = "LpPool",
                .operands = {{"x", halves({1, 1, 2}, {300, 400})}},
                .attributes = {onnx_ints("kernel_shape", {2})}},
               {500});
  check_halves(
      {.op = "LRN",
       .operands = {{"x", halves({1, 1, 1, 1}, {400})}},
       .attributes = {onnx_int("size", 1), onnx_float("alpha", 1), onnx_float("beta", 0.5)}},
      {400 / std::sqrt(1 + 160000.0)});
  // Two numbers 300 away from their mean are one deviation away from it.
  check_halves(
      {.op = "MeanVarianceNormalization", .operands = {{"x", halves({1, 1, 1, 2}, {0, 600})}}},
      {-1, 1});
}

TEST_CASE("norms of f64 and bf16 in ONNX models are computed and given in their dtype") {
  // The squares are beyond f32, and below it.
  check_norms(Tensor::of<double>({2}, {3e100, 4e100}), 5e100, {0.6, 0.8}, 1e-12);
  check_norms(Tensor::of<double>({2}, {3e-100, 4e-100}), 5e-100, {0.6, 0.8}, 1e-12);
  // A sum in steps of f32 would lose the second square.
  check_norms(Tensor::of<double>({2}, {1, 1e-4}), std::sqrt(1 + 1e-8),
              {1 / std::sqrt(1 + 1e-8), 1e-4 / std::sqrt(1 + 1e-8)}, 1e-12);
  check_norms(Tensor::of<float>({2}, {300, 400}).cast(bf16), 500, {0.6, 0.8}, 2e-3);
  // A sum of ones in bf16 stays at 256.
  check_norms(Tensor::full(bf16, {1024}, 1), 32, std::vector<double>(1024, 1.0 / 32), 1e-12);
}

TEST_CASE("a norm of integers does not wrap where it is an integer of its own") {
  const Tensor x = Tensor::of<int32_t>({2}, {60000, 80000});
  const Tensor got = OnnxOp{.op = "ReduceL2", .operands = {{"x", x}}}.run();
  CHECK(got.dtype() == i32);
  CHECK(got.at(0) == 100000);
}

TEST_CASE("norms of f16 in TensorFlow graphs neither overflow nor underflow") {
  const Tensor axis = Tensor::of<int32_t>({1}, {0});
  check_near(run_graph_def_op("EuclideanNorm", {halves({2}, {300, 400}), axis}), {500});
  // Half the sum of 4 squares of 160, each beyond a third of the largest f16.
  check_near(run_graph_def_op("L2Loss", {Tensor::full(f16, {4}, 160)}), {51200});
  check_near(run_graph_def_op("LRN", {halves({1, 1, 1, 1}, {400})}),
             {400 / std::sqrt(1 + 160000.0)});
}

TEST_CASE("an acosh is NaN below 1 however far") {
  const std::vector<float> below = {
      0.5f, 0, -1, -1e4f, -1e10f, -1e30f, -std::numeric_limits<float>::infinity()};
  const auto count = static_cast<int64_t>(below.size());
  const Tensor got =
      OnnxOp{.op = "Acosh", .operands = {{"x", Tensor::of<float>({count}, below)}}}.run();
  for (int64_t i = 0; i < count; ++i) {
    CAPTURE(i);
    CHECK(std::isnan(got.at(i)));
  }
}

TEST_SUITE_END();

}  // namespace keel
