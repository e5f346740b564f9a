// DeviceMemory: the NPU's own memory: buffers that only its kernels and copies may touch, counted
// against a capacity. Shared by the backend, its streams and the buffers themselves. Any thread.
#ifndef KEEL_BACKENDS_NPU_DEVICE_MEMORY_H
#define KEEL_BACKENDS_NPU_DEVICE_MEMORY_H

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "keel/backends/common/worker_stream.h"
#include "keel/core/tensor/buffer.h"

namespace keel::npu {

class DeviceMemory final : public MemoryTransfer,
                           public std::enable_shared_from_this<DeviceMemory> {
 public:
  explicit DeviceMemory(size_t capacity) : capacity_(capacity) {}

  // Zeroed, aligned to 64 bytes. Throws Error naming the holder, bytes asked, in use, capacity and
  // the largest holders.
  std::shared_ptr<Buffer> allocate(size_t bytes, const std::string& holder);

  size_t capacity() const noexcept { return capacity_; }
  size_t in_use() const;
  size_t peak() const;

  // Throws Error for host memory or memory of another device.
  void require_own(const Buffer& buffer, const char* what) const;

  void to_device(Buffer& to, size_t offset, const void* from, size_t bytes) override;
  void to_host(void* to, const Buffer& from, size_t offset, size_t bytes) override;

 private:
  class DeviceBuffer;
  void give_back(size_t bytes, const std::string& holder);
  std::string largest_holders() const;

  const size_t capacity_;
  mutable std::mutex mutex_;
  size_t in_use_ = 0;
  size_t peak_ = 0;
  std::map<std::string, size_t> holders_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_DEVICE_MEMORY_H
