// The entries of what moves, indexes, draws, pools and attends: kernels that all backends share,
// and what they would take on the modelled device.
#include <algorithm>
#include <bit>
#include <utility>

#include "keel/backends/common/cube/lane_bytes.h"
#include "keel/backends/common/shared_kernels.h"
#include "keel/backends/npu/kernels/attention_work.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/core/base/checked.h"
#include "keel/graph/ir/table_attributes.h"
#include "keel/ops/gather.h"
#include "keel/ops/pool.h"
#include "keel/ops/scan.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/sort.h"

namespace keel::npu {
namespace {

constexpr int64_t kBytesOfAnUpdate = 2048;  // that a core takes at once of a row that is added
constexpr int64_t kPassesOfATurn = 2;       // of each element, from rows to columns
// The host's kernels have at most so many; the device's number is the scheduler's.
constexpr int kMostSharedBlocks = 32;

// Rows of so many bytes (0: as long as the tile) in strided transfers.
Split moves(const Preset& preset, const Node& node, int64_t passes, int64_t row_in,
            int64_t row_out) {
  Split split;
  VectorWork& work = split.work;
  add_traffic(node, work);
  const Type& type = node.type();
  work.pass_bytes = passes * lane_bytes(type.dtype);
  work.instructions = passes == 0 ? 0 : 1;
  const int64_t size = size_in_bytes(type.dtype);
  work.tile_elements = tile_that_fits(preset, 4 * size);
  work.row_in = row_in;
  work.row_out = row_out;
  cut_evenly(work, type.shape.num_elements(), size);
  split.reason = units_reason(work);
  return split;
}

// Returns bytes that lie together behind axis `axis`.
int64_t run_behind(const Type& type, int64_t axis) {
  int64_t run = size_in_bytes(type.dtype);
  for (size_t i = static_cast<size_t>(axis) + 1; i < type.shape.rank(); ++i) run *= type.shape[i];
  return run;
}

int64_t row_bytes(const Type& type) { return last_dim(type) * size_in_bytes(type.dtype); }

// An axis of a transposition's result, in elements; an index of it is `stride` of the operand's
// elements behind the one before.
struct MovedAxis {
  int64_t dim = 1, stride = 0;
};

// Returns the axes that move apart from each other: those of length 1 are left out, and neighbours
// that stay neighbours are one, as [n, h, w, c] to [n, c, h, w] turns [n, h * w, c].
std::vector<MovedAxis> moved_axes(const Node& node) {
  const Shape& result = node.type().shape;
  const std::vector<int64_t>& perm = node.as<TransposeAttributes>().perm;
  const auto strides = node.input(0).shape().strides();
  std::vector<MovedAxis> axes;
  for (size_t i = 0; i < perm.size(); ++i) {
    const MovedAxis axis{result[i], strides[static_cast<size_t>(perm[i])]};
    if (axis.dim == 1) continue;
    if (!axes.empty() && axes.back().stride == checked_mul(axis.dim, axis.stride)) {
      axes.back() = {checked_mul(axes.back().dim, axis.dim), axis.stride};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

// The price follows from what lies together on either side, so that it is the same for all ways to
// write the same transposition.
NodeWork transpose_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const int64_t size = size_in_bytes(node.type().dtype);
  const std::vector<MovedAxis> axes = moved_axes(node);
  // Nothing moves but axes of length 1: all of it streams.
  if (axes.size() < 2) return {{}, {moves(r.preset, node, 0, 0, 0)}};
  const int64_t row_out = axes.back().dim * size;
  // Where the last axes stay, rows of them move as they are; otherwise lines turn on the core.
  if (axes.back().stride == 1) return {{}, {moves(r.preset, node, 0, row_out, row_out)}};
  const auto last_of_operand = std::find_if(axes.begin(), axes.end(),
                                            [](const MovedAxis& axis) { return axis.stride == 1; });
  const int64_t row_in = last_of_operand->dim * size;
  return {{}, {moves(r.preset, node, passes_of(node), row_in, row_out)}};
}

// Only the rows that are kept are read.
NodeWork slice_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const Type& type = node.type();
  Split split = moves(r.preset, node, 0, row_bytes(type), 0);
  split.work.bytes_in = bytes_of(type);
  const auto& strides = node.as<SliceAttributes>().strides;
  if (!strides.empty() && strides.back() != 1) split.work.run_in = size_in_bytes(type.dtype);
  return {{}, {split}};
}

NodeWork concat_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  // Along the last axis a row of the result has a run of each part, reckoned as equally long.
  const bool in_rows =
      node.as<ConcatAttributes>().axis + 1 == static_cast<int64_t>(node.type().shape.rank());
  const auto parts = static_cast<int64_t>(in_rows ? node.inputs().size() : 1);
  const int64_t run = std::max(size_in_bytes(node.type().dtype), row_bytes(node.type()) / parts);
  return {{}, {moves(r.preset, node, 0, run, run)}};
}

NodeWork pad_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  // Elements with others between them are written one by one.
  const auto& interior = node.as<PadAttributes>().interior;
  const bool apart = !interior.empty() && interior.back() != 0;
  const int64_t run_out = apart ? size_in_bytes(node.type().dtype) : row_bytes(node.type());
  return {{}, {moves(r.preset, node, 0, row_bytes(node.input(0).type()), run_out)}};
}

NodeWork broadcast_work(const WorkRequest& r) {
  return {{}, {moves(r.preset, r.anchored.node(), 0, 0, 0)}};
}

// Asks for what ops cost that make values from nothing but indices or a key.
NodeWork making_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  return {{}, {moves(r.preset, node, passes_of(node), 0, 0)}};
}

NodeWork gather_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const int64_t run = run_behind(node.input(0).type(), node.as<GatherAttributes>().axis);
  Split split = moves(r.preset, node, 0, 0, 0);
  split.work.run_in = run;
  // Only the rows that are asked for are read.
  split.work.indices_in = bytes_of(node.input(1).type());
  split.work.bytes_in = bytes_of(node.type()) + split.work.indices_in;
  return {{}, {split}};
}

NodeWork scatter_add_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  Split split = moves(r.preset, node, passes_of(node), 0, 0);
  // It adds to what lies there: only the rows that are named move, read and written.
  const Type updates = node.input(2).type();
  split.work.bytes_out = bytes_of(updates);
  split.work.indices_in = bytes_of(node.input(1).type());
  split.work.bytes_in = split.work.indices_in + 2 * bytes_of(updates);
  // Cores share the columns: a unit is some of them, of all updates, each a transfer of its own.
  // Two buffers for what is added and for what it is added to, and the sums, which are wide, fit.
  const int64_t size = size_in_bytes(updates.dtype);
  const int64_t count = std::max<int64_t>(1, node.input(1).shape().num_elements());
  const int64_t columns = std::max<int64_t>(1, updates.shape.num_elements() / count);
  const int64_t together = std::min(columns, kBytesOfAnUpdate / size);
  split.work.tile_elements = together;
  split.work.elements_per_unit = checked_mul(together, count);
  split.work.units = divide_up(columns, together);
  split.work.elements = checked_mul(columns, count);
  split.work.run_in = split.work.run_out = together * size;
  split.limit = Limit::kDependency;
  split.reason = "rows that are named twice are added in order; " +
                 std::to_string(split.work.units) + (split.work.units == 1 ? " unit" : " units") +
                 " of " + std::to_string(together) + " columns";
  return {{}, {split}};
}

NodeWork argmax_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const Type type = node.input(0).type();
  const int64_t results = std::max<int64_t>(1, node.type().shape.num_elements());
  return {{}, {row_work(r.preset, node, type, type.shape.num_elements() / results)}};
}

// A key is compared with one of the table in each round of a binary search; the table itself is
// read once.
NodeWork table_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const Tensor& keys = node.as<TableAttributes>().keys;
  const auto rounds =
      static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(keys.num_elements())));
  Split split = moves(r.preset, node, 1 + rounds, size_in_bytes(i64), 0);
  split.work.bytes_in =
      checked_add(split.work.bytes_in, 2 * static_cast<int64_t>(keys.num_bytes()));
  return {{}, {split}};
}

// Lines that are sorted by merging: pieces of 32 elements at once, then four pieces to one in each
// of log4(n / 32) rounds.
template <class Attributes>
NodeWork ordering_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const Type type = node.input(0).type();
  const int64_t count = type.shape[static_cast<size_t>(node.as<Attributes>().axis)];
  Split split = row_work(r.preset, node, type, count);
  int64_t rounds = 0;
  for (int64_t sorted = 32; sorted < count; sorted = checked_mul(sorted, 4)) ++rounds;
  split.work.pass_bytes = checked_mul(split.work.pass_bytes, 1 + rounds);
  split.work.instructions = checked_mul(split.work.instructions, 1 + rounds);
  return {{}, {split}};
}

// Lines are combined place by place, many of them at once; those that lie along the last axis are
// turned for that and turned back, as transpose turns them.
NodeWork scan_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const Type& type = node.type();
  const auto axis = static_cast<size_t>(node.as<ScanAttributes>().axis);
  Split split = row_work(r.preset, node, type, type.shape[axis]);
  const bool turned = axis + 1 == type.shape.rank();
  if (turned) split.work.pass_bytes = checked_mul(split.work.pass_bytes, 1 + 2 * kPassesOfATurn);
  return {{}, {split}};
}

// A line of the result is made from the lines of x that its windows lie on, and that of a gradient
// from those of all windows that reach it.
template <bool kGradient>
NodeWork max_pool_work(const WorkRequest& r) {
  const Node& node = r.anchored.node();
  const auto& attributes = node.as<MaxPool2dAttributes>();
  const std::vector<int64_t>&window = attributes.window, &stride = attributes.stride;
  const Type& type = node.type();
  Split split;
  VectorWork& work = split.work;
  add_traffic(node, work);
  const int64_t lines = type.shape[0] * type.shape[1];
  work.units = std::max<int64_t>(1, lines);
  work.elements_per_unit = type.shape.num_elements() / work.units;
  const int64_t taps = checked_mul(window[0], window[1]);
  const int64_t windows = kGradient ? divide_up(window[0], stride[0]) : 1;
  // A line of dx goes through the taps of all windows of a line, which are fewer than its elements.
  const int64_t passes =
      kGradient ? divide_up(checked_mul(checked_mul(passes_of(node), taps), windows), stride[1])
                : checked_mul(passes_of(node), taps);
  work.pass_bytes = passes * lane_bytes(type.dtype);
  work.instructions = passes_of(node);
  work.tile_elements = tile_that_fits(r.preset, 4 * size_in_bytes(type.dtype));
  const int64_t lines_in = checked_mul(checked_mul(lines, windows), window[0]);
  const Shape& x = node.input(0).shape();
  work.bytes_in = checked_mul(lines_in, checked_mul(x[2] * x[3], size_in_bytes(type.dtype)));
  if (kGradient) {
    work.bytes_in =
        checked_add(work.bytes_in, checked_mul(windows, bytes_of(node.input(1).type())));
  }
  split.limit = Limit::kRows;
  split.reason = std::to_string(lines) + (lines == 1 ? " line" : " lines");
  return {{}, {split}};
}

Support supports_shared(const AnchoredNode& anchored) {
  if (anchored.is_fused()) return {false, "no kernel for it"};
  return supports_shared_kernel(anchored.node());
}

KernelPlan plan_shared(const AnchoredNode& anchored, const PlanRequest&) {
  return find_shared_kernel(anchored.node())->plan(anchored.node(), kMostSharedBlocks);
}

bool always(const AnchoredNode&) { return true; }

KernelEntry moving(std::vector<std::string_view> ops, NodeWork (*work)(const WorkRequest&),
                   int64_t passes = 0) {
  return {.ops = std::move(ops),
          .supports = supports_shared,
          .plan = plan_shared,
          .work = work,
          .passes = passes,
          .planned = &kPlannedRanges};
}

// Shared kernels that compute results do it without an instruction that saturates.
KernelEntry computing(std::string_view op, NodeWork (*work)(const WorkRequest&), int64_t passes) {
  KernelEntry entry = moving({op}, work, passes);
  entry.saturates_behind = always;
  return entry;
}

KernelEntry attending(std::string_view op, NodeWork (*work)(const WorkRequest&)) {
  KernelEntry entry = computing(op, work, 1);
  entry.planned = &kPlannedAttention;
  return entry;
}

KernelEntry adding(std::string_view op, NodeWork (*work)(const WorkRequest&), int64_t passes) {
  KernelEntry entry = computing(op, work, passes);
  entry.planned = &kPlannedScatterAdd;
  return entry;
}

}  // namespace

std::span<const KernelEntry> shared_entries() {
  static const KernelEntry entries[] = {
      moving({"transpose"}, transpose_work, kPassesOfATurn),
      moving({"slice"}, slice_work),
      moving({"pad"}, pad_work),
      moving({"concat"}, concat_work),
      moving({"broadcast_to"}, broadcast_work),
      moving({"gather"}, gather_work),
      adding("scatter_add", scatter_add_work, 2),
      computing("one_hot", making_work, 2),
      computing("iota", making_work, 2),
      computing("argmax", argmax_work, 3),
      moving({"table_lookup"}, table_work),
      // Passes of one round of merging.
      moving({"sort"}, ordering_work<SortAttributes>, 4),
      moving({"top_k"}, ordering_work<TopKAttributes>, 4),
      computing("cumsum", scan_work, 1),
      computing("cumprod", scan_work, 1),
      // Passes for each tap of a window.
      computing("max_pool2d", max_pool_work<false>, 1),
      moving({"max_pool2d_gradient"}, max_pool_work<true>, 4),
      attending("attention", attention_work),
      attending("attention_gradient", attention_gradient_work),
      computing("fold_key", making_work, 40),
      computing("uniform", making_work, 40),
      computing("bernoulli", making_work, 42),
      computing("normal", making_work, 100),
  };
  return entries;
}

}  // namespace keel::npu
