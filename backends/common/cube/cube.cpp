#include "keel/backends/common/cube/cube.h"

#include <algorithm>
#include <bit>
#include <string>

#include "keel/backends/common/cube/block_scratch.h"
#include "keel/backends/common/cube/block_walk.h"
#include "keel/backends/common/cube/cube_kernels.h"
#include "keel/backends/common/cube/cube_taps.h"
#include "keel/backends/common/cube/cube_windows.h"
#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/core/base/error.h"
#include "keel/ops/product_bound.h"

namespace keel {
namespace {

size_t k_of_part(const CubeProblem& p) { return p.k / p.parts; }

bool has_windows(const CubeProblem& p) { return p.a_windows || p.b_windows; }

using TallSkinnyKernel = void (*)(const TallSkinnyCall&);

// The kernel for products with few columns or rows, where there is one for the shape; else nullptr.
TallSkinnyKernel tall_skinny_kernel(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  if (p.k == 0 || k_of_part(p) > kTallSkinnyMaxK || has_windows(p)) return nullptr;
  if (p.n <= kNarrowColumns) {
    return p.transpose_a ? plan.kernels->tall_skinny_columns : plan.kernels->tall_skinny_rows;
  }
  if (p.m > kNarrowColumns) return nullptr;
  if (!p.transpose_b) return plan.kernels->flat_rows;
  return p.rows_alone ? nullptr : plan.kernels->tall_skinny_rows;
}

// Says whether the kernel computes C's transpose: rows of B, stored [n, k], by the few of A.
bool computes_transpose(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  return p.n > kNarrowColumns && p.transpose_b && tall_skinny_kernel(plan) != nullptr;
}

// Says whether the kernel adds up parts of k by itself, while it has the sums of a tile. Parts have
// to begin where a step of k does.
bool adds_parts_of_tiles(const CubePlan& plan, TallSkinnyKernel kernel) {
  const CubeProblem& p = plan.problem;
  const CubeKernels& kernels = *plan.kernels;
  const bool outer = kernel == kernels.tall_skinny_columns || kernel == kernels.flat_rows;
  const size_t narrow = kernel == kernels.flat_rows ? p.m : p.n;
  return outer && p.parts <= kMostPartsOfTile && narrow > kFewColumns &&
         k_of_part(p) % kernels.k_multiple == 0;
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

// Products whose A is stored [m, k] sum k by halves from here on: two threads that take a half each
// then read other columns of A, as the tiles of a product of A's transpose do.
constexpr size_t kShortestHalvedK = 640;
constexpr size_t kHalfStep = 32;

// The k at which the second half begins, or all of k where it is not halved.
size_t first_half(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  if (p.k < kShortestHalvedK || p.parts > 1 || !packs_columns(plan)) return p.k;
  return (p.k / 2 + kHalfStep / 2) / kHalfStep * kHalfStep;
}

bool is_halved(const CubePlan& plan) { return first_half(plan) < plan.problem.k; }

void pack_columns(const CubePlan& plan, PackCall pack, void* to) {
  pack.dst = to;
  // One column whose elements lie side by side is copied, not transposed.
  if (pack.count == 1 && pack.stride == 1 && pack.rows == nullptr) pack.k_contiguous = true;
  plan.kernels->pack_columns(pack, column_bytes(plan) / sizeof(float));
}

// Packs rows of A as columns of the transpose.
void pack_left_columns(const CubePlan& plan, const CubeArgs& args, const CubeRange& range,
                       float* to) {
  PackCall left = left_operand(plan, args);
  left.first = range.m0;
  left.count = range.m1 - range.m0;
  left.length = plan.problem.k;
  pack_columns(plan, left, to);
}

// C's transpose is a product with few columns whose rows are those of B.
void run_transpose(TallSkinnyKernel kernel, const CubePlan& plan, const CubeArgs& args,
                   const CubeRange& range, float* scratch) {
  TallSkinnyCall call{args, plan.problem, {}, plan.k_panel, scratch};
  call.range = {range.n0, range.n1, range.m0, range.m1};
  call.problem.a = plan.problem.b;
  call.args.a = args.b;
  call.args.a_stride = args.b_stride;
  call.args.a_rows = nullptr;
  call.args.bytes = nullptr;
  call.args.c_row = args.c_column;
  call.args.c_column = args.c_row;
  call.writes_transpose = true;
  call.column_stride = column_bytes(plan) / sizeof(float);
  pack_left_columns(plan, args, range, call.scratch);
  call.columns = call.scratch;
  call.scratch += (range.m1 - range.m0) * call.column_stride + kPackSlack;
  kernel(call);
}

// Rows and columns of C whose sums of parts or halves are added up while the first cache has them.
constexpr size_t kRowsOfParts = 128, kColumnsOfParts = 512;

// The products of k from `begin` to `end`, which is a half, with columns packed from `begin` on.
void run_half(TallSkinnyKernel kernel, const CubePlan& plan, TallSkinnyCall call, size_t begin,
              size_t end, const float* columns) {
  call.problem.k = end - begin;
  call.args.a = static_cast<const char*>(call.args.a) + begin * size_of(plan.problem.a);
  call.columns = columns;
  kernel(call);
}

// Floats from the beginning of a packed column to its second half.
size_t packed_half(const CubePlan& plan) {
  return first_half(plan) * plan.kernels->packed_size / sizeof(float);
}

// Some rows at a time, the sums of whose second half wait in the scratch.
void run_halves(TallSkinnyKernel kernel, const CubePlan& plan, const TallSkinnyCall& all) {
  const size_t half = first_half(plan), columns = all.range.n1 - all.range.n0;
  TallSkinnyCall call = all;
  float* const waiting = call.scratch;
  call.scratch += kRowsOfParts * kNarrowColumns;
  for (size_t i = all.range.m0; i < all.range.m1; i += kRowsOfParts) {
    call.range.m0 = i;
    call.range.m1 = std::min(all.range.m1, i + kRowsOfParts);
    run_half(kernel, plan, call, 0, half, all.columns);
    TallSkinnyCall second = call;
    second.args.c = waiting;
    second.args.c_stride = columns;
    second.args.c_row = i;
    second.args.c_column = all.range.n0;
    run_half(kernel, plan, second, half, plan.problem.k, all.columns + packed_half(plan));
    float* const to = call.args.c + (i - call.args.c_row) * call.args.c_stride + call.range.n0 -
                      call.args.c_column;
    add_sums(*plan.kernels, waiting, call.range.m1 - i, columns, to, call.args.c_stride);
  }
}

// `panel`: the half of k that is meant; all of k where there is none.
void run_tall_skinny(TallSkinnyKernel kernel, const CubePlan& plan, const CubeArgs& args,
                     const CubeRange& range, void* scratch,
                     std::optional<size_t> panel = std::nullopt) {
  if (computes_transpose(plan))
    return run_transpose(kernel, plan, args, range, static_cast<float*>(scratch));
  TallSkinnyCall call{args, plan.problem, range, plan.k_panel, static_cast<float*>(scratch)};
  const size_t begin = panel && *panel != 0 ? first_half(plan) : 0;
  const size_t end = panel && *panel == 0 ? first_half(plan) : plan.problem.k;
  if (packs_columns(plan)) {
    call.column_stride = column_bytes(plan) / sizeof(float);
    if (plan.problem.packed_b) {
      call.columns = static_cast<const float*>(args.b) + range.n0 * call.column_stride;
    } else {
      PackCall right = right_operand(plan, args.b, args.b_stride);
      right.first = range.n0;
      right.count = range.n1 - range.n0;
      right.k0 = begin;
      right.length = end - begin;
      pack_columns(plan, right, call.scratch);
      call.columns = call.scratch;
      call.scratch += right.count * call.column_stride + kPackSlack;
    }
  }
  if (!is_halved(plan)) return kernel(call);
  if (!panel) return run_halves(kernel, plan, call);
  const bool ahead = plan.problem.packed_b && begin != 0;
  run_half(kernel, plan, call, begin, end, call.columns + (ahead ? packed_half(plan) : 0));
}

// The plan of one part of k.
CubePlan plan_of_part(const CubePlan& plan) {
  CubePlan part = plan;
  part.problem.k = k_of_part(plan.problem);
  part.problem.parts = 1;
  return part;
}

// Computes a rectangle of C whose k is parts.
class TallSkinnyParts {
 public:
  // `scratch`: that of one part, and behind it the sums that wait for others.
  TallSkinnyParts(TallSkinnyKernel kernel, const CubePlan& plan, const CubeArgs& args,
                  void* scratch)
      : kernel_(kernel),
        part_(plan_of_part(plan)),
        args_(args),
        scratch_(static_cast<float*>(scratch)) {
    waiting_ = scratch_ + cube_scratch_bytes(part_, 0, 0) / sizeof(float);
  }

  void run(const CubeRange& range, size_t parts) const {
    for (size_t i = range.m0; i < range.m1; i += kRowsOfParts) {
      for (size_t j = range.n0; j < range.n1; j += kColumnsOfParts) {
        const CubeRange piece{i, std::min(range.m1, i + kRowsOfParts), j,
                              std::min(range.n1, j + kColumnsOfParts)};
        add(piece, 0, parts, args_, waiting_);
      }
    }
  }

  static size_t waiting_floats(const CubePlan& plan) {
    return std::bit_width(plan.problem.parts - 1) * size_of_piece(plan.problem);
  }

 private:
  static size_t size_of_piece(const CubeProblem& p) {
    return std::min(p.m, kRowsOfParts) * std::min(p.n, kColumnsOfParts);
  }

  void add(const CubeRange& range, size_t begin, size_t end, const CubeArgs& to,
           float* waiting) const {
    if (end - begin == 1) return multiply(range, begin, to);
    const size_t middle = begin + (end - begin) / 2;
    CubeArgs later = args_;
    later.c = waiting;
    later.c_stride = range.n1 - range.n0;
    later.c_row = range.m0;
    later.c_column = range.n0;
    add(range, begin, middle, to, waiting);
    add(range, middle, end, later, waiting + size_of_piece(part_.problem));
    add_sums(*part_.kernels, waiting, range.m1 - range.m0, later.c_stride,
             to.c + (range.m0 - to.c_row) * to.c_stride + range.n0 - to.c_column, to.c_stride);
  }

  void multiply(const CubeRange& range, size_t number, const CubeArgs& to) const {
    const CubeProblem& p = part_.problem;
    CubeArgs args = to;
    const size_t k0 = number * p.k;
    if (args.a_rows != nullptr && p.transpose_a) {
      args.a_rows += k0;
    } else {
      const size_t step = p.transpose_a ? args.a_stride : 1;
      args.a = static_cast<const char*>(args.a) + k0 * step * size_of(p.a);
    }
    const size_t step = p.transpose_b ? 1 : args.b_stride;
    args.b = static_cast<const char*>(args.b) + k0 * step * size_of(p.b);
    run_tall_skinny(kernel_, part_, args, range, scratch_);
  }

  TallSkinnyKernel kernel_;
  CubePlan part_;
  const CubeArgs& args_;
  float* scratch_;
  float* waiting_;
};

// The dtype in which an operand is multiplied.
DType multiplied(DType stored, DType round_to) {
  return stored == f32 || stored == u8 ? round_to : stored;
}

// Windows are copied for the kernels of pairs and tiles, which takes longer than these gain where
// channels are few: there, they are widened and multiplied where they lie. Tiles gain more.
bool has_few_channels(const CubeProblem& p, vector::ProductKernel kernel) {
  constexpr int64_t kFewForPairs = 16;
  if (!p.a_windows || p.a_windows->channels > kFewForPairs) return false;
  const bool wide = p.n > kNarrowColumns || p.a_windows->channels == kFewForPairs;
  const bool gains = kernel == vector::ProductKernel::kTiles && wide;
  return !gains || p.a_windows->channels <= kFewWindowChannels;
}

// Returns the kernels of pairs or tiles that are meant, or nothing where operands are widened.
const CubeKernels* kernels_of_pairs(vector::ProductKernel kernel) {
  if (kernel == vector::ProductKernel::kTiles) return bf16_cube_kernels(PairsOfBf16::kTiles);
  if (kernel == vector::ProductKernel::kPairs) return bf16_cube_kernels(PairsOfBf16::kVectors);
  return nullptr;
}

// Says whether a register tile of `a` reads fewer elements of operands for each product of two.
bool reads_less(const CubeKernels& a, const CubeKernels& b) {
  return (a.rows + a.cols) * b.rows * b.cols < (b.rows + b.cols) * a.rows * a.cols;
}

// Returns the kernels whose register tiles reach less far beyond so many columns, of equals those
// that read less. It follows from n alone, so that all products with a right operand read the same
// packed copy.
const CubeKernels& fitting_kernels(size_t n) {
  const auto& [wide, narrow] = vector_cube_kernels();
  const size_t by_wide = round_up(n, wide.cols), by_narrow = round_up(n, narrow.cols);
  const bool as_far = by_narrow == by_wide && reads_less(narrow, wide);
  return by_narrow < by_wide || as_far ? narrow : wide;
}

// Finds out how windows of A are multiplied where they lie, if they are.
void find_windows(CubePlan& plan) {
  plan.taps = CubeTaps::of(plan);
  plan.windows = plan.taps != nullptr ? nullptr : CubeWindows::of(plan);
}

}  // namespace

size_t cube_k_panel(size_t k) noexcept {
  constexpr size_t kLongest = kLongestProductPanel, kStep = 32;
  if (k <= kLongest) return std::max(k, size_t{1});
  const size_t panels = (k + kLongest - 1) / kLongest;
  return round_up((k + panels - 1) / panels, kStep);
}

CubePlan plan_cube(const CubeProblem& problem) {
  using vector::ProductKernel;
  auto kernel = ProductKernel::kWidening;
  if (multiplied(problem.a, problem.round_to) == bf16)
    kernel = product_kernels().of(cube_shape_class(problem));
  if (has_few_channels(problem, kernel)) kernel = ProductKernel::kWidening;
  return plan_cube_by(problem, kernel);
}

CubePlan plan_cube_by(const CubeProblem& problem, vector::ProductKernel kernel) {
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
  plan.k_panel = cube_k_panel(k_of_part(problem));
  plan.kernels = left == bf16 ? kernels_of_pairs(kernel) : nullptr;
  if (plan.kernels == nullptr) plan.kernels = &fitting_kernels(problem.n);
  find_windows(plan);
  return plan;
}

vector::ShapeClass cube_shape_class(const CubeProblem& p) noexcept {
  constexpr size_t kSmallElements = 4096;  // of B
  if (p.n <= kNarrowColumns) {
    return p.transpose_a ? vector::ShapeClass::kColumns : vector::ShapeClass::kRows;
  }
  if (p.m <= kNarrowColumns && !p.rows_alone) return vector::ShapeClass::kVector;
  // This divides by n, as a product of both might not be a number.
  const bool small = p.n <= kSmallElements && k_of_part(p) <= kSmallElements / p.n;
  return small ? vector::ShapeClass::kSmall : vector::ShapeClass::kSquare;
}

CubePlan cube_over(const CubePlan& plan, const CubeProblem& problem) {
  CubePlan result = plan;
  result.problem = problem;
  find_windows(result);
  return result;
}

bool cube_is_wide(const CubeProblem& p) noexcept {
  return p.m > kNarrowColumns && p.n > kNarrowColumns;
}

bool cube_takes_packed(const CubeProblem& p) noexcept {
  if (p.b_windows || p.parts > 1) return false;
  if (cube_is_wide(p)) return p.k > 0;
  return !p.a_windows && p.n <= kNarrowColumns && !p.transpose_a && p.k > 0 &&
         p.k <= kTallSkinnyMaxK;
}

bool cube_shares_packed(const CubePlan& plan) noexcept {
  const CubeProblem& p = plan.problem;
  const size_t part = k_of_part(p);
  // Where parts are panels in whole groups of k, the packed panels are those of a k without parts.
  const bool even = p.parts == 1 || (part <= plan.k_panel && part % plan.kernels->k_multiple == 0);
  return even && tall_skinny_kernel(plan) == nullptr && !p.b_windows && p.k > 0;
}

bool cube_adds(const CubePlan& plan) noexcept {
  return tall_skinny_kernel(plan) == nullptr && plan.problem.parts == 1 && one_panel(plan);
}

bool cube_leaves_stored(const CubePlan& plan) noexcept {
  const bool packs_parts = plan.problem.parts > 1 && adds_tiles_of_parts(plan);
  return tall_skinny_kernel(plan) == nullptr && !packs_parts && is_better_left_stored(plan);
}

bool cube_multiplies_images(const CubePlan& plan) noexcept {
  const CubeProblem& p = plan.problem;
  return plan.windows != nullptr && p.a == f32 && p.round_to == f32;
}

bool cube_places_lines(const CubePlan& plan) noexcept {
  return plan.windows != nullptr && plan.kernels->packed_size == sizeof(float) &&
         !plan.problem.transpose_a && plan.problem.parts == 1;
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

CubeStep cube_step(const CubePlan& plan) noexcept {
  if (tall_skinny_kernel(plan) == nullptr) return {tile_rows(plan), plan.kernels->cols};
  if (computes_transpose(plan)) return {kNarrowColumns, 8};
  // A tall-skinny product is cut along its long side only.
  const bool along_k = plan.problem.n <= kNarrowColumns && !plan.problem.transpose_a;
  return along_k ? CubeStep{4, kNarrowColumns} : CubeStep{32, 32};
}

size_t cube_scratch_bytes(const CubePlan& plan, size_t rows, size_t cols) noexcept {
  if (tall_skinny_kernel(plan) != nullptr) {
    const bool packs_b = !(plan.problem.packed_b && packs_columns(plan));
    if (adds_parts_of_tiles(plan, tall_skinny_kernel(plan)))
      return tall_skinny_scratch_floats(plan.problem.k, plan.k_panel, packs_b) * sizeof(float);
    if (plan.problem.parts > 1) {
      const CubePlan part = plan_of_part(plan);
      return cube_scratch_bytes(part, 0, 0) + TallSkinnyParts::waiting_floats(plan) * sizeof(float);
    }
    const size_t waiting = is_halved(plan) ? kRowsOfParts * kNarrowColumns : 0;
    return (tall_skinny_scratch_floats(plan.problem.k, plan.k_panel, packs_b) + waiting) *
           sizeof(float);
  }
  return walk_scratch_bytes(plan, rows, cols);
}

void cube_block(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch) {
  if (range.m0 >= range.m1 || range.n0 >= range.n1) return;
  const TallSkinnyKernel tall_skinny = tall_skinny_kernel(plan);
  if (tall_skinny == nullptr) return walk_block(plan, args, range, scratch, nullptr);
  if (plan.problem.parts > 1 && !adds_parts_of_tiles(plan, tall_skinny))
    return TallSkinnyParts(tall_skinny, plan, args, scratch).run(range, plan.problem.parts);
  run_tall_skinny(tall_skinny, plan, args, range, scratch);
}

void cube_pieces(const CubePlan& plan, const CubeArgs& args, const CubeRange& range, void* scratch,
                 float* sums, FunctionRef<void(const CubeRange&)> finished) {
  if (range.m0 >= range.m1 || range.n0 >= range.n1) return;
  CubeArgs to_sums = args;
  to_sums.c = sums;
  to_sums.c_lines = nullptr;
  if (tall_skinny_kernel(plan) == nullptr) {
    return walk_block(plan, to_sums, range, scratch, &finished);
  }
  to_sums.c_stride = range.n1 - range.n0;
  to_sums.c_row = range.m0;
  to_sums.c_column = range.n0;
  cube_block(plan, to_sums, range, scratch);
  finished(range);
}

bool cube_halves_k(const CubePlan& plan) noexcept { return is_halved(plan); }

size_t cube_panels(const CubePlan& plan) noexcept {
  if (is_halved(plan)) return 2;
  if (tall_skinny_kernel(plan) != nullptr || plan.problem.k == 0) return 1;
  return plan.problem.parts * panels_of_part(plan);
}

void cube_panel(const CubePlan& plan, const CubeArgs& args, size_t panel, const CubeRange& range,
                void* scratch, float* sums) {
  CubeArgs to_sums = args;
  to_sums.c = sums;
  to_sums.c_lines = nullptr;
  to_sums.c_stride = plan.problem.n;
  if (is_halved(plan))
    return run_tall_skinny(tall_skinny_kernel(plan), plan, to_sums, range, scratch, panel);
  walk_panel(plan, to_sums, range, panel, scratch);
}

size_t cube_piece_elements(const CubePlan& plan, size_t rows, size_t cols) noexcept {
  if (tall_skinny_kernel(plan) != nullptr) return rows * cols;
  const size_t most = one_panel(plan) ? row_block(plan) : rows;
  return std::min(rows, most) * std::min(cols, column_block(*plan.kernels));
}

size_t cube_widest_piece(const CubePlan& plan) noexcept {
  return tall_skinny_kernel(plan) != nullptr ? plan.problem.n : kColumnBlock;
}

}  // namespace keel
