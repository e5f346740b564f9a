#include "keel/backends/common/products/operand_load.h"

#include <optional>
#include <string>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/vector/byte_operand.h"
#include "keel/ops/products/product_matrices.h"

namespace keel {

namespace {

// Says whether the operand's windows overlap, so that kernels that copy them would round each
// element for several of them. It follows from the shapes alone, as what a program's tasks are must
// not depend on the host: one without dot products or tiles of 16-bit floats rounds lines as it
// copies them, and pays for a task that writes them.
bool rounds_again(const AnchoredNode& product, size_t operand) {
  if (!product.why_no_matrices().empty()) return false;
  const ProductMatrices& matrices = product.matrices();
  const bool left = operand == matrices.a.input;
  const std::optional<WindowRows>& windows = (left ? matrices.a : matrices.b).windows;
  if (!windows || windows->channels <= kFewWindowChannels) return false;
  const int64_t rows = left ? matrices.m : matrices.n;
  const int64_t loaded = rows * matrices.k * static_cast<int64_t>(matrices.batch.size());
  return loaded >= 2 * product.stored(operand).shape().num_elements();
}

}  // namespace

Support supports_load(const AnchoredNode& product, size_t operand) {
  if (!product.source(operand)) return {false, "an operand is made of more than one value"};
  if (!product.has_prologue(operand)) return {true, ""};
  const Value stored = product.stored(operand);
  const Shape& multiplied_shape = product.anchor().input(operand).shape();
  if (!product.row_numbers_of(operand) &&
      stored.shape().num_elements() != multiplied_shape.num_elements()) {
    return {false, "an operand is broadcast before the product, and is not stored so"};
  }
  const DType multiplied = product.anchor().input(operand).dtype();
  if (product.is_cast(operand) && stored.dtype() == f32 && multiplied == bf16) {
    if (!rounds_again(product, operand)) return {true, ""};
    return {false, "windows overlap, and each would be rounded by itself"};
  }
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
