// Bools from files: any byte may stand for one there, but only 0 and 1 are bools in memory. Pure;
// any thread.
#ifndef KEEL_CORE_TENSOR_CANONICAL_BOOL_H
#define KEEL_CORE_TENSOR_CANONICAL_BOOL_H

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Makes every byte of a bool tensor that is not 0 a 1. Other dtypes stay as they are.
KEEL_API void canonicalise_bools(Tensor& tensor);

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_CANONICAL_BOOL_H
