#include "keel/backends/common/products/operand_load.h"

#include <string>

#include "keel/backends/common/vector/byte_operand.h"
#include "keel/ops/products/product_matrices.h"

namespace keel {

Support supports_load(const AnchoredNode& product, size_t operand) {
  if (!product.source(operand)) return {false, "an operand is made of more than one value"};
  if (!product.has_prologue(operand)) return {true, ""};
  const Value stored = product.stored(operand);
  const DType multiplied = product.anchor().input(operand).dtype();
  if (product.is_cast(operand) && stored.dtype() == f32 && multiplied == bf16) return {true, ""};
  if (product.row_numbers_of(operand) && product.anchor().type().shape.rank() != 2) {
    return {false, "rows are gathered for a product without a batch"};
  }
  if (stored.dtype() != u8) {
    return {false, std::string("the cube loads ") + name_of(stored.dtype()) +
                       (multiplied == bf16 ? " as it is or rounded to bf16" : " as it is")};
  }
  if (operand != product.matrices().a.input) {
    return {false, "the cube loads bytes as its left operand only"};
  }
  if (multiplied != f32 && multiplied != bf16) {
    return {false, std::string("bytes are not multiplied in ") + name_of(multiplied)};
  }
  return vector::supports_bytes(product);
}

DType rounded_to(const AnchoredNode& product) {
  for (size_t i = 0; i < product.anchor().inputs().size(); ++i) {
    if (product.has_prologue(i) && product.anchor().input(i).dtype() == bf16) return bf16;
  }
  return f32;
}

}  // namespace keel
