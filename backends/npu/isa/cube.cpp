#include "keel/backends/npu/isa/cube.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/window_copy.h"
#include "keel/backends/npu/isa/cube_kernels.h"
#include "keel/backends/npu/isa/cube_windows.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/ops/product_bound.h"

namespace keel::npu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kRowBlock = 64;  // rows of A packed at a time: with their sums they stay in L2
constexpr size_t kColumnBlock = 1024;  // columns of B packed at a time

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

// kRowBlock in whole register tiles.
size_t row_block(const CubeKernels& kernels) {
  return std::max(kernels.rows, kRowBlock / kernels.rows * kernels.rows);
}

// kColumnBlock and what is missing to whole register tiles.
size_t column_block(const CubeKernels& kernels) { return round_up(kColumnBlock, kernels.cols); }

bool has_windows(const CubeProblem& p) { return p.a_windows || p.b_windows; }

using TallSkinnyKernel = void (*)(const TallSkinnyCall&);

// The kernel for products with few columns or rows, where there is one for the shape; else nullptr.
TallSkinnyKernel tall_skinny_kernel(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  if (p.k == 0 || p.k > kTallSkinnyMaxK || has_windows(p)) return nullptr;
  if (p.n <= kNarrowColumns) {
    return p.transpose_a ? plan.kernels->tall_skinny_columns : plan.kernels->tall_skinny_rows;
  }
  return p.m <= kNarrowColumns && !p.transpose_b ? plan.kernels->flat_rows : nullptr;
}

// Says whether B is packed column by column, not in panels.
bool packs_columns(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  return p.n <= kNarrowColumns && !p.transpose_a && tall_skinny_kernel(plan) != nullptr;
}

// Bytes from one packed column to the next.
size_t column_bytes(const CubePlan& plan) {
  return round_up(plan.problem.k, plan.kernels->column_multiple) * plan.kernels->packed_size;
}

// Elements from row to row of windows in their buffer.
size_t window_stride(size_t columns, size_t element_size) {
  const bool same_set = columns * element_size % kSameSet == 0;
  return columns + (same_set ? kAlignment / element_size : 0);
}

// The pieces of the scratch that a rectangle of rows x cols needs.
struct Scratch {
  size_t a = 0, b = 0, tile = 0, windows = 0, places = 0, runs = 0, total = 0;

  Scratch(const CubePlan& plan, size_t rows, size_t cols) {
    const CubeKernels& kernels = *plan.kernels;
    const size_t depth = round_up(plan.k_panel, kernels.k_multiple);
    const size_t a_rows = round_up(std::min(rows, row_block(kernels)), kernels.rows);
    const size_t most = plan.problem.packed_b ? 0 : column_block(kernels);
    const size_t b_cols = round_up(std::min(cols, most), kernels.cols);
    b = align_up((a_rows * depth + kPackSlack) * kernels.packed_size, kAlignment);
    tile = b + align_up((b_cols * depth + kPackSlack) * kernels.packed_size, kAlignment);
    windows = tile + align_up(kernels.rows * kernels.cols * sizeof(float), kAlignment);
    const CubeProblem& p = plan.problem;
    const auto bytes = [&](size_t side, DType dtype) {
      const size_t size = size_of(dtype);
      return std::max(side * window_stride(depth, size), depth * window_stride(side, size)) * size;
    };
    const size_t left = p.a_windows ? bytes(a_rows, p.a) : 0;
    const size_t right = p.b_windows ? bytes(kernels.cols, p.b) : 0;
    places = windows + align_up(std::max(left, right), kAlignment);
    const bool spreads = plan.windows != nullptr;
    runs = places + align_up(spreads ? a_rows * sizeof(size_t) : 0, kAlignment);
    total = runs + align_up(spreads ? plan.k_panel * sizeof(CubeRun) : 0, kAlignment);
  }
};

// Says whether blocks of rows are finished one after the other; else each is added to panel by
// panel.
bool one_panel(const CubePlan& plan) { return plan.problem.k <= plan.k_panel; }

// Says whether the kernel can read A as it is stored.
bool multiplies_stored(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  const CubeKernels& kernels = *plan.kernels;
  const bool rounds = p.a == f32 && p.round_to != f32;
  return kernels.multiply_stored != nullptr && (!p.transpose_a || kernels.takes_stored_columns) &&
         size_of(p.a) == kernels.packed_size && !rounds;
}

// Says whether the kernel had better read A where it is.
bool is_stored_as_multiplied(const CubePlan& plan, const CubeArgs& args) {
  const CubeProblem& p = plan.problem;
  return multiplies_stored(plan) && !p.a_windows && args.a_rows == nullptr &&
         args.a_stride * size_of(p.a) % kSameSet != 0;
}

// Null where the kernels copy windows first, and where the copy of the images that these would lie
// on was not made.
const CubeWindows* lying_windows(const CubePlan& plan, const CubeArgs& args) {
  const bool needs_copy = cube_image_bytes(plan) != 0;
  return needs_copy && !args.copied_images ? nullptr : plan.windows.get();
}

// B as pack_b wants it, but for what is to be packed.
PackCall right_operand(const CubePlan& plan, const void* b, size_t stride) {
  const CubeProblem& p = plan.problem;
  PackCall pack;
  pack.src = b;
  pack.dtype = p.b;
  pack.round_to = p.round_to;
  pack.stride = stride;
  pack.k_contiguous = p.transpose_b;
  pack.width = plan.kernels->cols;
  return pack;
}

// Where in a packed copy the panels of column j begin, for the panel of k at k0: the panels of k
// follow each other, in each those of columns.
size_t packed_at(const CubePlan& plan, size_t k0, size_t j) {
  const CubeKernels& kernels = *plan.kernels;
  const size_t length = std::min(plan.k_panel, plan.problem.k - k0);
  const size_t columns = round_up(plan.problem.n, kernels.cols);
  return (k0 * columns + j * round_up(length, kernels.k_multiple)) * kernels.packed_size;
}

void pack_columns(const CubePlan& plan, PackCall pack, void* to) {
  pack.dst = to;
  plan.kernels->pack_columns(pack, column_bytes(plan) / sizeof(float));
}

void run_tall_skinny(TallSkinnyKernel kernel, const CubePlan& plan, const CubeArgs& args,
                     const CubeRange& range, void* scratch) {
  TallSkinnyCall call{args, plan.problem, range, plan.k_panel, static_cast<float*>(scratch)};
  if (packs_columns(plan)) {
    call.column_stride = column_bytes(plan) / sizeof(float);
    if (plan.problem.packed_b) {
      call.columns = static_cast<const float*>(args.b) + range.n0 * call.column_stride;
    } else {
      PackCall right = right_operand(plan, args.b, args.b_stride);
      right.first = range.n0;
      right.count = range.n1 - range.n0;
      right.length = plan.problem.k;
      pack_columns(plan, right, call.scratch);
      call.columns = call.scratch;
      call.scratch += right.count * call.column_stride + kPackSlack;
    }
  }
  kernel(call);
}

using PieceFinished = FunctionRef<void(const CubeRange&)>;

// The walk over one rectangle of C: columns in blocks, k in panels, rows in blocks, register tiles.
class BlockWalk {
 public:
  BlockWalk(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch)
      : plan_(plan),
        kernels_(*plan.kernels),
        args_(args),
        range_(range),
        parts_(plan, range.m1 - range.m0, range.n1 - range.n0),
        scratch_(static_cast<char*>(scratch)),
        lying_(lying_windows(plan, args)),
        stores_rows_(is_stored_as_multiplied(plan, args)),
        stores_windows_(plan.problem.a_windows && !plan.problem.transpose_a &&
                        multiplies_stored(plan)) {}

  // Each piece goes to args.c; `finished`, if there is one, is called when it is there.
  void run(const PieceFinished* finished) {
    finished_ = finished;
    if (kernels_.begin != nullptr) kernels_.begin();
    const size_t k = plan_.problem.k;
    const size_t block = column_block(kernels_);
    for (size_t j = range_.n0; j < range_.n1; j += block) {
      const size_t cols = std::min(block, range_.n1 - j);
      if (finished_ != nullptr) {
        args_.c_stride = cols;
        args_.c_column = j;
        args_.c_row = range_.m0;
      }
      for (size_t k0 = 0; k0 == 0 || k0 < k; k0 += plan_.k_panel) {
        panel(j, cols, k0, std::min(plan_.k_panel, k - k0));
      }
      if (finished_ != nullptr && !one_panel(plan_)) {
        (*finished_)({range_.m0, range_.m1, j, j + cols});
      }
    }
    if (kernels_.end != nullptr) kernels_.end();
  }

 private:
  void panel(size_t j, size_t cols, size_t k0, size_t length) {
    const CubeProblem& p = plan_.problem;
    panels_ = scratch_ + parts_.b;
    if (p.packed_b) {
      panels_ = static_cast<const char*>(args_.b) + packed_at(plan_, k0, j);
    } else {
      PackCall right = right_operand(plan_, args_.b, args_.b_stride);
      right.first = j;
      right.count = cols;
      right.k0 = k0;
      right.length = length;
      right.dst = scratch_ + parts_.b;
      if (p.b_windows) {
        pack_window_columns(right);
      } else {
        kernels_.pack_b(right);
      }
    }

    if (lying_ != nullptr) run_count_ = lying_->list_runs(k0, length, runs());
    PackCall pack;
    pack.src = args_.a;
    pack.dtype = p.a;
    pack.round_to = p.round_to;
    pack.k0 = k0;
    pack.length = length;
    pack.stride = args_.a_stride;
    pack.rows = args_.a_rows;
    pack.k_contiguous = !p.transpose_a;
    pack.width = kernels_.rows;
    pack.bytes = args_.bytes;
    pack.dst = scratch_ + parts_.a;
    const size_t rows = row_block(kernels_);
    for (size_t i = range_.m0; i < range_.m1; i += rows) {
      const size_t count = std::min(rows, range_.m1 - i);
      pack.first = i;
      pack.count = count;
      if (lying_ != nullptr) {
        list_rows(i, count);
      } else if (p.a_windows) {
        load_window_rows(pack);
      } else {
        pack_rows(pack);
      }
      const bool is_piece = finished_ != nullptr && one_panel(plan_);
      if (is_piece) args_.c_row = i;
      tiles(i, count, j, cols, k0, length);
      if (is_piece) (*finished_)({i, i + count, j, j + cols});
    }
  }

  CubeRun* runs() const { return reinterpret_cast<CubeRun*>(scratch_ + parts_.runs); }
  size_t* places() const { return reinterpret_cast<size_t*>(scratch_ + parts_.places); }

  // Where the windows of a block lie, the last one again up to a whole tile.
  void list_rows(size_t first, size_t count) const {
    lying_->list_rows(first, count, places());
    std::fill(places() + count, places() + round_up(count, kernels_.rows), places()[count - 1]);
  }

  // Copies the windows that a pack is to read from the images into a buffer, whose rows have room
  // for `columns`, and returns a pack that reads that.
  PackCall from_windows(PackCall pack, const WindowRows& windows, size_t columns) const {
    const size_t stride = window_stride(columns, size_of(pack.dtype));
    const auto first = static_cast<int64_t>(pack.first), count = static_cast<int64_t>(pack.count);
    const auto k0 = static_cast<int64_t>(pack.k0), length = static_cast<int64_t>(pack.length);
    const MatrixPart part = pack.k_contiguous ? MatrixPart{first, count, k0, length}
                                              : MatrixPart{k0, length, first, count};
    char* buffer = scratch_ + parts_.windows;
    copy_windows(windows, pack.src, size_of(pack.dtype), part, buffer, stride);
    pack.src = buffer;
    pack.stride = stride;
    pack.rows = nullptr;
    pack.first = pack.k0 = 0;
    return pack;
  }

  // A block of rows that are windows. A kernel that reads stored rows finds them in the buffer,
  // with zeros up to whole tiles.
  void load_window_rows(const PackCall& pack) const {
    const WindowRows& windows = *plan_.problem.a_windows;
    if (!stores_windows_) {
      const size_t columns = pack.k_contiguous ? pack.length : pack.count;
      return kernels_.pack_a(from_windows(pack, windows, columns));
    }
    const size_t depth = round_up(pack.length, kernels_.k_multiple);
    const size_t rows = round_up(pack.count, kernels_.rows);
    const size_t row_bytes = window_stride(depth, size_of(pack.dtype)) * size_of(pack.dtype);
    char* buffer = scratch_ + parts_.windows;
    if (depth != pack.length) std::memset(buffer, 0, pack.count * row_bytes);
    from_windows(pack, windows, depth);
    std::memset(buffer + pack.count * row_bytes, 0, (rows - pack.count) * row_bytes);
  }

  // The panels of columns that are windows.
  void pack_window_columns(const PackCall& all) const {
    const size_t depth = round_up(all.length, kernels_.k_multiple);
    PackCall pack = all;
    for (size_t j = 0; j < all.count; j += kernels_.cols) {
      pack.first = all.first + j;
      pack.count = std::min(kernels_.cols, all.count - j);
      pack.dst = static_cast<char*>(all.dst) + j * depth * kernels_.packed_size;
      const size_t columns = pack.k_contiguous ? pack.length : pack.count;
      kernels_.pack_b(from_windows(pack, *plan_.problem.b_windows, columns));
    }
  }

  // How many of a block's first rows are multiplied where they are stored.
  size_t stored_rows(size_t count) const {
    return stores_rows_ ? count / kernels_.rows * kernels_.rows : 0;
  }

  // Packs a block of rows. Rows that are multiplied in place need only their last, incomplete group
  // of k packed; it is written where their panel would start. The other rows' panels lie where they
  // would without such rows.
  void pack_rows(PackCall pack) const {
    const size_t stored = stored_rows(pack.count), whole = whole_k(pack.length);
    if (stored < pack.count) {
      PackCall others = pack;
      others.first += stored;
      others.count -= stored;
      others.dst = packed_rows(stored, round_up(pack.length, kernels_.k_multiple));
      kernels_.pack_a(others);
    }
    if (stored == 0 || whole == pack.length) return;
    pack.count = stored;
    pack.k0 += whole;
    pack.length -= whole;
    kernels_.pack_a(pack);
  }

  size_t whole_k(size_t length) const { return length / kernels_.k_multiple * kernels_.k_multiple; }
  char* packed_rows(size_t row, size_t depth) const {
    return scratch_ + parts_.a + row * depth * kernels_.packed_size;
  }

  // Rows i0 + i ... of A, a tile's or its first `count`, times a packed panel of B.
  void multiply(size_t i0, size_t i, size_t count, size_t stored, size_t k0, size_t length,
                const char* b, float* to, size_t stride) const {
    if (lying_ != nullptr) {
      const SpreadRows spread{static_cast<const float*>(args_.a), places() + i, lying_->k_step(),
                              runs(), run_count_};
      return kernels_.multiply_spread(spread, b, to, stride);
    }
    const size_t depth = round_up(length, kernels_.k_multiple);
    if (stores_windows_) {
      StoredRows rows;
      rows.stride = window_stride(depth, kernels_.packed_size);
      rows.rows = scratch_ + parts_.windows + i * rows.stride * kernels_.packed_size;
      return kernels_.multiply_stored(rows, b, depth, to, stride);
    }
    if (i >= stored) return kernels_.multiply(packed_rows(i, depth), b, count, depth, to, stride);
    StoredRows rows;
    rows.stride = plan_.problem.transpose_a ? 1 : args_.a_stride;
    rows.k_step = plan_.problem.transpose_a ? args_.a_stride : 1;
    const size_t at = (i0 + i) * rows.stride + k0 * rows.k_step;
    rows.rows = static_cast<const char*>(args_.a) + at * kernels_.packed_size;
    rows.rest = packed_rows(i, kernels_.k_multiple);
    kernels_.multiply_stored(rows, b, length, to, stride);
  }

  void tiles(size_t i0, size_t rows, size_t j0, size_t cols, size_t k0, size_t length) {
    const size_t depth = round_up(length, kernels_.k_multiple);
    TileCall tile;
    auto* sums = reinterpret_cast<float*>(scratch_ + parts_.tile);
    const size_t stored = stored_rows(rows);
    tile.tile = sums;
    tile.tile_stride = kernels_.cols;
    tile.first = k0 == 0;
    tile.c_stride = args_.c_stride;
    for (size_t j = 0; j < cols; j += kernels_.cols) {
      const char* b = panels_ + j * depth * kernels_.packed_size;
      tile.cols = std::min(kernels_.cols, cols - j);
      for (size_t i = 0; i < rows; i += kernels_.rows) {
        tile.rows = std::min(kernels_.rows, rows - i);
        tile.c = args_.c + (i0 + i - args_.c_row) * args_.c_stride + j0 + j - args_.c_column;
        prefetch_rows(tile);
        // The first sums of a whole tile may go to their place as they are.
        if (tile.first && tile.rows == kernels_.rows && tile.cols == kernels_.cols) {
          multiply(i0, i, tile.rows, stored, k0, length, b, tile.c, tile.c_stride);
          continue;
        }
        multiply(i0, i, tile.rows, stored, k0, length, b, sums, kernels_.cols);
        kernels_.finish(tile);
      }
    }
  }

  // The multiplication that comes first hides the way from memory.
  static void prefetch_rows(const TileCall& tile) {
    constexpr size_t kLine = 64 / sizeof(float);
    for (size_t i = 0; i < tile.rows; ++i) {
      for (size_t j = 0; j < tile.cols; j += kLine)
        __builtin_prefetch(tile.c + i * tile.c_stride + j, 1);
    }
  }

  const CubePlan& plan_;
  const CubeKernels& kernels_;
  CubeArgs args_;
  const CubeRange& range_;
  const Scratch parts_;
  char* scratch_;
  const CubeWindows* lying_;   // windows of A that are multiplied where they lie
  size_t run_count_ = 0;       // of theirs, in this panel
  const bool stores_rows_;     // A, as its kernel can read it
  const bool stores_windows_;  // the buffer for windows of A, likewise
  const PieceFinished* finished_ = nullptr;
  const char* panels_ = nullptr;  // of B, from the block's first column on
};

// The dtype in which an operand is multiplied.
DType multiplied(DType stored, DType round_to) {
  return stored == f32 || stored == u8 ? round_to : stored;
}

const CubeKernels* kernels_of_pairs() {
  if (vector::host_isa() == vector::HostIsa::kAmx) return bf16_cube_kernels(PairsOfBf16::kTiles);
  if (vector::host_isa() == vector::HostIsa::kAvx512Bf16)
    return bf16_cube_kernels(PairsOfBf16::kVectors);
  return nullptr;
}

}  // namespace

size_t cube_k_panel(size_t k) noexcept {
  constexpr size_t kLongest = kLongestProductPanel, kStep = 32;
  if (k <= kLongest) return std::max(k, size_t{1});
  const size_t panels = (k + kLongest - 1) / kLongest;
  return round_up((k + panels - 1) / panels, kStep);
}

CubePlan plan_cube(const CubeProblem& problem) {
  const DType left = multiplied(problem.a, problem.round_to);
  const DType right = multiplied(problem.b, problem.round_to);
  const bool number = is_float(left) && left != f64;
  const bool rounds = problem.round_to == f32 || problem.round_to == bf16;
  if (left != right || !number || !rounds || problem.b == u8) {
    throw Error({.op = "cube",
                 .expected = "f32, f16 or bf16 on both sides, or u8 times one of them",
                 .got = std::string(name_of(problem.a)) + " times " + name_of(problem.b)});
  }
  CubePlan plan;
  plan.problem = problem;
  plan.k_panel = cube_k_panel(problem.k);
  plan.kernels = left == bf16 ? kernels_of_pairs() : nullptr;
  if (plan.kernels != nullptr) return plan;
  // Products without windows and with few columns have kernels of their own.
  const VectorCubeKernels& kernels = vector_cube_kernels();
  const bool narrow = has_windows(problem) && problem.n <= kernels.narrow.cols;
  plan.kernels = narrow ? &kernels.narrow : &kernels.wide;
  plan.windows = CubeWindows::of(plan);
  return plan;
}

CubePlan cube_over(const CubePlan& plan, const CubeProblem& problem) {
  CubePlan result = plan;
  result.problem = problem;
  result.windows = CubeWindows::of(result);
  return result;
}

bool cube_is_wide(const CubeProblem& p) noexcept {
  return p.m > kNarrowColumns && p.n > kNarrowColumns;
}

bool cube_takes_packed(const CubeProblem& p) noexcept {
  if (p.b_windows) return false;
  if (cube_is_wide(p)) return p.k > 0;
  return !p.a_windows && p.n <= kNarrowColumns && !p.transpose_a && p.k > 0 &&
         p.k <= kTallSkinnyMaxK;
}

bool cube_shares_packed(const CubePlan& plan) noexcept {
  return tall_skinny_kernel(plan) == nullptr && !plan.problem.b_windows && plan.problem.k > 0;
}

size_t cube_packed_bytes(const CubePlan& plan) noexcept {
  if (packs_columns(plan)) return plan.problem.n * column_bytes(plan);
  const CubeKernels& kernels = *plan.kernels;
  const size_t last = (plan.problem.k - 1) / plan.k_panel * plan.k_panel;
  const size_t depth = last + round_up(plan.problem.k - last, kernels.k_multiple);
  return depth * round_up(plan.problem.n, kernels.cols) * kernels.packed_size;
}

CubePackStep cube_pack_step(const CubePlan& plan) noexcept {
  if (packs_columns(plan)) return {plan.kernels->column_multiple, 1};
  return {plan.kernels->k_multiple, plan.kernels->cols};
}

void cube_pack(const CubePlan& plan, const void* b, size_t b_stride, const CubePart& part,
               void* packed) noexcept {
  const CubeKernels& kernels = *plan.kernels;
  PackCall pack = right_operand(plan, b, b_stride);
  if (packs_columns(plan)) {
    pack.first = part.n0;
    pack.count = part.n1 - part.n0;
    pack.k0 = part.k0;
    pack.length = part.k1 - part.k0;
    const size_t at = part.n0 * column_bytes(plan) + part.k0 * kernels.packed_size;
    return pack_columns(plan, pack, static_cast<char*>(packed) + at);
  }
  for (size_t k = part.k0; k < part.k1; k += pack.length) {
    const size_t k0 = k / plan.k_panel * plan.k_panel;
    pack.k0 = k;
    pack.length = std::min(part.k1, k0 + plan.k_panel) - k;
    // In a panel of columns, k is the outer index.
    const size_t before = (k - k0) * kernels.cols * kernels.packed_size;
    for (size_t j = part.n0; j < part.n1; j += kernels.cols) {
      pack.first = j;
      pack.count = std::min(kernels.cols, part.n1 - j);
      pack.dst = static_cast<char*>(packed) + packed_at(plan, k0, j) + before;
      kernels.pack_b(pack);
    }
  }
}

void cube_pack_share(const CubePlan& plan, const void* b, size_t b_stride, int64_t share,
                     int64_t shares, void* packed) noexcept {
  const CubePackStep step = cube_pack_step(plan);
  const size_t n = plan.problem.n, k = plan.problem.k;
  const auto edge = [&](size_t extent, size_t of_step, int64_t i) {
    const auto steps = static_cast<int64_t>((extent + of_step - 1) / of_step);
    return std::min(extent, static_cast<size_t>(steps * i / shares) * of_step);
  };
  CubePart part{0, k, 0, n};
  if (static_cast<int64_t>(n / step.n) >= shares) {
    part.n0 = edge(n, step.n, share);
    part.n1 = edge(n, step.n, share + 1);
  } else {
    part.k0 = edge(k, step.k, share);
    part.k1 = edge(k, step.k, share + 1);
  }
  cube_pack(plan, b, b_stride, part, packed);
}

size_t cube_image_bytes(const CubePlan& plan) noexcept {
  return plan.windows == nullptr ? 0 : plan.windows->copied_elements() * sizeof(float);
}

void cube_copy_images(const CubePlan& plan, const void* a, const vector::ByteMap* bytes,
                      int64_t share, int64_t shares, void* to) noexcept {
  if (plan.windows == nullptr) return;
  const int64_t all = plan.windows->copied_lines();
  plan.windows->copy_lines(a, bytes, all * share / shares, all * (share + 1) / shares,
                           static_cast<float*>(to));
}

CubeStep cube_step(const CubePlan& plan) noexcept {
  if (tall_skinny_kernel(plan) == nullptr) return {plan.kernels->rows, plan.kernels->cols};
  // A tall-skinny product is cut along its long side only.
  const bool along_k = plan.problem.n <= kNarrowColumns && !plan.problem.transpose_a;
  return along_k ? CubeStep{4, kNarrowColumns} : CubeStep{32, 32};
}

size_t cube_scratch_bytes(const CubePlan& plan, size_t rows, size_t cols) noexcept {
  if (tall_skinny_kernel(plan) != nullptr) {
    const bool packs_b = !(plan.problem.packed_b && packs_columns(plan));
    return tall_skinny_scratch_floats(plan.problem.k, plan.k_panel, packs_b) * sizeof(float);
  }
  return Scratch(plan, rows, cols).total;
}

void cube_block(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch) {
  if (range.m0 >= range.m1 || range.n0 >= range.n1) return;
  const TallSkinnyKernel tall_skinny = tall_skinny_kernel(plan);
  if (tall_skinny == nullptr) return BlockWalk(plan, args, range, scratch).run(nullptr);
  run_tall_skinny(tall_skinny, plan, args, range, scratch);
}

void cube_pieces(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch,
                 float* sums, FunctionRef<void(const CubeRange&)> finished) {
  if (range.m0 >= range.m1 || range.n0 >= range.n1) return;
  CubeArgs to_sums = args;
  to_sums.c = sums;
  if (tall_skinny_kernel(plan) == nullptr) {
    return BlockWalk(plan, to_sums, range, scratch).run(&finished);
  }
  to_sums.c_stride = range.n1 - range.n0;
  to_sums.c_row = range.m0;
  to_sums.c_column = range.n0;
  cube_block(plan, to_sums, range, scratch);
  finished(range);
}

size_t cube_piece_elements(const CubePlan& plan, size_t rows, size_t cols) noexcept {
  if (tall_skinny_kernel(plan) != nullptr) return rows * cols;
  const size_t most = one_panel(plan) ? row_block(*plan.kernels) : rows;
  return std::min(rows, most) * std::min(cols, column_block(*plan.kernels));
}

size_t cube_widest_piece(const CubePlan& plan) noexcept {
  return tall_skinny_kernel(plan) != nullptr ? plan.problem.n : kColumnBlock;
}

}  // namespace keel::npu
