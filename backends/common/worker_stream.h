// WorkerStream: an in-order stream with a thread of its own: the device thread of cpu, ref and npu.
// The host hands work over by a futex word: both sides spin for a few microseconds at most, then
// sleep, so an idle device costs no CPU. InlineStream: a stream that does its copies at once in the
// calling thread. The first error since the last synchronize skips what comes behind it in its
// launch and surfaces there once.
#ifndef KEEL_BACKENDS_COMMON_WORKER_STREAM_H
#define KEEL_BACKENDS_COMMON_WORKER_STREAM_H

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "keel/core/base/wait_word.h"
#include "keel/core/device/stream.h"

namespace keel {

// Checks and does the copies of one device; shared by its streams.
class KEEL_API MemoryTransfer {
 public:
  virtual ~MemoryTransfer();
  // Throws Error for a range outside the buffer or a buffer of another device.
  virtual void to_device(Buffer& to, size_t offset, const void* from, size_t bytes) = 0;
  virtual void to_host(void* to, const Buffer& from, size_t offset, size_t bytes) = 0;
};

class KEEL_API WorkerStream final : public Stream {
 public:
  explicit WorkerStream(std::shared_ptr<MemoryTransfer> memory);
  ~WorkerStream() override;  // finishes the work in the stream

  void enqueue(std::function<void()> work);

  void copy_to_device(Buffer& to, size_t offset, const void* from, size_t bytes) override;
  void copy_to_host(void* to, const Buffer& from, size_t offset, size_t bytes) override;
  std::shared_ptr<Event> record() override;
  void wait(const std::shared_ptr<Event>& event) override;
  void synchronize() override;
  int64_t synchronisations() const noexcept override { return synchronisations_; }

 private:
  void serve();
  void wait_until_done();

  std::shared_ptr<MemoryTransfer> memory_;
  std::mutex mutex_;
  std::deque<std::function<void()>> work_;
  std::exception_ptr error_;
  bool stopping_ = false;
  int64_t synchronisations_ = 0;
  WaitWord submitted_;  // counts what was handed over
  WaitWord done_;       // counts what is finished
  std::thread thread_;
};

class KEEL_API InlineStream final : public Stream {
 public:
  explicit InlineStream(std::shared_ptr<MemoryTransfer> memory) : memory_(std::move(memory)) {}
  void copy_to_device(Buffer& to, size_t offset, const void* from, size_t bytes) override;
  void copy_to_host(void* to, const Buffer& from, size_t offset, size_t bytes) override;
  std::shared_ptr<Event> record() override;
  void wait(const std::shared_ptr<Event>& event) override;
  void synchronize() override {}

 private:
  std::shared_ptr<MemoryTransfer> memory_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_WORKER_STREAM_H
