// Products as planned: each core computes its part of C in tiles of bm x bn; the operands' parts
// come to L1 in packets of step_k steps, from there to L0A and L0B step by step, and C's tile
// leaves L0C for what follows in unified buffer. The multiply-adds of a tile are one instruction
// sequence over all of k, as the numeric plan sums a panel of k in registers: it runs behind the
// last step, on what went through L0A and L0B.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/common/cube/cube_taps.h"
#include "keel/backends/common/origin.h"
#include "keel/backends/common/products/prepacked_weight.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/planned_entry.h"
#include "keel/backends/npu/planned/brought_program.h"
#include "keel/backends/npu/planned/core_run.h"
#include "keel/backends/npu/planned/product_operand.h"
#include "keel/backends/npu/planned/row_epilogue.h"
#include "keel/backends/npu/scheduler/tile_plan.h"
#include "keel/ops/products/product_phases.h"

namespace keel::npu {
namespace {

constexpr int64_t kTileStep = 64;  // elements of an epilogue's tile

// Numbers of a core's claims, in this order; L1, L0A and L0B have two buffers each, one for either
// operand in L1.
enum ProductClaims : size_t { kL1A = 0, kL1B = 2, kL0A = 4, kL0B = 6, kL0C = 8, kUnified = 9 };

// A matrix whose rows are there as they are, told as windows over them: what the cube takes of
// windows is then multiplied by the same instructions.
WindowRows plain_windows(size_t rows, size_t columns, size_t pitch) {
  const auto count = static_cast<int64_t>(rows);
  WindowRows windows;
  windows.axes[0] = {.windows = count, .size = count, .pitch = static_cast<int64_t>(pitch)};
  windows.channels = static_cast<int64_t>(columns);
  return windows;
}

// The problem with operands as the cube multiplies them.
CubeProblem as_multiplied(const AnchoredNode& product, const ProductMatrices& matrices) {
  CubeProblem problem = cube_problem(product, matrices);
  const DType dtype = product.anchor().input(0).dtype();
  problem.a = problem.b = dtype;
  problem.round_to = f32;
  return problem;
}

// Matrices, and how the cube gets and multiplies them. A tile's number in the batch counts those of
// all phases, where the product has phases.
struct MultipliedMatrices {
  MultipliedMatrices(const AnchoredNode& product, ProductPhase of)
      : phase(std::move(of)),
        cube(cube_over(plan_cube(cube_problem(product, matrices())),
                       as_multiplied(product, matrices()))),
        a(product, matrices(), &ProductMatrices::a, &ProductMatrices::Starts::a, cube.problem.a),
        b(product, matrices(), &ProductMatrices::b, &ProductMatrices::Starts::b, cube.problem.b) {}
  const ProductMatrices& matrices() const { return phase.matrices; }

  ProductPhase phase;  // of a product without phases: its matrices
  CubePlan cube;
  ProductOperand a, b;
};

std::vector<ProductPhase> phases_of(const AnchoredNode& product) {
  if (product.why_no_matrices().empty()) return {{product.matrices(), {}}};
  return product_phases(product.anchor());
}

class PlannedProduct final : public CoreRun {
 public:
  PlannedProduct(const PlannedRequest& request, TilePlan plan)
      : CoreRun(request, std::move(plan)),
        tiling_(request.launch.tiling),
        has_phases_(!request.anchored.why_no_matrices().empty()),
        result_(request.anchored.anchor().type()),
        outputs_at_(request.anchored.node().inputs().size()) {
    for (ProductPhase& phase : phases_of(request.anchored))
      multiplied_.emplace_back(request.anchored, std::move(phase));
    const bool saturate = preset().saturate_f16;
    if (result_.dtype != f32) {
      round_ = vector::find_instruction("cast", f32, result_.dtype, saturate);
    }
    // Without elements there are no tiles for anything to follow.
    if (result_.shape.num_elements() != 0) make_what_follows(request.anchored);
    const Node& node = request.anchored.node();
    for (size_t i = 0; i < node.types().size(); ++i) {
      const auto it = request.layouts.find(node.output(i));
      if (it == request.layouts.end()) continue;
      packed_results_.push_back(
          {outputs_at_ + i, PrepackedWeight(node.type(i), it->second.layout)});
    }
  }

  // Says whether row-wise ops behind the product have room beside it.
  bool fits() const { return !rows_ || rows_->fits(); }

 private:
  uint32_t run_blocks(Core& core, void* const* args,
                      std::vector<WrittenOnce>& written) const override {
    written = nothing_written();
    const MultipliedMatrices& first = multiplied_.front();
    Walk walk{core, args, first.a.lines(args), first.b.lines(args), written, {}, {}, {}, 0};
    for (size_t block = 0; block < plan().cores.size(); ++block) {
      core.begin_block(static_cast<int64_t>(block), claims());
      for (size_t t = 0; t < plan().cores[block].size(); ++t) {
        core.begin_tile(static_cast<int64_t>(t));
        const PlannedTile& tile = plan().cores[block][t];
        if (of_tile(tile).matrices().k == 0 && has_phases_) {
          clear(walk, tile);
        } else {
          bring_operands(walk, tile);
          multiply(walk, tile);
        }
        finish(walk, tile);
      }
    }
    for (const PackedResult& packed : packed_results_)
      packed.copies.pack(static_cast<char*>(args[packed.argument]));
    return walk.status;
  }

  // An output that is a state's next value, with packed copies of it behind.
  struct PackedResult {
    size_t argument;
    PrepackedWeight copies;
  };
  struct Walk {
    Core& core;
    void* const* args;
    std::vector<int64_t> lines_a, lines_b;
    std::vector<WrittenOnce>& written;
    std::vector<char> a, b;  // what the cube got of the operands for this tile, all of k
    std::vector<char> scratch;
    uint32_t status;
  };

  void make_what_follows(const AnchoredNode& fused) {
    if (!fused.row_wise().empty()) {
      gathers_ = tiling_.bn < result_.shape.back();
      rows_.emplace(fused, preset(), tiling_.bm, gathers_);
    } else if (fused.has_epilogue()) {
      make_epilogue(fused);
    }
  }

  void make_epilogue(const AnchoredNode& fused) {
    const Node& node = fused.node();
    const EpilogueGraph graph(fused);
    TileProgram program(*graph.graph, vector::instruction_lookup(preset().saturate_f16));
    std::vector<BroughtOperand> inputs = {{std::nullopt, result_}}, outputs;
    for (const size_t i : fused.epilogue_inputs()) {
      inputs.push_back({i, node.bodies()[0]->inputs()[i].type()});
    }
    for (size_t i = 0; i < node.types().size(); ++i)
      outputs.push_back({outputs_at_ + i, node.type(i)});
    epilogue_.emplace(std::move(program), graph.graph->outputs()[0].shape(), std::move(inputs),
                      std::move(outputs),
                      static_cast<int64_t>(instructions_of(fused.epilogue()).size()));
    size_t each = 0;
    for (const Claim& claim : epilogue_->claims(1, 2)) each += claim.bytes;
    const int64_t fits = preset().ub_bytes / static_cast<int64_t>(each);
    epilogue_tile_ = std::max<int64_t>(kTileStep, fits / kTileStep * kTileStep);
    epilogue_tile_ = std::min(epilogue_tile_, tiling_.bm * tiling_.bn);
  }

  std::vector<WrittenOnce> nothing_written() const {
    if (rows_) return rows_->nothing_written();
    if (epilogue_) return epilogue_->nothing_written();
    std::vector<WrittenOnce> written;
    written.emplace_back("output 0", result_.shape.num_elements());
    return written;
  }

  const MultipliedMatrices& of_tile(const PlannedTile& tile) const {
    return multiplied_[has_phases_ ? static_cast<size_t>(tile.batch) / groups() : 0];
  }
  // The tile's number among its phase's.
  size_t number_of(const PlannedTile& tile) const {
    const auto batch = static_cast<size_t>(tile.batch);
    return has_phases_ ? batch % groups() : batch;
  }
  size_t groups() const { return multiplied_.front().matrices().batch.size(); }
  DType multiplied() const { return multiplied_.front().cube.problem.a; }

  std::vector<Claim> claims() const {
    const size_t size = size_of(multiplied());
    const auto bytes = [&](int64_t rows, int64_t columns) {
      return static_cast<size_t>(rows * columns) * size;
    };
    std::vector<Claim> claims;
    const auto add_two = [&](CoreBuffer buffer, size_t each, const std::string& what) {
      for (int b = 0; b < 2; ++b) {
        const bool used = b == 0 || tiling_.double_buffer;
        claims.push_back({buffer, used ? each : 0, what + ", buffer " + std::to_string(b)});
      }
    };
    const int64_t packet = tiling_.bk * tiling_.step_k;
    add_two(CoreBuffer::kL1, bytes(tiling_.bm, packet), "a packet of the left operand");
    add_two(CoreBuffer::kL1, bytes(tiling_.bn, packet), "a packet of the right operand");
    add_two(CoreBuffer::kL0A, bytes(tiling_.bm, tiling_.bk), "a step of the left operand");
    add_two(CoreBuffer::kL0B, bytes(tiling_.bn, tiling_.bk), "a step of the right operand");
    claims.push_back({CoreBuffer::kL0C,
                      static_cast<size_t>(tiling_.bm * tiling_.bn) * sizeof(float),
                      "a tile of the product"});
    if (rows_) {
      for (Claim& claim : rows_->claims()) claims.push_back(std::move(claim));
    }
    if (!epilogue_) return claims;
    for (Claim& claim : epilogue_->claims(epilogue_tile_, 2)) claims.push_back(std::move(claim));
    return claims;
  }

  // Copies part [k, k + count) of a packet whose k begins with 0, or of what the cube got.
  static void copy_steps(bool k_is_line, int64_t extent, const char* from, int64_t from_k,
                         int64_t from_length, char* to, int64_t to_k, int64_t to_length,
                         int64_t count, size_t size) {
    if (k_is_line) {
      const size_t line = static_cast<size_t>(extent) * size;
      std::memcpy(to + static_cast<size_t>(to_k) * line, from + static_cast<size_t>(from_k) * line,
                  static_cast<size_t>(count) * line);
      return;
    }
    for (int64_t i = 0; i < extent; ++i) {
      std::memcpy(to + static_cast<size_t>(i * to_length + to_k) * size,
                  from + static_cast<size_t>(i * from_length + from_k) * size,
                  static_cast<size_t>(count) * size);
    }
  }

  // All of k, packet by packet through L1 and step by step through L0A and L0B. With two buffers a
  // packet is brought before the one ahead of it goes on.
  void bring_operands(Walk& walk, const PlannedTile& tile) const {
    const auto k = of_tile(tile).matrices().k;
    const size_t size = size_of(multiplied());
    walk.a.assign(static_cast<size_t>(tile.rows * k) * size, 0);
    walk.b.assign(static_cast<size_t>(tile.columns * k) * size, 0);
    const int64_t packet = tiling_.bk * tiling_.step_k;
    const int64_t packets = divide_up(k, packet);
    const int64_t ahead = tiling_.double_buffer ? 1 : 0;
    for (int64_t i = 0; i < packets + ahead; ++i) {
      if (i < packets) bring_packet(walk, tile, i, std::min(packet, k - i * packet));
      const int64_t next = i - ahead;
      if (next < 0) continue;
      const int64_t length = std::min(packet, k - next * packet);
      for (int64_t at = 0; at < length; at += tiling_.bk) {
        load_step(walk, tile, next, at, length);
      }
    }
    walk.core.end_tile();
  }

  size_t buffer_of(int64_t turn) const {
    return tiling_.double_buffer ? static_cast<size_t>(turn % 2) : 0;
  }

  void bring_packet(Walk& walk, const PlannedTile& tile, int64_t number, int64_t length) const {
    const int64_t k = number * tiling_.bk * tiling_.step_k;
    const MultipliedMatrices& from = of_tile(tile);
    const CubeProblem& p = from.cube.problem;
    const size_t batch = number_of(tile), size = size_of(p.a);
    const size_t buffer = buffer_of(number);
    from.a.read(walk.args, walk.lines_a, batch,
                along_k(p.transpose_a, tile.row, tile.rows, k, length),
                walk.core.refill(kL1A + buffer, static_cast<size_t>(tile.rows * length) * size));
    from.b.read(walk.args, walk.lines_b, batch,
                along_k(!p.transpose_b, tile.column, tile.columns, k, length),
                walk.core.refill(kL1B + buffer, static_cast<size_t>(tile.columns * length) * size));
  }

  // One step of bk from L1 to L0A and L0B, and on to the cube.
  void load_step(Walk& walk, const PlannedTile& tile, int64_t number, int64_t at,
                 int64_t length) const {
    const CubeProblem& p = of_tile(tile).cube.problem;
    const auto all = static_cast<int64_t>(p.k);
    const int64_t k = number * tiling_.bk * tiling_.step_k + at;
    const int64_t count = std::min(tiling_.bk, length - at);
    const size_t size = size_of(p.a);
    const size_t from = buffer_of(number), to = buffer_of(at / tiling_.bk);
    char* left = walk.core.refill(kL0A + to, static_cast<size_t>(tile.rows * count) * size);
    char* right = walk.core.refill(kL0B + to, static_cast<size_t>(tile.columns * count) * size);
    copy_steps(p.transpose_a, tile.rows, walk.core.at(kL1A + from), at, length, left, 0, count,
               count, size);
    copy_steps(!p.transpose_b, tile.columns, walk.core.at(kL1B + from), at, length, right, 0, count,
               count, size);
    copy_steps(p.transpose_a, tile.rows, left, 0, count, walk.a.data(), k, all, count, size);
    copy_steps(!p.transpose_b, tile.columns, right, 0, count, walk.b.data(), k, all, count, size);
  }

  // The tile of a phase that no tap meets.
  static void clear(Walk& walk, const PlannedTile& tile) {
    const size_t bytes = static_cast<size_t>(tile.rows * tile.columns) * sizeof(float);
    std::memset(walk.core.refill(kL0C, bytes), 0, bytes);
    walk.core.end_tile();
  }

  // C's tile, in L0C.
  void multiply(Walk& walk, const PlannedTile& tile) const {
    const CubePlan& of_all = of_tile(tile).cube;
    const CubeProblem& p = of_all.problem;
    const auto rows = static_cast<size_t>(tile.rows), columns = static_cast<size_t>(tile.columns);
    const size_t size = size_of(p.a);
    CubeArgs cube;
    cube.a_stride = p.transpose_a ? rows : p.k;
    cube.b_stride = p.transpose_b ? p.k : columns;
    CubeProblem problem = p;
    CubeRange range{static_cast<size_t>(tile.row), 0, static_cast<size_t>(tile.column), 0};
    // Columns of windows are copied whole: there are those of the tile.
    if (p.a_windows && p.transpose_a) {
      range.m0 = 0;
      problem.m = rows;
    }
    range.m1 = range.m0 + rows;
    range.n1 = range.n0 + columns;
    const auto first = static_cast<int64_t>(range.m0);
    cube.a =
        origin_of(walk.a.data(), first * (p.transpose_a ? 1 : static_cast<int64_t>(p.k)), size);
    cube.b = origin_of(walk.b.data(), tile.column * (p.transpose_b ? static_cast<int64_t>(p.k) : 1),
                       size);
    cube.c = reinterpret_cast<float*>(walk.core.refill(kL0C, rows * columns * sizeof(float)));
    cube.c_stride = columns;
    cube.c_row = range.m0;
    cube.c_column = range.n0;
    const auto laid_out = [&](std::optional<WindowRows>& windows, bool k_is_line, size_t extent,
                              size_t stride) {
      if (windows)
        windows = plain_windows(k_is_line ? p.k : extent, k_is_line ? extent : p.k, stride);
    };
    laid_out(problem.a_windows, p.transpose_a, problem.m, cube.a_stride);
    laid_out(problem.b_windows, !p.transpose_b, p.n, cube.b_stride);
    const CubePlan plan = cube_over(of_all, problem);
    const size_t scratch = cube_scratch_bytes(plan, rows, columns);
    walk.scratch.resize(scratch + 64);
    if (of_all.taps == nullptr || is_finite(walk.b, p.k * columns))
      cube_block(plan, cube, range, aligned(walk.scratch));
    else
      multiply_by_taps(walk, tile, plan, cube, range);
    walk.core.end_tile();
  }

  static bool is_finite(const std::vector<char>& b, size_t count) {
    const auto* values = reinterpret_cast<const float*>(b.data());
    return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
  }

  // A tap that is outside of the image is no term, while zero times infinity would be one: each
  // tap's rows are multiplied by those of B alone whose windows have it inside.
  void multiply_by_taps(Walk& walk, const PlannedTile& tile, const CubePlan& plan, CubeArgs cube,
                        const CubeRange& range) const {
    const CubeTaps& taps = *of_tile(tile).cube.taps;
    const size_t k = plan.problem.k, columns = range.n1 - range.n0;
    const auto* from = reinterpret_cast<const float*>(walk.b.data());
    const auto first = static_cast<size_t>(tile.row), end = first + (range.m1 - range.m0);
    std::vector<TapRun> runs(k);
    for (size_t row = first, next = 0; row < end; row = next) {
      const size_t tap = taps.tap_of(row);
      next = std::min(end, (tap + 1) * taps.rows_of_tap());
      std::vector<float> inside(k * columns, 0.0f);
      const size_t listed = taps.list_runs(tap, 0, k, runs.data());
      for (size_t i = 0; i < listed; ++i) {
        const size_t at = runs[i].k * columns;
        std::copy_n(from + at, runs[i].length * columns, inside.data() + at);
      }
      cube.b = origin_of(inside.data(), tile.column, sizeof(float));
      const CubeRange of_tap{row - first, next - first, range.n0, range.n1};
      cube_block(plan, cube, of_tap, aligned(walk.scratch));
    }
  }

  static char* aligned(std::vector<char>& memory) {
    const auto at = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (64 - at % 64) % 64;
  }

  // Rounds the tile and takes it through the epilogue, or out where there is none.
  void finish(Walk& walk, const PlannedTile& tile) const {
    const size_t size = size_of(result_.dtype);
    const char* values = walk.core.at(kL0C);
    std::vector<char> rounded;
    if (round_ != nullptr) {
      const auto count = static_cast<size_t>(tile.rows * tile.columns);
      rounded.resize(count * size);
      VectorCall call;
      call.dst = rounded.data();
      call.src[0] = values;
      call.n = count;
      call.status = &walk.status;
      round_(call);
      values = rounded.data();
    }
    if (rows_) return follow_rows(walk, tile, values);
    if (epilogue_) return follow(walk, tile, values);
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t at = element_of(tile, i, 0);
      walk.written[0].write(walk.core, at, tile.columns);
      std::memcpy(static_cast<char*>(walk.args[outputs_at_]) + static_cast<size_t>(at) * size,
                  values + static_cast<size_t>(i * tile.columns) * size,
                  static_cast<size_t>(tile.columns) * size);
    }
  }

  // The element of the result that the tile's matrix begins with.
  int64_t start_of(const PlannedTile& tile) const {
    return of_tile(tile).matrices().batch[number_of(tile)].c;
  }

  int64_t element_of(const PlannedTile& tile, int64_t row, int64_t column) const {
    const ProductPhase& phase = of_tile(tile).phase;
    const int64_t number = tile.row + row;
    const int64_t place = has_phases_ ? phase.place_of(number) : number * phase.matrices.c_stride;
    return start_of(tile) + place + tile.column + column;
  }

  // The epilogue, in pieces of the tile that unified buffer holds twice.
  void follow(Walk& walk, const PlannedTile& tile, const char* values) const {
    const size_t size = size_of(result_.dtype);
    const int64_t all = tile.rows * tile.columns;
    int buffer = 0;
    for (int64_t done = 0; done < all; done += epilogue_tile_, buffer = 1 - buffer) {
      const int64_t count = std::min(epilogue_tile_, all - done);
      const BroughtProgram::Place place{walk.core, kUnified, epilogue_tile_, 2, buffer};
      epilogue_->begin(place, count);
      std::memcpy(epilogue_->input(place, 0), values + static_cast<size_t>(done) * size,
                  static_cast<size_t>(count) * size);
      for_rows(tile, done, count, [&](int64_t element, int64_t elements, int64_t at) {
        epilogue_->bring(place, walk.args, element, elements, at);
      });
      walk.status |= epilogue_->compute(place, walk.args, count);
      for_rows(tile, done, count, [&](int64_t element, int64_t elements, int64_t at) {
        epilogue_->take_out(place, walk.args, element, elements, at, walk.written);
      });
    }
  }

  // The row-wise ops, once all columns of the tile's rows are there.
  void follow_rows(Walk& walk, const PlannedTile& tile, const char* values) const {
    const RowEpilogue::Place place{walk.core, kUnified};
    const ProductMatrices& matrices = of_tile(tile).matrices();
    const int64_t n = matrices.n, row = start_of(tile) / matrices.c_stride + tile.row;
    if (gathers_) {
      const size_t size = size_of(result_.dtype);
      char* gathered = rows_->gathered(place);
      for (int64_t i = 0; i < tile.rows; ++i) {
        std::memcpy(gathered + static_cast<size_t>(i * n + tile.column) * size,
                    values + static_cast<size_t>(i * tile.columns) * size,
                    static_cast<size_t>(tile.columns) * size);
      }
      values = gathered;
    }
    if (tile.column + tile.columns < n) return;
    walk.status |= rows_->run(place, walk.args, values, row, tile.rows, walk.written);
  }

  // Calls f(element of C, elements, place in the piece) for the parts of rows that elements [begin,
  // begin + count) of the tile are.
  template <class F>
  void for_rows(const PlannedTile& tile, int64_t begin, int64_t count, const F& f) const {
    for (int64_t at = 0; at < count;) {
      const int64_t row = (begin + at) / tile.columns, column = (begin + at) % tile.columns;
      const int64_t elements = std::min(tile.columns - column, count - at);
      f(element_of(tile, row, column), elements, at);
      at += elements;
    }
  }

  CubeTiling tiling_;
  bool has_phases_;
  std::vector<MultipliedMatrices> multiplied_;
  Type result_;  // of the product, rounded
  size_t outputs_at_;
  VectorInstruction round_ = nullptr;
  std::optional<BroughtProgram> epilogue_;
  int64_t epilogue_tile_ = 0;
  std::optional<RowEpilogue> rows_;
  bool gathers_ = false;  // a tile has fewer columns than the rows
  std::vector<PackedResult> packed_results_;
};

TilePlan tiles_of_product(const PlannedRequest& request) {
  return plan_product(request.launch.product, request.launch.tiling);
}

// The phases differ in rows, of which the work has as many as the longest for each.
TilePlan tiles_of_phases(const PlannedRequest& request) {
  TilePlan plan = tiles_of_product(request);
  const std::vector<ProductPhase> phases = product_phases(request.anchored.anchor());
  const auto groups = static_cast<int64_t>(phases.front().matrices.batch.size());
  for (std::vector<PlannedTile>& core : plan.cores) {
    for (PlannedTile& tile : core) {
      const int64_t rows = phases[static_cast<size_t>(tile.batch / groups)].matrices.m;
      tile.rows = std::min(tile.rows, std::max<int64_t>(0, rows - tile.row));
    }
    std::erase_if(core, [](const PlannedTile& tile) { return tile.rows == 0; });
  }
  return plan;
}

PlannedLaunch run_of(const PlannedRequest& request, TilePlan plan) {
  auto run = std::make_shared<PlannedProduct>(request, std::move(plan));
  if (!run->fits()) {
    return {nullptr,
            "a row of the product, with what belongs to it, does not fit in the unified "
            "buffer of " +
                request.preset->name};
  }
  return {std::move(run), ""};
}

PlannedLaunch make_product_run(const PlannedRequest& request, TilePlan plan) {
  if (request.anchored.matrices().parts > 1)
    return {nullptr, "the host sums parts of k one by one, and the plan's cores all of k"};
  return run_of(request, std::move(plan));
}

}  // namespace

const PlannedEntry kPlannedProduct{.tiles = tiles_of_product, .run = make_product_run};
const PlannedEntry kPlannedPhases{.tiles = tiles_of_phases, .run = run_of};

}  // namespace keel::npu
