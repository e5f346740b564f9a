#include "keel/core/tensor/buffer.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

#include <sys/mman.h>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class HostBuffer final : public Buffer {
 public:
  HostBuffer(void* address, size_t bytes) noexcept : Buffer(address, bytes, true) {}
  ~HostBuffer() override { std::free(address()); }
};

// The system may promise more than it has and kill the process when the memory is touched: such
// sizes are refused.
size_t physical_memory() {
  static const size_t bytes = [] {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page)
                                 : SIZE_MAX;
  }();
  return bytes;
}

}  // namespace

Buffer::~Buffer() = default;

std::shared_ptr<Buffer> allocate_host_buffer(size_t bytes) {
  if (bytes == 0) return std::make_shared<HostBuffer>(nullptr, 0);
  const bool large = bytes >= kHugePage / 2;
  const size_t alignment = large ? kHugePage : Buffer::kAlignment;
  void* address = nullptr;
  if (bytes <= physical_memory() && bytes <= SIZE_MAX - alignment) {
    address = std::aligned_alloc(alignment, align_up(bytes, alignment));
  }
  if (address == nullptr) {
    throw Error({.op = "allocate",
                 .message = "the host does not have " + std::to_string(bytes) + " bytes left",
                 .fix = "use smaller tensors or batches"});
  }
  if (large) madvise(address, align_up(bytes, alignment), MADV_HUGEPAGE);
  std::memset(address, 0, bytes);
  return std::make_shared<HostBuffer>(address, bytes);
}

}  // namespace keel
