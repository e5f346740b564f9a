#include "keel/backends/common/guarded_memory.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "keel/core/base/checked.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEL_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KEEL_ADDRESS_SANITIZER 1
#endif
#ifdef KEEL_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) \
  (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) \
  (static_cast<void>(address), static_cast<void>(size))
#endif

namespace keel {

namespace {

using Pattern = std::array<uint8_t, GuardedMemory::kGuardBytes + 1>;

Pattern make_pattern(Poison poison) {
  Pattern pattern{};
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = poison_byte(poison, i);
  return pattern;
}

// Returns the pattern from an even offset on, one byte longer than a guard.
const Pattern& pattern_of(Poison poison) {
  static const Pattern first = make_pattern(Poison::kFirst);
  static const Pattern second = make_pattern(Poison::kSecond);
  return poison == Poison::kFirst ? first : second;
}

// Returns the distance from one block's first byte to the next one's. Blocks are as large as
// buffers that exist.
size_t spacing(size_t bytes) {
  return align_up(bytes + 2 * GuardedMemory::kGuardBytes, Buffer::kAlignment);
}

}  // namespace

void fill_poison(void* data, size_t bytes, Poison poison) noexcept {
  auto* to = static_cast<char*>(data);
  const Pattern& pattern = pattern_of(poison);
  for (size_t at = 0; at < bytes; at += GuardedMemory::kGuardBytes) {
    std::memcpy(to + at, pattern.data(), std::min(GuardedMemory::kGuardBytes, bytes - at));
  }
}

size_t GuardedMemory::bytes_for(const std::vector<size_t>& sizes) {
  size_t bytes = 0;
  for (const size_t size : sizes) bytes += spacing(size);
  return bytes;
}

void GuardedMemory::reserve(size_t bytes) {
  if (memory_ != nullptr && memory_->size() >= bytes) return;
  lower_guards();
  memory_ = allocate_host_buffer(bytes);
  blocks_.clear();
}

void GuardedMemory::lay_out(const std::vector<size_t>& sizes, Poison poison) {
  const size_t bytes = bytes_for(sizes);
  reserve(bytes);
  lower_guards();
  blocks_.clear();
  poison_ = poison;
  size_t at = 0;
  for (const size_t size : sizes) {
    blocks_.push_back({at + kGuardBytes, size});
    // Guards count their offsets from the block, so that damage() finds the pattern again.
    fill_poison(data() + at, kGuardBytes, poison);
    fill_poison(data() + at + kGuardBytes, spacing(size) - kGuardBytes, poison);
    at += spacing(size);
  }
}

void GuardedMemory::raise_guards() noexcept {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const char* begin = block(i);
    ASAN_POISON_MEMORY_REGION(begin - kGuardBytes, kGuardBytes);
    ASAN_POISON_MEMORY_REGION(begin + bytes(i), spacing(bytes(i)) - kGuardBytes - bytes(i));
  }
}

void GuardedMemory::lower_guards() noexcept {
  if (memory_ != nullptr && memory_->size() != 0) {
    ASAN_UNPOISON_MEMORY_REGION(data(), memory_->size());
  }
}

std::optional<ptrdiff_t> GuardedMemory::damage(size_t i) const noexcept {
  const auto* begin = reinterpret_cast<const uint8_t*>(block(i));
  const uint8_t* pattern = pattern_of(poison_).data();
  if (std::memcmp(begin + bytes(i), pattern + bytes(i) % 2, kGuardBytes) == 0 &&
      std::memcmp(begin - kGuardBytes, pattern, kGuardBytes) == 0) {
    return std::nullopt;
  }
  // The byte next to the block first: it says most about what went wrong.
  for (size_t k = bytes(i); k < bytes(i) + kGuardBytes; ++k) {
    if (begin[k] != poison_byte(poison_, k)) return static_cast<ptrdiff_t>(k);
  }
  for (size_t k = 1; k <= kGuardBytes; ++k) {
    if (*(begin - k) != poison_byte(poison_, k)) return -static_cast<ptrdiff_t>(k);
  }
  return std::nullopt;
}

GuardedMemory::~GuardedMemory() { lower_guards(); }

}  // namespace keel
