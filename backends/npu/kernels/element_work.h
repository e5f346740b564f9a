// Element work: what element-wise instructions ask of the vector unit, by themselves or fused to
// something: the part of the prices that kernels share. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_ELEMENT_WORK_H
#define KEEL_BACKENDS_NPU_KERNELS_ELEMENT_WORK_H

#include <span>
#include <string>
#include <vector>

#include "keel/backends/npu/cost/work.h"

namespace keel::npu {

// Adds one instruction for each element.
void add_instruction(const Node& node, VectorWork& work);

// Returns those of a body's nodes that compute: broadcasts inside it are read as they are, and rows
// that are gathered as they are loaded.
std::vector<const Node*> instructions_of(const std::vector<const Node*>& nodes);

// Element-wise work over `elements`, by the types of what it reads and gives.
VectorWork element_work(const Preset& preset, const std::vector<const Node*>& instructions,
                        std::span<const Type> inputs, std::span<const Type> outputs,
                        int64_t elements);

std::vector<Type> types_of(const Node& node, const std::vector<size_t>& inputs);

// Work in evenly cut units.
Split as_tiles(VectorWork work);

// Cuts work over so many elements by rows, each computed by itself. `size` is an element's bytes;
// `scratch` those of unified buffer that rows are computed in besides, for an element.
void cut_rows(const Preset& preset, int64_t row_elements, int64_t elements, int64_t size,
              int64_t scratch, Split& split);

// Returns an op that computes each row of `row_elements` by itself, `wide` being its widest
// operand. `scratch`: as in cut_rows().
Split row_work(const Preset& preset, const Node& node, const Type& wide, int64_t row_elements,
               int64_t scratch = 0);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_ELEMENT_WORK_H
