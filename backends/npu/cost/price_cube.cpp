#include <algorithm>
#include <utility>

#include "keel/backends/npu/cost/pipeline.h"
#include "keel/backends/npu/cost/vector_side.h"
#include "keel/backends/npu/cost/work.h"
#include "keel/core/base/checked.h"

namespace keel::npu {
namespace {

// The times of one tile of C, all of k. Where cores are split, the first four are of the cube core.
struct TileTimes {
  double in = 0, cube = 0, mte1 = 0, vector = 0, out = 0;
  VectorShare load;      // of the tile's operands, as if no other tile had brought them
  VectorShare side;      // of a vector core, operands that stay for several tiles in equal parts
  VectorShare epilogue;  // of that, what follows the product
};

class CubePricer {
 public:
  CubePricer(const Preset& preset, const CubeWork& work, const CubeTiling& tiling)
      : preset_(preset),
        work_(work),
        tiling_(tiling),
        size_(static_cast<double>(size_of(work.dtype))),
        size_a_((work.stored_a == 0 ? size_ : static_cast<double>(work.stored_a)) / work.repeats_a),
        size_b_((work.stored_b == 0 ? size_ : static_cast<double>(work.stored_b)) / work.repeats_b),
        size_out_(work.epilogue_bytes_out >= 0
                      ? static_cast<double>(work.epilogue_bytes_out)
                      : static_cast<double>(size_of(work.wide ? f32 : work.dtype))),
        vector_rate_(static_cast<double>(preset.vector_bytes_per_cycle) * preset.clock_ghz() *
                     vector_units(preset)),
        side_(preset, work),
        mixed_(preset.split_cores() && side_.any()),
        steps_(std::max<int64_t>(1, divide_up(work.k, tiling.bk * tiling.step_k))),
        warm_(work.warm),
        warm_out_(work.warm_out) {}

  TaskPrice run() {
    if (work_.batch == 0 || work_.m == 0 || work_.n == 0) return assemble(preset_, {}, 1);
    cut();
    add_tiles();
    const double core = core_ns();
    const double chip = chip_ns();
    PipelineTimes times;
    times.pipeline_ns = std::max({core, chip, scalar_, sum_.side.scalar});
    times.of(Unit::kCube) = sum_.cube;
    times.of(Unit::kVector) = sum_.vector;
    times.of(Unit::kMte1) = sum_.mte1;
    times.of(Unit::kMte2) = std::max(sum_.in, chip_in_);
    times.of(Unit::kMte3) = std::max(sum_.out, chip_out_);
    times.of(Unit::kScalar) = scalar_;
    TaskPrice price = assemble(preset_, times, blocks_);
    if (mixed_) add_vector_cores(times, price);
    finish(price);
    return price;
  }

 private:
  static double vector_units(const Preset& preset) {
    if (preset.split_cores()) return static_cast<double>(preset.vector_cores_of_a_cube());
    return std::max(
        1.0, static_cast<double>(preset.vector_cores) / static_cast<double>(preset.cube_cores));
  }

  void add_vector_cores(const PipelineTimes& cube, TaskPrice& price) const {
    PipelineTimes times;
    times.pipeline_ns = cube.pipeline_ns;
    times.of(Unit::kVector) = sum_.side.compute;
    times.of(Unit::kMte2) = std::max(sum_.side.in, side_in_);
    times.of(Unit::kMte3) = std::max(sum_.side.out, side_out_);
    times.of(Unit::kScalar) = sum_.side.scalar;
    price.mix_busy_cycles = assemble(preset_, times, blocks_).busy_cycles;
    price.mix_block_dim = blocks_ * preset_.vector_cores_of_a_cube();
  }

  // Cuts a block's part.
  void cut() {
    rows_ = part_of_grid(work_.m, tiling_.grid_m);
    cols_ = part_of_grid(work_.n, tiling_.grid_n);
    batches_ = divide_up(work_.batch, tiling_.grid_batch);
    blocks_ =
        divide_up(work_.m, rows_) * divide_up(work_.n, cols_) * divide_up(work_.batch, batches_);
    rounds_ = divide_up(blocks_, preset_.cube_cores);
  }

  // Bytes of an operand's element as it is copied to L1, and how much its layout slows that down:
  // vector cores leave it packed and as it is multiplied.
  double copied_a() const { return loaded_a() ? size_ / work_.repeats_a : size_a_; }
  double copied_b() const { return loaded_b() ? size_ / work_.repeats_b : size_b_; }
  double factor_a() const {
    return work_.aligned_a || loaded_a() ? 1 : preset_.unaligned_l1_factor;
  }
  double factor_b() const {
    return work_.aligned_b || loaded_b() ? 1 : preset_.unaligned_l1_factor;
  }
  bool loaded_a() const { return mixed_ && side_.loads_a(); }
  bool loaded_b() const { return mixed_ && side_.loads_b(); }
  bool handed_over() const { return mixed_ && side_.has_epilogue(); }

  TileTimes tile(int64_t rows, int64_t cols) const {
    const auto k = static_cast<double>(work_.k);
    const double a = static_cast<double>(rows) * k, b = static_cast<double>(cols) * k;
    const double c = static_cast<double>(rows) * static_cast<double>(cols);
    TileTimes t;
    t.in = 2 * static_cast<double>(steps_) * preset_.gm_l1_issue_ns +
           (a * copied_a() * factor_a() + b * copied_b() * factor_b()) / preset_.gm_l1_gb_per_s;
    const int64_t mmads = divide_up(rows, preset_.cube_m) * divide_up(cols, preset_.cube_n) *
                          divide_up(work_.k, preset_.cube_k);
    t.cube = static_cast<double>(mmads) * cube_passes(preset_, work_.dtype) / preset_.clock_ghz() /
             preset_.cube_share;
    t.mte1 = (a * size_ / static_cast<double>(preset_.l1_to_l0a_bytes_per_cycle) +
              b * size_ / static_cast<double>(preset_.l1_to_l0b_bytes_per_cycle)) /
             preset_.clock_ghz();
    const double from_l0c =
        4 * c / static_cast<double>(preset_.l0c_out_bytes_per_cycle) / preset_.clock_ghz();
    double out = c * size_out_ + static_cast<double>(rows * work_.row_bytes_out);
    if (handed_over()) out = c * side_.handed_size();
    t.out = std::max(from_l0c, out / preset_.gm_l1_gb_per_s);
    if (mixed_)
      add_side(rows, cols, t);
    else
      add_vector_unit(rows, cols, t);
    return t;
  }

  // A core that has both units does the vector work beside its own copies.
  void add_vector_unit(int64_t rows, int64_t cols, TileTimes& t) const {
    const auto k = static_cast<double>(work_.k);
    const double c = static_cast<double>(rows) * static_cast<double>(cols);
    t.in += (c * static_cast<double>(work_.epilogue_bytes_in) +
             static_cast<double>(rows * work_.row_bytes_in)) /
            preset_.gm_ub_gb_per_s;
    t.vector = (c * static_cast<double>(work_.epilogue_pass_bytes) +
                static_cast<double>(rows) * k * static_cast<double>(work_.load_pass_a) +
                static_cast<double>(cols) * k * static_cast<double>(work_.load_pass_b)) /
               (vector_rate_ * preset_.vector_share);
  }

  // An operand that is loaded through the vector cores is there for all tiles of the block that
  // want it.
  void add_side(int64_t rows, int64_t cols, TileTimes& t) const {
    const VectorShare a = side_.load_a(rows), b = side_.load_b(cols);
    t.load.add(a);
    t.load.add(b);
    t.epilogue = side_.epilogue(rows, cols);
    t.side = t.epilogue;
    t.side.add(a, 1 / tiles_n());
    t.side.add(b, 1 / tiles_m());
  }

  // Times that the two kinds of core wait for each other on a tile's way.
  double handing_over() const {
    const int times = (side_.loads_a() || side_.loads_b() ? 1 : 0) + (handed_over() ? 1 : 0);
    return mixed_ ? static_cast<double>(times * preset_.cube_vector_sync_ns) : 0;
  }

  void add(int64_t count, int64_t rows, int64_t cols) {
    if (count == 0 || rows == 0 || cols == 0) return;
    const TileTimes t = tile(rows, cols);
    const auto c = static_cast<double>(checked_mul(rounds_, checked_mul(count, batches_)));
    const auto steps = static_cast<double>(steps_);
    const double compute = work_.serial_epilogue ? std::max(t.cube, t.mte1) + t.vector
                                                 : std::max({t.cube, t.mte1, t.vector});
    const double beside =
        t.side.in + t.side.compute + t.side.out + handing_over();  // where nothing overlaps
    if (!tiling_.double_buffer)
      repeated_ += c * (t.in + compute + t.out + beside);
    else if (!tiling_.overlap_tiles)
      repeated_ += c * (t.in / steps + (steps - 1) / steps * std::max(t.in, compute) +
                        compute / steps + t.out + beside);
    else
      repeated_ += c * std::max({t.in, compute, t.out, t.side.longest()});
    fill_ = std::max(fill_, mixed_ ? mixed_fill(t) : t.in / steps + compute / steps + t.out);
    sum_.in += c * t.in;
    sum_.cube += c * t.cube;
    sum_.mte1 += c * t.mte1;
    sum_.vector += c * t.vector;
    sum_.out += c * t.out;
    sum_.side.add(t.side, c);
    const double a = static_cast<double>(rows) * static_cast<double>(work_.k);
    const double b = static_cast<double>(cols) * static_cast<double>(work_.k);
    traffic_ += c * (a * copied_a() + b * copied_b());
    if (loaded_a()) traffic_ += c * a * (size_a_ + copied_a()) / tiles_n();
    if (loaded_b()) traffic_ += c * b * (size_b_ + copied_b()) / tiles_m();
    scalar_ +=
        c * steps * static_cast<double>(preset_.scalar_cycles_per_tile) / preset_.clock_ghz();
  }

  // Returns the time of one tile from its first operand to its last result, above the stage that
  // the others wait for: operands come step by step, the epilogue begins when all of k is summed
  // up.
  double mixed_fill(const TileTimes& t) const {
    const auto steps = static_cast<double>(steps_);
    const double compute = std::max(t.cube, t.mte1);
    const double load = t.load.in + t.load.compute + t.load.out;
    const double stage = std::max({t.in, compute, t.load.longest()});
    const double latency = (load + t.in + compute + (steps - 1) * stage) / steps + t.out +
                           t.epilogue.latency + handing_over();
    return latency - std::max({t.in, compute, t.out, t.side.longest()});
  }

  double tiles_m() const { return static_cast<double>(divide_up(rows_, tiling_.bm)); }
  double tiles_n() const { return static_cast<double>(divide_up(cols_, tiling_.bn)); }

  void add_tiles() {
    const int64_t full_m = rows_ / tiling_.bm, rest_m = rows_ % tiling_.bm;
    const int64_t full_n = cols_ / tiling_.bn, rest_n = cols_ % tiling_.bn;
    add(checked_mul(full_m, full_n), tiling_.bm, tiling_.bn);
    add(full_n, rest_m, tiling_.bn);
    add(full_m, tiling_.bm, rest_n);
    add(1, rest_m, rest_n);
  }

  double core_ns() const {
    const bool overlaps = tiling_.double_buffer && tiling_.overlap_tiles;
    return repeated_ + (overlaps ? fill_ : 0);
  }

  // Bytes that are in L2 are taken from there only where that is no slower than memory: L2 serves
  // all that the cores copy at its own rate.
  double chip_ns() {
    if (warm_ == 0 && warm_out_ == 0) return chip_ns_by_residency();
    warm_ = warm_out_ = 0;
    const double cold = chip_ns_by_residency();
    warm_ = work_.warm;
    warm_out_ = work_.warm_out;
    const double warm = chip_ns_by_residency();
    if (warm <= cold) return warm;
    warm_ = warm_out_ = 0;
    return chip_ns_by_residency();
  }

  // L2 serves every copy of a panel to a core; memory serves what L2 cannot keep.
  double chip_ns_by_residency() {
    const int64_t bm = std::min(tiling_.bm, rows_), bn = std::min(tiling_.bn, cols_);
    auto [reads_a, reads_b] = reads_from_memory(divide_up(rows_, bm), divide_up(cols_, bn));
    // A warm operand does not come from memory the first time.
    reads_a -= warm_ * static_cast<double>(work_.bytes_a);
    reads_b -= warm_ * static_cast<double>(work_.bytes_b);
    const double a_ns = reads_a / memory_rate(), b_ns = reads_b / memory_rate();
    const double epilogue_ns = (1 - warm_) * epilogue_in() / memory_rate();
    // Results that are handed over are written to L2 and read from there.
    const double handed = handed_over() ? 2 * elements() * side_.handed_size() : 0;
    const double traffic = std::max(reads_a + reads_b, all_traffic()) + epilogue_in() + handed +
                           warm_out_ * bytes_out();
    const double from_l2 = traffic / preset_.l2_gb_per_s;
    const double out_ns = (1 - warm_out_) * bytes_out() / memory_rate();
    if (mixed_) {
      side_in_ = (loaded_a() ? a_ns : 0) + (loaded_b() ? b_ns : 0) + epilogue_ns;
      chip_in_ = std::max((loaded_a() ? 0 : a_ns) + (loaded_b() ? 0 : b_ns), from_l2);
    } else {
      chip_in_ = std::max(a_ns + b_ns + epilogue_ns, from_l2);
    }
    (handed_over() ? side_out_ : chip_out_) = out_ns;
    return std::max(a_ns + b_ns + epilogue_ns + out_ns, from_l2);
  }

  // Returns bytes of both operands that all blocks copy.
  double all_traffic() const {
    return traffic_ * static_cast<double>(blocks_) / static_cast<double>(rounds_);
  }

  // Returns bytes of both operands that come from memory: what the order of a block's own tiles
  // brings again; and as far as L2 has no room for an operand, what each of the blocks that want
  // the same of it reads for itself, and one matrix for the whole batch once for each of its
  // products.
  std::pair<double, double> reads_from_memory(int64_t tiles_m, int64_t tiles_n) const {
    const auto [own_a, own_b] = reads_by_order(tiles_m, tiles_n);
    const auto again = [&](double bytes, int64_t extent, double size, int64_t blocks) {
      if (bytes <= 0) return 0.0;
      const double whole = static_cast<double>(work_.batch) * static_cast<double>(extent) *
                           static_cast<double>(work_.k) * size;
      const double missed = std::max(0.0, 1 - static_cast<double>(preset_.l2_bytes) / bytes);
      const double times = std::max(static_cast<double>(blocks), whole / bytes);
      return bytes * (1 + missed * (std::max(1.0, times) - 1));
    };
    const int64_t blocks_m = divide_up(work_.m, rows_), blocks_n = divide_up(work_.n, cols_);
    const auto a = static_cast<double>(work_.bytes_a), b = static_cast<double>(work_.bytes_b);
    return {std::max(own_a, again(a, work_.m, size_a_, blocks_n)),
            std::max(own_b, again(b, work_.n, size_b_, blocks_m))};
  }

  // Blocks beside each other share panels while they are in L2. A block's tiles go through the
  // columns (or the rows) of its part for each panel of the other operand, which stays in L2
  // meanwhile; what is gone through is read again each time, unless it fits as well.
  std::pair<double, double> reads_by_order(int64_t tiles_m, int64_t tiles_n) const {
    const auto depth = static_cast<double>(work_.k);
    const auto a = static_cast<double>(work_.bytes_a), b = static_cast<double>(work_.bytes_b);
    const double panels_a =
        std::min(a, static_cast<double>(tiling_.grid_m * tiling_.bm) * depth * size_a_);
    const double panels_b =
        std::min(b, static_cast<double>(tiling_.grid_n * tiling_.bn) * depth * size_b_);
    const auto l2 = static_cast<double>(preset_.l2_bytes);
    if (std::min(panels_a + b, a + panels_b) <= l2) return {a, b};
    const double again_a = a * static_cast<double>(tiles_n);
    const double again_b = b * static_cast<double>(tiles_m);
    const bool keeps_a = panels_a <= l2, keeps_b = panels_b <= l2;
    if (keeps_a && (!keeps_b || a + again_b <= again_a + b)) return {a, again_b};
    if (keeps_b) return {again_a, b};
    return {again_a, again_b};
  }

  // Returns bytes per ns of the memory: pieces that neighbouring blocks read or write at once lie
  // in the same rows, so that it sees whole ones.
  double memory_rate() const { return preset_.hbm_efficiency.back().share * preset_.hbm_gb_per_s; }

  double elements() const {
    return static_cast<double>(work_.batch) * static_cast<double>(work_.m) *
           static_cast<double>(work_.n);
  }
  int64_t all_rows() const { return checked_mul(work_.batch, work_.m); }
  double bytes_out() const {
    return elements() * size_out_ + static_cast<double>(all_rows() * work_.row_bytes_out);
  }
  double epilogue_in() const {
    return elements() * static_cast<double>(work_.epilogue_bytes_in) +
           static_cast<double>(all_rows() * work_.row_bytes_in);
  }

  void finish(TaskPrice& price) const {
    const int64_t results = checked_mul(work_.batch, checked_mul(work_.m, work_.n));
    price.bytes_in =
        checked_add(work_.bytes_a + work_.bytes_b, checked_mul(results, work_.epilogue_bytes_in)) +
        checked_mul(all_rows(), work_.row_bytes_in);
    price.bytes_out = checked_add(checked_mul(results, static_cast<int64_t>(size_out_)),
                                  checked_mul(all_rows(), work_.row_bytes_out));
    const int64_t flops = checked_mul(2, checked_mul(results, work_.k));
    price.flops = checked_add(flops, checked_mul(results, work_.epilogue_instructions));
    const double cube = static_cast<double>(flops) / (preset_.cube_f16_tflops() * 1e3) *
                        cube_passes(preset_, work_.dtype);
    const double vector = elements() * static_cast<double>(work_.epilogue_pass_bytes) /
                          (vector_rate_ * static_cast<double>(preset_.cube_cores));
    price.compute_roof_ns = static_cast<int64_t>(std::max(cube, vector));
    price.memory_roof_ns =
        static_cast<int64_t>(((1 - warm_) * static_cast<double>(price.bytes_in) +
                              (1 - warm_out_) * static_cast<double>(price.bytes_out)) /
                             preset_.hbm_gb_per_s);
  }

  const Preset& preset_;
  const CubeWork& work_;
  const CubeTiling& tiling_;
  // Bytes of an element: of the operands as multiplied, as they come from memory (each once for all
  // of its repeats), of all results.
  const double size_, size_a_, size_b_, size_out_;
  const double vector_rate_;  // bytes per ns of the vector units that work with a cube
  const VectorSide side_;
  const bool mixed_;  // vector cores have a part in it
  const int64_t steps_;
  int64_t rows_ = 0, cols_ = 0, batches_ = 0, blocks_ = 1;
  int64_t rounds_ = 1;  // blocks that the busiest core does one after the other
  TileTimes sum_;
  double repeated_ = 0, fill_ = 0, traffic_ = 0, scalar_ = 0;
  double warm_, warm_out_;             // the shares of L2 that the price takes from there
  double chip_in_ = 0, chip_out_ = 0;  // of memory and L2 for what the cores with the cube copy
  double side_in_ = 0, side_out_ = 0;  // and for what the vector cores do
};

}  // namespace

CubeWork cube_work(int64_t m, int64_t n, int64_t k, DType dtype) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  CubeWork work;
  work.m = m;
  work.n = n;
  work.k = k;
  work.dtype = dtype;
  work.bytes_a = checked_mul(checked_mul(m, k), size);
  work.bytes_b = checked_mul(checked_mul(k, n), size);
  work.aligned_a = k * size % 512 == 0;
  work.aligned_b = n * size % 512 == 0;
  return work;
}

TaskPrice price_cube(const Preset& preset, const CubeWork& work, const CubeTiling& tiling) {
  return CubePricer(preset, work, tiling).run();
}

}  // namespace keel::npu
