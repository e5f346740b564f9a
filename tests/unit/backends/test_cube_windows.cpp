// Windows of the cube's left operand: multiplied where they lie on the images, or on a padded copy
// of these, they give the bits of windows that are copied first, on every host ISA.
#include <algorithm>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/cube/cube_windows.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/core/base/half.h"
#include "keel/core/tensor/buffer.h"

#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using vector::host_isa;
using vector::HostIsa;
using vector_test::Numbers;
using vector_test::on_every_isa;
using vector_test::same_bits;

struct Case {
  CubeProblem problem;
  std::vector<char> images, b;
  vector::ByteMap bytes;
  int64_t start = 0;  // the element of the images that the product's group begins with
  bool b_is_aligned = false;
};

WindowRows draw_windows(Numbers& numbers) {
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(numbers.next() % static_cast<uint64_t>(high - low + 1));
  };
  WindowRows w;
  for (auto& axis : w.axes) {
    axis = {.windows = pick(1, 9), .taps = pick(1, 4), .step = pick(1, 3), .tap_step = pick(1, 2)};
    const int64_t reached = (axis.windows - 1) * axis.step + (axis.taps - 1) * axis.tap_step + 1;
    axis.first = -pick(0, 3);
    axis.size = std::max<int64_t>(1, reached + axis.first - pick(0, 2));
  }
  w.channels = pick(1, 20);
  w.axes[1].pitch = w.channels * pick(1, 2);
  w.axes[0].pitch = w.axes[1].size * w.axes[1].pitch;
  w.image_pitch = w.axes[0].size * w.axes[0].pitch;
  return w;
}

std::vector<char> draw_elements(Numbers& numbers, size_t count, DType dtype) {
  std::vector<char> bytes(count * size_of(dtype));
  for (size_t i = 0; i < count; ++i) {
    const float value = numbers.uniform();
    if (dtype == u8) {
      bytes[i] = static_cast<char>(numbers.next());
    } else if (dtype == f32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      const uint16_t bits = dtype == bf16 ? BFloat16(value).bits : Half(value).bits;
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
  }
  return bytes;
}

// 3 x 3 windows over images of which a block copies several times lines, in several panels of k.
WindowRows large_windows(int64_t width, int64_t channels, int64_t step) {
  WindowRows w;
  w.axes[0] = {.windows = 44, .taps = 3, .size = 44 * step - 1, .first = -1, .step = step};
  w.axes[1] = {.windows = width, .taps = 3, .size = width * step, .first = -1, .step = step};
  w.channels = channels;
  w.axes[1].pitch = channels;
  w.axes[0].pitch = w.axes[1].size * channels;
  w.image_pitch = w.axes[0].size * w.axes[0].pitch;
  return w;
}

Case case_of(Numbers& numbers, const WindowRows& w, int64_t images, DType dtype) {
  const auto rows = static_cast<size_t>(images * w.axes[0].windows * w.axes[1].windows);
  const auto columns = static_cast<size_t>(w.axes[0].taps * w.line());
  Case c;
  c.problem.transpose_a = numbers.next() % 2 == 0;
  c.problem.m = c.problem.transpose_a ? columns : rows;
  c.problem.k = c.problem.transpose_a ? rows : columns;
  c.problem.n = 1 + numbers.next() % 70;
  c.problem.a = dtype;
  c.problem.b = dtype == u8 ? f32 : dtype;
  c.problem.a_windows = w;
  c.start = w.axes[1].pitch == w.channels ? 0 : w.channels;
  c.images = draw_elements(numbers, static_cast<size_t>(images * w.image_pitch), dtype);
  c.b = draw_elements(numbers, c.problem.k * c.problem.n, c.problem.b);
  float table[256];
  for (int i = 0; i < 256; ++i) table[i] = static_cast<float>(i) * 0.125f;
  c.bytes = vector::make_byte_map(table, f32);
  return c;
}

std::vector<float> product_of(const Case& c, const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  std::vector<float> result(p.m * p.n, 77.0f);
  const auto scratch = allocate_host_buffer(cube_scratch_bytes(plan, p.m, p.n));
  CubeArgs args;
  args.bytes = p.a == u8 ? &c.bytes : nullptr;
  args.a = c.images.data() + static_cast<size_t>(c.start) * size_of(p.a);
  const auto aligned = allocate_host_buffer(c.b.size());
  std::memcpy(aligned->address(), c.b.data(), c.b.size());
  args.b = c.b_is_aligned ? aligned->address() : c.b.data();
  args.b_stride = p.n;
  args.c = result.data();
  args.c_stride = p.n;
  const size_t middle = p.m * 3 / 7;
  cube_block(plan, args, {0, middle, 0, p.n}, scratch->address());
  const size_t column = p.n * 2 / 5;
  cube_block(plan, args, {middle, p.m, 0, column}, scratch->address());
  cube_block(plan, args, {middle, p.m, column, p.n}, scratch->address());
  return result;
}

}  // namespace

TEST_CASE("cube: lines of images are copied anew as windows reach them") {
  Numbers numbers(11);
  const WindowRows all[] = {large_windows(31, 17, 1), large_windows(64, 3, 2),
                            large_windows(40, 130, 1), large_windows(7, 16, 1)};
  for (const WindowRows& w : all) {
    for (const DType dtype : {f32, u8}) {
      const Case c = case_of(numbers, w, 2, dtype);
      CubePlan plan = plan_cube(c.problem);
      REQUIRE((plan.windows != nullptr || plan.taps != nullptr));
      const std::vector<float> lying = product_of(c, plan);
      plan.windows = nullptr;
      plan.taps = nullptr;
      const std::vector<float> copied = product_of(c, plan);
      CAPTURE(w.channels);
      CAPTURE(c.problem.transpose_a);
      CHECK(std::memcmp(lying.data(), copied.data(), lying.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("cube: lines of C go to places of their own and to no others") {
  on_every_isa([] {
    constexpr float kUntouched = -12345.5f;
    Numbers numbers(12);
    size_t placed = 0;
    for (int i = 0; i < 80; ++i) {
      const WindowRows w = i % 8 == 0 ? large_windows(i % 3 == 0 ? 7 : 33, 130, 1)  // panels of k
                                      : draw_windows(numbers);
      Case c = case_of(numbers, w, 2, i % 4 == 1 ? f16 : f32);
      if (c.problem.transpose_a) continue;
      const CubePlan plan = plan_cube(c.problem);
      if (!cube_places_lines(plan)) continue;
      ++placed;
      const std::vector<float> expected = product_of(c, plan);
      // Some of the lines, the last ones first, with room between them and between their rows.
      const size_t line = static_cast<size_t>(w.axes[1].windows), all = c.problem.m / line;
      const size_t first = numbers.next() % all, count = 1 + numbers.next() % (all - first);
      const size_t stride = c.problem.n + numbers.next() % 20, apart = line * stride + 5;
      std::vector<float> result(count * apart + 64, kUntouched), wanted = result;
      std::vector<size_t> lines(count);
      for (size_t l = 0; l < count; ++l) {
        lines[l] = (count - 1 - l) * apart;
        for (size_t row = 0; row < line; ++row) {
          std::copy_n(expected.data() + ((first + l) * line + row) * c.problem.n, c.problem.n,
                      wanted.data() + lines[l] + row * stride);
        }
      }
      const auto scratch =
          allocate_host_buffer(cube_scratch_bytes(plan, count * line, c.problem.n));
      CubeArgs args;
      args.a = c.images.data() + static_cast<size_t>(c.start) * size_of(c.problem.a);
      args.b = c.b.data();
      args.b_stride = c.problem.n;
      args.c = result.data();
      args.c_stride = stride;
      args.c_row = first * line;
      args.c_lines = lines.data();
      cube_block(plan, args, {first * line, (first + count) * line, 0, c.problem.n},
                 scratch->address());
      CAPTURE(i);
      CAPTURE(c.problem.n);
      CAPTURE(plan.windows->by_lines());
      CHECK(std::memcmp(result.data(), wanted.data(), result.size() * sizeof(float)) == 0);
    }
    CHECK(placed > 10);
  });
}

TEST_CASE("cube: the sums of panels added up in order are the product") {
  struct Case {
    size_t m, n, k, panels;
    bool transposed, packed;
  };
  on_every_isa([&] {
    Numbers numbers(23);
    for (const Case& c : {Case{37, 53, 2500, 3, false, false}, Case{37, 53, 2500, 3, true, false},
                          Case{100, 10, 784, 2, false, false}, Case{100, 10, 784, 2, false, true},
                          Case{300, 16, 641, 2, false, true}, Case{21, 1, 8001, 2, false, false},
                          Case{100, 10, 639, 1, false, false}}) {
      CAPTURE(c.k);
      CubeProblem p;
      p.m = c.m, p.n = c.n, p.k = c.k;
      p.transpose_a = c.transposed;
      const auto a = draw_elements(numbers, p.m * p.k, f32),
                 b = draw_elements(numbers, p.k * p.n, f32);
      const size_t b_packed_bytes = c.packed ? cube_packed_bytes(plan_cube(p)) : 1;
      const auto packed = allocate_host_buffer(b_packed_bytes);
      if (c.packed) cube_pack(plan_cube(p), b.data(), p.n, {0, p.k, 0, p.n}, packed->address());
      p.packed_b = c.packed;
      const CubePlan plan = plan_cube(p);
      const auto scratch = allocate_host_buffer(cube_scratch_bytes(plan, p.m, p.n));
      std::vector<float> whole(p.m * p.n), added(p.m * p.n);
      CubeArgs args;
      args.a = a.data(), args.b = c.packed ? packed->address() : b.data();
      args.a_stride = c.transposed ? p.m : p.k;
      args.b_stride = p.n;
      args.c = whole.data();
      args.c_stride = p.n;
      cube_block(plan, args, {0, p.m, 0, p.n}, scratch->address());
      const size_t panels = cube_panels(plan);
      REQUIRE(panels == c.panels);
      CHECK(cube_halves_k(plan) == (panels == 2));
      for (size_t panel = 0; panels > 1 && panel < panels; ++panel) {
        std::vector<float> sums(p.m * p.n, 77.0f);
        cube_panel(plan, args, panel, {0, 17, 0, p.n}, scratch->address(), sums.data());
        cube_panel(plan, args, panel, {17, p.m, 0, p.n}, scratch->address(), sums.data());
        for (size_t i = 0; i < sums.size(); ++i)
          added[i] = panel == 0 ? sums[i] : added[i] + sums[i];
      }
      if (panels > 1) CHECK(same_bits(whole, added));
    }
  });
}

TEST_CASE("cube: windows that are multiplied where they lie give the bits of copied ones") {
  on_every_isa([&] {
    Numbers numbers(5);
    int where_they_lie = 0;
    for (int i = 0; i < 180; ++i) {
      const DType dtypes[] = {f32, f32, u8, f16, bf16, f32};
      const int64_t images = 1 + static_cast<int64_t>(numbers.next() % 4);
      Case c = case_of(numbers, draw_windows(numbers), images, dtypes[i % 6]);
      if (i % 6 == 5) c.problem.round_to = bf16;
      CubePlan plan = plan_cube(c.problem);
      const std::vector<float> lying = product_of(c, plan);
      where_they_lie += plan.windows != nullptr || plan.taps != nullptr;
      plan.windows = nullptr;
      plan.taps = nullptr;
      const std::vector<float> copied = product_of(c, plan);
      CAPTURE(i);
      CHECK(std::memcmp(lying.data(), copied.data(), lying.size() * sizeof(float)) == 0);
    }
    CHECK(where_they_lie > 50);
  });
}

// The kernels of pairs and tiles multiply windows where they are copied, without packing them.
// Plain loops stand for them where the processor has neither.
TEST_CASE("cube: windows that are multiplied where they are copied give the bits of packed ones") {
  Numbers numbers(41);
  int multiplied = 0;
  const auto check = [&](const CubeKernels* other) {
    for (int i = 0; i < 40; ++i) {
      WindowRows w = i % 8 == 0 ? large_windows(13, 33, 1) : draw_windows(numbers);
      if (i % 8 != 0) w.channels = 17 + static_cast<int64_t>(numbers.next() % 30);
      w.axes[1].pitch = w.channels;
      w.axes[0].pitch = w.axes[1].size * w.axes[1].pitch;
      w.image_pitch = w.axes[0].size * w.axes[0].pitch;
      Case c = case_of(numbers, w, 1 + static_cast<int64_t>(numbers.next() % 4), bf16);
      c.start = 0;
      CubePlan plan = plan_cube(c.problem);
      if (other != nullptr) {
        plan.kernels = other;
        plan.windows = nullptr;
        plan.taps = nullptr;
      }
      if (plan.kernels->packed_size != 2 || plan.kernels->multiply_stored == nullptr) continue;
      multiplied += c.problem.transpose_a ? 0 : 1;
      const std::vector<float> stored = product_of(c, plan);
      CubeKernels packing = *plan.kernels;
      packing.multiply_stored = nullptr;
      plan.kernels = &packing;
      const std::vector<float> packed = product_of(c, plan);
      CAPTURE(i);
      CHECK(std::memcmp(stored.data(), packed.data(), stored.size() * sizeof(float)) == 0);
    }
  };
  bool avx512 = false;
  on_every_isa([&] {
    avx512 = avx512 || host_isa() == HostIsa::kAvx512;
    check(nullptr);
    if (host_isa() == HostIsa::kAvx512) check(bf16_cube_kernels(PairsOfBf16::kLoops));
  });
  CHECK((multiplied > 10 || !avx512));
}

// Tiles load windows of whole steps of k from the images, or from a copy of their lines. Plain
// loops stand for tiles where the processor has none.
TEST_CASE("cube: windows of bf16 that tiles load where they lie give the bits of copied ones") {
  Numbers numbers(43);
  int by_loops = 0, on_images = 0;
  const auto check = [&](const CubeKernels* other) {
    for (int i = 0; i < 60; ++i) {
      WindowRows w = i % 8 == 0 ? large_windows(14, 128, 1 + i % 3) : draw_windows(numbers);
      if (i % 8 != 0) w.channels = 32 * (1 + static_cast<int64_t>(numbers.next() % 3));
      // Lines that tiles gain by, some of them without padding.
      if (i % 8 != 0) w.axes[1].windows = 8 + static_cast<int64_t>(numbers.next() % 10);
      for (auto& axis : w.axes) {
        if (i % 8 == 0) continue;
        if (i % 5 == 2) axis.first = 0;
        const int64_t reached =
            (axis.windows - 1) * axis.step + (axis.taps - 1) * axis.tap_step + 1;
        axis.size = std::max<int64_t>(1, reached + axis.first - (i % 5 == 2 ? 0 : i % 3));
      }
      w.axes[1].pitch = w.channels * (i % 4 == 1 ? 2 : 1);
      w.axes[0].pitch = w.axes[1].size * w.axes[1].pitch;
      w.image_pitch = w.axes[0].size * w.axes[0].pitch;
      Case c = case_of(numbers, w, 1 + static_cast<int64_t>(numbers.next() % 4), bf16);
      CubePlan plan = plan_cube(c.problem);
      if (other != nullptr) {
        plan.kernels = other;
        plan = cube_over(plan, c.problem);
      }
      if (plan.kernels->packed_size != 2 || plan.windows == nullptr) continue;
      by_loops += other == nullptr ? 0 : 1;
      on_images += other == nullptr || plan.windows->copies() ? 0 : 1;
      const std::vector<float> lying = product_of(c, plan);
      plan.windows = nullptr;
      const std::vector<float> copied = product_of(c, plan);
      CAPTURE(i);
      CHECK(std::memcmp(lying.data(), copied.data(), lying.size() * sizeof(float)) == 0);
    }
  };
  bool avx512 = false;
  on_every_isa([&] {
    avx512 = avx512 || host_isa() == HostIsa::kAvx512;
    check(nullptr);
    if (host_isa() == HostIsa::kAvx512) check(bf16_cube_kernels(PairsOfBf16::kLoops));
  });
  CHECK((by_loops > 10 || !avx512));
  CHECK((on_images > 1 || !avx512));
}

// Also with several panels of k, in pieces of C that begin and end within a tap, and with B read
// where it is stored.
TEST_CASE("cube: windows that are met tap by tap give the bits of copied ones") {
  on_every_isa([&] {
    Numbers numbers(31);
    int tap_by_tap = 0;
    for (int i = 0; i < 80; ++i) {
      WindowRows w = i % 8 == 0 ? large_windows(31, 16, 1 + i % 2) : draw_windows(numbers);
      w.channels = 16 * static_cast<int64_t>(1 + numbers.next() % 2);
      w.axes[1].pitch = w.channels * static_cast<int64_t>(1 + numbers.next() % 2);
      w.axes[0].pitch = w.axes[1].size * w.axes[1].pitch;
      w.image_pitch = w.axes[0].size * w.axes[0].pitch;
      const int64_t images = 1 + static_cast<int64_t>(numbers.next() % 4);
      Case c = case_of(numbers, w, images, f32);
      CubeProblem& p = c.problem;
      p.transpose_a = true;
      p.m = static_cast<size_t>(w.axes[0].taps * w.line());
      p.k = static_cast<size_t>(images * w.axes[0].windows * w.axes[1].windows);
      if (i % 2 == 0) p.n = 16 * (1 + numbers.next() % 6);
      c.b = draw_elements(numbers, p.k * p.n, f32);
      c.b_is_aligned = i % 4 != 3;
      CubePlan plan = plan_cube(p);
      tap_by_tap += plan.taps != nullptr;
      const std::vector<float> lying = product_of(c, plan);
      plan.windows = nullptr;
      plan.taps = nullptr;
      const std::vector<float> copied = product_of(c, plan);
      CAPTURE(i);
      CHECK(std::memcmp(lying.data(), copied.data(), lying.size() * sizeof(float)) == 0);
    }
    CHECK(tap_by_tap > 60);
  });
}

TEST_SUITE_END();
