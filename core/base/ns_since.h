// ns_since: how long ago something was, in nanoseconds, by a clock that is never set back. Any
// thread. Internal to Keel.
#ifndef KEEL_CORE_BASE_NS_SINCE_H
#define KEEL_CORE_BASE_NS_SINCE_H

#include <chrono>
#include <cstdint>

namespace keel {

inline int64_t ns_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              then)
      .count();
}

}  // namespace keel

#endif  // KEEL_CORE_BASE_NS_SINCE_H
