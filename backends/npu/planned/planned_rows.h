// Planned rows: launches whose results are rows (or elements) that need nothing of one another:
// each core takes its tiles through unified buffer, some rows at a time, in two buffers where they
// fit twice. What is done to a tile is the caller's. Any thread.
#ifndef KEEL_BACKENDS_NPU_PLANNED_PLANNED_ROWS_H
#define KEEL_BACKENDS_NPU_PLANNED_PLANNED_ROWS_H

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "keel/backends/npu/planned/core_run.h"

namespace keel::npu {

// The parts of a launch's operands and results that belong to each of `count` rows, by the number
// of the argument.
struct RowLayout {
  // `rows` of them. `brings`: the inputs come to unified buffer; otherwise they are read where they
  // lie, as transfers read what they scatter.
  RowLayout(std::span<const Type> inputs, std::span<const Type> outputs, int64_t rows, bool brings);
  // Returns the bytes that a row takes in unified buffer, with so many buffers for each operand and
  // result that is there.
  int64_t bytes_on_core(int64_t buffers) const;
  // Returns the element that the row of an operand begins with; its others follow `step` apart.
  int64_t first_element(size_t operand, int64_t row) const {
    return row / step * step * elements[operand] + row % step;
  }

  int64_t count;
  size_t inputs;
  bool brings_inputs;
  int64_t step = 1;  // where it is more, so many neighbouring rows lie element by element in turn
  std::vector<int64_t> elements;
  std::vector<size_t> bytes;  // of a row
  std::vector<size_t> sizes;  // of an element
  size_t scratch = 0;         // bytes of a row that its instructions work in besides, in one buffer
};

// The parts of a node's.
RowLayout rows_of_node(const Node& node, int64_t rows, bool brings);

struct RowInstructions {
  // Computes rows [begin, end). `at` has for each argument where its row 0 is or would be;
  // `scratch` is in unified buffer and has what the layout asks for.
  std::function<void(void* const* at, int64_t begin, int64_t end, void* scratch)> make;
  // Where it is set, looks at the arguments before the first tile and throws Error.
  std::function<void(void* const* args)> check = {};
};

// As many whole rows of `columns` elements as the prices' tile has room for, where unified buffer
// also has room for what comes with each row twice and for its scratch.
TilePlan plan_whole_rows(const PlannedRequest& request, const RowLayout& rows, int64_t columns);

// There is no run where not even one row fits in unified buffer: the prices read a longer row
// twice, which these instructions do not do.
PlannedLaunch make_planned_rows(const PlannedRequest& request, TilePlan plan, RowLayout rows,
                                RowInstructions instructions);
// The same for what is not a node. `saturates_behind`: as in PlannedRequest.
PlannedLaunch make_planned_rows(CoreLaunch launch, RowLayout rows, RowInstructions instructions,
                                bool saturates_behind = false);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_PLANNED_ROWS_H
