#include "keel/backends/npu/device/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"

namespace keel::npu {

// The bytes are the host's, of course; that it is not host-accessible is what keeps everybody but
// the device away.
class DeviceMemory::DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(std::shared_ptr<Buffer> bytes, std::shared_ptr<DeviceMemory> memory,
               std::string holder)
      : Buffer(bytes->address(), bytes->size(), false),
        bytes_(std::move(bytes)),
        memory_(std::move(memory)),
        holder_(std::move(holder)) {}
  ~DeviceBuffer() override { memory_->give_back(size(), holder_); }
  const DeviceMemory* memory() const noexcept { return memory_.get(); }

 private:
  std::shared_ptr<Buffer> bytes_;
  std::shared_ptr<DeviceMemory> memory_;
  std::string holder_;
};

std::shared_ptr<Buffer> DeviceMemory::allocate(size_t bytes, const std::string& holder) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > capacity_ - in_use_) {
      throw Error({.op = "npu memory",
                   .argument = holder,
                   .expected = "at most " + std::to_string(capacity_ - in_use_) + " bytes",
                   .got = std::to_string(bytes),
                   .message = std::to_string(in_use_) + " of " + std::to_string(capacity_) +
                              " bytes are in use" + largest_holders(),
                   .fix = "use a smaller batch or model, or a preset with more memory"});
    }
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    holders_[holder] += bytes;
  }
  try {
    return std::make_shared<DeviceBuffer>(allocate_host_buffer(bytes), shared_from_this(), holder);
  } catch (...) {
    give_back(bytes, holder);
    throw;
  }
}

void DeviceMemory::give_back(size_t bytes, const std::string& holder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  in_use_ -= bytes;
  const auto it = holders_.find(holder);
  if (it != holders_.end() && (it->second -= bytes) == 0) holders_.erase(it);
}

std::string DeviceMemory::largest_holders() const {
  std::vector<std::pair<size_t, std::string>> sorted;
  for (const auto& [name, bytes] : holders_) sorted.emplace_back(bytes, name);
  std::sort(sorted.rbegin(), sorted.rend());
  if (sorted.size() > 5) sorted.resize(5);
  std::string text;
  for (const auto& [bytes, name] : sorted) {
    text += (text.empty() ? ", most by " : ", ") + name + " (" + std::to_string(bytes) + ")";
  }
  return text;
}

size_t DeviceMemory::in_use() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return in_use_;
}

size_t DeviceMemory::peak() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peak_;
}

void DeviceMemory::require_own(const Buffer& buffer, const char* what) const {
  const auto* own = dynamic_cast<const DeviceBuffer*>(&buffer);
  if (own != nullptr && own->memory() == this) return;
  throw Error({.op = "npu",
               .argument = what,
               .expected = "memory of this device",
               .got = own == nullptr ? "host memory" : "memory of another device",
               .fix = "copy it to the device through a stream"});
}

namespace {

void check_range(const Buffer& buffer, size_t offset, size_t bytes) {
  if (offset <= buffer.size() && bytes <= buffer.size() - offset) return;
  throw Error(
      {.op = "copy",
       .expected = "a range inside the buffer's " + std::to_string(buffer.size()) + " bytes",
       .got = std::to_string(bytes) + " bytes at offset " + std::to_string(offset)});
}

}  // namespace

void DeviceMemory::to_device(Buffer& to, size_t offset, const void* from, size_t bytes) {
  require_own(to, "copy to device");
  check_range(to, offset, bytes);
  char* target = static_cast<char*>(to.address()) + offset;
  // A queue's slot is mapped into the host: what the producer wrote is there already.
  if (bytes != 0 && target != from) std::memcpy(target, from, bytes);
}

void DeviceMemory::to_host(void* to, const Buffer& from, size_t offset, size_t bytes) {
  require_own(from, "copy to host");
  check_range(from, offset, bytes);
  if (bytes != 0) std::memcpy(to, static_cast<const char*>(from.address()) + offset, bytes);
}

}  // namespace keel::npu
