// Checked integer arithmetic: sizes are computed here, so that a hostile shape gives an Error
// before any allocation.
#ifndef KEEL_CORE_BASE_CHECKED_H
#define KEEL_CORE_BASE_CHECKED_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "keel/core/base/error.h"

namespace keel {

inline int64_t checked_mul(int64_t a, int64_t b, const char* what = "size") {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) {
    throw Error(
        {.op = what,
         .message = std::to_string(a) + " * " + std::to_string(b) + " does not fit in 64 bits",
         .fix = "use smaller dimensions"});
  }
  return r;
}

inline int64_t checked_add(int64_t a, int64_t b, const char* what = "size") {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) {
    throw Error(
        {.op = what,
         .message = std::to_string(a) + " + " + std::to_string(b) + " does not fit in 64 bits",
         .fix = "use smaller dimensions"});
  }
  return r;
}

// `bytes` rounded up to a multiple of `alignment` (a power of two).
inline size_t align_up(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace keel

#endif  // KEEL_CORE_BASE_CHECKED_H
