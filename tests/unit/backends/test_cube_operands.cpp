// Operands of the cube where they lie: rows scattered over memory, rows that are read where they
// are stored, and panels that are packed. Each way gives the bits of the others.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/vector/host_isa.h"

#include "cube_product_for_tests.h"
#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::cube_test;
using namespace keel::vector;

using vector_test::on_every_isa;

}  // namespace

TEST_CASE("cube: scattered rows of A give the bits of rows in a line") {
  on_every_isa([] {
    for (const auto& shape : kCubeShapes) {
      for (int variant = 0; variant < 8; ++variant) {
        Product p(shape);
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

TEST_CASE("cube: the tiles' packing feeds products that agree with plain loops") {
  const HostIsa before = host_isa();
  bool avx512 = false;
  for (const HostIsa isa : available_host_isas()) avx512 = avx512 || isa == HostIsa::kAvx512;
  if (!avx512) return;
  select_host_isa("avx512");
  for (const auto& shape : kCubeShapes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      Product p(shape);
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
      for (const size_t parts : {3u, 4u}) {
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
  constexpr std::array<size_t, 3> kRowShapes[] = {{64, 40, 32},   {75, 70, 77},   {130, 33, 1090},
                                                  {45, 20, 2100}, {66, 20, 2048}, {49, 49, 16},
                                                  {37, 53, 129},  {17, 35, 64},   {3, 18, 32}};
  constexpr std::pair<size_t, bool> kStorages[] = {{0, false}, {5, false}, {0, true}, {5, true}};
  on_every_isa([&] {
    for (const auto& shape : kRowShapes) {
      for (const DType dtype : {f32, f16, bf16}) {
        for (const auto& [padding, transposed] : kStorages) {
          Product p(shape);
          p.problem.transpose_a = transposed;
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
  constexpr std::array<size_t, 3> kShapes[] = {{64, 192, 32},   {75, 64, 77},  {13, 96, 2100},
                                               {100, 512, 128}, {37, 53, 129}, {49, 49, 16},
                                               {64, 64, 64},    {17, 35, 40},  {23, 130, 90}};
  on_every_isa([&] {
    for (const auto& shape : kShapes) {
      for (const size_t padding : {0u, 16u, 8u}) {
        for (const bool transposed : {false, true}) {
          Product p(shape);
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

TEST_SUITE_END();
