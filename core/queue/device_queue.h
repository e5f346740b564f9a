// DeviceQueue: a bounded ring of preallocated device slots between one producer thread (a Feeder)
// and one consumer (the device walking a program). Shared by both and by the loop that was sunk on
// it; closing or destroying it wakes both.
//
// A slot's life: reserve (producer may write its host side) -> commit (runs the priced
// host-to-device copy on the queue's own stream, in the producer's thread, then publishes) ->
// dequeue (the consumer binds the fields' device addresses, no copy) -> release (after the slot's
// last user). depth slots can be committed while one more is being read. End of data and failure
// travel as tokens behind the elements already committed.
//
// With data_sink off the slots are the host's memory and nothing is copied: whoever drives the
// steps takes each element by dequeue_on_host and hands it over itself. Then nothing is made ahead:
// reserve waits until an element is asked for.
//
// reserve/commit/finish/fail: the producer's thread. dequeue/release: the consumer's thread. The
// rest: any thread. Waits spin for at most a few microseconds, then sleep. Nothing allocates after
// construction.
#ifndef KEEL_CORE_QUEUE_DEVICE_QUEUE_H
#define KEEL_CORE_QUEUE_DEVICE_QUEUE_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/device/device.h"
#include "keel/core/device/element_spec.h"
#include "keel/core/group/agreement.h"

namespace keel {

// Says what a model asks of whoever feeds it: the device its queue lives on and what one element
// holds.
struct FeedSpec {
  Device device;
  ElementSpec element;
  std::shared_ptr<const DeviceOptions> device_options = {};  // of the session
  bool data_sink = true;                                     // likewise
};

// A field whose rows stay on the device, where the elements of a queue name them by number instead
// of carrying them: the element has a field kRowField (i32), and row r of the whole is what the
// number r stands for. Row 0 is all zeros: padding.
struct ResidentField {
  FieldSpec field;  // of all rows: [rows, ...]
  std::shared_ptr<Buffer> buffer;
};
inline constexpr const char* kRowField = "keel/row";

// Returns the depth that DeviceQueueOptions::depth = 0 chooses for elements of `slot_bytes`.
KEEL_API int64_t default_queue_depth(size_t slot_bytes) noexcept;

struct DeviceQueueOptions {
  std::string name = "queue";
  // Elements that can wait; 0 chooses min(128, max(2, 2 GiB / element bytes)), the rule of the real
  // device's data queue. 1 where data_sink is off.
  int64_t depth = 0;
  // Limits how long dequeue waits for an element before it gives up; zero waits forever.
  std::chrono::milliseconds getnext_timeout{0};
  // Holds what the elements' kRowField points into; shared with whoever made it.
  std::vector<ResidentField> resident = {};
  // Prices the copies to the device: the options of the session that takes the elements.
  std::shared_ptr<const DeviceOptions> device_options = {};
  // Copies the elements to the device as they are committed, ahead of the steps.
  bool data_sink = true;
  CallSite site = CallSite::here();  // the user's line, for errors
};

struct QueueCounters {
  int64_t depth = 0;
  int64_t enqueued = 0;
  int64_t dequeued = 0;
  int64_t released = 0;
  int64_t producer_wait_ns = 0;  // wall time
  int64_t consumer_wait_ns = 0;  // wall time
  int64_t copy_ns = 0;           // wall time of the copies to the device
  // The copies to the device that the elements dequeued so far took, one that was put back left
  // out. None where the producer writes into the device's own memory at no price, and with
  // data_sink off.
  int64_t copies = 0;
  int64_t copied_bytes = 0;
  // Wall time of the last commit since the queue was made; -1 before the first.
  int64_t last_enqueue_ns = 0;
};

enum class DequeueStatus {
  kElement,
  kEndOfData,
  kFailed,     // see failure()
  kClosed,     // close() was called
  kCancelled,  // the launch's stop flag was set while waiting
  kTimeout,    // see timeout_error()
};

class KEEL_API DeviceQueue {
 public:
  // Throws Error, naming the line that wrote the options, for a field without a known size, a
  // negative depth or timeout, and a queue that fits into no memory.
  DeviceQueue(Device device, ElementSpec spec, DeviceQueueOptions options);
  // Takes the default options. Errors name no line: std::make_shared would give its own.
  DeviceQueue(Device device, ElementSpec spec)
      : DeviceQueue(device, std::move(spec), {.site = {}}) {}
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  const ElementSpec& spec() const noexcept;
  const std::string& name() const noexcept;
  const Device& device() const noexcept;
  bool data_sink() const noexcept;
  const std::vector<ResidentField>& resident() const noexcept;

  // Host side of a reserved slot, one address per field of the spec; valid until commit.
  struct Slot {
    std::vector<void*> fields;
  };
  // Waits for a free slot, and with data_sink off until an element is asked for; nullptr once the
  // queue is closed or `stop` is set (wake() makes a waiting call look at it). A slot that was
  // reserved and not committed is handed out again.
  Slot* reserve(const std::atomic<bool>* stop = nullptr);
  // Publishes the reserved slot. Throws what the copy throws; then the slot stays reserved.
  void commit(const Cursor& cursor);
  // Publish the end-of-data and failure tokens; the first of them counts. After one there are no
  // more elements.
  void finish();
  void fail(const Error& error);
  // Takes the error over, so that a producer without memory can publish one that it made before.
  void fail(Error&& error) noexcept;

  // Waits for the next element and writes its fields' device addresses to `fields` (as many as the
  // spec has). Slots are released in the order they were dequeued. REQUIRES data_sink.
  DequeueStatus dequeue(std::span<void*> fields, Cursor* cursor, const std::atomic<bool>* stop);
  // Does the same for a host that reads the element itself: `fields` get the host side's addresses.
  // Looks at the stop flag, and at whether the agreement broke, every few milliseconds without
  // wake().
  DequeueStatus dequeue_on_host(std::span<void*> fields, Cursor* cursor,
                                const std::atomic<bool>* stop,
                                const LoopAgreement* agreement = nullptr);
  // Gives the oldest dequeued slot back.
  void release();
  // Makes the last dequeued element the next one again. REQUIRES that it was not released.
  void put_back();
  // Returns the cursor of the last element that was dequeued and not put back; nothing before the
  // first. The consumer's thread.
  std::optional<Cursor> last_cursor() const;

  // Wakes both sides: reserve returns nullptr, dequeue returns kClosed once the committed elements
  // are used up. Idempotent.
  void close();
  // Makes waiting calls look at their stop flags again.
  void wake();

  // REQUIRES that dequeue returned kFailed.
  Error failure() const;
  // Names the queue, depth, enqueued, dequeued and the last enqueue's age.
  Error timeout_error() const;
  QueueCounters counters() const noexcept;
  // Entry i: how many dequeues found i elements waiting; 0 is a device that had to wait. An element
  // that was put back counts anew.
  std::vector<int64_t> occupancy() const;
  // Modelled host-to-device time of one element, in ns; 0 where the device prices nothing.
  int64_t transfer_device_ns() const noexcept;

 private:
  struct State;
  DequeueStatus take(std::span<void*> fields, Cursor* cursor, const std::atomic<bool>* stop,
                     const LoopAgreement* agreement, bool on_host);
  std::unique_ptr<State> state_;
};

}  // namespace keel

#endif  // KEEL_CORE_QUEUE_DEVICE_QUEUE_H
