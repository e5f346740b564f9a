// How the cube loads an operand that has a prologue: element-wise ops before the product.
// Pure functions; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_OPERAND_LOAD_H
#define KEEL_BACKENDS_NPU_KERNELS_OPERAND_LOAD_H

#include <optional>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/npu/isa/cube.h"
#include "keel/core/device/backend.h"

namespace keel::npu {

// Operands as they are; f32 that is rounded to bf16; and bytes as operand a, of which each of the
// 256 has one value whatever the ops are, rounded to bf16 or not. Not f32 to f16: that raises the
// float status where it overflows.
Support supports_load(const AnchoredNode& product, size_t operand);

// Return what supported loads ask of the cube: CubeProblem::round_to, and the floats that bytes of
// operand a stand for; nothing where it has no bytes.
DType rounded_to(const AnchoredNode& product);
std::optional<vector::ByteMap> bytes_of(const AnchoredNode& product);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_OPERAND_LOAD_H
