// Raising the float status: how kernels raise bits of the float status (core/device/float_status.h)
// while a step runs. Those whose plan asks for it get a word to OR them into; any number of blocks
// at the same time, so what is raised does not depend on who computes what.
#ifndef KEEL_BACKENDS_COMMON_FLOAT_STATUS_H
#define KEEL_BACKENDS_COMMON_FLOAT_STATUS_H

#include <atomic>
#include <cstdint>

#include "keel/core/device/float_status.h"

namespace keel {

inline void raise_float_status(void* word, uint32_t bits) noexcept {
  if (bits == 0) return;
  std::atomic_ref<uint32_t>(*static_cast<uint32_t*>(word))
      .fetch_or(bits, std::memory_order_relaxed);
}

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_FLOAT_STATUS_H
