#include "counted_allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEL_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEEL_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef KEEL_COUNTS_ALLOCATIONS
#define KEEL_COUNTS_ALLOCATIONS 1
#endif

namespace keel::testing {
namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
thread_local bool refuses = false;

}  // namespace

bool can_count_allocations() { return KEEL_COUNTS_ALLOCATIONS != 0; }

int64_t count_allocations(const std::function<void()>& call) {
  allocations = 0;
  counting = true;
  call();
  counting = false;
  return allocations;
}

void refuse_allocations_of_this_thread() { refuses = true; }

#if KEEL_COUNTS_ALLOCATIONS

static void* counted(std::size_t bytes, std::size_t alignment) {
  if (refuses) throw std::bad_alloc();
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  bytes = bytes == 0 ? 1 : bytes;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes)
                                                        : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace keel::testing

using keel::testing::counted;

void* operator new(std::size_t bytes) { return counted(bytes, 1); }
void* operator new[](std::size_t bytes) { return counted(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#else

}  // namespace keel::testing

#endif
