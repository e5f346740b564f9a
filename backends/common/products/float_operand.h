// FloatOperand: an operand of a product that is multiplied in f32, however it is stored: 16-bit
// elements are widened as they are brought, and f32 ones rounded to 16 bits where the product
// multiplies these. Immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_FLOAT_OPERAND_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_FLOAT_OPERAND_H

#include <cstddef>
#include <cstdint>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/prefetch.h"
#include "keel/backends/common/vector_call.h"
#include "keel/core/base/dtype.h"
#include "keel/core/device/backend.h"

namespace keel {

class FloatOperand {
 public:
  // Says whether operand i is one: f32, f16 or bf16 as it is stored, or f32 that is rounded to
  // bf16. Not to f16: that raises the float status where it overflows.
  static Support supports(const AnchoredNode& product, size_t i);
  // REQUIRES that it is.
  FloatOperand(const AnchoredNode& product, size_t i);

  // Says whether elements are multiplied as they lie in memory.
  bool is_plain() const noexcept { return convert_ == nullptr; }
  // Says whether they are stored in f32.
  bool is_stored_float() const noexcept { return element_size_ == sizeof(float); }
  // Returns the largest magnitude of those stored in f32 that is multiplied as 0. No number of 16
  // bits but 0 is as small.
  float largest_zero() const noexcept { return is_plain() ? 0 : 0x1p-134f; }
  // Returns the operand of a kernel's arguments from its element `first` on.
  const void* at(void* const* args, int64_t first) const {
    return static_cast<const char*>(args[argument_]) + static_cast<size_t>(first) * element_size_;
  }
  // Adds elements [first, end) of what at() returned to those that are wanted soon.
  void add_ahead(const void* from, int64_t first, int64_t end, PrefetchList& ahead) const {
    if (first >= end) return;
    ahead.add(static_cast<const char*>(from) + static_cast<size_t>(first) * element_size_,
              static_cast<size_t>(end - first) * element_size_, PrefetchList::Use::kRead);
  }
  // Returns `count` elements from number `first` of those at `from`, which at() returned: where
  // they are, or else in `to`.
  const float* bring(const void* from, int64_t first, int64_t count, float* to) const;

 private:
  size_t argument_, element_size_;
  VectorInstruction convert_ = nullptr;  // elements as stored to those that are multiplied
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_FLOAT_OPERAND_H
