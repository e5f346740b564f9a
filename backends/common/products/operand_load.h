// How the cube loads an operand that has a prologue: element-wise ops before the product.
// Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_OPERAND_LOAD_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_OPERAND_LOAD_H

#include "keel/backends/common/anchored_node.h"
#include "keel/core/device/backend.h"

namespace keel {

// Operands as they are; f32 that is rounded to bf16, where no windows overlap on it; and bytes as
// operand a (backends/common/vector/byte_operand.h), rounded to bf16 or not. Not f32 to f16: that
// raises the float status where it overflows.
Support supports_load(const AnchoredNode& product, size_t operand);

// Returns what supported loads ask of the cube as CubeProblem::round_to.
DType rounded_to(const AnchoredNode& product);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_OPERAND_LOAD_H
