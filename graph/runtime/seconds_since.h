// seconds_since: how long ago something was, by a clock that is never set back. Any thread.
// Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_SECONDS_SINCE_H
#define KEEL_GRAPH_RUNTIME_SECONDS_SINCE_H

#include <chrono>

namespace keel {

inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SECONDS_SINCE_H
