// The price of a vector instruction on the modelled device: how often it goes through the vector
// unit's lanes for each element. A test compares it with the vector library's instructions.
// Any thread.
#ifndef KEEL_BACKENDS_NPU_ISA_VECTOR_PASSES_H
#define KEEL_BACKENDS_NPU_ISA_VECTOR_PASSES_H

#include <cstdint>
#include <string_view>

#include "keel/core/base/dtype.h"

namespace keel::npu {

// Returns the passes of an element-wise instruction or of a reduction. 0 where there is none of
// that name.
int64_t vector_passes(std::string_view op) noexcept;

// Returns bytes that a lane takes for elements of this dtype: bytes are computed as 16-bit numbers,
// bf16 as f32.
constexpr int64_t lane_bytes(DType dtype) noexcept {
  const auto size = static_cast<int64_t>(size_of(dtype));
  return dtype == bf16 ? 4 : (size < 2 ? 2 : size);
}

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_ISA_VECTOR_PASSES_H
