#include "keel/data/pipeline/thread_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/log.h"
#include "keel/core/base/thread.h"

namespace keel {
namespace {

constexpr uint64_t kClosed = 0xffffffff;  // the next part of a run that has none to take

}  // namespace

ThreadPool::ThreadPool(int threads) {
  threads_.reserve(static_cast<size_t>(std::max(threads, 1)));
  try {
    for (int i = 1; i < threads; ++i) {
      threads_.push_back(start_thread("a thread of map", [this] { take_parts(); }));
    }
  } catch (const Error& refused) {
    log_warn(std::string(refused.what()) + "; map goes on with " +
             std::to_string(threads_.size() + 1) + " of " + std::to_string(threads) + " threads");
  } catch (...) {
    stop();
    throw;
  }
}

void ThreadPool::take_parts() {
  while (true) {
    const uint32_t seen = begun_.load();
    if (quit_.load(std::memory_order_acquire)) return;
    while (do_next_part()) {
    }
    begun_.wait_while(seen);
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  quit_.store(true, std::memory_order_release);
  begun_.bump();
  for (std::thread& thread : threads_) thread.join();
}

// A part is taken only if the ticket has not moved since work and count were read. A run closes the
// ticket of the one before it before it writes any of them, so they belong to the ticket's run.
bool ThreadPool::do_next_part() {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (true) {
    const auto* work = work_.load(std::memory_order_acquire);
    const uint32_t count = count_.load(std::memory_order_acquire);
    const auto part = static_cast<uint32_t>(ticket);
    if (work == nullptr || part >= count) return false;
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    try {
      (*work)(part);
    } catch (...) {
      keep(part, std::current_exception());
    }
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) ended_.bump();
    return true;
  }
}

void ThreadPool::keep(uint32_t part, std::exception_ptr failure) {
  const std::lock_guard<std::mutex> guard(failure_lock_);
  if (failure_ && failed_part_ < part) return;
  failure_ = std::move(failure);
  failed_part_ = part;
}

void ThreadPool::run(uint32_t count, FunctionRef<void(uint32_t)> work) {
  std::unique_lock<std::mutex> mine(one_run_, std::try_to_lock);
  if (!mine.owns_lock() || threads_.empty() || count < 2) {
    for (uint32_t part = 0; part < count; ++part) work(part);
    return;
  }
  const uint64_t first = ((ticket_.load(std::memory_order_relaxed) >> 32) + 1) << 32;
  ticket_.store(first | kClosed, std::memory_order_release);
  work_.store(&work, std::memory_order_release);
  count_.store(count, std::memory_order_release);
  done_.store(0, std::memory_order_release);
  ticket_.store(first, std::memory_order_release);
  begun_.bump();
  while (do_next_part()) {
  }
  while (true) {
    const uint32_t seen = ended_.load();
    if (done_.load(std::memory_order_acquire) == count) break;
    ended_.wait_while(seen);
  }
  std::exception_ptr failure;
  {
    const std::lock_guard<std::mutex> guard(failure_lock_);
    failure = std::exchange(failure_, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace keel
