#include "keel/core/device/op_observer.h"

#include <cstring>

#include "keel/core/tensor/canonical_nan.h"

namespace keel {

OpObserver::~OpObserver() = default;

Tensor copy_of(const OpOperand& operand) {
  Tensor copy(operand.type.dtype, operand.type.shape);
  if (copy.num_bytes() != 0) std::memcpy(copy.raw(), operand.elements, copy.num_bytes());
  canonicalise_nans(copy);
  return copy;
}

}  // namespace keel
