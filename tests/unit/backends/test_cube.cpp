// The cube against plain triple loops in double, for every host ISA that runs here: dtypes, odd
// shapes, strides, transposes, and rectangles of C that must have the bits of the whole.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/cube/cube.h"
#include "keel/core/base/error.h"

#include "cube_product_for_tests.h"
#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::cube_test;
using namespace keel::vector;

using vector_test::on_every_isa;

}  // namespace

TEST_CASE("cube: every dtype and transpose agrees with plain loops") {
  on_every_isa([] {
    for (const auto& shape : kCubeShapes) {
      for (const DType dtype : {f32, f16, bf16}) {
        for (int transposes = 0; transposes < 4; ++transposes) {
          Product p(shape);
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
    for (const size_t parts : {2u, 3u, 5u, 13u}) {
      for (const auto& shape : {std::array<size_t, 3>{37, 53, 7},
                                {64, 96, 32},
                                {29, 300, 5},
                                {130, 40, 33},
                                {20, 18, 700},
                                {140, 10, 700}}) {
        for (const DType dtype : {f32, f16, bf16}) {
          Product p({shape[0], shape[1], shape[2] * parts});
          p.problem.parts = parts;
          p.problem.a = p.problem.b = dtype;
          p.problem.transpose_a = shape[1] > 16;
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
      const Product p({empty == 0 ? 0u : 4u, empty == 0 ? 4u : 0u, 3});
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
      for (const auto& shape : kCubeShapes) {
        for (int transposes = 0; transposes < 4; ++transposes) {
          Product p(shape);
          p.problem.a = u8;
          p.problem.transpose_a = (transposes & 1) != 0;
          p.problem.transpose_b = (transposes & 2) != 0;
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
          Product p({301, n, 299});
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
    for (const auto& shape : kCubeShapes) {
      for (int variant = 0; variant < 12; ++variant) {
        Product p(shape);
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
  constexpr std::array<size_t, 3> kPieceShapes[] = {
      {1, 1, 1},     {100, 10, 50},   {10, 100, 50}, {200, 70, 40},   {37, 53, 0},
      {70, 1100, 9}, {130, 40, 1100}, {3, 2050, 20}, {150, 33, 1025}, {200, 10, 700}};
  on_every_isa([&] {
    for (const auto& shape : kPieceShapes) {
      for (const DType dtype : {f32, bf16}) {
        Product p(shape);
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

TEST_CASE("cube: NaN and infinity stay in their row and column") {
  on_every_isa([] {
    Product p({20, 40, 35});
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
