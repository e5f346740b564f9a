// ProductOperand: an operand of a product on its way to the cube: parts of it as stored, windows
// laid out, rows gathered and elements converted as the cube multiplies them. Immutable; any
// thread.
#ifndef KEEL_BACKENDS_NPU_PLANNED_PRODUCT_OPERAND_H
#define KEEL_BACKENDS_NPU_PLANNED_PRODUCT_OPERAND_H

#include <optional>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/vector_call.h"
#include "keel/ops/products/product_matrices.h"

namespace keel::npu {

// Lines of a matrix as stored: rows of [m, k] or [k, m], of [k, n] or [n, k].
struct OperandPart {
  int64_t line = 0, lines = 0;
  int64_t begin = 0, count = 0;  // elements of each line
};

// Steps [k, k + count) of rows or columns [first, first + extent), which k's are the lines of, or
// run along.
inline OperandPart along_k(bool k_is_line, int64_t first, int64_t extent, int64_t k,
                           int64_t count) {
  if (k_is_line) return {k, count, first, extent};
  return {first, extent, k, count};
}

class ProductOperand {
 public:
  // One of the two operands of `matrices` and where its parts begin; multiplied in `dtype`.
  ProductOperand(const AnchoredNode& product, const ProductMatrices& matrices,
                 ProductMatrices::Operand ProductMatrices::*operand,
                 int64_t ProductMatrices::Starts::*start, DType dtype);

  // Which lines are gathered, by the number of the line; empty where they follow each other. Throws
  // Error for a row that the table does not have.
  std::vector<int64_t> lines(void* const* args) const;
  // The part of matrix `batch` of the product, its lines one behind the other.
  void read(void* const* args, const std::vector<int64_t>& lines, size_t batch,
            const OperandPart& part, void* to) const;
  DType dtype() const noexcept { return dtype_; }

 private:
  void convert(const char* from, char* to, size_t count) const;

  size_t argument_;
  DType stored_, dtype_;
  int64_t line_pitch_;  // elements from a line to the next
  std::optional<WindowRows> windows_;
  std::vector<int64_t> starts_;
  std::optional<vector::ByteMap> bytes_;
  VectorInstruction round_ = nullptr;
  // Gathered rows: the argument with their numbers.
  std::optional<size_t> numbers_;
  DType numbers_dtype_ = i32;
  int64_t count_ = 0, table_rows_ = 0;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_PRODUCT_OPERAND_H
