#include "keel/backends/npu/kernels/element_work.h"

#include <algorithm>
#include <utility>

#include "keel/backends/common/cube/lane_bytes.h"
#include "keel/backends/npu/kernels/kernel_entry.h"
#include "keel/core/base/checked.h"

namespace keel::npu {

void add_instruction(const Node& node, VectorWork& work) {
  int64_t lane = lane_bytes(node.type().dtype);
  for (const Value& v : node.inputs()) lane = std::max(lane, lane_bytes(v.dtype()));
  work.pass_bytes += passes_of(node) * lane;
  ++work.instructions;
}

std::vector<const Node*> instructions_of(const std::vector<const Node*>& nodes) {
  std::vector<const Node*> result;
  for (const Node* node : nodes) {
    if (!node->has(kView | kMovement)) result.push_back(node);
  }
  return result;
}

VectorWork element_work(const Preset& preset, const std::vector<const Node*>& instructions,
                        std::span<const Type> inputs, std::span<const Type> outputs,
                        int64_t elements) {
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
  work.tile_elements = tile_that_fits(preset, bytes);
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
  split.reason = units_reason(split.work);
  return split;
}

void cut_rows(const Preset& preset, int64_t row_elements, int64_t elements, int64_t size,
              int64_t scratch, Split& split) {
  VectorWork& work = split.work;
  const int64_t count = row_elements == 0 ? 0 : elements / row_elements;
  work.units = std::max<int64_t>(1, count);
  work.elements_per_unit = elements / work.units;
  // Two buffers for the operand and for the result, and one for what lies between.
  work.tile_elements = tile_that_fits(preset, 4 * size + std::max(size, scratch));
  // A row that does not fit, with the others that it is computed with, is read a second time.
  const int64_t rows = std::max<int64_t>(2, work.loads + work.stores);
  if (row_elements > preset.ub_bytes / (rows * size + scratch))
    work.bytes_in = checked_mul(work.bytes_in, 2);
  work.aligned = row_elements * size % kRowAlignment == 0 || row_elements * size < kRowAlignment;
  split.limit = Limit::kRows;
  split.reason = std::to_string(count) + (count == 1 ? " row" : " rows");
}

Split row_work(const Preset& preset, const Node& node, const Type& wide, int64_t row_elements,
               int64_t scratch) {
  Split split;
  VectorWork& work = split.work;
  add_traffic(node, work);
  work.pass_bytes = passes_of(node) * lane_bytes(wide.dtype);
  work.instructions = passes_of(node);
  cut_rows(preset, row_elements, wide.shape.num_elements(), size_in_bytes(wide.dtype), scratch,
           split);
  return split;
}

}  // namespace keel::npu
