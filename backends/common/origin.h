// The address that instructions count from which number a tile's elements or rows as the whole
// tensor does. Pure; any thread.
#ifndef KEEL_BACKENDS_COMMON_ORIGIN_H
#define KEEL_BACKENDS_COMMON_ORIGIN_H

#include <cstddef>
#include <cstdint>

namespace keel {

// Returns where unit 0 would be of units of so many bytes that lie at `at` from unit `first` on. An
// address before the memory is no pointer that arithmetic may make, so it is computed as a number.
inline void* origin_of(const void* at, int64_t first, size_t unit_bytes) {
  const uintptr_t origin =
      reinterpret_cast<uintptr_t>(at) - static_cast<size_t>(first) * unit_bytes;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): for a piece at a time, never read before `first`.
  return reinterpret_cast<void*>(origin);
}

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_ORIGIN_H
