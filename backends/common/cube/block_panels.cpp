#include "keel/backends/common/cube/block_panels.h"

#include <algorithm>
#include <numeric>

#include "keel/backends/common/cube/block_scratch.h"

namespace keel {
namespace {

// Says whether rows of B as stored are what the kernels read of packed panels.
bool is_stored_in_panels(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  return plan.kernels->takes_stored_panels && !p.packed_b && !p.transpose_b && !p.b_windows &&
         p.b == f32 && p.round_to == f32;
}

// Says whether rows of B so many bytes apart begin with cache lines and in several sets. Each line
// is read again for the next tile: where that has few rows, multiplying them takes less time than
// the line on its way from beyond L2, so that all rows of a panel are to stay there.
bool can_lie_apart(const CubePlan& plan, size_t bytes) {
  constexpr size_t kFewRows = 8, kSets = 8;
  // An L2 of 512 KiB has 16 sets for one of L1, with 8 ways; half of them are B's.
  constexpr size_t kRowsOfSet = 16 * 4;
  const size_t sets = kSameSet / std::gcd(bytes, kSameSet);
  if (bytes % kAlignment != 0 || sets == 1) return false;
  return plan.kernels->rows >= kFewRows || sets >= kSets || plan.k_panel <= sets * kRowsOfSet;
}

// Says whether few rows of A meet a B so small that it stays near the core, wherever its rows
// begin.
bool is_read_from_near(const CubePlan& plan, size_t row_bytes) {
  const CubeProblem& p = plan.problem;
  constexpr size_t kNear = size_t{64} << 10;
  return is_stored_in_panels(plan) && !p.a_windows && p.parts == 1 && p.k > 0 && p.m <= kRowBlock &&
         row_bytes % kSameSet != 0 && p.k * row_bytes <= kNear;
}

}  // namespace

size_t row_block(const CubePlan& plan) {
  const size_t step = tile_rows(plan);
  constexpr size_t kOfLines = 2 * kRowBlock;
  const bool lines = plan.windows != nullptr && plan.windows->by_lines();
  if (!lines || plan.windows->line_windows() > kOfLines) {
    // Blocks are even, as a last one of a few rows would read all of B for them.
    const size_t m = std::max<size_t>(plan.problem.m, 1);
    const size_t blocks = std::max<size_t>(1, (m + kRowBlock / 2) / kRowBlock);
    return round_up((m + blocks - 1) / blocks, step);
  }
  return kOfLines / plan.windows->line_windows() * plan.windows->line_windows();
}

size_t column_block(const CubeKernels& kernels) { return round_up(kColumnBlock, kernels.cols); }

size_t panels_of_part(const CubePlan& plan) {
  const size_t k = plan.problem.k / plan.problem.parts;
  return (k + plan.k_panel - 1) / plan.k_panel;
}

void list_additions(size_t begin, size_t end, uint8_t* additions) {
  additions[end - 1] = 0;
  if (end - begin == 1) return;
  const size_t middle = begin + (end - begin) / 2;
  list_additions(begin, middle, additions);
  list_additions(middle, end, additions);
  ++additions[end - 1];
}

bool one_panel(const CubePlan& plan) {
  return plan.problem.parts == 1 ? plan.problem.k <= plan.k_panel : adds_tiles_of_parts(plan);
}

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

PackCall left_operand(const CubePlan& plan, const CubeArgs& args) {
  const CubeProblem& p = plan.problem;
  PackCall pack;
  pack.src = args.a;
  pack.dtype = p.a;
  pack.round_to = p.round_to;
  pack.stride = args.a_stride;
  pack.rows = args.a_rows;
  pack.k_contiguous = !p.transpose_a;
  pack.width = plan.kernels->rows;
  pack.bytes = args.bytes;
  return pack;
}

size_t packed_at(const CubePlan& plan, size_t k0, size_t j) {
  const CubeKernels& kernels = *plan.kernels;
  const size_t length = std::min(plan.k_panel, plan.problem.k - k0);
  const size_t columns = round_up(plan.problem.n, kernels.cols);
  return (k0 * columns + j * round_up(length, kernels.k_multiple)) * kernels.packed_size;
}

bool multiplies_stored(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  const CubeKernels& kernels = *plan.kernels;
  const bool rounds = p.a == f32 && p.round_to != f32;
  return kernels.multiply_stored != nullptr && (!p.transpose_a || kernels.takes_stored_columns) &&
         size_of(p.a) == kernels.packed_size && !rounds;
}

bool is_stored_as_multiplied(const CubePlan& plan, const CubeArgs& args) {
  const CubeProblem& p = plan.problem;
  return multiplies_stored(plan) && !p.a_windows && args.a_rows == nullptr &&
         args.a_stride * size_of(p.a) % kSameSet != 0;
}

bool is_better_left_stored(const CubePlan& plan) {
  const CubeProblem& p = plan.problem;
  constexpr size_t kFewRows = 512;
  return is_stored_in_panels(plan) && !p.a_windows && p.m <= kFewRows &&
         p.n % plan.kernels->cols == 0 && can_lie_apart(plan, p.n * sizeof(float));
}

bool has_stored_panels(const CubePlan& plan, const CubeArgs& args, const CubeRange& range) {
  const CubeProblem& p = plan.problem;
  const CubeKernels& kernels = *plan.kernels;
  if (!is_stored_in_panels(plan)) return false;
  const size_t row = args.b_stride * sizeof(float);
  if (is_read_from_near(plan, row)) return true;
  const bool aligned =
      reinterpret_cast<uintptr_t>(args.b) % kAlignment == 0 && row % kAlignment == 0;
  const bool whole_tiles = range.n0 % kernels.cols == 0 && range.n1 % kernels.cols == 0;
  if (!aligned || !whole_tiles) return false;
  if (plan.taps != nullptr || (p.n == kernels.cols && args.b_stride == p.n)) return true;
  return is_better_left_stored(plan) && can_lie_apart(plan, row);
}

}  // namespace keel
