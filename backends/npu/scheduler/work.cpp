#include "keel/backends/npu/scheduler/work.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <unordered_set>
#include <utility>

#include "keel/backends/npu/isa/vector_passes.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/slice.h"

namespace keel::npu {
namespace {

constexpr int64_t kTileStep = 64;       // elements
constexpr int64_t kVectorBytes = 256;   // one instruction's worth: what pieces are cut into
constexpr int64_t kBlockBytes = 32;     // of unified buffer
constexpr int64_t kRowAlignment = 512;  // rows that are multiples of it are copied fastest

int64_t size_in_bytes(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }
int64_t bytes_of(const Type& type) {
  return static_cast<int64_t>(type.shape.num_bytes(type.dtype));
}
int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t last_dim(const Type& type) { return type.shape.rank() == 0 ? 1 : type.shape.back(); }

[[noreturn]] void unpriced(const Node& node) {
  throw Error({.op = node.op_name(),
               .message = "has no price on the NPU",
               .fix = "give its instruction a row in backends/npu/isa/vector_passes.cpp",
               .site = node.site()});
}

int64_t passes_of(const Node& node) {
  const int64_t passes = vector_passes(node.op_name());
  if (passes == 0) unpriced(node);
  return passes;
}

// Bytes and transfers of a node's operands.
void add_traffic(const Node& node, VectorWork& work) {
  work.loads = work.stores = 0;
  for (const Value& v : node.inputs()) {
    work.bytes_in = checked_add(work.bytes_in, bytes_of(v.type()));
    if (v.shape().num_elements() > 1) ++work.loads;
  }
  for (const Type& t : node.types()) {
    work.bytes_out = checked_add(work.bytes_out, bytes_of(t));
    ++work.stores;
  }
  work.loads = std::max<int64_t>(work.loads, node.inputs().empty() ? 0 : 1);
}

// Cuts `total` elements into pieces of one instruction's worth.
void cut_evenly(VectorWork& work, int64_t total, int64_t widest) {
  work.elements_per_unit = std::max<int64_t>(1, kVectorBytes / std::max<int64_t>(1, widest));
  work.units = std::max<int64_t>(1, divide_up(total, work.elements_per_unit));
  if (total < work.elements_per_unit) work.elements_per_unit = total;
}

std::string pieces_reason(const VectorWork& work) {
  return std::to_string(work.units) + " aligned piece" + (work.units == 1 ? "" : "s") + " of " +
         std::to_string(kVectorBytes) + " bytes";
}
std::string rows_reason(int64_t rows) {
  return std::to_string(rows) + (rows == 1 ? " row" : " rows");
}

// ---- element-wise

void add_instruction(const Node& node, VectorWork& work) {
  int64_t lane = lane_bytes(node.type().dtype);
  for (const Value& v : node.inputs()) lane = std::max(lane, lane_bytes(v.dtype()));
  work.pass_bytes += passes_of(node) * lane;
  ++work.instructions;
}

// Those of a body's nodes that compute: broadcasts inside it are read as they are, and rows that
// are gathered as they are loaded.
std::vector<const Node*> instructions_of(const std::vector<const Node*>& nodes) {
  std::vector<const Node*> result;
  for (const Node* node : nodes) {
    if (!node->has(kView | kMovement)) result.push_back(node);
  }
  return result;
}

// Element-wise work over `elements`, by the types of what it reads and gives.
VectorWork element_work(const Preset& preset, const std::vector<const Node*>& instructions,
                        std::span<const Type> inputs, std::span<const Type> outputs,
                        int64_t elements, const std::string& op) {
  VectorWork work;
  work.loads = 0;
  // Two buffers for each operand, and two for what lies between instructions.
  int64_t bytes = 0, widest = 1;
  for (const Type& t : inputs) {
    work.bytes_in = checked_add(work.bytes_in, bytes_of(t));
    widest = std::max(widest, size_in_bytes(t.dtype));
    if (t.shape.num_elements() <= 1) continue;
    bytes += 2 * size_in_bytes(t.dtype);
    ++work.loads;
  }
  work.loads = std::max<int64_t>(work.loads, inputs.empty() ? 0 : 1);
  work.stores = static_cast<int64_t>(outputs.size());
  for (const Type& t : outputs) {
    work.bytes_out = checked_add(work.bytes_out, bytes_of(t));
    widest = std::max(widest, size_in_bytes(t.dtype));
    bytes += 2 * size_in_bytes(t.dtype);
  }
  for (const Node* instruction : instructions) add_instruction(*instruction, work);
  if (work.instructions > 1) bytes += 2 * widest;
  work.tile_elements = tile_that_fits(preset, bytes, op);
  cut_evenly(work, elements, widest);
  return work;
}

std::vector<Type> types_of(const Node& node, const std::vector<size_t>& inputs) {
  std::vector<Type> types;
  for (const size_t i : inputs) types.push_back(node.input(i).type());
  return types;
}

Split as_tiles(VectorWork work) {
  Split split{.work = std::move(work)};
  split.reason = pieces_reason(split.work);
  return split;
}

Split tiles(const Preset& preset, const AnchoredNode& anchored) {
  const Node& node = anchored.node();
  const std::vector<const Node*> instructions =
      node.bodies().empty() ? std::vector{&node} : instructions_of(anchored.epilogue());
  std::vector<Type> inputs;
  for (const Value& v : node.inputs()) inputs.push_back(v.type());
  return as_tiles(element_work(preset, instructions, inputs, node.types().to_vector(),
                               node.type().shape.num_elements(), node.op_name()));
}

// ---- reductions

// How a reduction lies in memory.
struct Reduction {
  int64_t elements = 0;
  int64_t kept = 1;         // results
  bool last_kept = false;   // the last axis of more than one element is kept
  bool splittable = false;  // more than one element goes into a result
};

// Whether partial results are merged by adding them.
bool adds_up(const Node& reduction) { return reduction.op_name() == "sum"; }

Reduction reduction_of(const Node& node) {
  const Shape& shape = node.input(0).shape();
  const auto reduced = reduced_axes(node.as<ReduceAttributes>().axes, shape.rank());
  Reduction r;
  r.elements = shape.num_elements();
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (!reduced[axis]) r.kept *= shape[axis];
    r.last_kept = !reduced[axis];
  }
  r.splittable = r.elements > r.kept;
  return r;
}

// What comes before a reduction, with its one result of `type`.
VectorWork prologue_work(const Preset& preset, const AnchoredNode& fused, const Type& type) {
  const std::vector<Type> inputs = types_of(fused.node(), fused.prologue_inputs());
  return element_work(preset, instructions_of(fused.prologue()), inputs, std::array{type},
                      fused.anchor().input(0).shape().num_elements(), fused.node().op_name());
}

// What comes behind a reduction, with its results brought from global memory or still at hand.
std::shared_ptr<const VectorWork> epilogue_work(const Preset& preset, const AnchoredNode& fused,
                                                bool brought) {
  if (!fused.has_epilogue()) return nullptr;
  const Node& node = fused.node();
  std::vector<Type> inputs = types_of(node, fused.epilogue_inputs());
  if (brought) inputs.push_back(fused.anchor().type());
  return std::make_shared<VectorWork>(
      element_work(preset, instructions_of(fused.epilogue()), inputs, node.types().to_vector(),
                   node.type().shape.num_elements(), node.op_name()));
}

VectorWork reduction_base(const Preset& preset, const AnchoredNode& fused) {
  const Node& node = fused.anchor();
  VectorWork work;
  const DType dtype = node.input(0).dtype();
  work.bytes_in = bytes_of(node.input(0).type());
  work.bytes_out = bytes_of(node.type());
  work.pass_bytes = passes_of(node) * lane_bytes(dtype);
  // Halves are accumulated in f32, so they are cast on the way.
  if (dtype == f16 || dtype == bf16)
    work.pass_bytes = (passes_of(node) + vector_passes("cast")) * 4;
  work.instructions = 1;
  // The operand twice, and accumulators as wide as f32.
  work.tile_elements = tile_that_fits(preset, 2 * size_in_bytes(dtype) + 4, node.op_name());
  if (!fused.has_prologue(0)) return work;
  // What the operand is computed from comes in its place; the operand stays on the core.
  const VectorWork prologue = prologue_work(preset, fused, node.input(0).type());
  work.bytes_in = prologue.bytes_in;
  work.loads = prologue.loads;
  work.pass_bytes += prologue.pass_bytes;
  work.instructions += prologue.instructions;
  work.tile_elements = prologue.tile_elements;
  return work;
}

// By results: each block makes some of them, whole, and goes on with them.
Split by_results(const Preset& preset, const AnchoredNode& fused, const Reduction& r) {
  const Node& node = fused.anchor();
  Split split{.work = reduction_base(preset, fused)};
  const int64_t size = size_in_bytes(node.input(0).dtype());
  const int64_t group = r.last_kept ? std::max<int64_t>(1, kBlockBytes / size) : 1;
  split.work.units = std::max<int64_t>(1, divide_up(r.kept, group));
  split.work.elements_per_unit = divide_up(r.elements, split.work.units);
  split.work.tail = epilogue_work(preset, fused, false);
  if (split.work.tail != nullptr) split.work.bytes_out = split.work.stores = 0;
  split.limit = Limit::kRows;
  split.reason = std::to_string(r.kept) + (r.kept == 1 ? " result" : " results");
  if (!r.splittable) return split;
  const DType dtype = node.input(0).dtype();
  if (!adds_up(node)) {
    split.limit = Limit::kReduction;
    split.reason += "; partial results of " + node.op_name() + " cannot be merged across cores";
  } else if (!preset.has_atomic_add(dtype)) {
    split.limit = Limit::kAtomicAdd;
    split.reason += "; no atomic add for " + std::string(name_of(dtype)) + " on " + preset.name +
                    ", so that partial sums of several cores cannot be merged";
  }
  return split;
}

// By elements: each block adds its partial results to those of the others.
Split by_elements(const Preset& preset, const AnchoredNode& fused, const Reduction& r) {
  Split split{.work = reduction_base(preset, fused)};
  cut_evenly(split.work, r.elements, size_in_bytes(fused.anchor().input(0).dtype()));
  split.work.bytes_out_per_block = split.work.bytes_out;
  split.work.tail = epilogue_work(preset, fused, true);
  split.reason = pieces_reason(split.work);
  return split;
}

std::vector<Split> reductions(const Preset& preset, const AnchoredNode& fused) {
  const Node& node = fused.anchor();
  const Reduction r = reduction_of(node);
  std::vector<Split> splits = {by_results(preset, fused, r)};
  const bool mergeable =
      adds_up(node) && preset.has_atomic_add(node.input(0).dtype()) && r.splittable;
  if (mergeable) splits.push_back(by_elements(preset, fused, r));
  return splits;
}

// ---- rows: softmax and its family, argmax

Split rows(const Preset& preset, const Node& node, const Type& wide, int64_t row_elements) {
  Split split;
  VectorWork& work = split.work;
  add_traffic(node, work);
  const int64_t elements = wide.shape.num_elements();
  const int64_t count = row_elements == 0 ? 0 : elements / row_elements;
  work.units = std::max<int64_t>(1, count);
  work.elements_per_unit = elements / work.units;
  work.pass_bytes = passes_of(node) * lane_bytes(wide.dtype);
  work.instructions = vector_passes(node.op_name());
  const int64_t size = size_in_bytes(wide.dtype);
  work.tile_elements = tile_that_fits(preset, 5 * size, node.op_name());
  // A row that does not fit is read a second time.
  if (row_elements > work.tile_elements) work.bytes_in = checked_mul(work.bytes_in, 2);
  work.aligned = row_elements * size % kRowAlignment == 0 || row_elements * size < kRowAlignment;
  split.limit = Limit::kRows;
  split.reason = rows_reason(count);
  return split;
}

// ---- moving, indexing, drawing

Split moves(const Preset& preset, const Node& node, int64_t passes, int64_t run_in,
            int64_t run_out) {
  Split split;
  VectorWork& work = split.work;
  add_traffic(node, work);
  const Type& type = node.type();
  work.pass_bytes = passes * lane_bytes(type.dtype);
  work.instructions = passes == 0 ? 0 : 1;
  const int64_t size = size_in_bytes(type.dtype);
  work.tile_elements = tile_that_fits(preset, 4 * size, node.op_name());
  work.run_in = run_in;
  work.run_out = run_out;
  cut_evenly(work, type.shape.num_elements(), size);
  split.reason = pieces_reason(work);
  return split;
}

// Bytes that lie together behind axis `axis`.
int64_t run_behind(const Type& type, int64_t axis) {
  int64_t run = size_in_bytes(type.dtype);
  for (size_t i = static_cast<size_t>(axis) + 1; i < type.shape.rank(); ++i) run *= type.shape[i];
  return run;
}

std::vector<Split> index_or_move(const Preset& preset, const Node& node) {
  const std::string& op = node.op_name();
  const int64_t row_out = last_dim(node.type()) * size_in_bytes(node.type().dtype);
  if (op == "gather") {
    const int64_t run = run_behind(node.input(0).type(), node.as<GatherAttributes>().axis);
    Split split = moves(preset, node, 0, run, 0);
    // Only the rows that are asked for are read.
    split.work.bytes_in = bytes_of(node.type()) + bytes_of(node.input(1).type());
    return {split};
  }
  if (op == "scatter_add") {
    Split split = moves(preset, node, passes_of(node), 0, 0);
    // It adds to what lies there: only the rows that are named move, read and written.
    const Type updates = node.input(2).type();
    split.work.bytes_out = bytes_of(updates);
    split.work.bytes_in = bytes_of(node.input(1).type()) + 2 * bytes_of(updates);
    split.work.elements_per_unit = updates.shape.num_elements();
    split.work.units = 1;
    split.limit = Limit::kDependency;
    split.reason = "rows that are named twice are added in order";
    return {split};
  }
  if (op == "one_hot" || op == "iota" || op == "uniform" || op == "normal" || op == "bernoulli" ||
      op == "fold_key") {
    return {moves(preset, node, passes_of(node), 0, 0)};
  }
  const int64_t row_in = last_dim(node.input(0).type()) * size_in_bytes(node.input(0).dtype());
  if (op == "transpose") return {moves(preset, node, passes_of(node), row_in, row_out)};
  if (op == "slice") return {moves(preset, node, 0, row_out, 0)};
  if (op == "pad") {
    // Elements with others between them are written one by one.
    const auto& interior = node.as<PadAttributes>().interior;
    const bool apart = !interior.empty() && interior.back() != 0;
    return {moves(preset, node, 0, row_in, apart ? size_in_bytes(node.type().dtype) : row_out)};
  }
  if (op == "concat") return {moves(preset, node, 0, row_in, row_out)};
  if (op == "broadcast_to") return {moves(preset, node, 0, 0, 0)};
  unpriced(node);
}

// What row-wise ops read one of for each row.
void add_row_inputs(const AnchoredNode& fused, CubeWork& work) {
  std::unordered_set<Value, ValueHash> inputs;
  for (const Node* row : fused.rows()) {
    for (const Value& v : row->inputs()) {
      const bool is_column = v.shape().rank() + 1 == row->input(0).shape().rank();
      if (is_column && v.node().op_name() == "input" && inputs.insert(v).second) {
        work.row_bytes_in += size_in_bytes(v.dtype());
      }
    }
  }
}

// What is fused to a product: the passes of its instructions and what moves beside its operands.
void add_fused(const Preset& preset, const AnchoredNode& fused, CubeWork& work) {
  const Node& node = fused.node();
  work.stored_a = size_in_bytes(fused.stored(0).dtype());
  work.stored_b = size_in_bytes(fused.stored(1).dtype());
  VectorWork load, epilogue;
  for (const Node* inner : instructions_of(fused.prologue())) add_instruction(*inner, load);
  work.load_pass_bytes = load.pass_bytes;
  if (!fused.has_epilogue()) return;
  for (const Node* inner : instructions_of(fused.epilogue())) add_instruction(*inner, epilogue);
  for (const Node* inner : fused.rows()) add_instruction(*inner, epilogue);
  work.epilogue_pass_bytes = epilogue.pass_bytes;
  work.epilogue_instructions = epilogue.instructions;
  const Type& product = fused.anchor().type();
  work.epilogue_bytes_out = 0;
  for (const Type& t : node.types()) {
    (t.shape == product.shape ? work.epilogue_bytes_out : work.row_bytes_out) +=
        size_in_bytes(t.dtype);
  }
  int64_t buffered = 2 * size_in_bytes(product.dtype);
  for (const Type& type : types_of(node, fused.epilogue_inputs())) {
    if (type.shape.num_elements() > 1) buffered += 2 * size_in_bytes(type.dtype);
    if (type.shape == product.shape) work.epilogue_bytes_in += size_in_bytes(type.dtype);
  }
  work.whole_rows = !fused.rows().empty();
  add_row_inputs(fused, work);
  tile_that_fits(preset, buffered + 2 * work.epilogue_bytes_out, node.op_name());
}

// A product of integers, which the cube does not multiply: on the vector unit, a multiplication and
// an addition for each element of B and row of A. A block keeps sums of as many rows as half of its
// unified buffer holds, so that B comes once for each such group of rows.
Split integer_product(const Preset& preset, const Node& node) {
  const Type &a = node.input(0).type(), &b = node.input(1).type(), &c = node.type();
  const int64_t size = size_in_bytes(c.dtype);
  const int64_t m = c.shape[c.shape.rank() - 2], n = c.shape.back();
  const int64_t k = a.shape[a.shape.rank() - (node.as<MatmulAttributes>().transpose_a ? 2 : 1)];
  const int64_t piece = std::max<int64_t>(1, std::min(n, kVectorBytes / size));
  const int64_t group =
      std::clamp<int64_t>(preset.ub_bytes / 2 / kVectorBytes, 1, std::max<int64_t>(1, m));
  Split split;
  VectorWork& work = split.work;
  work.units = std::max<int64_t>(
      1,
      checked_mul(divide_up(c.shape.num_elements(), std::max<int64_t>(1, n)), divide_up(n, piece)));
  work.elements_per_unit = checked_mul(piece, k);
  work.pass_bytes = (vector_passes("mul") + vector_passes("add")) * lane_bytes(c.dtype);
  work.instructions = 2;
  work.loads = 2;
  work.bytes_in =
      checked_add(bytes_of(a), checked_mul(bytes_of(b), std::max<int64_t>(1, divide_up(m, group))));
  work.bytes_out = bytes_of(c);
  work.tile_elements = checked_mul(tile_that_fits(preset, 4 * size, node.op_name()), group);
  work.aligned = n * size % kRowAlignment == 0 || n * size < kRowAlignment;
  split.reason = pieces_reason(work);
  return split;
}

void add_packing(const Packing& packing, CubeWork& work) {
  if (packing.right != 0) {
    work.stored_b = packing.right;
    work.bytes_b = checked_mul(checked_mul(work.k, work.n), packing.right);
    work.aligned_b = true;
  }
  if (packing.copies == 0) return;
  work.epilogue_bytes_out += packing.copies;
  work.epilogue_pass_bytes += packing.roundings * vector_passes("cast") * lane_bytes(f32);
}

CubeWork product(const Preset& preset, const AnchoredNode& fused, const Packing& packing) {
  const auto& attributes = fused.anchor().as<MatmulAttributes>();
  // As multiplied, in the dtypes as stored: of a table whose rows are gathered only those are read.
  const Type a{fused.stored(0).dtype(), fused.anchor().input(0).shape()};
  const Type b{fused.stored(1).dtype(), fused.anchor().input(1).shape()};
  const Shape& c = fused.anchor().type().shape;
  CubeWork work;
  work.m = c[c.rank() - 2];
  work.n = c[c.rank() - 1];
  work.k = a.shape[a.shape.rank() - (attributes.transpose_a ? 2 : 1)];
  work.batch = 1;
  for (size_t i = 0; i + 2 < c.rank(); ++i) work.batch = checked_mul(work.batch, c[i]);
  work.dtype = fused.anchor().input(0).dtype();
  work.wide = attributes.wide;
  work.bytes_a = bytes_of(a);
  work.bytes_b = bytes_of(b);
  work.aligned_a = last_dim(a) * size_in_bytes(a.dtype) % kRowAlignment == 0;
  work.aligned_b = last_dim(b) * size_in_bytes(b.dtype) % kRowAlignment == 0;
  if (fused.is_fused()) add_fused(preset, fused, work);
  add_packing(packing, work);
  return work;
}

}  // namespace

const char* name_of(Limit limit) noexcept {
  static constexpr const char* kNames[] = {"none",
                                           "rows < cores",
                                           "too few bytes",
                                           "reduction axis not split",
                                           "no atomic add for the dtype",
                                           "tile alignment",
                                           "dependency",
                                           "memory bandwidth",
                                           "user cap"};
  return kNames[static_cast<size_t>(limit)];
}

int64_t tile_that_fits(const Preset& preset, int64_t bytes_per_element, const std::string& op) {
  const int64_t fits = preset.ub_bytes / std::max<int64_t>(1, bytes_per_element);
  const int64_t tile = fits / kTileStep * kTileStep;
  if (tile > 0) return tile;
  throw Error(
      {.op = op,
       .argument = "unified buffer",
       .expected = "at most " + std::to_string(preset.ub_bytes) + " bytes on " + preset.name,
       .got = std::to_string(kTileStep * bytes_per_element) + " bytes for the smallest tile",
       .fix = "fuse fewer ops, or choose a preset with a larger buffer"});
}

Split copy_split(const Preset& preset, int64_t bytes) {
  Split split;
  VectorWork& work = split.work;
  work.bytes_in = work.bytes_out = bytes;
  work.tile_elements = tile_that_fits(preset, 2, "copy");
  cut_evenly(work, bytes, 1);
  split.reason = pieces_reason(work);
  return split;
}

std::vector<Split> apart_of(const Preset& preset, const AnchoredNode& fused, size_t part) {
  if (part == 1) return reductions(preset, fused.anchor());
  if (part == 0 && fused.has_prologue(0)) {
    return {as_tiles(prologue_work(preset, fused, fused.anchor().input(0).type()))};
  }
  if (part == 2 && fused.has_epilogue()) {
    return {as_tiles(*epilogue_work(preset, fused, true))};
  }
  return {};
}

NodeWork work_of(const Preset& preset, const AnchoredNode& anchored, const Packing& packing) {
  const Node& node = anchored.node();
  if (anchored.is_product() && is_integer(anchored.anchor().type().dtype)) {
    return {{}, {integer_product(preset, node)}};
  }
  if (anchored.is_product()) return {product(preset, anchored, packing), {}};
  if (anchored.is_elementwise() && !node.has(kMovement)) return {{}, {tiles(preset, anchored)}};
  const std::string& op = anchored.anchor().op_name();
  if (op == "sum" || op == "prod" || op == "max" || op == "min") {
    return {{}, reductions(preset, anchored)};
  }
  if (op == "argmax") {
    const Type type = node.input(0).type();
    const int64_t results = std::max<int64_t>(1, node.type().shape.num_elements());
    return {{}, {rows(preset, node, type, type.shape.num_elements() / results)}};
  }
  if (op == "softmax" || op == "log_softmax" || op == "softmax_cross_entropy" ||
      op == "softmax_cross_entropy_grad") {
    const Type type = node.input(0).type();
    return {{}, {rows(preset, node, type, last_dim(type))}};
  }
  return {{}, index_or_move(preset, node)};
}

}  // namespace keel::npu
