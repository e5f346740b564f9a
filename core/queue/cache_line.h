// kCacheLine: how far apart in memory lies what different threads write, so that no write of one
// takes a line from the cache of another. Internal to core/queue.
#ifndef KEEL_CORE_QUEUE_CACHE_LINE_H
#define KEEL_CORE_QUEUE_CACHE_LINE_H

#include <cstddef>

namespace keel {

inline constexpr size_t kCacheLine = 64;

}  // namespace keel

#endif  // KEEL_CORE_QUEUE_CACHE_LINE_H
