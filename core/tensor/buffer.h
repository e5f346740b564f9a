// Buffer: a block of memory of one device. Shared by whoever uses it (Tensors, the Session's state
// buffers, queues); the last owner frees it. The bytes may be touched by the host only where
// host_accessible(); a device's kernels check that addresses belong to the device. Not
// synchronised: streams order the accesses.
#ifndef KEEL_CORE_TENSOR_BUFFER_H
#define KEEL_CORE_TENSOR_BUFFER_H

#include <cstddef>
#include <memory>

#include "keel/core/base/export.h"

namespace keel {

class KEEL_API Buffer {
 public:
  Buffer(void* address, size_t bytes, bool host_accessible) noexcept
      : address_(address), bytes_(bytes), host_accessible_(host_accessible) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer();

  // Null only where size() is 0. Aligned to kAlignment.
  void* address() const noexcept { return address_; }
  size_t size() const noexcept { return bytes_; }
  bool host_accessible() const noexcept { return host_accessible_; }

  static constexpr size_t kAlignment = 64;

 private:
  void* address_;
  size_t bytes_;
  bool host_accessible_;
};

// Host memory, zeroed, aligned to 64 bytes (2 MiB pages are asked for from 1 MiB up). Throws Error
// when there is not enough.
KEEL_API std::shared_ptr<Buffer> allocate_host_buffer(size_t bytes);

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_BUFFER_H
