#include "keel/backends/npu/planned/row_epilogue.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "keel/backends/common/origin.h"
#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/softmax_rows.h"

namespace keel::npu {
RowEpilogue::RowEpilogue(const AnchoredNode& product, const Preset& preset, int64_t tile_rows,
                         bool gathers)
    : epilogue_(product, vector::instruction_lookup(preset.saturate_f16), vector::make_softmax_rows,
                product.anchor().type().shape.back()),
      c_(product.anchor().type().shape),
      value_row_bytes_(static_cast<size_t>(c_.back()) * size_of(product.anchor().type().dtype)),
      outputs_at_(product.node().inputs().size()),
      arguments_(outputs_at_ + product.node().types().size()) {
  const Node& node = product.node();
  for (const size_t i : product.epilogue_inputs()) add_operand(i, node.input(i).type(), false);
  for (size_t i = 0; i < node.types().size(); ++i) add_operand(outputs_at_ + i, node.type(i), true);
  size_t row = 2 * value_row_bytes_, shared = 0;
  for (const Operand& o : operands_) {
    row += 2 * o.row_bytes;
    shared += o.shared_bytes;
  }
  if (gathers) gathered_bytes_ = static_cast<size_t>(tile_rows) * value_row_bytes_;
  const auto all = static_cast<size_t>(preset.ub_bytes);
  for (rows_ = tile_rows; rows_ > 0; rows_ /= 2) {
    const auto rows = static_cast<size_t>(rows_);
    if (gathered_bytes_ + shared + rows * row + epilogue_.scratch_bytes(rows) <= all) break;
  }
}

void RowEpilogue::add_operand(size_t argument, const Type& type, bool result) {
  const int64_t rows = c_.num_elements() / c_.back(), elements = type.shape.num_elements();
  const size_t bytes = type.shape.num_bytes(type.dtype);
  Operand operand{argument, result};
  // One whose last axis is C's is read along the columns, however many elements it has.
  const bool along_columns = type.shape.rank() == 0 || type.shape.back() == c_.back();
  if (elements == c_.num_elements() || (elements == rows && !along_columns) || result) {
    operand.row_elements = static_cast<size_t>(elements / rows);
    operand.row_bytes = bytes / static_cast<size_t>(rows);
  } else {
    operand.shared_bytes = bytes;
  }
  operands_.push_back(operand);
}

std::vector<Claim> RowEpilogue::claims() const {
  const auto rows = static_cast<size_t>(rows_);
  std::vector<Claim> claims = {
      {CoreBuffer::kUnified, gathered_bytes_, "rows that wait for their last columns"},
      {CoreBuffer::kUnified, epilogue_.scratch_bytes(rows), "results between row-wise ops"}};
  const auto add_two = [&](size_t bytes, const std::string& what) {
    claims.push_back({CoreBuffer::kUnified, bytes, what + ", buffer 0"});
    claims.push_back({CoreBuffer::kUnified, bytes, what + ", buffer 1"});
  };
  add_two(rows * value_row_bytes_, "rows of the product");
  for (const Operand& o : operands_) {
    const std::string name = "argument " + std::to_string(o.argument);
    if (o.shared_bytes == 0)
      add_two(rows * o.row_bytes, name);
    else
      claims.push_back({CoreBuffer::kUnified, o.shared_bytes, name});
  }
  return claims;
}

size_t RowEpilogue::claim_of(const Place& place, size_t operand, int buffer) const {
  size_t claim = place.first + 4;
  for (size_t i = 0; i < operand; ++i) claim += operands_[i].shared_bytes == 0 ? 2 : 1;
  return claim + (operands_[operand].shared_bytes == 0 ? static_cast<size_t>(buffer) : 0);
}

uint32_t RowEpilogue::run(const Place& place, void* const* args, const char* values, int64_t row,
                          int64_t rows, std::vector<WrittenOnce>& written) const {
  uint32_t status = 0;
  int buffer = 0;
  for (int64_t done = 0; done < rows; done += rows_, buffer = 1 - buffer) {
    run_rows(place, args, values + static_cast<size_t>(done) * value_row_bytes_, row + done,
             std::min(rows_, rows - done), buffer, &status, written);
  }
  return status;
}

void RowEpilogue::run_rows(const Place& place, void* const* args, const char* values, int64_t row,
                           int64_t rows, int buffer, uint32_t* status,
                           std::vector<WrittenOnce>& written) const {
  const auto count = static_cast<size_t>(rows), first = static_cast<size_t>(row);
  std::vector<void*> at(args, args + arguments_);
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& o = operands_[i];
    const size_t bytes = o.shared_bytes == 0 ? count * o.row_bytes : o.shared_bytes;
    char* to = place.core.refill(claim_of(place, i, buffer), bytes);
    if (!o.result) {
      std::memcpy(to, static_cast<const char*>(args[o.argument]) + first * o.row_bytes, bytes);
    }
    at[o.argument] = origin_of(to, row, o.row_bytes);
  }
  place.core.refill(place.first + 1, epilogue_.scratch_bytes(count));
  char* product =
      place.core.refill(place.first + 2 + static_cast<size_t>(buffer), count * value_row_bytes_);
  std::memcpy(product, values, count * value_row_bytes_);
  *status |= epilogue_.run(at.data(), product, {row, rows, 0, c_.back()}, c_.back(),
                           place.core.at(place.first + 1));
  place.core.end_tile();
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& o = operands_[i];
    if (!o.result) continue;
    written[o.argument - outputs_at_].write(place.core, row * static_cast<int64_t>(o.row_elements),
                                            rows * static_cast<int64_t>(o.row_elements));
    std::memcpy(static_cast<char*>(args[o.argument]) + first * o.row_bytes,
                place.core.at(claim_of(place, i, buffer)), count * o.row_bytes);
  }
}

std::vector<WrittenOnce> RowEpilogue::nothing_written() const {
  const int64_t rows = c_.num_elements() / c_.back();
  std::vector<WrittenOnce> written;
  for (const Operand& o : operands_) {
    if (!o.result) continue;
    written.emplace_back("output " + std::to_string(o.argument - outputs_at_),
                         rows * static_cast<int64_t>(o.row_elements));
  }
  return written;
}

}  // namespace keel::npu
