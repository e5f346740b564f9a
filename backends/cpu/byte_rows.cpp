#include "keel/backends/cpu/byte_rows.h"

#include "keel/backends/common/indices.h"
#include "keel/core/base/gather_rows.h"

namespace keel::cpu {

Support ByteRows::supports(const AnchoredNode& product, size_t operand) {
  const ProductMatrices& p = product.matrices();
  const bool left = operand == p.a.input;
  const DType multiplied = product.anchor().input(operand).dtype();
  if (!left || product.stored(operand).dtype() != u8 || multiplied != f32) {
    return {false,
            "its products read operands as they are, round f32 to 16 bits, or load bytes as the "
            "left one of two in f32"};
  }
  if (p.a.windows || p.b.windows || p.parts != 1) {
    return {false, "it loads bytes as rows of matrices, not as windows or for the parts of a sum"};
  }
  if (product.row_numbers_of(operand) && product.anchor().type().shape.rank() != 2) {
    return {false, "rows are gathered for a product without a batch"};
  }
  if (Support s = vector::supports_bytes(product); !s.supported) return s;
  // Looking each byte up takes longer than writing the values once.
  if (vector::bytes_of(product)->form == vector::ByteMap::Form::kTable)
    return {false, "what its bytes count as is looked up, which is done once"};
  return {true, ""};
}

std::optional<ByteRows> ByteRows::of(const AnchoredNode& product) {
  const std::optional<vector::ByteMap> map = vector::bytes_of(product);
  if (!map) return std::nullopt;
  return ByteRows(product, *map);
}

ByteRows::ByteRows(const AnchoredNode& product, const vector::ByteMap& map)
    : map_(map),
      load_(vector::find_byte_load()),
      stored_at_(product.source(product.matrices().a.input).value()),
      stride_(product.matrices().a.stride),
      numbers_at_(product.row_numbers_of(product.matrices().a.input)) {
  if (!numbers_at_) return;
  const Value numbers = product.node().input(*numbers_at_);
  numbers_dtype_ = numbers.dtype();
  count_ = numbers.shape().num_elements();
  table_rows_ = product.node().input(stored_at_).shape()[0];
}

void ByteRows::check_rows(void* const* args) const {
  if (!numbers_at_) return;
  with_indices(numbers_dtype_, args[*numbers_at_], [&](const auto* numbers) {
    check_indices(numbers, count_, table_rows_, "gather", 0);
  });
}

void ByteRows::load(void* const* args, int64_t start, const MatrixPart& part, float* to) const {
  const auto* first = static_cast<const uint8_t*>(args[stored_at_]) + start + part.column;
  const auto columns = static_cast<size_t>(part.columns);
  if (!numbers_at_) {
    for (int64_t i = part.row; i < part.row + part.rows; ++i, to += columns)
      load_(map_, first + i * stride_, columns, to);
    return;
  }
  with_indices(numbers_dtype_, args[*numbers_at_], [&](const auto* numbers) {
    // Rows that are scattered over a table do not come by themselves.
    constexpr int64_t kAhead = 8;
    const auto row = [&](int64_t i) { return first + static_cast<int64_t>(numbers[i]) * stride_; };
    const int64_t end = part.row + part.rows;
    for (int64_t i = part.row - kAhead; i < end; ++i) {
      if (i + kAhead < end)
        prefetch_row<kIntoSecondCache>(reinterpret_cast<const std::byte*>(row(i + kAhead)),
                                       columns);
      if (i < part.row) continue;
      load_(map_, row(i), columns, to);
      to += columns;
    }
  });
}

}  // namespace keel::cpu
