#include "keel/data/formats/memory_budget.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <sys/mman.h>

#include "keel/core/base/error.h"
#include "keel/core/base/read_budget.h"

namespace keel {
namespace {

constexpr uint64_t kTimesTheFile = 16;
// Smaller tensors share their pages with others anyway.
constexpr size_t kWorthAMapping = size_t{1} << 20;

class MappedBuffer final : public Buffer {
 public:
  MappedBuffer(void* address, size_t bytes) noexcept : Buffer(address, bytes, true) {}
  ~MappedBuffer() override { ::munmap(address(), size()); }
};

}  // namespace

int64_t memory_budget(uint64_t file_bytes, int64_t wanted) {
  if (wanted != 0) return wanted;
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const uint64_t by_size = file_bytes > kMost / kTimesTheFile ? kMost : file_bytes * kTimesTheFile;
  return static_cast<int64_t>(std::max(std::min(read_budget(), kMost), by_size));
}

std::string raise_memory_budget() {
  return "where the file can be trusted, raise the limit (max_bytes of the reader, "
         "KEEL_READ_BUDGET_MIB, or --read-budget of keel train)";
}

Tensor tensor_filled_later(DType dtype, const Shape& shape) {
  const size_t bytes = shape.num_bytes(dtype);
  if (bytes < kWorthAMapping) return Tensor(dtype, shape);
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    throw Error({.op = "allocate",
                 .message = "the host does not have " + std::to_string(bytes) + " bytes left"});
  }
  return Tensor(dtype, shape, std::make_shared<MappedBuffer>(address, bytes), 0);
}

}  // namespace keel
