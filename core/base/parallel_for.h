// parallel_for: the one way compute work is spread over threads. The threads are shared by the
// whole process and sleep when idle; how many of them a call may use is a matter of the thread that
// makes it. Calls may come from any thread; one made from inside a chunk runs there, in order.
#ifndef KEEL_CORE_BASE_PARALLEL_FOR_H
#define KEEL_CORE_BASE_PARALLEL_FOR_H

#include "keel/core/base/export.h"
#include "keel/core/base/function_ref.h"

namespace keel {

inline constexpr int kMaxComputeThreads = 1024;
// How long a thread with nothing to do looks on before it sleeps: longer than what lies between two
// forks of a step, and than one worker waits for another whose chunk takes longer. Being woken
// takes as long.
inline constexpr int kWorkerLooksOnUs = 50;

// Returns how many threads work on one parallel_for of this thread, the caller included: those of
// the innermost ComputeThreads, else the processors that this process may use.
KEEL_API int compute_threads() noexcept;

// A number of compute threads for the calls that this thread makes while it lives. Scopes nest, and
// end on the thread that began them. Throws Error (kInvalidArgument) for n < 1 or n >
// kMaxComputeThreads.
class KEEL_API ComputeThreads {
 public:
  explicit ComputeThreads(int n);
  ~ComputeThreads();
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

 private:
  void* outer_;  // what held before
};

// Calls chunk(0), ..., chunk(n - 1), each once, in no promised order and possibly at the same time;
// returns when all are done. The caller takes chunks from the first on, others from the last, so
// that a thread tends to have the same ranges of the same data in one call after the other. What a
// chunk computes must not depend on which thread runs it. With one chunk or one thread they run in
// the caller, in order, without allocation. Where chunks throw, the exception of the lowest index
// that threw is rethrown after the chunks below it have finished; chunks above it may or may not
// have run.
KEEL_API void parallel_for(int n, FunctionRef<void(int)> chunk);

}  // namespace keel

#endif  // KEEL_CORE_BASE_PARALLEL_FOR_H
