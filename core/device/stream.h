// Stream: an in-order queue of work on one device; Event: a point in a stream that another stream
// or the host can wait for. Work on different streams is unordered but for events. The first error
// (lowest step, task, block) skips the rest of its launch, surfaces once at the next synchronising
// call, then clears: the device works on. A stream is used by one thread at a time.
#ifndef KEEL_CORE_DEVICE_STREAM_H
#define KEEL_CORE_DEVICE_STREAM_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "keel/core/base/export.h"
#include "keel/core/tensor/buffer.h"

namespace keel {

class KEEL_API Event {
 public:
  virtual ~Event();
  // Waits on the host until the point is reached.
  virtual void synchronize() = 0;
};

// kCompute runs programs and copies on the device's own thread. kTransfer runs copies in the
// calling thread: what a queue's producer uses, so that a batch's copy costs the consumer nothing.
enum class StreamKind { kCompute, kTransfer };

class KEEL_API Stream {
 public:
  virtual ~Stream();
  // Copies are ordered after the work before them. Ranges are checked; a buffer of another device
  // is refused.
  virtual void copy_to_device(Buffer& to, size_t offset, const void* from, size_t bytes) = 0;
  virtual void copy_to_host(void* to, const Buffer& from, size_t offset, size_t bytes) = 0;
  virtual std::shared_ptr<Event> record() = 0;
  virtual void wait(const std::shared_ptr<Event>& event) = 0;
  // Waits until all work is done; throws the first error since the last call.
  virtual void synchronize() = 0;
  // Returns how often the host synchronised with this stream; 0 where a stream does not count.
  virtual int64_t synchronisations() const noexcept { return 0; }
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_STREAM_H
