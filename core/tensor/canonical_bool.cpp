#include "keel/core/tensor/canonical_bool.h"

#include <cstdint>

namespace keel {

void canonicalise_bools(Tensor& tensor) {
  if (tensor.dtype() != boolean) return;
  auto* bytes = static_cast<uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
}

}  // namespace keel
