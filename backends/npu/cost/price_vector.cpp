#include <algorithm>
#include <cmath>

#include "keel/backends/npu/cost/pipeline.h"
#include "keel/backends/npu/cost/work.h"
#include "keel/core/base/checked.h"

namespace keel::npu {
namespace {

// One stream of a tile loop: `count` transfers of equal size, in rows of so many bytes (0: none).
double core_transfer_ns(const Preset& preset, double bytes, int64_t count, int64_t row,
                        bool aligned) {
  const double factor = aligned ? 1 : preset.unaligned_ub_factor;
  const double rows = row > 0 ? bytes / static_cast<double>(row) : 0;
  return static_cast<double>(count) * preset.gm_ub_issue_ns + rows * preset.gm_ub_row_ns +
         bytes * factor / preset.gm_ub_gb_per_s;
}

// Returns what the memory alone would take for all blocks' bytes.
double memory_ns(const Preset& preset, double bytes, double transfer, int64_t run, bool aligned) {
  if (bytes <= 0) return 0;
  const double whole = std::max(1.0, transfer);
  const double contiguous = run > 0 ? std::min(whole, static_cast<double>(run)) : whole;
  const double factor = aligned ? 1 : preset.unaligned_ub_factor;
  return bytes * factor / (hbm_share(preset, contiguous) * preset.hbm_gb_per_s);
}

// Adds what a task does behind its first part; it starts once.
void add_epilogue(const TaskPrice& epilogue, TaskPrice& price) {
  price.pipeline_ns += epilogue.pipeline_ns;
  price.total_ns += epilogue.pipeline_ns;
  price.cycles += epilogue.cycles;
  for (size_t u = 0; u < kUnits; ++u) price.busy_cycles[u] += epilogue.busy_cycles[u];
  price.bytes_in += epilogue.bytes_in;
  price.bytes_out += epilogue.bytes_out;
  price.flops += epilogue.flops;
  price.compute_roof_ns += epilogue.compute_roof_ns;
  price.memory_roof_ns += epilogue.memory_roof_ns;
}

}  // namespace

TaskPrice price_vector(const Preset& preset, const VectorWork& work, int64_t block_dim) {
  const int64_t total =
      work.elements != 0 ? work.elements : checked_mul(work.units, work.elements_per_unit);
  const int64_t rounds = divide_up(block_dim, preset.vector_cores);
  // The busiest core has so many.
  const int64_t elements = std::min(
      total,
      checked_mul(checked_mul(rounds, divide_up(work.units, block_dim)), work.elements_per_unit));
  const auto share = [&](int64_t bytes) {  // of the busiest core
    return total == 0 ? 0.0
                      : static_cast<double>(bytes) * static_cast<double>(elements) /
                            static_cast<double>(total);
  };
  const int64_t tiles = std::max<int64_t>(1, divide_up(elements, work.tile_elements));
  const auto n = static_cast<double>(tiles);
  const double bytes_in =
      std::max(share(work.bytes_in), static_cast<double>(work.least_in_per_block));
  const double bytes_out =
      share(work.bytes_out) + static_cast<double>(checked_mul(rounds, work.bytes_out_per_block));

  const double in =
      core_transfer_ns(preset, bytes_in, tiles * work.loads, work.row_in, work.aligned);
  const double out =
      core_transfer_ns(preset, bytes_out, tiles * work.stores, work.row_out, work.aligned);
  const int64_t cycles =
      divide_up(checked_mul(elements, work.pass_bytes), preset.vector_bytes_per_cycle);
  const double compute = static_cast<double>(cycles) / preset.clock_ghz() / preset.vector_share;
  const double scalar = n * static_cast<double>(preset.scalar_cycles_per_tile) / preset.clock_ghz();

  const double repeated =
      work.double_buffer ? std::max({in, out, compute}) : compute + std::max(in, out);
  const double core = in / n + compute / n + out / n + repeated * ((n - 1) / n);

  const auto per_transfer = [&](double bytes, int64_t count) {
    return bytes / (n * static_cast<double>(std::max<int64_t>(1, count)));
  };
  const int64_t cached = std::min(work.cached_bytes, work.bytes_in);
  const int64_t cached_out = std::min(work.cached_out, work.bytes_out);
  const double all_out = static_cast<double>(work.bytes_out - cached_out) +
                         static_cast<double>(work.bytes_out_per_block * block_dim);
  const int64_t uncached = work.bytes_in - cached;
  const int64_t indices = std::min(work.indices_in, uncached);
  const double transfer_in = per_transfer(bytes_in, work.loads);
  const double chip_in = memory_ns(preset, static_cast<double>(uncached - indices), transfer_in,
                                   work.run_in, work.aligned) +
                         memory_ns(preset, static_cast<double>(indices), transfer_in, 0, true);
  const double chip_out =
      memory_ns(preset, all_out, per_transfer(bytes_out, work.stores), work.run_out, work.aligned);
  const double chip_cached = static_cast<double>(cached + cached_out) / preset.l2_gb_per_s;

  PipelineTimes times;
  times.pipeline_ns = std::max({core, chip_in + chip_out, chip_cached, scalar});
  times.of(Unit::kVector) = compute;
  times.of(Unit::kMte2) = std::max({in, chip_in, chip_cached});
  times.of(Unit::kMte3) = std::max(out, chip_out);
  times.of(Unit::kScalar) = scalar;
  TaskPrice price = assemble(preset, times, block_dim);
  price.bytes_in = work.bytes_in;
  price.bytes_out = work.bytes_out;
  price.flops = checked_mul(total, work.instructions);
  const double lanes =
      static_cast<double>(preset.vector_bytes_per_cycle * preset.vector_cores) * preset.clock_ghz();
  price.compute_roof_ns = static_cast<int64_t>(static_cast<double>(total) *
                                               static_cast<double>(work.pass_bytes) / lanes);
  price.memory_roof_ns = static_cast<int64_t>(
      static_cast<double>(work.bytes_in - cached + work.bytes_out - cached_out) /
      preset.hbm_gb_per_s);
  if (work.epilogue != nullptr) {
    add_epilogue(price_vector(preset, *work.epilogue, std::min(block_dim, work.epilogue->units)),
                 price);
  }
  return price;
}

}  // namespace keel::npu
