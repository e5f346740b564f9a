#include "keel/backends/common/worker_stream.h"

#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/thread.h"

namespace keel {
namespace {

class WordEvent final : public Event {
 public:
  void synchronize() override { reached.wait_while(0); }
  WaitWord reached;
};

}  // namespace

MemoryTransfer::~MemoryTransfer() = default;

WorkerStream::WorkerStream(std::shared_ptr<MemoryTransfer> memory)
    : memory_(std::move(memory)),
      thread_(start_thread("the device's thread", [this] { serve(); })) {}

WorkerStream::~WorkerStream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    work_.emplace_back([] {});
  }
  submitted_.bump();
  thread_.join();
}

void WorkerStream::enqueue(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
  }
  submitted_.bump();
}

void WorkerStream::serve() {
  for (uint32_t served = 0;; ++served) {
    submitted_.wait_while(served);
    std::function<void()> work;
    bool last = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work = std::move(work_.front());
      work_.pop_front();
      last = stopping_ && work_.empty();
    }
    try {
      work();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
    work = nullptr;
    done_.bump();
    if (last) return;
  }
}

void WorkerStream::wait_until_done() {
  const uint32_t target = submitted_.load();
  for (uint32_t done = done_.load(); static_cast<int32_t>(target - done) > 0; done = done_.load()) {
    done_.wait_while(done);
  }
}

void WorkerStream::synchronize() {
  ++synchronisations_;
  wait_until_done();
  std::exception_ptr error;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    error = std::exchange(error_, nullptr);
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void WorkerStream::copy_to_device(Buffer& to, size_t offset, const void* from, size_t bytes) {
  enqueue([this, &to, offset, from, bytes] { memory_->to_device(to, offset, from, bytes); });
}

void WorkerStream::copy_to_host(void* to, const Buffer& from, size_t offset, size_t bytes) {
  enqueue([this, to, &from, offset, bytes] { memory_->to_host(to, from, offset, bytes); });
}

std::shared_ptr<Event> WorkerStream::record() {
  auto event = std::make_shared<WordEvent>();
  enqueue([event] { event->reached.store(1); });
  return event;
}

void WorkerStream::wait(const std::shared_ptr<Event>& event) {
  enqueue([event] { event->synchronize(); });
}

void InlineStream::copy_to_device(Buffer& to, size_t offset, const void* from, size_t bytes) {
  memory_->to_device(to, offset, from, bytes);
}

void InlineStream::copy_to_host(void* to, const Buffer& from, size_t offset, size_t bytes) {
  memory_->to_host(to, from, offset, bytes);
}

std::shared_ptr<Event> InlineStream::record() {
  auto event = std::make_shared<WordEvent>();
  event->reached.store(1);
  return event;
}

void InlineStream::wait(const std::shared_ptr<Event>& event) { event->synchronize(); }

}  // namespace keel
