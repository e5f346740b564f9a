#include "keel/backends/common/products/float_operand.h"

#include <string>

#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/widened_rows.h"

namespace keel {

Support FloatOperand::supports(const AnchoredNode& product, size_t i) {
  if (!product.source(i)) return {false, "an operand is made of more than one value"};
  const DType stored = product.stored(i).dtype(), multiplied = product.anchor().input(i).dtype();
  if (multiplied != f32 && !vector::is_half(multiplied))
    return {false, std::string(name_of(multiplied)) + " is not multiplied in f32"};
  if (!product.has_prologue(i)) return {true, ""};
  if (product.is_cast(i) && stored == f32 && multiplied == bf16) return {true, ""};
  return {false,
          std::string(name_of(stored)) + " is multiplied as it is stored, or f32 rounded to bf16"};
}

FloatOperand::FloatOperand(const AnchoredNode& product, size_t i)
    : argument_(product.source(i).value()), element_size_(size_of(product.stored(i).dtype())) {
  const DType stored = product.stored(i).dtype(), multiplied = product.anchor().input(i).dtype();
  if (stored != f32) convert_ = vector::find_instruction("cast", stored, f32);
  if (stored != multiplied) convert_ = vector::find_instruction("round_to_bf16", f32, f32);
}

const float* FloatOperand::bring(const void* from, int64_t first, int64_t count, float* to) const {
  const char* stored = static_cast<const char*>(from) + first * static_cast<int64_t>(element_size_);
  if (is_plain()) return reinterpret_cast<const float*>(stored);
  VectorCall call;
  call.src[0] = stored;
  call.dst = to;
  call.n = static_cast<size_t>(count);
  convert_(call);
  return to;
}

}  // namespace keel
