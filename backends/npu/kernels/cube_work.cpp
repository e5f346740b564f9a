#include "keel/backends/npu/kernels/cube_work.h"

#include <algorithm>
#include <unordered_set>

#include "keel/backends/common/cube/lane_bytes.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/npu/kernels/element_work.h"
#include "keel/core/base/checked.h"
#include "keel/ops/products/product_phases.h"

namespace keel::npu {
namespace {

// Adds the inputs of row-wise ops that hold one element for each row.
void add_row_inputs(const AnchoredNode& fused, CubeWork& work) {
  std::unordered_set<Value, ValueHash> inputs;
  for (const Node* op : fused.row_wise()) {
    for (const Value& v : op->inputs()) {
      const bool is_column = v.shape().rank() + 1 == op->input(0).shape().rank();
      if (is_column && v.node().is(OpRole::kInput) && inputs.insert(v).second) {
        work.row_bytes_in += size_in_bytes(v.dtype());
      }
    }
  }
}

// Returns passes times lane bytes of what computes an element of the operand as it is loaded.
int64_t load_passes(const AnchoredNode& fused, size_t operand) {
  const Value value = fused.anchor().input(operand);
  std::unordered_set<const Node*> needed = {&value.node()};
  const std::vector<const Node*>& prologue = fused.prologue();
  for (auto it = prologue.rbegin(); it != prologue.rend(); ++it) {
    if (!needed.contains(*it)) continue;
    for (const Value& v : (*it)->inputs()) needed.insert(&v.node());
  }
  VectorWork load;
  for (const Node* inner : instructions_of(prologue)) {
    if (needed.contains(inner)) add_instruction(*inner, load);
  }
  return load.pass_bytes;
}

// Returns what is fused to a product: the passes of its instructions and what moves beside its
// operands.
void add_fused(const AnchoredNode& fused, const ProductMatrices& matrices, CubeWork& work) {
  const Node& node = fused.node();
  work.stored_a = size_in_bytes(fused.stored(matrices.a.input).dtype());
  work.stored_b = size_in_bytes(fused.stored(matrices.b.input).dtype());
  VectorWork epilogue;
  work.load_pass_a = load_passes(fused, matrices.a.input);
  work.load_pass_b = load_passes(fused, matrices.b.input);
  if (!fused.has_epilogue()) return;
  for (const Node* inner : instructions_of(fused.epilogue())) add_instruction(*inner, epilogue);
  for (const Node* inner : fused.row_wise()) add_instruction(*inner, epilogue);
  work.epilogue_pass_bytes = epilogue.pass_bytes;
  work.epilogue_instructions = epilogue.instructions;
  const Type& product = fused.anchor().type();
  work.epilogue_bytes_out = 0;
  for (const Type& t : node.types()) {
    (t.shape == product.shape ? work.epilogue_bytes_out : work.row_bytes_out) +=
        size_in_bytes(t.dtype);
  }
  for (const Type& type : types_of(node, fused.epilogue_inputs())) {
    if (type.shape == product.shape) work.epilogue_bytes_in += size_in_bytes(type.dtype);
  }
  work.whole_rows = !fused.row_wise().empty();
  add_row_inputs(fused, work);
}

// A product of integers, which the cube does not multiply: on the vector unit, a multiplication and
// an addition for each element of B and row of A. Each tile gets its rows of A and columns of B.
Split integer_product(const Preset& preset, const AnchoredNode& product) {
  const Node& node = product.node();
  const Type &a = node.input(0).type(), &b = node.input(1).type(), &c = node.type();
  const int64_t size = size_in_bytes(c.dtype);
  const IntegerProductTiles tiles = integer_product_tiles(preset, product);
  const int64_t k = product.matrices().k, n = tiles.n;
  const int64_t across = divide_up(n, tiles.columns), down = divide_up(tiles.m, tiles.rows);
  Split split;
  VectorWork& work = split.work;
  work.units = std::max<int64_t>(1, checked_mul(checked_mul(tiles.batch, tiles.m), across));
  work.elements_per_unit = checked_mul(tiles.columns, k);
  work.elements = checked_mul(checked_mul(tiles.batch, tiles.m), checked_mul(n, k));
  work.pass_bytes =
      (vector::instruction_passes("mul") + vector::instruction_passes("add")) * lane_bytes(c.dtype);
  work.instructions = 2;
  work.loads = 2;
  work.bytes_in = checked_add(checked_mul(bytes_of(a), std::max<int64_t>(1, across)),
                              checked_mul(bytes_of(b), std::max<int64_t>(1, down)));
  // A core needs all of its columns of B for a single row.
  work.least_in_per_block = bytes_of(b) / std::max<int64_t>(1, checked_mul(across, tiles.batch));
  work.bytes_out = bytes_of(c);
  work.tile_elements = checked_mul(tile_that_fits(preset, 4 * size), tiles.rows);
  work.aligned = n * size % kRowAlignment == 0 || n * size < kRowAlignment;
  split.reason = units_reason(work);
  return split;
}

void add_packing(const Packing& packing, CubeWork& work) {
  if (packing.right != 0) {
    work.stored_b = packing.right;
    work.bytes_b = checked_mul(checked_mul(work.k, work.n), packing.right);
    work.aligned_b = true;
    work.load_pass_b = 0;
  }
  if (packing.copies == 0) return;
  work.epilogue_bytes_out += packing.copies;
  work.epilogue_pass_bytes +=
      packing.roundings * vector::instruction_passes("cast") * lane_bytes(f32);
}

// How often an element of an operand as stored comes in the matrix that is multiplied.
double repeats(const ProductMatrices::Operand& operand, int64_t elements, const Type& stored) {
  if (!operand.windows) return 1;
  const int64_t distinct = stored.shape.num_elements();
  return std::max(
      1.0, static_cast<double>(elements) / static_cast<double>(std::max<int64_t>(1, distinct)));
}

CubeWork product(const AnchoredNode& fused, const ProductMatrices& matrices,
                 const Packing& packing) {
  const auto as_loaded = [&](const ProductMatrices::Operand& operand) {
    // As multiplied, in the dtypes as stored: of a table whose rows are gathered only those are
    // read.
    return Type{fused.stored(operand.input).dtype(), fused.anchor().input(operand.input).shape()};
  };
  const Type a = as_loaded(matrices.a), b = as_loaded(matrices.b);
  CubeWork work;
  work.m = matrices.m;
  work.n = matrices.n;
  work.k = matrices.k;
  work.batch = static_cast<int64_t>(matrices.batch.size());
  work.dtype = fused.anchor().input(0).dtype();
  work.wide = matrices.wide;
  work.bytes_a = bytes_of(a);
  work.bytes_b = bytes_of(b);
  work.repeats_a = repeats(matrices.a, checked_mul(work.batch, checked_mul(work.m, work.k)), a);
  work.repeats_b = repeats(matrices.b, checked_mul(work.batch, checked_mul(work.k, work.n)), b);
  work.aligned_a = last_dim(a) * size_in_bytes(a.dtype) % kRowAlignment == 0;
  work.aligned_b = last_dim(b) * size_in_bytes(b.dtype) % kRowAlignment == 0;
  if (fused.is_fused()) add_fused(fused, matrices, work);
  add_packing(packing, work);
  return work;
}

}  // namespace

NodeWork product_work(const WorkRequest& request) {
  return {product(request.anchored, request.anchored.matrices(), request.packing), {}};
}

// Each phase counts as one of the batch, as long as the longest and with the mean number of terms.
NodeWork phased_work(const WorkRequest& request) {
  const std::vector<ProductPhase> phases = product_phases(request.anchored.anchor());
  ProductMatrices all = phases.front().matrices;
  all.batch.clear();
  int64_t terms = 0;  // of all rows
  for (const ProductPhase& phase : phases) {
    const ProductMatrices& p = phase.matrices;
    all.m = std::max(all.m, p.m);
    terms = checked_add(terms, checked_mul(p.m, p.k));
    all.batch.insert(all.batch.end(), p.batch.begin(), p.batch.end());
  }
  const auto count = static_cast<int64_t>(phases.size());
  all.k = std::max<int64_t>(1, divide_up(terms, checked_mul(all.m, count)));
  return {product(request.anchored, all, request.packing), {}};
}

// Half of unified buffer holds sums, of one instruction's width for each row.
IntegerProductTiles integer_product_tiles(const Preset& preset, const AnchoredNode& product) {
  const ProductMatrices& matrices = product.matrices();
  const int64_t size = size_in_bytes(product.node().type().dtype);
  IntegerProductTiles tiles{static_cast<int64_t>(matrices.batch.size()), matrices.m, matrices.n};
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): launches do not compute on tokens.
  tiles.columns = std::clamp<int64_t>(matrices.n, 1, kVectorBytes / size);
  tiles.rows =
      std::clamp<int64_t>(preset.ub_bytes / 2 / kVectorBytes, 1, std::max<int64_t>(1, matrices.m));
  return tiles;
}

NodeWork integer_product_work(const WorkRequest& request) {
  return {{}, {integer_product(request.preset, request.anchored)}};
}

}  // namespace keel::npu
