// ThreadPool: a few plain threads that share the work of one reader; the caller works along. Owned
// by a reader. run() may be called from several threads; while one call is at work another does its
// work alone. Idle threads sleep.
#ifndef KEEL_DATA_PIPELINE_THREAD_POOL_H
#define KEEL_DATA_PIPELINE_THREAD_POOL_H

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "keel/core/base/function_ref.h"
#include "keel/core/base/wait_word.h"

namespace keel {

class ThreadPool {
 public:
  // `threads` counts the caller. Where the system refuses some, a warning is logged and those
  // that there are do the work.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls work(0) to work(count - 1), each once. Where some throw, the exception of the lowest
  // number that did is rethrown when all that were begun are done.
  void run(uint32_t count, FunctionRef<void(uint32_t)> work);

 private:
  void stop();
  void take_parts();
  bool do_next_part();
  void keep(uint32_t part, std::exception_ptr failure);

  std::vector<std::thread> threads_;
  std::mutex one_run_;
  std::mutex failure_lock_;
  std::exception_ptr failure_;
  uint32_t failed_part_ = 0;
  // High half: number of the run; low half: the next part to do. Whoever raises it does that part.
  std::atomic<uint64_t> ticket_{0};
  std::atomic<const FunctionRef<void(uint32_t)>*> work_{nullptr};
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> done_{0};
  std::atomic<bool> quit_{false};
  WaitWord begun_;
  WaitWord ended_;
};

}  // namespace keel

#endif  // KEEL_DATA_PIPELINE_THREAD_POOL_H
