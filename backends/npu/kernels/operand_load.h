// How the cube loads an operand that the fuser gave it with element-wise ops before the product.
// Pure functions; any thread.
#ifndef KEEL_BACKENDS_NPU_KERNELS_OPERAND_LOAD_H
#define KEEL_BACKENDS_NPU_KERNELS_OPERAND_LOAD_H

#include "keel/backends/common/fused_product.h"
#include "keel/backends/npu/isa/cube.h"

namespace keel::npu {

// Operands as they are, and bytes as operand a of an f32 product: each of the 256 has one value
// whatever the ops are.
Support supports_load(const FusedProduct& product, size_t operand);
// REQUIRES that the operand has a load and that it is supported.
ByteMap byte_map_of(const FusedProduct& product, size_t operand);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_KERNELS_OPERAND_LOAD_H
