// kMostSteps: the largest number of a step that is read from a file or the environment: there is
// room to count on from it. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_MOST_STEPS_H
#define KEEL_GRAPH_RUNTIME_MOST_STEPS_H

#include <cstdint>

namespace keel {

inline constexpr int64_t kMostSteps = int64_t{1} << 62;

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_MOST_STEPS_H
