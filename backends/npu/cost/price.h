// Prices: what a task would take on the modelled device. Pure functions of a preset and of a
// description of the work, so that device time is the same to the nanosecond on every run; times
// are worked out in doubles, rounded once at the end. Any thread.
#ifndef KEEL_BACKENDS_NPU_COST_PRICE_H
#define KEEL_BACKENDS_NPU_COST_PRICE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "keel/backends/npu/presets/preset.h"
#include "keel/core/base/dtype.h"

namespace keel::npu {

// MTE1 copies L1 to L0, MTE2 global memory to the core, MTE3 the core to global memory.
enum class Unit : uint8_t { kCube, kVector, kMte1, kMte2, kMte3, kScalar };
inline constexpr size_t kUnits = 6;
const char* name_of(Unit unit) noexcept;

struct TaskPrice {
  int64_t total_ns = 0;                       // overhead + pipeline
  int64_t overhead_ns = 0;                    // starting the task, its blocks and the kernel
  int64_t pipeline_ns = 0;                    // from the first instruction to the last on the cores
  int64_t cycles = 0;                         // of the pipeline
  std::array<int64_t, kUnits> busy_cycles{};  // of the core that has most to do; each <= cycles
  int64_t block_dim = 1;
  // Where cores are split and a product has vector work fused to it: the vector cores that do it,
  // and what the one that has most to do needs of its units. busy_cycles is then of a cube core,
  // whose MTE3 is the fixed pipe.
  int64_t mix_block_dim = 0;
  std::array<int64_t, kUnits> mix_busy_cycles{};
  int64_t bytes_in = 0, bytes_out = 0;  // from and to global memory, each byte once
  int64_t flops = 0;
  int64_t compute_roof_ns = 0;  // all cores at their peak
  int64_t memory_roof_ns = 0;   // all bytes at the memory's peak

  int64_t busy(Unit unit) const { return busy_cycles[static_cast<size_t>(unit)]; }
  bool mixed() const { return mix_block_dim > 0; }
  int64_t mix_busy(Unit unit) const { return mix_busy_cycles[static_cast<size_t>(unit)]; }
};

// Share of the memory's peak that transfers of so many contiguous bytes reach; between the preset's
// points it follows the octave, below the first it falls with the bytes.
double hbm_share(const Preset& preset, double bytes);

// Element-wise work, reductions, row-wise ops and copies: `units` indivisible parts dealt to
// blocks, each of which streams its share through unified buffer in tiles.
struct VectorWork {
  int64_t units = 1;
  int64_t elements_per_unit = 0;
  int64_t elements = 0;  // of all units, where the last ones have fewer; 0: all have as many
  // Costs of one element, over its instructions: passes times the bytes of a lane.
  int64_t pass_bytes = 0;
  int64_t instructions = 0;  // for one element; what counts as an operation of it
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  int64_t least_in_per_block = 0;   // of bytes_in, that a block loads however few units it has
  int64_t bytes_out_per_block = 0;  // partial results that each block adds to global memory
  int64_t loads = 1, stores = 1;    // transfers a tile
  int64_t tile_elements = 0;        // at least 1
  // Contiguous bytes of a transfer that are by themselves, where they are fewer than the tile's;
  // and bytes of a row of a strided transfer, which are many rows of the same pages. Or 0.
  int64_t run_in = 0, run_out = 0;
  int64_t row_in = 0, row_out = 0;
  int64_t indices_in = 0;  // of bytes_in, those that say which runs: they come by whole transfers
  bool aligned = true;     // rows are whole multiples of 512 B
  bool double_buffer = true;
  int64_t cached_bytes = 0;  // of bytes_in, known to be in L2
  int64_t cached_out = 0;    // of bytes_out, that stay in L2
  // Holds what the same task does once all of this is done: the epilogue of a reduction.
  std::shared_ptr<const VectorWork> epilogue;
};
// REQUIRES 1 <= block_dim. Blocks beyond the cores run in further rounds, when those before have
// ended: a kernel that was cut for a device with more cores.
TaskPrice price_vector(const Preset& preset, const VectorWork& work, int64_t block_dim);

// batch products of [m, k] and [k, n]; bytes_a and bytes_b are of the operands as stored (one
// matrix that is broadcast counts once).
struct CubeWork {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  DType dtype = f16;  // of the operands
  bool wide = false;  // C leaves in f32, as accumulated
  int64_t bytes_a = 0, bytes_b = 0;
  // How often an element as stored comes in the matrix that is multiplied. Windows over images
  // overlap: L1 gets each element once, and it is repeated on the way to L0 (img2col).
  double repeats_a = 1, repeats_b = 1;
  bool aligned_a = true, aligned_b = true;  // rows are whole multiples of 512 B
  // Describes what is fused to it. Bytes of an operand's element in memory where they are not the
  // dtype's (0: they are), and for one element, as it is loaded, passes times lane bytes.
  int64_t stored_a = 0, stored_b = 0;
  int64_t load_pass_a = 0, load_pass_b = 0;
  // Costs of one element of C: bytes that come in beside it, bytes of all results (-1: C's own),
  // passes times lane bytes, vector instructions.
  int64_t epilogue_bytes_in = 0, epilogue_bytes_out = -1;
  int64_t epilogue_pass_bytes = 0, epilogue_instructions = 0;
  // Costs of row-wise ops in the epilogue: for one row of C, bytes that come in and go out beside
  // it. The parts that C is cut into then have whole rows, which wait until their last columns are
  // there, or whose columns are done with one block after the other, as those of attention.
  bool whole_rows = false, rows_by_blocks = false;
  int64_t row_bytes_in = 0, row_bytes_out = 0;
  // The cube waits until a tile has been through the epilogue, as where L0C holds one result.
  bool serial_epilogue = false;
  double warm = 0;      // the share of operands that is in L2
  double warm_out = 0;  // the share of results that stays there
};
CubeWork cube_work(int64_t m, int64_t n, int64_t k, DType dtype);

// C is cut into grid_m x grid_n x grid_batch parts, one for each block; a block computes its part
// in tiles of bm x bn, each over k in steps of bk * step_k, which is what one copy to L1 brings.
struct CubeTiling {
  int64_t bm = 128, bn = 256, bk = 64, step_k = 1;
  int64_t grid_m = 1, grid_n = 1, grid_batch = 1;
  bool double_buffer = true;  // copies to L1 run beside the cube
  bool overlap_tiles = true;  // and do so from one tile to the next, C's way out as well
};
// REQUIRES positive sizes. block_dim is the number of parts that are not empty; those beyond the
// cores run in further rounds.
TaskPrice price_cube(const Preset& preset, const CubeWork& work, const CubeTiling& tiling);

// An op that the device's AI CPU computes from so many bytes of operands, to so many of results.
TaskPrice price_ai_cpu(const Preset& preset, int64_t bytes_in, int64_t bytes_out);

// Copies over the host's link, either way.
int64_t price_transfer(const Preset& preset, int64_t bytes);

// Returns the price of one step that the host drives task by task, with a launch for each task and
// without the copies of results.
int64_t host_driven_ns(const Preset& preset, int64_t step_ns, int64_t tasks);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_COST_PRICE_H
