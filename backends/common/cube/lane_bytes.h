// The lanes of the modelled vector unit. Any thread.
#ifndef KEEL_BACKENDS_COMMON_CUBE_LANE_BYTES_H
#define KEEL_BACKENDS_COMMON_CUBE_LANE_BYTES_H

#include <cstdint>

#include "keel/core/base/dtype.h"

namespace keel {

// Returns bytes that a lane takes for elements of this dtype: bytes are computed as 16-bit numbers,
// bf16 as f32.
constexpr int64_t lane_bytes(DType dtype) noexcept {
  const auto size = static_cast<int64_t>(size_of(dtype));
  return dtype == bf16 ? 4 : (size < 2 ? 2 : size);
}

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_CUBE_LANE_BYTES_H
