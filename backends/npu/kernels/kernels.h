// Kernels: what the NPU's kernels share with one another. Which of them runs a node their rows say
// (kernel_row.h). Each is bound to shapes when a program is compiled and works through the ISA
// only.
#ifndef KEEL_BACKENDS_NPU_KERNELS_KERNELS_H
#define KEEL_BACKENDS_NPU_KERNELS_KERNELS_H

#include <cstdint>
#include <memory>
#include <span>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/row_op.h"

namespace keel::npu {

// matmul of integers, which the cube does not multiply: on the vector unit.
Support supports_integer_product(const AnchoredNode& fused);
KernelPlan plan_integer_product(const Node& node);

// Returns whether a result of the node, or a value on the way to one, is f16.
bool computes_f16(const Node& node);

// softmax, log_softmax, softmax_cross_entropy and its gradient, in f32 with class ids as targets,
// on rows that another kernel makes: a RowOpFactory. A loss and its gradient go together.
std::unique_ptr<RowOp> make_row_op(std::span<const Node* const> nodes);

// Makes +-65504 of f16 values that are infinite; the status bits that tells.
uint32_t stop_at_largest(uint16_t* values, int64_t count);

// Returns the plan with a last phase that stops infinite f16 results at +-65504 and raises the
// float status: for kernels that have no saturating instruction of their own.
KernelPlan saturate_results(KernelPlan plan, const Node& node);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_KERNELS_H
