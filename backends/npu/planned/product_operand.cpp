#include "keel/backends/npu/planned/product_operand.h"

#include <cstring>
#include <utility>

#include "keel/backends/common/indices.h"
#include "keel/backends/common/vector/byte_operand.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/window_copy.h"

namespace keel::npu {

ProductOperand::ProductOperand(const AnchoredNode& product, const ProductMatrices& matrices,
                               ProductMatrices::Operand ProductMatrices::*operand,
                               int64_t ProductMatrices::Starts::*start, DType dtype)
    : argument_(product.source((matrices.*operand).input).value()),
      stored_(product.stored((matrices.*operand).input).dtype()),
      dtype_(dtype),
      line_pitch_((matrices.*operand).stride),
      windows_((matrices.*operand).windows) {
  const size_t input = (matrices.*operand).input;
  for (const ProductMatrices::Starts& matrix : matrices.batch) starts_.push_back(matrix.*start);
  if (stored_ == u8 && dtype_ != u8) bytes_ = vector::bytes_of(product);
  if (dtype_ != f32 && stored_ != dtype_) round_ = vector::find_instruction("cast", f32, dtype_);
  numbers_ = product.row_numbers_of(input);
  if (!numbers_) return;
  table_rows_ = product.stored(input).shape()[0];
  numbers_dtype_ = product.node().input(*numbers_).dtype();
  count_ = product.node().input(*numbers_).shape().num_elements();
}

std::vector<int64_t> ProductOperand::lines(void* const* args) const {
  std::vector<int64_t> lines;
  if (!numbers_) return lines;
  with_indices(numbers_dtype_, args[*numbers_], [&](const auto* numbers) {
    check_indices(numbers, count_, table_rows_, "gather", 0);
    for (int64_t i = 0; i < count_; ++i) lines.push_back(static_cast<int64_t>(numbers[i]));
  });
  return lines;
}

void ProductOperand::read(void* const* args, const std::vector<int64_t>& lines, size_t batch,
                          const OperandPart& part, void* to) const {
  const size_t size = size_of(stored_);
  const char* matrix =
      static_cast<const char*>(args[argument_]) + static_cast<size_t>(starts_[batch]) * size;
  char* at = static_cast<char*>(to);
  const auto count = static_cast<size_t>(part.count);
  if (windows_) {
    const MatrixPart of_windows{part.line, part.lines, part.begin, part.count};
    const size_t elements = static_cast<size_t>(part.lines) * count;
    std::vector<char> laid_out(elements * size);
    copy_windows(*windows_, matrix, size, of_windows, laid_out.data(), count);
    return convert(laid_out.data(), at, elements);
  }
  for (int64_t i = part.line; i < part.line + part.lines; ++i, at += count * size_of(dtype_)) {
    const int64_t line = lines.empty() ? i : lines[static_cast<size_t>(i)];
    convert(matrix + static_cast<size_t>(line * line_pitch_ + part.begin) * size, at, count);
  }
}

void ProductOperand::convert(const char* from, char* to, size_t count) const {
  if (stored_ == dtype_) {
    std::memcpy(to, from, count * size_of(dtype_));
    return;
  }
  std::vector<float> values(count);
  if (bytes_) {
    for (size_t i = 0; i < count; ++i) values[i] = bytes_->table[static_cast<uint8_t>(from[i])];
  } else {
    std::memcpy(values.data(), from, count * sizeof(float));
  }
  if (round_ == nullptr) {
    std::memcpy(to, values.data(), count * sizeof(float));
    return;
  }
  VectorCall call;
  call.dst = to;
  call.src[0] = values.data();
  call.n = count;
  round_(call);
}

}  // namespace keel::npu
