#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/npu/cost/price.h"
#include "keel/backends/npu/cost/work.h"
#include "keel/backends/npu/kernels/device_passes.h"

#include "npu_model_for_tests.h"
#include "random_npu_nodes_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;
using random_npu_nodes::pick;

// Round figures, so that expected times can be worked out by hand: 1 cycle is 1 ns.
Preset plain_preset() {
  Preset p = load_preset("ascend910");
  p.clock_mhz = 1000;
  p.cube_cores = p.vector_cores = 8;
  p.hbm_efficiency = {{1, 1.0}};
  p.hbm_gb_per_s = 1000;
  p.l2_gb_per_s = 4000;
  p.gm_ub_issue_ns = 100;
  p.gm_ub_gb_per_s = 10;
  p.gm_l1_issue_ns = 50;
  p.gm_l1_gb_per_s = 20;
  p.task_base_ns = 500;
  p.task_per_block_ns = 100;
  p.scalar_cycles_per_tile = 0;
  p.kernel_prologue_ns = 0;
  p.gm_ub_row_ns = 0;
  p.vector_share = p.cube_share = 1;
  return p;
}

// 4 tiles of 1000 bytes in (200 ns), 10 passes of 256 bytes (40 ns) and 500 bytes out (150 ns).
VectorWork plain_work() {
  return {.units = 4,
          .elements_per_unit = 256,
          .pass_bytes = 40,
          .instructions = 1,
          .bytes_in = 4000,
          .bytes_out = 2000,
          .tile_elements = 256};
}

double share() { return static_cast<double>(pick(1, 1000)) / 1000; }

Preset preset_of_random_rates() {
  Preset p = load_preset(*rc::gen::element<std::string>("ascend910", "ascend910b1", "ascend310"));
  p.vector_cores = pick(1, 64);
  p.cube_cores = pick(1, 16);
  p.clock_mhz = pick(100, 3000);
  p.hbm_gb_per_s = static_cast<double>(pick(10, 5000));
  p.l2_gb_per_s = static_cast<double>(pick(10, 9000));
  p.gm_ub_gb_per_s = static_cast<double>(pick(1, 400));
  p.gm_l1_gb_per_s = static_cast<double>(pick(1, 400));
  p.kernel_prologue_ns = pick(0, 3000);
  p.gm_ub_row_ns = static_cast<double>(pick(0, 20));
  p.vector_share = share();
  p.cube_share = share();
  if (p.split_cores()) p.vector_cores = std::max(p.vector_cores, p.cube_cores);
  return p;
}

VectorWork random_vector_work() {
  VectorWork w;
  w.units = pick(1, 5000);
  w.elements_per_unit = pick(1, 2000);
  w.pass_bytes = pick(0, 200);
  w.instructions = pick(0, 20);
  w.bytes_in = pick(0, 100'000'000);
  w.bytes_out = pick(0, 100'000'000);
  w.loads = pick(1, 4);
  w.stores = pick(0, 3);
  w.tile_elements = pick(1, 20000);
  w.run_in = pick(0, 1) * pick(1, 70000);
  w.run_out = pick(0, 1) * pick(1, 70000);
  w.aligned = pick(0, 1) == 1;
  w.double_buffer = pick(0, 1) == 1;
  w.cached_bytes = pick(0, w.bytes_in);
  w.cached_out = pick(0, w.bytes_out);
  w.row_in = pick(0, 1) * pick(1, 70000);
  w.row_out = pick(0, 1) * pick(1, 70000);
  return w;
}

CubeWork random_cube_work(int64_t most) {
  const DType dtype = *rc::gen::element(f16, bf16, f32);
  CubeWork w = cube_work(pick(1, most), pick(1, most), pick(1, most), dtype);
  w.batch = pick(1, 4);
  w.bytes_a *= w.batch;
  w.aligned_a = pick(0, 1) == 1;
  w.wide = dtype != f32 && pick(0, 1) == 1;
  w.warm = static_cast<double>(pick(0, 1)) * share();
  return w;
}

// Half of them with a load of the left operand and an epilogue.
CubeWork random_fused_work(int64_t most) {
  CubeWork w = random_cube_work(most);
  if (pick(0, 1) == 0) return w;
  w.stored_a = *rc::gen::element<int64_t>(1, 2, 4);
  w.stored_b = pick(0, 1) * static_cast<int64_t>(size_of(w.dtype));
  w.bytes_a = w.batch * w.m * w.k * w.stored_a;
  w.load_pass_a = pick(0, 20);
  w.load_pass_b = pick(0, 1) * pick(0, 20);
  w.epilogue_bytes_in = 4 * pick(0, 3);
  w.epilogue_bytes_out = 2 * pick(1, 4);
  w.epilogue_pass_bytes = pick(0, 80);
  w.epilogue_instructions = pick(0, 20);
  return w;
}

CubeTiling random_tiling(const Preset& preset) {
  CubeTiling t;
  t.bm = 16 * pick(1, 16);
  t.bn = 16 * pick(1, 16);
  t.bk = 16 * pick(1, 16);
  t.step_k = pick(1, 8);
  t.grid_m = pick(1, preset.cube_cores);
  t.grid_n = pick(1, preset.cube_cores / t.grid_m);
  t.grid_batch = pick(1, preset.cube_cores / (t.grid_m * t.grid_n));
  t.double_buffer = pick(0, 1) == 1;
  t.overlap_tiles = pick(0, 1) == 1;
  return t;
}

// The same with two vector cores for each cube core.
Preset split_preset() {
  Preset p = plain_preset();
  p.series = "910B";
  p.vector_cores = 2 * p.cube_cores;
  p.cube_vector_sync_ns = 70;
  return p;
}

void check_price(const TaskPrice& price, int64_t cores) {
  RC_ASSERT(price.block_dim >= 1 && price.block_dim <= cores);
  RC_ASSERT(price.total_ns >= price.compute_roof_ns);
  RC_ASSERT(price.total_ns >= price.memory_roof_ns);
  RC_ASSERT(price.overhead_ns + price.pipeline_ns == price.total_ns);
  for (size_t u = 0; u < kUnits; ++u) {
    const Unit unit = static_cast<Unit>(u);
    RC_ASSERT(price.busy(unit) >= 0);
    RC_ASSERT(price.busy(unit) <= price.cycles);
    RC_ASSERT(price.mix_busy(unit) >= 0);
    RC_ASSERT(price.mix_busy(unit) <= (price.mixed() ? price.cycles : 0));
  }
}

}  // namespace

TEST_CASE("npu cost: a single-buffered loop of tiles") {
  VectorWork work = plain_work();
  work.double_buffer = false;
  const TaskPrice one = price_vector(plain_preset(), work, 1);
  // 200 + 3 * (40 + max(200, 150)) + 40 + 150, after 500 + 100.
  CHECK(one.pipeline_ns == 1110);
  CHECK(one.total_ns == 1710);
  CHECK(one.cycles == 1110);
  CHECK(one.busy(Unit::kVector) == 160);
  CHECK(one.busy(Unit::kMte2) == 800);
  CHECK(one.busy(Unit::kMte3) == 600);
  CHECK(one.busy(Unit::kCube) == 0);
  CHECK(one.flops == 1024);
  // Four blocks have a tile each.
  CHECK(price_vector(plain_preset(), work, 4).total_ns == 200 + 40 + 150 + 500 + 400);
}

TEST_CASE("npu cost: double buffering hides all but the longest stage") {
  CHECK(price_vector(plain_preset(), plain_work(), 1).pipeline_ns == 200 + 40 + 150 + 3 * 200);
  Preset slow = plain_preset();
  slow.vector_bytes_per_cycle = 32;  // 320 ns a tile
  CHECK(price_vector(slow, plain_work(), 1).pipeline_ns == 200 + 320 + 150 + 3 * 320);
}

TEST_CASE("npu cost: all blocks share the memory") {
  Preset preset = plain_preset();
  preset.hbm_gb_per_s = 2;
  const TaskPrice price = price_vector(preset, plain_work(), 4);
  CHECK(price.pipeline_ns == 3000);  // 6000 bytes
  CHECK(price.memory_roof_ns == 3000);
  VectorWork cached = plain_work();
  cached.cached_bytes = 4000;
  CHECK(price_vector(preset, cached, 4).pipeline_ns == 1000);
  VectorWork unaligned = plain_work();
  unaligned.aligned = false;
  CHECK(price_vector(preset, unaligned, 4).pipeline_ns == 3840);  // 1.28 times
}

TEST_CASE("npu cost: what L2 holds comes from there and results may stay there") {
  Preset preset = plain_preset();
  preset.hbm_gb_per_s = 2;
  preset.l2_gb_per_s = 4;
  VectorWork warm = plain_work();
  warm.cached_bytes = 4000;
  warm.cached_out = 2000;
  const TaskPrice price = price_vector(preset, warm, 4);
  CHECK(price.pipeline_ns == 1500);  // 6000 bytes at 4 a ns
  CHECK(price.memory_roof_ns == 0);
  NodeWork work{{}, {{.work = plain_work()}}};
  preset.l2_bytes = 6000;
  set_residency(preset, Residency::kWarm, work);
  CHECK(work.splits[0].work.cached_bytes == 4000);
  CHECK(work.splits[0].work.cached_out == 2000);
  preset.l2_bytes = 4000;  // half of it
  set_residency(preset, Residency::kWarm, work);
  CHECK(work.splits[0].work.cached_bytes == 2000);
  preset.l2_bytes = 3000;
  set_residency(preset, Residency::kWarm, work);
  CHECK(work.splits[0].work.cached_bytes == 0);
  set_residency(preset, Residency::kCold, work);
  CHECK(work.splits[0].work.cached_out == 0);
}

TEST_CASE("npu cost: a prologue rows and shares of the peaks") {
  Preset preset = plain_preset();
  VectorWork work = plain_work();
  work.double_buffer = false;
  const TaskPrice plain = price_vector(preset, work, 4);
  preset.kernel_prologue_ns = 300;
  CHECK(price_vector(preset, work, 4).overhead_ns == plain.overhead_ns + 300);
  preset.vector_share = 0.5;  // 40 ns more
  CHECK(price_vector(preset, work, 4).total_ns == plain.total_ns + 300 + 40);
  preset.gm_ub_row_ns = 2;
  work.row_in = 100;  // 10 rows of a block's 1000 bytes
  CHECK(price_vector(preset, work, 4).total_ns == plain.total_ns + 300 + 40 + 20);
  Preset cube = plain_preset();
  const CubeTiling tiling{.bm = 64, .bn = 64, .bk = 256, .double_buffer = false};
  const TaskPrice whole = price_cube(cube, cube_work(64, 64, 256, f16), tiling);
  cube.cube_share = 0.5;
  const TaskPrice half = price_cube(cube, cube_work(64, 64, 256, f16), tiling);
  CHECK(half.pipeline_ns == whole.pipeline_ns + 256);
  CHECK(half.compute_roof_ns == whole.compute_roof_ns);
}

TEST_CASE("npu cost: a serial epilogue is not hidden behind the product") {
  const Preset preset = plain_preset();
  const CubeTiling tiling{.bm = 64, .bn = 64, .bk = 256, .double_buffer = false};
  CubeWork work = cube_work(64, 64, 256, f16);
  const TaskPrice bare = price_cube(preset, work, tiling);
  work.serial_epilogue = true;
  CHECK(price_cube(preset, work, tiling).total_ns == bare.total_ns);
  work.epilogue_instructions = 1;
  work.epilogue_pass_bytes = 4;  // 64 x 64 elements in f32 take 64 cycles
  const TaskPrice serial = price_cube(preset, work, tiling);
  CHECK(serial.total_ns == bare.total_ns + 64);
  work.serial_epilogue = false;
  CHECK(price_cube(preset, work, tiling).total_ns == bare.total_ns);
}

TEST_CASE("npu cost: what transfers reach of the peak follows the points") {
  const Preset preset = load_preset("ascend910b1");
  CHECK(hbm_share(preset, 128) == doctest::Approx(0.31));
  CHECK(hbm_share(preset, 8192) == doctest::Approx(0.69));
  CHECK(hbm_share(preset, 32768) == doctest::Approx(0.83));
  CHECK(hbm_share(preset, 1 << 20) == doctest::Approx(0.83));
  CHECK(hbm_share(preset, 64) == doctest::Approx(0.155));
  CHECK(hbm_share(preset, 1024) == doctest::Approx(0.50));  // half the octaves of 128 to 8192
  double before = 0;
  for (double bytes = 1; bytes < 1e6; bytes *= 1.07) {
    CHECK(hbm_share(preset, bytes) >= before);
    before = hbm_share(preset, bytes);
  }
}

TEST_CASE("npu cost: a product of one tile") {
  const Preset preset = plain_preset();
  const CubeWork work = cube_work(64, 64, 256, f16);
  const CubeTiling tiling{.bm = 64, .bn = 64, .bk = 256, .double_buffer = false};
  const TaskPrice price = price_cube(preset, work, tiling);
  // Two copies of 32768 bytes, B's rows of 128 bytes re-laid out at 1.9 times; 4*4*16 mmads; C out.
  const double in = 2 * 50 + 32768 / 20.0 + 1.9 * 32768 / 20.0;
  const double mmads = 256, mte1 = 32768 / 512.0 + 32768 / 256.0;
  const double out = 64 * 64 * 2 / 20.0;
  CHECK(price.pipeline_ns == std::llround(in + std::max(mmads, mte1) + out));
  CHECK(price.busy(Unit::kCube) == 256);
  CHECK(price.busy(Unit::kMte1) == 192);
  CHECK(price.block_dim == 1);
  CHECK(price.overhead_ns == 600);
  CHECK(price.flops == 2 * 64 * 64 * 256);
}

TEST_CASE("npu cost: f32 in the cube takes four passes or three") {
  CHECK(cube_passes(load_preset("ascend910b1"), f32) == doctest::Approx(4));
  CHECK(cube_passes(load_preset("ascend910"), f32) == doctest::Approx(3));
  CHECK(cube_passes(load_preset("ascend910"), f16) == doctest::Approx(1));
  const CubeTiling tiling{.bm = 64, .bn = 64, .bk = 64};
  const Preset preset = plain_preset();
  const CubeWork half = cube_work(256, 256, 256, f16), full = cube_work(256, 256, 256, f32);
  CHECK(price_cube(preset, full, tiling).busy(Unit::kCube) ==
        3 * price_cube(preset, half, tiling).busy(Unit::kCube));
}

TEST_CASE("npu cost: a wide product differs from a narrow one in what leaves the core") {
  const Preset preset = plain_preset();
  const CubeTiling tiling{.bm = 64, .bn = 64, .bk = 256, .double_buffer = false};
  CubeWork work = cube_work(64, 64, 256, f16);
  const TaskPrice narrow = price_cube(preset, work, tiling);
  work.wide = true;
  const TaskPrice wide = price_cube(preset, work, tiling);
  // 64 * 64 results of two bytes more at 20 bytes a ns.
  CHECK(wide.pipeline_ns - narrow.pipeline_ns == std::llround(64 * 64 * 2 / 20.0));
  CHECK(wide.bytes_in == narrow.bytes_in);
  CHECK(wide.bytes_out == 64 * 64 * 4);
  CHECK(wide.busy(Unit::kCube) == narrow.busy(Unit::kCube));
}

TEST_CASE("npu cost: what is fused to a product moves its own bytes and shares its pipeline") {
  const Preset preset = plain_preset();
  const CubeTiling tiling{.bm = 64, .bn = 64, .bk = 256, .double_buffer = false};
  CubeWork work = cube_work(64, 64, 256, f16);
  // The left operand lies there as bytes and takes a pass of four bytes a lane; each result is
  // computed with one float beside it, in two passes and as two instructions, and leaves as a
  // float.
  work.stored_a = 1;
  work.bytes_a = 64 * 256;
  work.load_pass_a = 4;
  work.epilogue_bytes_in = work.epilogue_bytes_out = 4;
  work.epilogue_pass_bytes = 8;
  work.epilogue_instructions = 2;
  const TaskPrice price = price_cube(preset, work, tiling);
  const double in = 2 * 50 + 16384 / 20.0 + 1.9 * 32768 / 20.0 + 64 * 64 * 4 / 10.0;
  const double vector = (64 * 256 * 4 + 64 * 64 * 8) / 256.0;  // more than the cube's 256 ns
  const double out = 64 * 64 * 4 / 20.0;
  CHECK(vector == 384);
  CHECK(price.pipeline_ns == std::llround(in + vector + out));
  CHECK(price.busy(Unit::kVector) == 384);
  CHECK(price.busy(Unit::kCube) == 256);
  CHECK(price.bytes_in == 16384 + 32768 + 64 * 64 * 4);
  CHECK(price.bytes_out == 64 * 64 * 4);
  CHECK(price.flops == 2 * 64 * 64 * 256 + 2 * 64 * 64);
}

TEST_CASE("npu cost: split cores hand a product's result over by global memory") {
  const Preset preset = split_preset();
  const CubeTiling tiling{.bm = 64, .bn = 64, .bk = 256, .double_buffer = false};
  CubeWork work = cube_work(64, 64, 256, f16);
  CHECK_FALSE(price_cube(preset, work, tiling).mixed());
  work.epilogue_bytes_in = work.epilogue_bytes_out = 4;
  work.epilogue_pass_bytes = 8;
  work.epilogue_instructions = 2;
  const TaskPrice price = price_cube(preset, work, tiling);
  // The cube core brings its operands, multiplies, and leaves C in f16. Each of two vector cores
  // then brings half of C and of what is computed with it, in two copies, and leaves half of the
  // results.
  const double in = 2 * 50 + 32768 / 20.0 + 1.9 * 32768 / 20.0, fixpipe = 64 * 64 * 2 / 20.0;
  const double vector_in = 2 * 100 + 2048 * (2 + 4) / 10.0, vector = 2048 * 8 / 256.0;
  const double vector_out = 100 + 2048 * 4 / 10.0;
  CHECK(price.pipeline_ns ==
        std::llround(in + 256 + fixpipe + 70 + vector_in + vector + vector_out));
  CHECK(price.mixed());
  CHECK(price.block_dim == 1);
  CHECK(price.mix_block_dim == 2);
  CHECK(price.busy(Unit::kCube) == 256);
  CHECK(price.busy(Unit::kVector) == 0);
  CHECK(price.busy(Unit::kMte3) == std::llround(fixpipe));
  CHECK(price.mix_busy(Unit::kVector) == 64);
  CHECK(price.mix_busy(Unit::kMte2) == std::llround(vector_in));
  CHECK(price.mix_busy(Unit::kMte3) == std::llround(vector_out));
  CHECK(price.mix_busy(Unit::kCube) == 0);
  // Memory sees what is handed over as little as the roof does.
  CHECK(price.bytes_in == 2 * 32768 + 64 * 64 * 4);
  CHECK(price.bytes_out == 64 * 64 * 4);
  // Cores with both units hand nothing over.
  Preset whole = preset;
  whole.series = "910";
  CHECK_FALSE(price_cube(whole, work, tiling).mixed());
  CHECK(price_cube(whole, work, tiling).total_ns < price.total_ns);
}

TEST_CASE(
    "npu cost: split cores load an operand through the vector cores once for a row of tiles") {
  const Preset preset = split_preset();
  CubeTiling tiling{.bm = 64, .bn = 64, .bk = 256, .double_buffer = false};
  CubeWork work = cube_work(64, 64, 256, f16);
  work.stored_a = 1;
  work.bytes_a = 64 * 256;
  work.load_pass_a = 4;
  // Half of A's bytes for each vector core, which leaves halves; the cube core copies those, and
  // stores C itself.
  const double load = (100 + 8192 / 10.0) + 8192 * 4 / 256.0 + (100 + 8192 * 2 / 10.0);
  const double b = 1.9 * 32768 / 20.0, c = 64 * 64 * 2 / 20.0;
  const TaskPrice one = price_cube(preset, work, tiling);
  CHECK(one.pipeline_ns == std::llround(load + 70 + 2 * 50 + 32768 / 20.0 + b + 256 + c));
  CHECK(one.mix_busy(Unit::kVector) == 128);
  CHECK(one.busy(Unit::kMte3) == std::llround(c));
  // Two tiles of columns read the same rows.
  CubeWork wide = cube_work(64, 128, 256, f16);
  wide.stored_a = 1;
  wide.bytes_a = 64 * 256;
  wide.load_pass_a = 4;
  const TaskPrice two = price_cube(preset, wide, tiling);
  CHECK(two.mix_busy(Unit::kVector) == 128);
  CHECK(two.pipeline_ns == std::llround(load + 2 * (70 + 2 * 50 + 32768 / 20.0 + b + 256 + c)));
  // Where copies overlap, the longest stage counts, and once what a tile takes beside it.
  tiling.double_buffer = true;
  CHECK(price_cube(preset, wide, tiling).pipeline_ns < two.pipeline_ns);
}

TEST_CASE("npu cost: waves of tiles") {
  const Preset preset = plain_preset();
  const CubeWork work = cube_work(512, 512, 512, f16);
  CubeTiling tiling{.bm = 64, .bn = 64, .bk = 64};
  // 64 tiles of 4 * 4 * 32 mmads, 8 or 64 of them for each core.
  CHECK(price_cube(preset, work, tiling).busy(Unit::kCube) == 64 * 512);
  tiling.grid_m = 8;
  CHECK(price_cube(preset, work, tiling).busy(Unit::kCube) == 8 * 512);
  CHECK(price_cube(preset, work, tiling).block_dim == 8);
  // Only as many blocks as there are parts: 32 rows of fractals in parts of 5 and fewer.
  tiling.grid_m = 7;
  CHECK(price_cube(preset, work, tiling).block_dim == 7);
  CHECK(price_cube(preset, cube_work(16, 16, 16, f16), tiling).block_dim == 1);
}

TEST_CASE("npu cost: blocks beyond the cores run in further rounds") {
  const Preset preset = plain_preset();  // with 8 cores
  // 48 units of 10 passes for 256 elements: 6 of them for each of 8 blocks, 3 of 16 and twice so
  // many for a core; 5 of 10 and twice so many, as 2 cores have two blocks.
  VectorWork work = plain_work();
  work.units = 48;
  work.bytes_in *= 12;
  work.bytes_out *= 12;
  const int64_t passes = price_vector(preset, work, 8).busy(Unit::kVector);
  CHECK(price_vector(preset, work, 16).busy(Unit::kVector) == passes);
  CHECK(6 * price_vector(preset, work, 10).busy(Unit::kVector) == 10 * passes);
  CHECK(price_vector(preset, work, 10).block_dim == 10);
  CHECK(price_vector(preset, work, 10).total_ns > price_vector(preset, work, 8).total_ns);
  // 64 tiles of 512 mmads, of which each of 8 blocks has 8, each of 16 blocks 4.
  const CubeWork product = cube_work(512, 512, 512, f16);
  CubeTiling tiling{.bm = 64, .bn = 64, .bk = 64, .grid_m = 8, .grid_n = 2};
  CHECK(price_cube(preset, product, tiling).busy(Unit::kCube) == 8 * 512);
  CHECK(price_cube(preset, product, tiling).block_dim == 16);
  tiling.grid_m = 3;  // 12 blocks of 3 x 2 tiles and fewer: two rounds of 12 tiles' mmads
  tiling.grid_n = 4;
  CHECK(price_cube(preset, product, tiling).busy(Unit::kCube) == 2 * 11 * 8 * 32);
}

TEST_CASE("npu cost: blocks that want the same operand read it each where L2 cannot hold it") {
  Preset preset = plain_preset();
  preset.l2_bytes = int64_t{1} << 20;
  preset.hbm_gb_per_s = 10;  // so that the memory is all that counts
  CubeWork work = cube_work(64, 128, int64_t{1} << 18, f16);
  REQUIRE(work.bytes_a == int64_t{1} << 25);
  REQUIRE(work.bytes_b == int64_t{1} << 26);
  const CubeTiling two{.bm = 64, .bn = 64, .bk = 64, .grid_n = 2};
  // 31 of 32 MiB of the left operand are gone when the second block comes to them.
  const double bytes = (1 + 31.0 / 32) * (1 << 25) + (1 << 26) + 64 * 128 * 2;
  CHECK(static_cast<double>(price_cube(preset, work, two).pipeline_ns) ==
        doctest::Approx(bytes / 10).epsilon(1e-6));
  preset.l2_bytes = int64_t{1} << 30;
  const double once = (1 << 25) + (1 << 26) + 64 * 128 * 2;
  CHECK(static_cast<double>(price_cube(preset, work, two).pipeline_ns) ==
        doctest::Approx(once / 10).epsilon(1e-6));
}

TEST_CASE("npu cost: what is empty costs its start and a product over nothing its result") {
  const Preset preset = plain_preset();
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{0, 8, 8}, {8, 0, 8}, {0, 0, 0}}) {
    const TaskPrice price = choose_cube(preset, cube_work(m, n, k, f32), 8).price;
    CHECK(price.total_ns == 600);
    CHECK(price.bytes_out == 0);
  }
  const TaskPrice zeros = choose_cube(preset, cube_work(8, 8, 0, f32), 8).price;
  CHECK(zeros.pipeline_ns > 0);
  CHECK(zeros.busy(Unit::kCube) == 0);
  VectorWork nothing;
  nothing.tile_elements = 64;
  CHECK(price_vector(preset, nothing, 1).total_ns == 600 + 200);  // two empty transfers
}

TEST_CASE("npu cost: steps and transfers") {
  Preset preset = plain_preset();
  preset.launch_sync_ns = 25000;
  preset.pcie_gb_per_s = 20;
  preset.pcie_latency_ns = 10000;
  CHECK(price_transfer(preset, 0) == 10000);
  CHECK(price_transfer(preset, 2'000'000) == 110000);
  CHECK(host_driven_ns(preset, 3000, 2) == 53000);
  CHECK_THROWS(host_driven_ns(preset, 3000, int64_t{1} << 60));
}

TEST_CASE("npu cost: vector prices keep above both roofs and their lanes add up") {
  CHECK(holds("vector invariants", kCases, [] {
    const Preset preset = preset_of_random_rates();
    const VectorWork work = random_vector_work();
    check_price(price_vector(preset, work, pick(1, preset.vector_cores)), preset.vector_cores);
  }));
}

TEST_CASE("npu cost: cube prices keep above both roofs and their lanes add up") {
  CHECK(holds("cube invariants", kCases, [] {
    const Preset preset = preset_of_random_rates();
    const CubeWork work = random_fused_work(3000);
    check_price(price_cube(preset, work, random_tiling(preset)), preset.cube_cores);
  }));
}

TEST_CASE("npu cost: faster parts never make it slower") {
  CHECK(holds("monotone in bandwidth and clock", kCases, [] {
    const Preset preset = preset_of_random_rates();
    const VectorWork vector = random_vector_work();
    const CubeWork cube = random_fused_work(3000);
    const CubeTiling tiling = random_tiling(preset);
    const int64_t blocks = pick(1, preset.vector_cores);
    const int64_t vector_ns = price_vector(preset, vector, blocks).total_ns;
    const int64_t cube_ns = price_cube(preset, cube, tiling).total_ns;
    const double factor = 1 + 3 * share();
    Preset faster[5] = {preset, preset, preset, preset, preset};
    faster[0].hbm_gb_per_s *= factor;
    faster[1].l2_gb_per_s *= factor;
    faster[2].gm_ub_gb_per_s *= factor;
    faster[3].gm_l1_gb_per_s *= factor;
    faster[4].clock_mhz += pick(1, 2000);
    for (const Preset& p : faster) {
      RC_ASSERT(price_vector(p, vector, blocks).total_ns <= vector_ns);
      RC_ASSERT(price_cube(p, cube, tiling).total_ns <= cube_ns);
    }
  }));
}

TEST_CASE("npu cost: more cores never make it slower and block_dim stays within them") {
  CHECK(holds("monotone in cores", kCases, [] {
    Preset preset = preset_of_random_rates();
    preset.cube_cores = pick(1, 4);
    preset.vector_cores = pick(1, 16);
    const Split split{.work = random_vector_work()};
    // Nothing fused to it: that runs on the vector cores of each cube core, which get fewer.
    const CubeWork cube = random_cube_work(48);
    const TaskPrice vector_before = choose_vector(preset, {split}, preset.vector_cores).price;
    const TaskPrice cube_before = choose_cube(preset, cube, preset.cube_cores).price;
    check_price(vector_before, preset.vector_cores);
    check_price(cube_before, preset.cube_cores);
    preset.cube_cores += pick(1, 4);
    preset.vector_cores += pick(1, 16);
    RC_ASSERT(choose_vector(preset, {split}, preset.vector_cores).price.total_ns <=
              vector_before.total_ns);
    RC_ASSERT(choose_cube(preset, cube, preset.cube_cores).price.total_ns <= cube_before.total_ns);
  }));
}

TEST_CASE("npu price: the device has its own passes where the host computes otherwise") {
  CHECK(device_passes("exp") == 4);
  CHECK(device_passes("add") == 1);
  CHECK(device_passes("tanh") == vector::instruction_passes("tanh"));
  CHECK(device_passes("no_such_op") == 0);
}

TEST_SUITE_END();
