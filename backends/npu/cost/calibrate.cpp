#include "keel/backends/npu/cost/calibrate.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/npu/cost/price.h"
#include "keel/backends/npu/presets/preset.h"

namespace keel::npu {
namespace {

constexpr bool kFitted = true;

class Table {
 public:
  void add(int fact, std::string name, std::string source, std::string unit, double prediction,
           double published, double bound, bool used_for_fitting) {
    const double error = (prediction - published) / published;
    rows_.push_back({fact, std::move(name), std::move(source), std::move(unit), prediction,
                     published, error, bound, std::abs(error) <= bound, used_for_fitting});
  }
  std::vector<CalibrationRow> take() { return std::move(rows_); }

 private:
  std::vector<CalibrationRow> rows_;
};

double us(const TaskPrice& price) { return static_cast<double>(price.total_ns) * 1e-3; }

// Compares the peaks of the bin that the measurements fit best, with 30 cores at 0.9 GHz.
void peaks(Table& table) {
  const Preset preset = load_preset("ascend910-30c");
  const char* source = "AIBench, CCF THPC 2024; it chose the bin";
  table.add(2, "910 (30 cores), fp16 cube", source, "TFLOP/s", preset.cube_f16_tflops(), 216, 0.05,
            kFitted);
  table.add(2, "910 (30 cores), fp16 vector", source, "GFLOP/s", preset.vector_f16_gflops(), 3390,
            0.05, kFitted);
}

// Compares products in f32 where the cube has none, by three passes of f16. The model takes the
// cube's peak for all of them, of which three quarters were measured, and has nothing for what
// splits the operands and adds up the parts. The tiling is the one that is chosen.
void product_in_passes(Table& table) {
  const Preset preset = load_preset("ascend910");
  constexpr int64_t kSize = 8192;
  const CubeTiling chosen{.bk = 32, .grid_m = 4, .grid_n = 8};
  const TaskPrice price = price_cube(preset, cube_work(kSize, kSize, kSize, f32), chosen);
  table.add(3, "fp32 8192^3 on 910, three fp16 passes", "arXiv 2507.23387 v4", "TFLOP/s",
            static_cast<double>(price.flops) / us(price) * 1e-6, 65.3, 0.10, false);
}

// Compares the rungs of the sample, by what each adds: a block for each core (rows dealt out
// first), a 4 x 6 grid, twice the packet with copies beside the cube, eight times, and no gap
// between tiles.
void product_ladder(Table& table) {
  const Preset preset = load_preset("ascend910b1");
  const CubeWork work = cube_work(8192, 8192, 8192, f16);
  struct Rung {
    const char* what;
    CubeTiling tiling;
    double published_ms;
    double bound;
    bool fitted;
  };
  const CubeTiling one{.double_buffer = false, .overlap_tiles = false};
  CubeTiling rows = one, grid = one;
  rows.grid_m = 24;
  grid.grid_m = 4;
  grid.grid_n = 6;
  CubeTiling twice = grid, eight = grid, last = grid;
  twice.double_buffer = true;
  twice.step_k = 2;
  eight.double_buffer = true;
  eight.step_k = 8;
  last.double_buffer = last.overlap_tiles = true;
  last.step_k = 8;
  const Rung rungs[] = {
      {"1 core", one, 249.5, 0.10, kFitted},      {"24 cores", rows, 12.54, 0.20, false},
      {"4x6 split", grid, 12.28, 0.20, false},    {"2x packets", twice, 5.04, 0.20, kFitted},
      {"8x packets", eight, 4.16, 0.20, kFitted}, {"last rung", last, 4.01, 0.10, kFitted}};
  for (const Rung& rung : rungs) {
    table.add(4, std::string("fp16 8192^3 on 910B1, ") + rung.what,
              "asc-devkit matmul_high_performance", "ms",
              us(price_cube(preset, work, rung.tiling)) * 1e-3, rung.published_ms, rung.bound,
              rung.fitted);
  }
}

void sum_of_arrays(Table& table) {
  const Preset preset = load_preset("ascend910b1");
  constexpr int64_t kElements = int64_t{8192} * 8192;
  VectorWork work{.units = kElements / 4096,
                  .elements_per_unit = 4096,
                  .pass_bytes = 2,
                  .instructions = 1,
                  .bytes_in = 4 * kElements,
                  .bytes_out = 2 * kElements,
                  .loads = 2,
                  .stores = 1,
                  .tile_elements = 4096,
                  .double_buffer = false};
  const auto row = [&](const char* what, int64_t blocks, double published, bool fitted) {
    table.add(5, std::string("fp16 add 8192^2 on 910B1, ") + what,
              "asc-devkit add_high_performance", "us", us(price_vector(preset, work, blocks)),
              published, 0.10, fitted);
  };
  row("1 core, 8 KB", 1, 6910, kFitted);
  row("48 cores, 8 KB", 48, 306.6, kFitted);
  work.units /= 4;
  work.elements_per_unit = work.tile_elements = 16384;
  row("48 cores, 32 KB", 48, 268.5, kFitted);
  work.double_buffer = true;
  row("double buffer", 48, 264.0, false);
  // The result no longer passes through L2, so one operand stays there from run to run.
  work.cached_bytes = 2 * kElements;
  row("L2 bypass", 48, 187.7, false);
  row("last rung", 48, 184.5, false);
}

void copies(Table& table) {
  const Preset preset = load_preset("ascend910b1");
  constexpr int64_t kUnit = 131072;  // elements of one byte
  constexpr int64_t kBytes = 302'000'000 / kUnit * kUnit;
  VectorWork work{.units = kBytes / kUnit,
                  .elements_per_unit = kUnit,
                  .pass_bytes = 0,
                  .bytes_in = kBytes,
                  .stores = 0,
                  .tile_elements = kUnit};
  const auto row = [&](const char* what, double published) {
    table.add(6, std::string("302 MB to unified buffer on 910B, ") + what, "asc-devkit data_copy",
              "us", us(price_vector(preset, work, preset.vector_cores)), published, 0.10, kFitted);
  };
  work.run_in = 128;
  row("128 B", 564.8);
  work.run_in = 8192;
  row("8 KB", 233.5);
  work.run_in = kUnit;
  row("128 KB", 215.8);
  work.aligned = false;
  row("128 KB, unaligned", 275.3);
}

// Launch to synchronisation of a kernel that does next to nothing.
void tiny_kernels(Table& table) {
  const VectorWork work{.units = 1,
                        .elements_per_unit = 16,
                        .pass_bytes = 4,
                        .instructions = 1,
                        .bytes_in = 64,
                        .bytes_out = 64,
                        .tile_elements = 64};
  const auto row = [&](const char* name, const char* what, double published) {
    const Preset preset = load_preset(name);
    const int64_t task = price_vector(preset, work, 1).total_ns;
    table.add(7, std::string("tiny kernel, launch to sync, ") + what, "ascend-rs book, appendix F",
              "us", static_cast<double>(host_driven_ns(preset, task, 1)) * 1e-3, published, 0.20,
              kFitted);
  };
  row("ascend910b3", "910B3 (19 to 31)", 25);
  row("ascend310", "310P (74 to 89)", 81.5);
}

}  // namespace

std::vector<CalibrationRow> calibrate() {
  Table table;
  peaks(table);
  product_in_passes(table);
  product_ladder(table);
  sum_of_arrays(table);
  copies(table);
  tiny_kernels(table);
  return table.take();
}

bool calibration_order_holds(const std::vector<CalibrationRow>& rows) {
  const CalibrationRow* before = nullptr;
  for (const CalibrationRow& row : rows) {
    if (row.fact != 4) continue;
    if (before != nullptr && row.prediction >= before->prediction) return false;
    before = &row;
  }
  return before != nullptr;
}

std::string calibration_table(const std::vector<CalibrationRow>& rows) {
  std::string text =
      fmt::format("{:<4} {:<48} {:>11} {:>11} {:<8} {:>7} {:>6}  {:<6} {:<4} {}\n", "fact", "what",
                  "predicted", "published", "unit", "error", "bound", "", "fit", "source");
  size_t passed = 0;
  for (const CalibrationRow& row : rows) {
    text += fmt::format(
        "{:<4} {:<48} {:>11.2f} {:>11.2f} {:<8} {:>+6.1f}% {:>5.0f}%  {:<6} {:<4} {}\n", row.fact,
        row.name, row.prediction, row.published, row.unit, 100 * row.error, 100 * row.bound,
        row.pass ? "pass" : "MISS", row.used_for_fitting ? "yes" : "no", row.source);
    if (row.pass) ++passed;
  }
  text += fmt::format("{} of {} within their bounds; the order of fact 4's rungs {}\n", passed,
                      rows.size(), calibration_order_holds(rows) ? "holds" : "DOES NOT HOLD");
  text += "fit: a parameter of the model was set by this fact, so that it proves little\n";
  return text;
}

}  // namespace keel::npu
