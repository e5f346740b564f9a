#include "keel/data/formats/lazy_tensor.h"

#include <memory>

#include <sys/mman.h>

#include "keel/core/base/error.h"

namespace keel {
namespace {

// Smaller tensors share their pages with others anyway.
constexpr size_t kWorthAMapping = size_t{1} << 20;

class MappedBuffer final : public Buffer {
 public:
  MappedBuffer(void* address, size_t bytes) noexcept : Buffer(address, bytes, true) {}
  ~MappedBuffer() override { ::munmap(address(), size()); }
};

}  // namespace

Tensor tensor_filled_later(DType dtype, const Shape& shape, const std::string& source) {
  const size_t bytes = shape.num_bytes(dtype);
  if (bytes < kWorthAMapping) return Tensor(dtype, shape);
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    throw Error({.op = source,
                 .message = "the host does not have " + std::to_string(bytes) + " bytes left for " +
                            to_string(Type{dtype, shape}),
                 .fix = "read a part of it, or use a machine with more memory"});
  }
  return Tensor(dtype, shape, std::make_shared<MappedBuffer>(address, bytes), 0);
}

}  // namespace keel
