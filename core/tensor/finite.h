// first_non_finite: where a tensor holds NaN or an infinity. Pure; any thread.
#ifndef KEEL_CORE_TENSOR_FINITE_H
#define KEEL_CORE_TENSOR_FINITE_H

#include <cstdint>
#include <optional>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Returns the row-major index of the first element that is NaN or infinite. Nothing where all are
// finite, as those of integers and bools are, and for an empty Tensor.
KEEL_API std::optional<int64_t> first_non_finite(const Tensor& tensor);

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_FINITE_H
