// ByteRows: the left operand of a product that is stored as bytes (backends/common/vector/
// byte_operand.h), of which the product loads what it multiplies next into a buffer of floats. Rows
// may be gathered from a table. Owned by the kernel; immutable; any thread.
#ifndef KEEL_BACKENDS_CPU_BYTE_ROWS_H
#define KEEL_BACKENDS_CPU_BYTE_ROWS_H

#include <cstdint>
#include <optional>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/vector/byte_operand.h"
#include "keel/backends/common/window_copy.h"

namespace keel::cpu {

class ByteRows {
 public:
  // Says whether an operand that ops come before can be loaded so: bytes that count as f32, as the
  // left operand of a product of matrices without windows or parts. REQUIRES that it is made of one
  // stored value.
  static Support supports(const AnchoredNode& product, size_t operand);

  // Returns nothing where the product's left operand is not loaded from bytes. REQUIRES that it is
  // supported where ops come before it.
  static std::optional<ByteRows> of(const AnchoredNode& product);

  // Throws Error for a row number out of range. `args`: those of the kernel.
  void check_rows(void* const* args) const;

  // Loads a part of the matrix as stored, which begins with byte `start` of the argument; its rows
  // lie one behind the other in `to`. REQUIRES that check_rows has not thrown for these arguments.
  void load(void* const* args, int64_t start, const MatrixPart& part, float* to) const;

 private:
  ByteRows(const AnchoredNode& product, const vector::ByteMap& map);

  vector::ByteMap map_;
  vector::ByteLoad load_;
  size_t stored_at_;  // the number of the argument with the bytes
  int64_t stride_;    // bytes from a row as stored to the next
  // Set where rows are gathered: the argument with their numbers.
  std::optional<size_t> numbers_at_;
  DType numbers_dtype_ = i32;
  int64_t count_ = 0, table_rows_ = 0;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_BYTE_ROWS_H
