#include "keel/core/tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class HostBuffer final : public Buffer {
public:
  HostBuffer(void *address, size_t bytes) noexcept
      : Buffer(address, bytes, true) {}
  ~HostBuffer() override { std::free(address()); }
};

} // namespace

Buffer::~Buffer() = default;

std::shared_ptr<Buffer> allocate_host_buffer(size_t bytes) {
  if (bytes == 0)
    return std::make_shared<HostBuffer>(nullptr, 0);
  const bool large = bytes >= kHugePage / 2;
  const size_t alignment = large ? kHugePage : Buffer::kAlignment;
  void *address = nullptr;
  if (bytes <= SIZE_MAX - alignment) {
    address = std::aligned_alloc(alignment, align_up(bytes, alignment));
  }
  if (address == nullptr) {
    throw Error(
        {.op = "allocate",
         .message = "the host has no " + std::to_string(bytes) + " bytes left",
         .fix = "use smaller tensors or batches"});
  }
  if (large)
    madvise(address, align_up(bytes, alignment), MADV_HUGEPAGE);
  std::memset(address, 0, bytes);
  return std::make_shared<HostBuffer>(address, bytes);
}

} // namespace keel
