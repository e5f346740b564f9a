// The cube against plain triple loops in double, for every host ISA that runs here: dtypes, odd
// shapes, strides, transposes, and rectangles of C that must have the bits of the whole.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/core/base/error.h"
#include "keel/core/base/half.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::vector;

using vector_test::Numbers;
using vector_test::on_every_isa;

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
  CubeProblem problem;
  size_t padding = 0;
  const ByteMap* bytes = nullptr;
};

Matrix left_of(const Product& p) {
  const CubeProblem& q = p.problem;
  return q.transpose_a ? Matrix(q.k, q.m, p.padding, q.a, 1) : Matrix(q.m, q.k, p.padding, q.a, 1);
}
Matrix right_of(const Product& p) {
  const CubeProblem& q = p.problem;
  return q.transpose_b ? Matrix(q.n, q.k, p.padding, q.b, 2) : Matrix(q.k, q.n, p.padding, q.b, 2);
}

CubeArgs args_of(const Product& p, const Matrix& a, const Matrix& b, std::vector<float>& c) {
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

std::vector<float> old_c(const Product& p) {
  return std::vector<float>(p.problem.m * (p.problem.n + p.padding) + 1,
                            std::numeric_limits<float>::quiet_NaN());
}

std::vector<float> compute(const Product& p, const CubePlan& plan, size_t row_step,
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
void check_against_loops(const Product& p, const std::vector<float>& c) {
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

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

// Computes some of C's rows and columns, and what is around them has to stay what it is.
void check_rectangle(const Product& p, const CubePlan& plan, const std::vector<float>& whole) {
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

void check_product(const Product& p) {
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

constexpr size_t kShapes[][3] = {
    {1, 1, 1},     {37, 53, 129}, {1, 40, 17},  {40, 1, 17},  {33, 10, 96}, {16, 16, 16},
    {100, 10, 50}, {29, 67, 800}, {3, 5, 0},    {64, 17, 33}, {7, 16, 391}, {15, 33, 385},
    {9, 21, 2100}, {1, 300, 410}, {2, 140, 33}, {290, 2, 70}, {48, 10, 90}, {3, 48, 90}};

}  // namespace

TEST_CASE("cube: every dtype and transpose agrees with plain loops") {
  on_every_isa([] {
    for (const auto& shape : kShapes) {
      for (const DType dtype : {f32, f16, bf16}) {
        for (int transposes = 0; transposes < 4; ++transposes) {
          Product p;
          p.problem.m = shape[0];
          p.problem.n = shape[1];
          p.problem.k = shape[2];
          p.problem.a = p.problem.b = dtype;
          p.problem.transpose_a = (transposes & 1) != 0;
          p.problem.transpose_b = (transposes & 2) != 0;
          p.padding = transposes == 0 ? 0 : 3;
          check_product(p);
        }
      }
    }
  });
}

TEST_CASE("cube: parts of k agree with plain loops and do not depend on rectangles") {
  const auto check = [] {
    for (const size_t parts : {2, 3, 5, 13}) {
      for (const auto& shape : {std::array<size_t, 3>{37, 53, 7},
                                {64, 96, 32},
                                {29, 300, 5},
                                {130, 40, 33},
                                {20, 18, 700}}) {
        for (const DType dtype : {f32, f16, bf16}) {
          Product p;
          p.problem.m = shape[0];
          p.problem.n = shape[1];
          p.problem.k = shape[2] * parts;
          p.problem.parts = parts;
          p.problem.a = p.problem.b = dtype;
          p.problem.transpose_a = true;
          p.padding = parts == 3 ? 0 : 3;
          CAPTURE(parts);
          check_product(p);
        }
      }
    }
  };
  on_every_isa(check);
}

TEST_CASE("cube: empty products") {
  on_every_isa([] {
    for (const size_t empty : {0u, 1u}) {
      Product p;
      p.problem.m = empty == 0 ? 0 : 4;
      p.problem.n = empty == 0 ? 4 : 0;
      p.problem.k = 3;
      const CubePlan plan = plan_cube(p.problem);
      CHECK(cube_scratch_bytes(plan, 0, 0) > 0);
      CHECK(same_bits(compute(p, plan, 4, 4), old_c(p)));
    }
  });
}

TEST_CASE("cube: bytes are mapped as they are loaded") {
  float divided[256], affine[256], odd[256];
  for (int x = 0; x < 256; ++x) {
    divided[x] = static_cast<float>(x) / 255.0f;
    affine[x] = static_cast<float>(x) * 0.007f + -0.5f;
    odd[x] = (static_cast<float>(x) / 255.0f - 0.1307f) / 0.3081f;
  }
  CHECK(make_byte_map(divided, f32).form == ByteMap::Form::kDivide);
  CHECK(make_byte_map(odd, f32).form == ByteMap::Form::kTable);
  on_every_isa([&] {
    for (const float* table : {divided, affine, odd}) {
      const ByteMap map = make_byte_map(table, f32);
      for (const auto& shape : kShapes) {
        for (const bool transposed : {false, true}) {
          Product p;
          p.problem.m = shape[0];
          p.problem.n = shape[1];
          p.problem.k = shape[2];
          p.problem.a = u8;
          p.problem.transpose_a = transposed;
          p.padding = 1;
          p.bytes = &map;
          check_product(p);
        }
      }
    }
  });
}

TEST_CASE("cube: a recognised byte map gives the bits of its table") {
  float divided[256];
  for (int x = 0; x < 256; ++x) divided[x] = static_cast<float>(x) / 255.0f;
  // Where quotients are rounded to bf16 a product with the inverse is as good.
  CHECK(make_byte_map(divided, bf16).form == ByteMap::Form::kScale);
  on_every_isa([&] {
    for (const DType round_to : {f32, bf16}) {
      const ByteMap fast = make_byte_map(divided, round_to);
      ByteMap slow = fast;
      slow.form = ByteMap::Form::kTable;
      for (const size_t n : {2u, 10u, 40u}) {
        for (const bool transposed : {false, true}) {
          Product p;
          p.problem.m = 301;
          p.problem.n = n;
          p.problem.k = 299;
          p.problem.a = u8;
          p.problem.round_to = round_to;
          p.problem.transpose_a = transposed;
          const CubePlan plan = plan_cube(p.problem);
          p.bytes = &fast;
          const auto computed = compute(p, plan, 301, n);
          p.bytes = &slow;
          CHECK(same_bits(computed, compute(p, plan, 301, n)));
        }
      }
    }
  });
}

TEST_CASE("cube: operands are rounded to bf16 as they are loaded") {
  float divided[256];
  for (int x = 0; x < 256; ++x) divided[x] = static_cast<float>(x) / 255.0f;
  const ByteMap map = make_byte_map(divided, bf16);
  on_every_isa([&] {
    for (const auto& shape : kShapes) {
      for (int variant = 0; variant < 12; ++variant) {
        Product p;
        p.problem.m = shape[0];
        p.problem.n = shape[1];
        p.problem.k = shape[2];
        p.problem.a = variant / 4 == 0 ? f32 : variant / 4 == 1 ? bf16 : u8;
        p.problem.b = variant / 4 == 2 ? bf16 : f32;
        p.problem.round_to = bf16;
        p.problem.transpose_a = (variant & 1) != 0;
        p.problem.transpose_b = (variant & 2) != 0;
        p.padding = 3;
        p.bytes = p.problem.a == u8 ? &map : nullptr;
        check_product(p);
      }
    }
  });
}

TEST_CASE("cube: in pieces it gives each sum once and the bits of the whole") {
  constexpr size_t kPieceShapes[][3] = {{1, 1, 1},       {100, 10, 50}, {10, 100, 50},
                                        {200, 70, 40},   {37, 53, 0},   {70, 1100, 9},
                                        {130, 40, 1100}, {3, 2050, 20}, {150, 33, 1025}};
  on_every_isa([&] {
    for (const auto& shape : kPieceShapes) {
      for (const DType dtype : {f32, bf16}) {
        Product p;
        p.problem.m = shape[0];
        p.problem.n = shape[1];
        p.problem.k = shape[2];
        p.problem.a = p.problem.b = dtype;
        CAPTURE(shape[0]);
        CAPTURE(shape[1]);
        CAPTURE(shape[2]);
        const CubePlan plan = plan_cube(p.problem);
        const auto whole = compute(p, plan, shape[0], shape[1]);
        const Matrix a = left_of(p), b = right_of(p);
        // All but the first rows and columns, so that pieces do not begin where C does.
        const CubeRange range{shape[0] / 3, shape[0], shape[1] / 4, shape[1]};
        const size_t rows = range.m1 - range.m0, columns = range.n1 - range.n0;
        const size_t room = cube_piece_elements(plan, rows, columns);
        std::vector<float> sums(room + 1, 7.0f), c = old_c(p), none;
        std::vector<int> times(shape[0] * shape[1], 0);
        const Scratch scratch(cube_scratch_bytes(plan, rows, columns));
        cube_pieces(plan, args_of(p, a, b, none), range, scratch.data.get(), sums.data(),
                    [&](const CubeRange& piece) {
                      const size_t width = piece.n1 - piece.n0;
                      CHECK((piece.m1 - piece.m0) * width <= room);
                      for (size_t i = piece.m0; i < piece.m1; ++i) {
                        for (size_t j = piece.n0; j < piece.n1; ++j) {
                          c[i * shape[1] + j] = sums[(i - piece.m0) * width + j - piece.n0];
                          ++times[i * shape[1] + j];
                        }
                      }
                    });
        CHECK(sums[room] == 7.0f);
        size_t wrong = 0;
        for (size_t i = 0; i < shape[0]; ++i) {
          for (size_t j = 0; j < shape[1]; ++j) {
            const size_t at = i * shape[1] + j;
            const bool inside = i >= range.m0 && j >= range.n0;
            if (times[at] != (inside ? 1 : 0)) ++wrong;
            if (inside && std::memcmp(&c[at], &whole[at], sizeof(float)) != 0) ++wrong;
          }
        }
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("cube: scattered rows of A give the bits of rows in a line") {
  on_every_isa([] {
    for (const auto& shape : kShapes) {
      for (int variant = 0; variant < 8; ++variant) {
        Product p;
        p.problem.m = shape[0];
        p.problem.n = shape[1];
        p.problem.k = shape[2];
        p.problem.a = p.problem.b = variant / 4 == 0 ? f32 : bf16;
        p.problem.transpose_a = (variant & 1) != 0;
        p.problem.transpose_b = (variant & 2) != 0;
        const CubePlan plan = plan_cube(p.problem);
        const auto in_line = compute(p, plan, shape[0], shape[1]);
        // Every row of A lies where it says, the last one first.
        const Matrix a = left_of(p), b = right_of(p);
        const size_t bytes = a.cols * size_of(a.dtype);
        std::vector<uint8_t> scattered(a.rows * 2 * bytes, 0xff);
        std::vector<size_t> starts(a.rows);
        for (size_t row = 0; row < a.rows; ++row) {
          starts[row] = (a.rows - 1 - row) * 2 * a.cols;
          const auto from =
              a.data() + static_cast<std::ptrdiff_t>(row * a.stride * size_of(a.dtype));
          std::copy_n(
              from, bytes,
              scattered.begin() + static_cast<std::ptrdiff_t>(starts[row] * size_of(a.dtype)));
        }
        std::vector<float> c = old_c(p);
        CubeArgs args = args_of(p, a, b, c);
        args.a = scattered.data();
        args.a_rows = starts.data();
        const Scratch scratch(cube_scratch_bytes(plan, p.problem.m, p.problem.n));
        cube_block(plan, args, {0, p.problem.m, 0, p.problem.n}, scratch.data.get());
        CHECK(same_bits(in_line, c));
      }
    }
  });
}

TEST_CASE("cube: NaN and infinity stay in their row and column") {
  on_every_isa([] {
    Product p;
    p.problem.m = 20;
    p.problem.n = 40;
    p.problem.k = 35;
    Matrix a = left_of(p);
    const Matrix b = right_of(p);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(a.data() + (7 * a.stride + 34) * 4, &nan, 4);
    std::vector<float> c = old_c(p);
    const CubePlan plan = plan_cube(p.problem);
    const Scratch scratch(cube_scratch_bytes(plan, 20, 40));
    cube_block(plan, args_of(p, a, b, c), {0, 20, 0, 40}, scratch.data.get());
    for (size_t i = 0; i < 20; ++i) {
      for (size_t j = 0; j < 40; ++j) CHECK(std::isnan(c[i * 40 + j]) == (i == 7));
    }
  });
}

TEST_CASE("cube: panels of k follow from k alone") {
  CHECK(cube_k_panel(0) == 1);
  for (size_t k = 1; k < 5000; k += 7) {
    const size_t panel = cube_k_panel(k);
    CHECK(panel <= 1024);
    CHECK((panel >= k || panel % 32 == 0));
  }
}

TEST_CASE("cube: the tiles' packing feeds products that agree with plain loops") {
  const HostIsa before = host_isa();
  bool avx512 = false;
  for (const HostIsa isa : available_host_isas()) avx512 = avx512 || isa == HostIsa::kAvx512;
  if (!avx512) return;
  select_host_isa("avx512");
  for (const auto& shape : kShapes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      Product p;
      p.problem.m = shape[0];
      p.problem.n = shape[1];
      p.problem.k = shape[2];
      p.problem.a = bf16;
      p.problem.b = transposes == 0 ? f32 : bf16;  // packed with rounding
      p.problem.round_to = bf16;
      p.problem.transpose_a = (transposes & 1) != 0;
      p.problem.transpose_b = (transposes & 2) != 0;
      p.padding = 5;
      CubePlan plan = plan_cube(p.problem);
      plan.kernels = bf16_cube_kernels(PairsOfBf16::kLoops);
      const auto whole = compute(p, plan, shape[0], shape[1]);
      check_against_loops(p, whole);
      CHECK(same_bits(whole, compute(p, plan, 33, 9)));
      CubeKernels packing = *plan.kernels;
      packing.multiply_stored = nullptr;
      plan.kernels = &packing;
      CHECK(same_bits(whole, compute(p, plan, shape[0], shape[1])));
      for (const size_t parts : {3, 4}) {
        if (!p.problem.transpose_a || shape[2] % parts != 0 || shape[2] == 0) continue;
        CAPTURE(parts);
        p.problem.parts = parts;
        CubePlan of_parts = plan_cube(p.problem);
        of_parts.kernels = bf16_cube_kernels(PairsOfBf16::kLoops);
        const auto sums = compute(p, of_parts, shape[0], shape[1]);
        check_against_loops(p, sums);
        CHECK(same_bits(sums, compute(p, of_parts, 33, 9)));
        p.problem.parts = 1;
      }
    }
  }
  select_host_isa(name_of(before));
}

TEST_CASE("cube: rows of A that are read where they are stored give the bits of packed ones") {
  // Of the rows that no whole tile has, an even and an odd number, with and without others above.
  constexpr size_t kRowShapes[][3] = {{64, 40, 32},   {75, 70, 77},   {130, 33, 1090},
                                      {45, 20, 2100}, {66, 20, 2048}, {49, 49, 16},
                                      {37, 53, 129},  {17, 35, 64},   {3, 18, 32}};
  constexpr std::pair<size_t, bool> kStorages[] = {{0, false}, {5, false}, {0, true}, {5, true}};
  on_every_isa([&] {
    for (const auto& shape : kRowShapes) {
      for (const DType dtype : {f32, f16, bf16}) {
        for (const auto& [padding, transposed] : kStorages) {
          Product p;
          p.problem.transpose_a = transposed;
          p.problem.m = shape[0];
          p.problem.n = shape[1];
          p.problem.k = shape[2];
          p.problem.a = p.problem.b = dtype;
          p.padding = padding;
          CubePlan plan = plan_cube(p.problem);
          const auto stored = compute(p, plan, shape[0], shape[1]);
          check_against_loops(p, stored);
          CubeKernels packing = *plan.kernels;
          packing.multiply_stored = nullptr;
          plan.kernels = &packing;
          CHECK(same_bits(stored, compute(p, plan, shape[0], shape[1])));
          CHECK(same_bits(stored, compute(p, plan, 50, 24)));
        }
      }
    }
  });
}

TEST_CASE("cube: rows of B that are read where they are stored give the bits of packed ones") {
  // Padding of 16 columns keeps rows at beginnings of cache lines, 8 do not.
  // Few rows meet the last ones, whose rows begin anywhere and end with a part of a tile.
  constexpr size_t kShapes[][3] = {{64, 192, 32},   {75, 64, 77},  {13, 96, 2100},
                                   {100, 512, 128}, {37, 53, 129}, {49, 49, 16},
                                   {64, 64, 64},    {17, 35, 40},  {23, 130, 90}};
  on_every_isa([&] {
    for (const auto& shape : kShapes) {
      for (const size_t padding : {0, 16, 8}) {
        for (const bool transposed : {false, true}) {
          Product p;
          p.problem.m = shape[0];
          p.problem.n = shape[1];
          p.problem.k = shape[2];
          p.problem.a = p.problem.b = f32;
          p.problem.transpose_a = transposed;
          p.padding = padding;
          CubePlan plan = plan_cube(p.problem);
          const auto stored = compute(p, plan, shape[0], shape[1]);
          check_against_loops(p, stored);
          CHECK(same_bits(stored, compute(p, plan, 40, 32)));
          CubeKernels packing = *plan.kernels;
          packing.takes_stored_panels = false;
          plan.kernels = &packing;
          CHECK(same_bits(stored, compute(p, plan, shape[0], shape[1])));
        }
      }
    }
  });
}

TEST_CASE("cube: dtypes that the cube does not multiply are refused") {
  CubeProblem problem;
  problem.m = problem.n = problem.k = 2;
  problem.a = f64;
  problem.b = f64;
  CHECK_THROWS_AS(plan_cube(problem), Error);
  problem.a = f32;
  problem.b = f16;
  CHECK_THROWS_WITH_AS(plan_cube(problem), doctest::Contains("f32 times f16"), Error);
}

TEST_SUITE_END();
