// One NaN for all: which sign and payload an operation gives to a NaN depends on the processor, the
// compiler and the order of the operands, so what leaves a device (results, states that are read,
// saved or hashed) has them replaced by one. Pure; any thread.
#ifndef KEEL_CORE_TENSOR_CANONICAL_NAN_H
#define KEEL_CORE_TENSOR_CANONICAL_NAN_H

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Makes every NaN of a float tensor the positive quiet one without payload (f32 0x7fc00000, f64
// 0x7ff8000000000000, f16 0x7e00, bf16 0x7fc0). Other dtypes stay as they are.
KEEL_API void canonicalise_nans(Tensor& tensor);

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_CANONICAL_NAN_H
