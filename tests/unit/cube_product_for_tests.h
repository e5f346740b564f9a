// Tests of the cube share this: products of matrices that lie as tensors do, with NaN around them,
// beside plain triple loops in double, and rectangles of C that must have the bits of the whole.
#ifndef KEEL_TESTS_UNIT_CUBE_PRODUCT_FOR_TESTS_H
#define KEEL_TESTS_UNIT_CUBE_PRODUCT_FOR_TESTS_H

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/cube/cube.h"
#include "keel/core/base/half.h"

#include "vector_for_tests.h"

namespace keel::cube_test {

using vector_test::Numbers;
using vector_test::same_bits;

// Tensors begin with a cache line.
struct alignas(64) Line {
  explicit Line(int byte) { std::memset(bytes, byte, sizeof bytes); }
  uint8_t bytes[64];
};

// A matrix in its dtype, rows `stride` apart with NaN between them, and the values it stands for.
struct Matrix {
  Matrix(size_t rows_, size_t cols_, size_t padding, DType dtype_, uint64_t seed)
      : rows(rows_), cols(cols_), stride(cols_ + padding), dtype(dtype_) {
    lines.resize((rows * stride * size_of(dtype) + 63) / 64, Line(0xff));
    values.resize(rows * cols);
    Numbers numbers(seed);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < cols; ++j) {
        values[i * cols + j] = store(i * stride + j, numbers);
      }
    }
  }
  double store(size_t at, Numbers& numbers) {
    if (dtype == u8) {
      const auto byte = static_cast<uint8_t>(numbers.next());
      data()[at] = byte;
      return byte;
    }
    const float value = numbers.uniform();
    if (dtype == f32) {
      std::memcpy(data() + at * 4, &value, 4);
      return static_cast<double>(value);
    }
    const uint16_t bits = dtype == f16 ? Half(value).bits : BFloat16(value).bits;
    std::memcpy(data() + at * 2, &bits, 2);
    return static_cast<double>(dtype == f16 ? static_cast<float>(Half::from_bits(bits))
                                            : static_cast<float>(BFloat16::from_bits(bits)));
  }
  double at(size_t i, size_t j) const { return values[i * cols + j]; }
  // Null for an operand without elements.
  uint8_t* data() { return lines.empty() ? nullptr : lines[0].bytes; }
  const uint8_t* data() const { return lines.empty() ? nullptr : lines[0].bytes; }

  size_t rows, cols, stride;
  DType dtype;
  std::vector<Line> lines;
  std::vector<double> values;
};

struct Scratch {
  explicit Scratch(size_t bytes)
      : data(std::aligned_alloc(64, (bytes + 63) / 64 * 64), &std::free) {
    std::memset(data.get(), 0xff, (bytes + 63) / 64 * 64);  // NaN: padding must not leak
  }
  std::unique_ptr<void, decltype(&std::free)> data;
};

struct Product {
  // A product of m x k and k x n.
  explicit Product(const std::array<size_t, 3>& m_n_k) {
    problem.m = m_n_k[0];
    problem.n = m_n_k[1];
    problem.k = m_n_k[2];
  }

  CubeProblem problem;
  size_t padding = 0;
  const vector::ByteMap* bytes = nullptr;
};

inline Matrix left_of(const Product& p) {
  const CubeProblem& q = p.problem;
  return q.transpose_a ? Matrix(q.k, q.m, p.padding, q.a, 1) : Matrix(q.m, q.k, p.padding, q.a, 1);
}
inline Matrix right_of(const Product& p) {
  const CubeProblem& q = p.problem;
  return q.transpose_b ? Matrix(q.n, q.k, p.padding, q.b, 2) : Matrix(q.k, q.n, p.padding, q.b, 2);
}

inline CubeArgs args_of(const Product& p, const Matrix& a, const Matrix& b, std::vector<float>& c) {
  CubeArgs args;
  args.a = a.data();
  args.a_stride = a.stride;
  args.b = b.data();
  args.b_stride = b.stride;
  args.c = c.data();
  args.c_stride = p.problem.n + p.padding;
  args.bytes = p.bytes;
  return args;
}

inline std::vector<float> old_c(const Product& p) {
  return std::vector<float>(p.problem.m * (p.problem.n + p.padding) + 1,
                            std::numeric_limits<float>::quiet_NaN());
}

inline std::vector<float> compute(const Product& p, const CubePlan& plan, size_t row_step,
                                  size_t column_step) {
  const Matrix a = left_of(p), b = right_of(p);
  std::vector<float> c = old_c(p);
  const CubeArgs args = args_of(p, a, b, c);
  const Scratch scratch(cube_scratch_bytes(plan, row_step, column_step));
  for (size_t i = 0; i < p.problem.m; i += row_step) {
    for (size_t j = 0; j < p.problem.n; j += column_step) {
      cube_block(
          plan, args,
          {i, std::min(p.problem.m, i + row_step), j, std::min(p.problem.n, j + column_step)},
          scratch.data.get());
    }
  }
  return c;
}

// Compares with loops in double, within (k + 4) * eps * sum |a||b|.
inline void check_against_loops(const Product& p, const std::vector<float>& c) {
  const CubeProblem& q = p.problem;
  const Matrix a = left_of(p), b = right_of(p);
  const std::vector<float> before = old_c(p);
  constexpr double kEps = 1.2e-7;
  const auto multiplied = [&](double value, DType stored) {
    if (q.round_to != bf16 || stored == bf16) return value;
    return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(value))));
  };
  size_t wrong = 0;
  for (size_t i = 0; i < q.m; ++i) {
    for (size_t j = 0; j < q.n; ++j) {
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < q.k; ++k) {
        double x = q.transpose_a ? a.at(k, i) : a.at(i, k);
        if (p.bytes != nullptr) x = static_cast<double>(p.bytes->table[static_cast<size_t>(x)]);
        x = multiplied(x, q.a);
        const double y = multiplied(q.transpose_b ? b.at(j, k) : b.at(k, j), q.b);
        sum += x * y;
        magnitude += std::fabs(x * y);
      }
      const size_t at = i * (q.n + p.padding) + j;
      const double bound = static_cast<double>(q.k + 4) * kEps * magnitude;
      if (!(std::fabs(static_cast<double>(c[at]) - sum) <= bound)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  // What lies between the rows of C is not touched.
  for (size_t i = 0; i < q.m; ++i) {
    for (size_t j = q.n; j < q.n + p.padding; ++j) {
      const size_t at = i * (q.n + p.padding) + j;
      if (std::memcmp(&c[at], &before[at], sizeof(float)) != 0) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

// Computes some of C's rows and columns, and what is around them has to stay what it is.
inline void check_rectangle(const Product& p, const CubePlan& plan,
                            const std::vector<float>& whole) {
  if (p.problem.m < 4 || p.problem.n < 4) return;
  const CubeRange range{1, p.problem.m - 1, 1, p.problem.n - 2};
  const Matrix a = left_of(p), b = right_of(p);
  std::vector<float> c = old_c(p), expected = c;
  const CubeArgs args = args_of(p, a, b, c);
  for (size_t row = range.m0 * args.c_stride; row < range.m1 * args.c_stride; row += args.c_stride)
    std::copy(&whole[row + range.n0], &whole[row + range.n1], &expected[row + range.n0]);
  const Scratch scratch(cube_scratch_bytes(plan, p.problem.m, p.problem.n));
  cube_block(plan, args, range, scratch.data.get());
  CHECK(same_bits(c, expected));
}

inline void check_product(const Product& p) {
  CAPTURE(p.problem.m);
  CAPTURE(p.problem.n);
  CAPTURE(p.problem.k);
  CAPTURE(std::string(name_of(p.problem.a)));
  CAPTURE(p.problem.transpose_a);
  CAPTURE(p.problem.transpose_b);
  CAPTURE(p.padding);
  const CubePlan plan = plan_cube(p.problem);
  const size_t m = std::max<size_t>(p.problem.m, 1), n = std::max<size_t>(p.problem.n, 1);
  const auto whole = compute(p, plan, m, n);
  check_against_loops(p, whole);
  CHECK(same_bits(whole, compute(p, plan, (m + 1) / 2, n)));
  CHECK(same_bits(whole, compute(p, plan, 5, 7)));
  CHECK(same_bits(whole, compute(p, plan, m, (n + 2) / 3)));
  check_rectangle(p, plan, whole);
}

inline constexpr std::array<size_t, 3> kCubeShapes[] = {
    {1, 1, 1},    {37, 53, 129}, {1, 40, 17},   {40, 1, 17},    {33, 10, 96},
    {16, 16, 16}, {100, 10, 50}, {29, 67, 800}, {3, 5, 0},      {64, 17, 33},
    {7, 16, 391}, {15, 33, 385}, {9, 21, 2100}, {1, 300, 410},  {2, 140, 33},
    {290, 2, 70}, {48, 10, 90},  {3, 48, 90},   {290, 10, 801}, {9, 2, 1300}};

}  // namespace keel::cube_test

#endif  // KEEL_TESTS_UNIT_CUBE_PRODUCT_FOR_TESTS_H
