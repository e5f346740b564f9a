// parallel_for: the one way compute work is spread over threads. The threads are shared by the
// whole process, sleep when idle, and their number is set once for all. Calls may come from any
// thread; one made from inside a chunk runs there, in order.
#ifndef KEEL_CORE_BASE_PARALLEL_FOR_H
#define KEEL_CORE_BASE_PARALLEL_FOR_H

#include "keel/core/base/export.h"
#include "keel/core/base/function_ref.h"

namespace keel {

// How many threads work on one parallel_for, the caller included; default: the processors this
// process may use. A change holds for calls that start after it. Throws Error for n < 1 or n >
// kMaxComputeThreads.
inline constexpr int kMaxComputeThreads = 1024;
KEEL_API void set_compute_threads(int n);
KEEL_API int compute_threads() noexcept;

// Calls chunk(0), ..., chunk(n - 1), each once, in no promised order and possibly at the same time;
// returns when all are done. What a chunk computes must not depend on which thread runs it. With
// one chunk or one thread they run in the caller, in order, without allocation. Where chunks throw,
// the exception of the lowest index that threw is rethrown after the chunks below it have finished;
// chunks above it may or may not have run.
KEEL_API void parallel_for(int n, FunctionRef<void(int)> chunk);

}  // namespace keel

#endif  // KEEL_CORE_BASE_PARALLEL_FOR_H
