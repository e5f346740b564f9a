#include "keel/backends/common/products/cube_kernel.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/float_status.h"
#include "keel/backends/common/indices.h"
#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/common/products/operand_load.h"
#include "keel/backends/common/products/prepacked_weight.h"
#include "keel/backends/common/products/work_of_block.h"
#include "keel/backends/common/vector/byte_operand.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/parallel_for.h"

namespace keel {
namespace {

constexpr int64_t kMostCubeBlocks = 64;
constexpr int64_t kHeldFloats = int64_t{1} << 17;  // in half of a core's L2
constexpr size_t kHeldBytes = kHeldFloats * sizeof(float);
constexpr int64_t kPairOfRows = 2;  // which tiles of fewer rows than others have as a multiple

// Splits C of each product in the batch into tiles of whole rows or columns. Where it is rounded or
// goes through an epilogue, a tile is computed piece by piece in the block's workspace. A phase
// before that packs a right operand that all tiles read; a phase after it packs the copies that
// pieces cannot. Where k is long and C is small, blocks share panels of k as well: a phase computes
// the sums of each panel, and what was the tile's product is to add them up in order.
class CubeKernel final : public Kernel {
 public:
  CubeKernel(const AnchoredNode& fused, const PlanRequest& request)
      : matrices_(fused.matrices()),
        a_at_(fused.source(matrices_.a.input).value()),
        b_at_(fused.source(matrices_.b.input).value()),
        outputs_at_(fused.node().inputs().size()),
        arguments_(outputs_at_ + fused.node().types().size()),
        result_(fused.anchor().type().dtype) {
    CubeProblem problem = cube_problem(fused);
    bytes_ = vector::bytes_of(fused);
    find_packed_operand(fused, request.layouts, problem);
    find_gathered_rows(fused);
    plan_ = plan_cube(problem);
    count_ = static_cast<int64_t>(matrices_.batch.size());
    results_ = static_cast<size_t>(fused.anchor().type().shape.num_elements());
    if (result_ != f32)
      round_ = vector::find_instruction("cast", f32, result_, request.saturate_f16);
    if (fused.has_epilogue()) epilogue_ = request.epilogues.of(fused, matrices_.c_stride);
    whole_rows_ = !fused.row_wise().empty();
    reports_status_ = request.saturate_f16 && results_ != 0 && vector::computes_f16(fused.node());
    cut_tiles();
    split_k(fused);
    share_right_operand(problem);
    find_packed_results(fused.node(), request.layouts);
    find_sum(fused);
  }

  size_t workspace_bytes() const {
    return static_cast<size_t>(blocks_) * scratch_ + shared_ + panels_ * panel_bytes();
  }
  // In the word behind the workspace.
  bool reports_status() const { return reports_status_; }
  std::vector<KernelPlan::InPlace> in_place() const {
    return epilogue_ ? epilogue_->in_place() : std::vector<KernelPlan::InPlace>{};
  }
  int phases() const override {
    return (prepares() ? 1 : 0) + (splits_k() ? 1 : 0) + 1 + (packs_last_ ? 1 : 0);
  }
  int blocks(int) const override { return blocks_; }

  void run(void* const* args, int phase, int block) const override {
    if (prepares() && phase-- == 0) return prepare(args, block);
    char* scratch = static_cast<char*>(args[arguments_]) + static_cast<size_t>(block) * scratch_;
    if (splits_k() && phase-- == 0) return multiply_panels(args, block, scratch);
    if (phase == 1) return pack_last(args, block);
    uint32_t status = 0;
    if (rows_ && !splits_k())
      locate_rows(args, reinterpret_cast<size_t*>(scratch + scratch_ - starts_));
    const int64_t all = tiles_ * count_;
    for (int64_t i = all * block / blocks_; i < all * (block + 1) / blocks_; ++i) {
      status |= splits_k() ? add_panels(args, tile(i), scratch)
                           : multiply(args, i / tiles_, tile(i % tiles_), scratch);
    }
    if (reports_status_) raise_float_status(args[arguments_ + 1], status);
  }

 private:
  // Results that are a state's next value, with copies of it in their buffer.
  struct PackedResult {
    size_t argument = 0;
    PrepackedWeight copies;
    std::vector<bool> by_piece;  // of each copy, whether pieces of the result are packed
  };

  void find_packed_operand(const AnchoredNode& fused, const StateLayouts& layouts,
                           CubeProblem& problem) {
    const auto use = copy_read_by(fused, layouts);
    if (!use) return;
    const Value right = fused.stored(1);
    problem.packed_b = true;
    packed_at_ = PrepackedWeight(right.type(), layout_of(layouts, right)->layout).offset(*use);
  }

  // Tiles of rows would each load all of the right operand, and of images under windows that are
  // columns of A as much. Sums of panels are written and read once more.
  void split_k(const AnchoredNode& fused) {
    const CubeProblem& p = plan_.problem;
    const bool one_tile = tiles_ == 1;
    if ((by_columns_ && !one_tile) || count_ != 1) return;
    const bool halves = cube_halves_k(plan_);
    if (!halves && (p.packed_b || rows_)) return;
    // What a thread keeps of the left operand is of use to a product of its transpose.
    if (halves && p.m * p.k * size_of(p.a) > kHeldBytes) return;
    const size_t panels = cube_panels(plan_);
    const auto worth = static_cast<int64_t>(p.m * p.n * p.k) / kWorkOfABlock;
    if (one_tile && std::min<int64_t>(worth, compute_threads()) < 2) return;
    const bool over_windows = p.a_windows && p.transpose_a;
    const Shape& left = fused.stored(matrices_.a.input).shape();
    const size_t images = over_windows ? static_cast<size_t>(left.num_elements()) : 0;
    if (panels == 1) return;
    if (!halves && 2 * panels * p.m * p.n > p.k * p.n + images) return;
    panels_ = panels;
    if (one_tile) {  // which is of whole rows, too
      by_columns_ = false;
      side_ = static_cast<int64_t>(p.m);
      step_ = static_cast<int64_t>(cube_step(plan_).rows);
      blocks_ = static_cast<int>(std::clamp<int64_t>(
          std::min({worth, static_cast<int64_t>(panels), static_cast<int64_t>(compute_threads())}),
          1, kMostCubeBlocks));
    }
    add_ = vector::find_instruction("add", f32, f32);
    cube_scratch_ = align_up(cube_scratch_bytes(plan_, p.m, p.n), 64);
    // Tiles are rounded and finished with all of their columns at once.
    size_t rows = 0;
    for (int64_t i = 0; i < tiles_; ++i) rows = std::max(rows, tile(i).m1 - tile(i).m0);
    if (rounded_ != 0) rounded_ = align_up(rows * p.n * size_of(result_), 64);
    scratch_ = cube_scratch_ + sums_ + rounded_ + rows_of_piece_ + starts_;
  }

  bool splits_k() const { return panels_ != 0; }
  size_t panel_bytes() const { return plan_.problem.m * plan_.problem.n * sizeof(float); }
  float* panel(void* const* args, size_t number) const {
    char* first = static_cast<char*>(args[arguments_]) + static_cast<size_t>(blocks_) * scratch_;
    return reinterpret_cast<float*>(first + number * panel_bytes());
  }

  // The block's share of all panels' tiles, those of a panel that are neighbours together.
  void multiply_panels(void* const* args, int block, char* scratch) const {
    if (rows_) locate_rows(args, reinterpret_cast<size_t*>(scratch + scratch_ - starts_));
    const int64_t all = static_cast<int64_t>(panels_) * tiles_;
    const int64_t end = all * (block + 1) / blocks_;
    for (int64_t i = all * block / blocks_; i < end;) {
      const int64_t first = i % tiles_, tiles = std::min(tiles_ - first, end - i);
      CubeRange range = tile(first);
      range.m1 = tile(first + tiles - 1).m1;
      const auto number = static_cast<size_t>(i / tiles_);
      cube_panel(plan_, operands(args, 0, scratch), number, range, scratch, panel(args, number));
      i += tiles;
    }
  }

  // Adds up the panels of parts [begin, end), those of each in order, to the first of them.
  void add_panels_between(void* const* args, size_t begin, size_t end, size_t at,
                          size_t count) const {
    const size_t of_part = panels_ / plan_.problem.parts;
    const auto add = [&](size_t to, size_t number) {
      VectorCall call;
      call.n = count;
      call.dst = panel(args, to) + at;
      call.src[0] = call.dst;
      call.src[1] = panel(args, number) + at;
      add_(call);
    };
    if (end - begin == 1) {
      for (size_t i = 1; i < of_part; ++i) add(begin * of_part, begin * of_part + i);
      return;
    }
    const size_t middle = begin + (end - begin) / 2;
    add_panels_between(args, begin, middle, at, count);
    add_panels_between(args, middle, end, at, count);
    add(begin * of_part, middle * of_part);
  }

  uint32_t add_panels(void* const* args, const CubeRange& range, char* scratch) const {
    constexpr size_t kAtOnce = 2048;  // sums that stay in the first cache
    const size_t first = range.m0 * plan_.problem.n, end = range.m1 * plan_.problem.n;
    float* const sums = panel(args, 0);
    for (size_t at = first; at < end; at += kAtOnce) {
      add_panels_between(args, 0, plan_.problem.parts, at, std::min(kAtOnce, end - at));
    }
    const int64_t start = matrices_.batch[0].c;
    if (sums_ != 0)
      return finish(args, start, range, sums + first, scratch + cube_scratch_ + sums_);
    float* to = static_cast<float*>(args[outputs_at_]) + start;
    const auto c_stride = static_cast<size_t>(matrices_.c_stride);
    for (size_t row = range.m0; row < range.m1; ++row) {
      std::copy_n(sums + row * plan_.problem.n, plan_.problem.n, to + row * c_stride);
    }
    return 0;
  }

  // Tiles of rows would each pack all of the right operand.
  void share_right_operand(CubeProblem problem) {
    if (problem.packed_b || by_columns_ || tiles_ == 1 || count_ != 1 || splits_k()) return;
    if (cube_leaves_stored(plan_) || !cube_shares_packed(plan_)) return;
    problem.packed_b = true;
    plan_ = plan_cube(problem);
    cut_tiles();
    shared_ = align_up(cube_packed_bytes(plan_), 64);
  }

  // An input that the product is added to, and no more, can be C itself.
  void find_sum(const AnchoredNode& fused) {
    if (fused.epilogue().size() != 1 || !fused.row_wise().empty() || round_ != nullptr) return;
    if (!cube_adds(plan_) || splits_k() || !packed_results_.empty()) return;
    const Node& add = *fused.epilogue()[0];
    const Value product = fused.anchor().output();
    if (add.op_name() != "add" || fused.output_number(add.output()) != 0) return;
    const Value other = add.input(add.input(0) == product ? 1 : 0);
    if (other == product || other.shape() != product.shape()) return;
    added_at_ = fused.input_number(other);
  }

  void* shared(void* const* args) const {
    return static_cast<char*>(args[arguments_]) + static_cast<size_t>(blocks_) * scratch_;
  }

  bool prepares() const { return shared_ != 0; }
  void prepare(void* const* args, int block) const {
    const auto stride = static_cast<size_t>(matrices_.b.stride);
    cube_pack_share(plan_, args[b_at_], stride, block, blocks_, shared(args));
  }

  void find_packed_results(const Node& node, const StateLayouts& layouts) {
    for (size_t i = 0; i < node.types().size(); ++i) {
      const auto it = layouts.find(node.output(i));
      if (it == layouts.end()) continue;
      PackedResult packed{outputs_at_ + i, PrepackedWeight(node.type(i), it->second.layout), {}};
      for (size_t copy = 0; copy < packed.copies.count(); ++copy) {
        packed.by_piece.push_back(packed.copies.takes_pieces(copy, cut_step()));
        packs_last_ = packs_last_ || !packed.by_piece.back();
      }
      packed_results_.push_back(std::move(packed));
    }
  }

  // A piece of the next value, while the caches have it.
  void pack_piece(void* const* args, const TileRectangle& piece) const {
    for (const PackedResult& packed : packed_results_) {
      auto* state_buffer = static_cast<char*>(args[packed.argument]);
      for (size_t copy = 0; copy < packed.by_piece.size(); ++copy) {
        if (packed.by_piece[copy]) packed.copies.pack_piece(copy, state_buffer, piece);
      }
      if (piece.row == 0 && piece.column == 0) packed.copies.fill_gaps(state_buffer);
    }
  }

  void pack_last(void* const* args, int block) const {
    for (const PackedResult& packed : packed_results_) {
      for (size_t copy = 0; copy < packed.by_piece.size(); ++copy) {
        if (packed.by_piece[copy]) continue;
        packed.copies.pack_share(copy, static_cast<char*>(args[packed.argument]), block, blocks_);
      }
    }
  }

  void find_gathered_rows(const AnchoredNode& fused) {
    rows_ = fused.row_numbers_of(0);
    if (!rows_) return;
    const Shape& table = fused.stored(0).shape();
    rows_dtype_ = fused.node().input(*rows_).dtype();
    row_count_ = fused.node().input(*rows_).shape().num_elements();
    table_rows_ = table[0];
    starts_ = align_up(static_cast<size_t>(row_count_) * sizeof(size_t), 64);
  }

  // Where the gathered rows begin. Each block looks at all numbers, so that none has written
  // anything where one is out of range.
  void locate_rows(void* const* args, size_t* starts) const {
    const CubeProblem& p = plan_.problem;
    const size_t row = p.transpose_a ? p.m : p.k;
    with_indices(rows_dtype_, args[*rows_], [&](const auto* numbers) {
      check_indices(numbers, row_count_, table_rows_, "gather", 0);
      for (int64_t i = 0; i < row_count_; ++i) starts[i] = static_cast<size_t>(numbers[i]) * row;
    });
  }

  void cut_tiles() {
    const auto m = static_cast<int64_t>(plan_.problem.m);
    const auto n = static_cast<int64_t>(plan_.problem.n);
    const int64_t work = m * n * std::max<int64_t>(1, static_cast<int64_t>(plan_.problem.k));
    // Each tile packs the other operand anew: no more of them than the threads can share evenly,
    // and cut where what is packed again is the smaller one. The bits are the same for any tiles.
    const int64_t shares = (compute_threads() + count_ - 1) / std::max<int64_t>(1, count_);
    const int64_t wanted =
        std::clamp<int64_t>(std::min(shares, work / kWorkOfABlock), 1, kMostCubeBlocks);
    const CubeStep step = cube_step(plan_);
    // Rows are what other kernels split, too: a thread finds in its cache what it made of them,
    // where each can keep all of the right operand there and need not pack it.
    const bool keeps_rows = cube_leaves_stored(plan_) && !plan_.problem.transpose_a &&
                            n * static_cast<int64_t>(plan_.problem.k) <= kHeldFloats;
    by_columns_ = n > m && !whole_rows_ && !keeps_rows;
    // The longer side may be a single step of the kernel: then the other one is cut, if it has
    // more.
    const auto steps_of = [](int64_t side, size_t one) {
      return (side + static_cast<int64_t>(one) - 1) / static_cast<int64_t>(one);
    };
    const int64_t by_rows = steps_of(m, step.rows), by_columns = steps_of(n, step.columns);
    if (by_columns_ ? by_columns == 1 && by_rows > 1
                    : by_rows == 1 && by_columns > 1 && !whole_rows_) {
      by_columns_ = !by_columns_;
    }
    side_ = by_columns_ ? n : m;
    step_ = static_cast<int64_t>(by_columns_ ? step.columns : step.rows);
    if (!by_columns_ && keeps_rows) step_ = kPairOfRows;  // few rows: whole tiles would be uneven
    tiles_ = std::clamp<int64_t>(steps(), 1, wanted);
    const int64_t worth = std::max<int64_t>(1, work * count_ / kWorkOfABlock);
    blocks_ =
        static_cast<int>(std::clamp<int64_t>(std::min(tiles_ * count_, worth), 1, kMostCubeBlocks));
    size_t rows = plan_.problem.m, columns = plan_.problem.n;
    int64_t widest = 0;
    for (int64_t i = 0; i < tiles_; ++i) widest = std::max(widest, edge(i + 1) - edge(i));
    (by_columns_ ? columns : rows) = static_cast<size_t>(widest);
    cube_scratch_ = align_up(cube_scratch_bytes(plan_, rows, columns), 64);
    const size_t piece = cube_piece_elements(plan_, rows, columns);
    if (round_ != nullptr || epilogue_) sums_ = align_up(piece * sizeof(float), 64);
    if (round_ != nullptr && epilogue_) rounded_ = align_up(piece * size_of(result_), 64);
    if (epilogue_) rows_of_piece_ = align_up(epilogue_->scratch_bytes(rows), 64);
    scratch_ = cube_scratch_ + sums_ + rounded_ + rows_of_piece_ + starts_;
  }

  // Tiles begin at multiples of this, and so do the pieces that they are finished in.
  CubeStep cut_step() const {
    CubeStep step = cube_step(plan_);
    (by_columns_ ? step.columns : step.rows) = static_cast<size_t>(step_);
    return step;
  }

  // Counts rows or columns of the side that is cut, in whole steps of the kernel.
  int64_t steps() const { return (side_ + step_ - 1) / step_; }

  // Where tile `i` begins: at the step nearest to an even cut, the later one of two, since the
  // caller's own tile, the first, begins first.
  int64_t edge(int64_t i) const {
    return i == tiles_ ? side_ : std::min(side_, (side_ * i / tiles_ + step_ / 2) / step_ * step_);
  }

  CubeRange tile(int64_t index) const {
    const auto begin = static_cast<size_t>(edge(index)), end = static_cast<size_t>(edge(index + 1));
    const CubeProblem& p = plan_.problem;
    if (by_columns_) return {0, p.m, begin, end};
    return {begin, end, 0, p.n};
  }

  // One tile; `scratch` is the block's. Returns the status bits raised.
  uint32_t multiply(void* const* args, int64_t batch, const CubeRange& range, char* scratch) const {
    if (range.m1 <= range.m0 || range.n1 <= range.n0) return 0;
    const ProductMatrices::Starts& at = matrices_.batch[static_cast<size_t>(batch)];
    CubeArgs cube = operands(args, batch, scratch);
    cube.adds = added_at_ && args[*added_at_] == args[outputs_at_];
    if (sums_ == 0 || cube.adds) {
      cube.c = static_cast<float*>(args[outputs_at_]) + at.c;
      cube.c_stride = static_cast<size_t>(matrices_.c_stride);
      cube_block(plan_, cube, range, scratch);
      return 0;
    }
    auto* sums = reinterpret_cast<float*>(scratch + cube_scratch_);
    uint32_t status = 0;
    cube_pieces(plan_, cube, range, scratch, sums, [&](const CubeRange& piece) {
      status |= finish(args, at.c, piece, sums, scratch + cube_scratch_ + sums_);
    });
    return status;
  }

  CubeArgs operands(void* const* args, int64_t batch, char* scratch) const {
    const CubeProblem& p = plan_.problem;
    const ProductMatrices::Starts& at = matrices_.batch[static_cast<size_t>(batch)];
    CubeArgs cube;
    cube.a = static_cast<const char*>(args[a_at_]) + static_cast<size_t>(at.a) * size_of(p.a);
    cube.b = static_cast<const char*>(args[b_at_]) + static_cast<size_t>(at.b) * size_of(p.b) +
             packed_at_;
    cube.a_stride = static_cast<size_t>(matrices_.a.stride);
    cube.b_stride = static_cast<size_t>(matrices_.b.stride);
    if (shared_ != 0) cube.b = shared(args);
    cube.bytes = bytes_ ? &*bytes_ : nullptr;
    if (rows_) cube.a_rows = reinterpret_cast<const size_t*>(scratch + scratch_ - starts_);
    return cube;
  }

  // Rounds a piece of sums and takes it through the epilogue, or to the output where there is none.
  // `start`: the element of the result that C begins with.
  uint32_t finish(void* const* args, int64_t start, const CubeRange& range, float* sums,
                  char* rounded) const {
    const size_t rows = range.m1 - range.m0, columns = range.n1 - range.n0;
    uint32_t status = 0;
    void* values = sums;
    if (round_ != nullptr && epilogue_) {
      round(sums, rounded, rows * columns, &status);
      values = rounded;
    }
    if (epilogue_) {
      const TileRectangle piece{start / matrices_.c_stride + static_cast<int64_t>(range.m0),
                                static_cast<int64_t>(rows),
                                start % matrices_.c_stride + static_cast<int64_t>(range.n0),
                                static_cast<int64_t>(columns)};
      status |=
          epilogue_->run(args, values, piece, static_cast<int64_t>(columns), rounded + rounded_);
      pack_piece(args, piece);
      return status;
    }
    const auto c_stride = static_cast<size_t>(matrices_.c_stride);
    char* out = static_cast<char*>(args[outputs_at_]) +
                (static_cast<size_t>(start) + range.m0 * c_stride + range.n0) * size_of(result_);
    if (columns == c_stride) {
      round(sums, out, rows * columns, &status);
      return status;
    }
    for (size_t row = 0; row < rows; ++row, out += c_stride * size_of(result_)) {
      round(sums + row * columns, out, columns, &status);
    }
    return status;
  }

  void round(const float* from, void* to, size_t count, uint32_t* status) const {
    VectorCall call;
    call.dst = to;
    call.src[0] = from;
    call.n = count;
    call.status = status;
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): there is one wherever sums are rounded.
    round_(call);
  }

  ProductMatrices matrices_;
  size_t a_at_, b_at_, outputs_at_, arguments_;  // numbers of arguments
  DType result_;  // of the product: f32 as accumulated, or the operands'
  VectorInstruction round_ = nullptr;
  std::optional<vector::ByteMap> bytes_;             // of operand a
  std::shared_ptr<const ProductEpilogue> epilogue_;  // null: none
  bool reports_status_ = false;
  size_t packed_at_ = 0;            // bytes from operand b to the copy of it that is multiplied
  std::optional<size_t> added_at_;  // the argument that the epilogue adds the product to
  std::vector<PackedResult> packed_results_;
  bool packs_last_ = false;
  CubePlan plan_;
  int64_t count_ = 1;
  bool whole_rows_ = false;  // what the epilogue wants
  bool by_columns_ = false;
  int64_t side_ = 0, step_ = 1;  // what is cut, and the kernel's step along it
  int64_t tiles_ = 1;
  int blocks_ = 1;
  // Set where the rows of operand a are gathered from a table: the argument with their numbers.
  std::optional<size_t> rows_;
  DType rows_dtype_ = i32;
  int64_t row_count_ = 0, table_rows_ = 0;
  // Bytes of a block's workspace.
  size_t cube_scratch_ = 0, sums_ = 0, rounded_ = 0, rows_of_piece_ = 0, starts_ = 0;
  size_t scratch_ = 0;
  // Behind all blocks' workspaces: bytes of the right operand, packed, or panels of sums.
  size_t shared_ = 0, panels_ = 0;
  VectorInstruction add_ = nullptr;  // for these
  size_t results_ = 0;
};

// Rows are at hand whole where they are no wider than a piece, and cost no thread its share where C
// is cut by rows anyway, or not at all. REQUIRES loads that are supported.
Support supports_rows(const AnchoredNode& fused) {
  if (fused.row_wise().empty()) return {true, ""};
  const ProductMatrices& matrices = fused.matrices();
  if (matrices.n != fused.anchor().type().shape.back()) {
    return {false,
            "a row of " + to_string(fused.anchor().type().shape) + " is no row of a product"};
  }
  const CubePlan plan = plan_cube(cube_problem(fused));
  const auto& [m, n, k] = std::tie(plan.problem.m, plan.problem.n, plan.problem.k);
  if (const size_t widest = cube_widest_piece(plan); n > widest) {
    return {false, "rows of " + std::to_string(n) + " columns, more than " +
                       std::to_string(widest) + ", are not at hand at once"};
  }
  if (n <= m || m * n * k / static_cast<size_t>(kWorkOfABlock) <= 1) return {true, ""};
  return {false, "a product of " + std::to_string(m) + " rows is dealt to threads by its " +
                     std::to_string(n) + " columns"};
}

}  // namespace

Support supports_cube(const AnchoredNode& fused) {
  const DType dtype = fused.anchor().input(0).dtype();
  if (dtype != f32 && dtype != f16 && dtype != bf16) {
    return {false,
            std::string("the cube has no ") + name_of(dtype) + "; it multiplies f32, f16 and bf16"};
  }
  if (!fused.why_no_matrices().empty()) return {false, fused.why_no_matrices()};
  for (size_t i = 0; i < fused.anchor().inputs().size(); ++i) {
    if (Support s = supports_load(fused, i); !s.supported) return s;
  }
  if (Support s = supports_rows(fused); !s.supported) return s;
  return supports_epilogue(fused, vector::instruction_lookup(), vector::make_softmax_rows);
}

KernelPlan plan_cube_kernel(const AnchoredNode& node, const PlanRequest& request) {
  return plan_of(std::make_unique<CubeKernel>(node, request));
}

}  // namespace keel
