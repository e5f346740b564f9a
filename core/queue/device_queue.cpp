#include "keel/core/queue/device_queue.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/ns_since.h"
#include "keel/core/base/wait_word.h"
#include "keel/core/queue/cache_line.h"

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kDefaultDepth = 128;
constexpr int64_t kDefaultDepthBytes = int64_t{2} << 30;
// A sleeping producer is woken when at least depth / kSlotsPerWake slots are free, or when the
// consumer has to wait: each wake takes a core from whoever computes.
constexpr int64_t kSlotsPerWake = 4;

// This is how often a host that waits for an element looks at its stop flag.
constexpr std::chrono::nanoseconds kHostLooksAgain = std::chrono::milliseconds(5);

}  // namespace

int64_t default_queue_depth(size_t slot_bytes) noexcept {
  if (slot_bytes == 0) return kDefaultDepth;
  const auto fitting = static_cast<int64_t>(static_cast<size_t>(kDefaultDepthBytes) / slot_bytes);
  return std::min(kDefaultDepth, std::max<int64_t>(2, fitting));
}

namespace {

int64_t host_memory_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

// 0 where the device has the host's.
int64_t device_memory_bytes(const Device& device) {
  const std::vector<DeviceInfo> devices = device.backend().devices();
  return static_cast<int64_t>(devices.at(static_cast<size_t>(device.index())).memory_bytes);
}

}  // namespace

struct DeviceQueue::State {
  enum class Token : int { kNone, kEnd, kFailure };

  // Checks the options and allocates the slots. Throws Error.
  void prepare();
  // Throws Error if so many slots cannot fit into the memory that there is.
  void require_memory(int64_t slots) const;

  struct Place {
    Backend::SlotMemory memory;
    Slot host;
    std::vector<void*> device_fields;
    Cursor cursor;
    int64_t copied_bytes = 0;  // of the element in it
  };

  State(Device device_in, ElementSpec spec_in, DeviceQueueOptions options_in)
      : device(device_in), spec(std::move(spec_in)), options(std::move(options_in)) {}

  Place& place(int64_t number) { return places[static_cast<size_t>(number) % places.size()]; }
  // Returns whether the producer may write: fewer than depth elements wait, and the slot's last
  // user is done.
  bool has_room() const noexcept {
    const int64_t number = enqueued.load(std::memory_order_relaxed);
    if (!options.data_sink && number >= asked.load(std::memory_order_acquire)) return false;
    return number - dequeued.load(std::memory_order_acquire) < options.depth &&
           number - released.load(std::memory_order_acquire) < static_cast<int64_t>(places.size());
  }
  bool take(std::span<void*> fields, Cursor* cursor, bool on_host);
  // After an element was taken or released, with so many still in the way of the producer.
  void wake_producer(int64_t held) noexcept {
    if (held <= options.depth - options.depth / kSlotsPerWake) producer_word.bump();
  }
  void publish_token(Token kind) noexcept;
  // Has the producer make the element that the consumer waits for: it may sleep though it has room,
  // until there are more free slots, which a consumer that holds some does not give back.
  void ask() noexcept {
    if (!options.data_sink)
      asked.store(dequeued.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    producer_word.bump();
  }
  // Counts the copy of an element that is taken (1) or put back (-1).
  void count_copy(int64_t bytes, int64_t sign) noexcept {
    if (bytes == 0) return;
    copies.fetch_add(sign, std::memory_order_relaxed);
    copied_bytes.fetch_add(sign * bytes, std::memory_order_relaxed);
  }

  const Device device;
  const ElementSpec spec;
  DeviceQueueOptions options;
  size_t slot_bytes = 0;
  int64_t transfer_ns = 0;
  std::unique_ptr<Stream> stream;
  std::vector<Place> places;
  const Clock::time_point birth = Clock::now();

  // Written by the producer.
  alignas(kCacheLine) std::atomic<int64_t> enqueued{0};
  bool reserved = false;  // the producer's own
  std::atomic<Token> token{Token::kNone};
  std::atomic<int64_t> producer_wait_ns{0};
  std::atomic<int64_t> copy_ns{0};
  std::atomic<int64_t> last_enqueue_ns{-1};
  std::optional<Error> failure;  // published by token
  // Written by the consumer.
  alignas(kCacheLine) std::atomic<int64_t> dequeued{0};
  std::atomic<int64_t> released{0};
  std::atomic<int64_t> consumer_wait_ns{0};
  std::atomic<int64_t> asked{0};  // elements that the producer may have made, with data_sink off
  std::atomic<int64_t> copies{0};
  std::atomic<int64_t> copied_bytes{0};
  std::optional<Cursor> last_released;  // the consumer's own: the producer may have the slot
  std::vector<std::atomic<int64_t>> occupancy;
  // Bumped whenever the other side's condition may have become true.
  alignas(kCacheLine) WaitWord producer_word;
  alignas(kCacheLine) WaitWord consumer_word;
  alignas(kCacheLine) std::atomic<bool> closed{false};
};

// Few slots are for the device to refuse, which says who holds its memory.
void DeviceQueue::State::require_memory(int64_t slots) const {
  if (slots <= kDefaultDepth + 1) return;
  const auto on_device =
      static_cast<int64_t>(align_up(std::max<size_t>(slot_bytes, 1), Buffer::kAlignment));
  const auto beside = static_cast<int64_t>(sizeof(Place) + sizeof(std::atomic<int64_t>) +
                                           2 * spec.fields.size() * sizeof(void*));
  const int64_t device_memory = device_memory_bytes(device);
  int64_t most = host_memory_bytes() / (device_memory == 0 ? on_device + beside : beside);
  if (device_memory != 0) most = std::min(most, device_memory / on_device);
  if (slots <= most) return;
  throw Error({.op = "queue '" + options.name + "'",
               .argument = "depth",
               .expected = "at most " + std::to_string(std::max<int64_t>(1, most - 1)) +
                           ": elements take " + std::to_string(on_device) + " bytes on " +
                           device.name(),
               .got = std::to_string(options.depth),
               .kind = ErrorKind::kInvalidArgument});
}

void DeviceQueue::State::prepare() {
  const std::string op = "queue '" + options.name + "'";
  if (options.depth < 0) {
    throw Error({.op = op,
                 .argument = "depth",
                 .expected = "at least 1, or 0 for the default",
                 .got = std::to_string(options.depth),
                 .kind = ErrorKind::kInvalidArgument});
  }
  if (options.getnext_timeout.count() < 0) {
    throw Error({.op = op,
                 .argument = "getnext_timeout",
                 .expected = "0 (wait forever) or more",
                 .got = std::to_string(options.getnext_timeout.count()) + " ms",
                 .kind = ErrorKind::kInvalidArgument});
  }
  // In nanoseconds longer ones would overflow.
  if (options.getnext_timeout > WaitWord::kAsGoodAsForever)
    options.getnext_timeout = WaitWord::kAsGoodAsForever;
  if (!options.data_sink && options.depth > 1) {
    throw Error({.op = op,
                 .argument = "depth",
                 .expected = "1 or 0: data_sink is off, so no element is made before its step",
                 .got = std::to_string(options.depth),
                 .fix = "leave data_sink on, or the depth out",
                 .kind = ErrorKind::kInvalidArgument});
  }
  const std::vector<size_t> offsets = spec.offsets();
  slot_bytes = spec.slot_bytes();
  if (!options.data_sink) options.depth = 1;
  if (options.depth == 0) options.depth = default_queue_depth(slot_bytes);
  const int64_t slots = checked_add(options.depth, 1, "queue depth");
  checked_mul(slots, static_cast<int64_t>(slot_bytes), "queue size");
  require_memory(slots);

  Backend& backend = device.backend();
  stream = backend.make_stream(device.index(), StreamKind::kTransfer);
  transfer_ns =
      backend.transfer_device_ns(device.index(), slot_bytes, options.device_options.get());
  places.reserve(static_cast<size_t>(slots));
  occupancy = std::vector<std::atomic<int64_t>>(static_cast<size_t>(slots));
  for (int64_t i = 0; i < slots; ++i) {
    Place made;
    if (options.data_sink) {
      made.memory = backend.allocate_slot(device.index(), slot_bytes, "queue " + options.name);
    } else {
      const std::shared_ptr<Buffer> host = allocate_host_buffer(slot_bytes);
      made.memory = {nullptr, host->address(), host};
    }
    for (const size_t offset : offsets) {
      made.host.fields.push_back(static_cast<std::byte*>(made.memory.host_address) + offset);
      if (!options.data_sink) continue;
      made.device_fields.push_back(static_cast<std::byte*>(made.memory.buffer->address()) + offset);
    }
    places.push_back(std::move(made));
  }
}

DeviceQueue::DeviceQueue(Device device, ElementSpec spec, DeviceQueueOptions options)
    : state_(std::make_unique<State>(device, std::move(spec), std::move(options))) {
  try {
    state_->prepare();
  } catch (const Error& error) {
    throw error.with_site(state_->options.site);
  }
}

DeviceQueue::~DeviceQueue() { close(); }

const ElementSpec& DeviceQueue::spec() const noexcept { return state_->spec; }
const std::string& DeviceQueue::name() const noexcept { return state_->options.name; }
const Device& DeviceQueue::device() const noexcept { return state_->device; }
bool DeviceQueue::data_sink() const noexcept { return state_->options.data_sink; }
const std::vector<ResidentField>& DeviceQueue::resident() const noexcept {
  return state_->options.resident;
}

DeviceQueue::Slot* DeviceQueue::reserve(const std::atomic<bool>* stop) {
  State& s = *state_;
  const auto refused = [&] {
    return s.closed.load(std::memory_order_acquire) ||
           (stop != nullptr && stop->load(std::memory_order_acquire));
  };
  if (s.token.load(std::memory_order_relaxed) != State::Token::kNone) {
    throw Error({.op = "queue '" + s.options.name + "'",
                 .message = "reserve after the end of data or a failure"});
  }
  Slot* slot = &s.place(s.enqueued.load(std::memory_order_relaxed)).host;
  if (refused()) return nullptr;
  // A slot that is reserved already is handed out again without asking has_room(): the consumer may
  // have put an element back since, and then has_room() can be false for this very slot.
  if (s.reserved || s.has_room()) {
    s.reserved = true;
    return slot;
  }
  const auto begin = Clock::now();
  while (true) {
    const uint32_t seen = s.producer_word.load();
    const bool give_up = refused();
    if (give_up || s.has_room()) {
      s.producer_wait_ns.fetch_add(ns_since(begin), std::memory_order_relaxed);
      s.reserved = !give_up;
      return give_up ? nullptr : slot;
    }
    s.producer_word.wait_while(seen);
  }
}

void DeviceQueue::commit(const Cursor& cursor) {
  State& s = *state_;
  const int64_t number = s.enqueued.load(std::memory_order_relaxed);
  if (!s.reserved || s.token.load(std::memory_order_relaxed) != State::Token::kNone) {
    throw Error(
        {.op = "queue '" + s.options.name + "'", .message = "commit without a reserved slot"});
  }
  State::Place& place = s.place(number);
  if (s.slot_bytes > 0 && s.options.data_sink) {
    const auto begin = Clock::now();
    s.stream->copy_to_device(*place.memory.buffer, 0, place.memory.host_address, s.slot_bytes);
    s.stream->synchronize();
    s.copy_ns.fetch_add(ns_since(begin), std::memory_order_relaxed);
    // Memory that the host shares is where the producer wrote already, unless the device has a
    // price for it.
    const bool shared = place.memory.host_address == place.memory.buffer->address();
    place.copied_bytes = shared && s.transfer_ns == 0 ? 0 : static_cast<int64_t>(s.slot_bytes);
  }
  place.cursor = cursor;
  s.reserved = false;
  s.last_enqueue_ns.store(ns_since(s.birth), std::memory_order_relaxed);
  s.enqueued.store(number + 1, std::memory_order_release);
  s.consumer_word.bump();
}

void DeviceQueue::State::publish_token(Token kind) noexcept {
  token.store(kind, std::memory_order_release);
  consumer_word.bump();
}

void DeviceQueue::finish() {
  State& s = *state_;
  if (s.token.load(std::memory_order_relaxed) == State::Token::kNone)
    s.publish_token(State::Token::kEnd);
}

void DeviceQueue::fail(const Error& error) { fail(Error(error)); }

void DeviceQueue::fail(Error&& error) noexcept {
  State& s = *state_;
  if (s.token.load(std::memory_order_relaxed) != State::Token::kNone) return;
  s.failure = std::move(error);
  s.publish_token(State::Token::kFailure);
}

bool DeviceQueue::State::take(std::span<void*> fields, Cursor* cursor, bool on_host) {
  const int64_t number = dequeued.load(std::memory_order_relaxed);
  if (enqueued.load(std::memory_order_acquire) == number) return false;
  const Place& from = place(number);
  const std::vector<void*>& chosen = on_host ? from.host.fields : from.device_fields;
  std::copy(chosen.begin(), chosen.end(), fields.begin());
  if (cursor != nullptr) *cursor = from.cursor;
  count_copy(from.copied_bytes, 1);
  dequeued.store(number + 1, std::memory_order_release);
  wake_producer(enqueued.load(std::memory_order_acquire) - (number + 1));
  return true;
}

DequeueStatus DeviceQueue::dequeue(std::span<void*> fields, Cursor* cursor,
                                   const std::atomic<bool>* stop) {
  return take(fields, cursor, stop, nullptr, /*on_host=*/false);
}

DequeueStatus DeviceQueue::dequeue_on_host(std::span<void*> fields, Cursor* cursor,
                                           const std::atomic<bool>* stop,
                                           const LoopAgreement* agreement) {
  return take(fields, cursor, stop, agreement, /*on_host=*/true);
}

DequeueStatus DeviceQueue::take(std::span<void*> fields, Cursor* cursor,
                                const std::atomic<bool>* stop, const LoopAgreement* agreement,
                                bool on_host) {
  State& s = *state_;
  if (fields.size() != s.spec.fields.size()) {
    throw Error({.op = "queue '" + s.options.name + "'",
                 .argument = "fields",
                 .expected = std::to_string(s.spec.fields.size()) + " as in " + to_string(s.spec),
                 .got = std::to_string(fields.size())});
  }
  if (!s.options.data_sink && !on_host) {
    throw Error({.op = "queue '" + s.options.name + "'",
                 .message = "has no elements on the device: its data_sink is off"});
  }
  // One that was put back may make it one more than the depth.
  const int64_t waiting = std::min(s.options.depth, s.enqueued.load(std::memory_order_relaxed) -
                                                        s.dequeued.load(std::memory_order_relaxed));
  // One writer: a load and a store are enough, and cost less than an exchange.
  std::atomic<int64_t>& count = s.occupancy[static_cast<size_t>(waiting)];
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (s.take(fields, cursor, on_host)) return DequeueStatus::kElement;
  const auto begin = Clock::now();
  s.ask();
  const std::chrono::nanoseconds limit = s.options.getnext_timeout;
  const auto done = [&](DequeueStatus status) {
    s.consumer_wait_ns.fetch_add(ns_since(begin), std::memory_order_relaxed);
    return status;
  };
  while (true) {
    const uint32_t seen = s.consumer_word.load();
    // Read before the elements: what was committed before the token or the closing still counts.
    const State::Token token = s.token.load(std::memory_order_acquire);
    const bool closed = s.closed.load(std::memory_order_acquire);
    if (s.take(fields, cursor, on_host)) return done(DequeueStatus::kElement);
    if (token == State::Token::kEnd) return done(DequeueStatus::kEndOfData);
    if (token == State::Token::kFailure) return done(DequeueStatus::kFailed);
    if (closed) return done(DequeueStatus::kClosed);
    if ((stop != nullptr && stop->load(std::memory_order_acquire)) ||
        (agreement != nullptr && agreement->broken()))
      return done(DequeueStatus::kCancelled);
    std::chrono::nanoseconds rest = WaitWord::kForever;
    if (limit.count() > 0) {
      rest = limit - std::chrono::nanoseconds(ns_since(begin));
      if (rest.count() <= 0) return done(DequeueStatus::kTimeout);
    }
    if (on_host)
      rest = rest == WaitWord::kForever ? kHostLooksAgain : std::min(rest, kHostLooksAgain);
    s.consumer_word.wait_while(seen, rest);
  }
}

void DeviceQueue::release() {
  State& s = *state_;
  const int64_t number = s.released.load(std::memory_order_relaxed);
  if (number == s.dequeued.load(std::memory_order_relaxed)) {
    throw Error(
        {.op = "queue '" + s.options.name + "'", .message = "release without a dequeued element"});
  }
  s.last_released = s.place(number).cursor;
  s.released.store(number + 1, std::memory_order_release);
  s.wake_producer(s.enqueued.load(std::memory_order_acquire) - (number + 1));
}

void DeviceQueue::put_back() {
  State& s = *state_;
  const int64_t number = s.dequeued.load(std::memory_order_relaxed);
  if (number == s.released.load(std::memory_order_relaxed)) {
    throw Error({.op = "queue '" + s.options.name + "'",
                 .message = "no element to put back: the last one was released"});
  }
  s.count_copy(s.place(number - 1).copied_bytes, -1);
  s.dequeued.store(number - 1, std::memory_order_release);
}

std::optional<Cursor> DeviceQueue::last_cursor() const {
  State& s = *state_;
  const int64_t number = s.dequeued.load(std::memory_order_relaxed);
  if (number == s.released.load(std::memory_order_relaxed)) return s.last_released;
  return s.place(number - 1).cursor;
}

void DeviceQueue::close() {
  state_->closed.store(true, std::memory_order_release);
  wake();
}

void DeviceQueue::wake() {
  state_->producer_word.bump();
  state_->consumer_word.bump();
}

Error DeviceQueue::failure() const {
  const State& s = *state_;
  if (s.token.load(std::memory_order_acquire) != State::Token::kFailure) {
    return Error({.op = "queue '" + s.options.name + "'", .message = "no failure"});
  }
  return *s.failure;
}

Error DeviceQueue::timeout_error() const {
  const QueueCounters c = counters();
  const auto milliseconds = [](int64_t ns) { return std::to_string(ns / 1000000) + " ms"; };
  const std::string last =
      c.last_enqueue_ns < 0
          ? "nothing was enqueued yet"
          : "last enqueue " + milliseconds(ns_since(state_->birth) - c.last_enqueue_ns) + " ago";
  return Error({.op = "queue '" + state_->options.name + "'",
                .message = "no element within " +
                           std::to_string(state_->options.getnext_timeout.count()) + " ms (depth " +
                           std::to_string(c.depth) + ", enqueued " + std::to_string(c.enqueued) +
                           ", dequeued " + std::to_string(c.dequeued) + ", " + last + ")",
                .fix = "make the pipeline faster or raise getnext_timeout"});
}

QueueCounters DeviceQueue::counters() const noexcept {
  const State& s = *state_;
  QueueCounters c;
  c.depth = s.options.depth;
  // They are read in this order, so that released <= dequeued <= enqueued in what the caller sees.
  c.released = s.released.load(std::memory_order_acquire);
  c.dequeued = s.dequeued.load(std::memory_order_acquire);
  c.enqueued = s.enqueued.load(std::memory_order_acquire);
  c.producer_wait_ns = s.producer_wait_ns.load(std::memory_order_relaxed);
  c.consumer_wait_ns = s.consumer_wait_ns.load(std::memory_order_relaxed);
  c.copy_ns = s.copy_ns.load(std::memory_order_relaxed);
  c.copies = s.copies.load(std::memory_order_relaxed);
  c.copied_bytes = s.copied_bytes.load(std::memory_order_relaxed);
  c.last_enqueue_ns = s.last_enqueue_ns.load(std::memory_order_relaxed);
  return c;
}

std::vector<int64_t> DeviceQueue::occupancy() const {
  std::vector<int64_t> counts;
  for (const auto& count : state_->occupancy) {
    counts.push_back(count.load(std::memory_order_relaxed));
  }
  return counts;
}

int64_t DeviceQueue::transfer_device_ns() const noexcept { return state_->transfer_ns; }

}  // namespace keel
