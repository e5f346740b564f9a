#include "keel/backends/common/products/product_result.h"

#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/softmax_rows.h"
#include "keel/core/base/checked.h"
#include "keel/core/tensor/buffer.h"

namespace keel {

ProductResult::ProductResult(const AnchoredNode& product, int64_t columns, bool saturate_f16)
    : output_(product.node().inputs().size()),
      columns_(columns),
      element_size_(size_of(product.anchor().type().dtype)),
      reports_status_(saturate_f16 && vector::computes_f16(product.node())) {
  if (const DType result = product.anchor().type().dtype; result != f32)
    round_ = vector::find_instruction("cast", f32, result, saturate_f16);
  if (product.has_epilogue()) {
    epilogue_.emplace(product, vector::instruction_lookup(saturate_f16), vector::make_softmax_rows,
                      columns);
  }
}

std::vector<KernelPlan::InPlace> ProductResult::in_place() const {
  return epilogue_ ? epilogue_->in_place() : std::vector<KernelPlan::InPlace>{};
}

size_t ProductResult::rounded_bytes(int64_t rows) const {
  if (round_ == nullptr || !epilogue_) return 0;
  return align_up(static_cast<size_t>(rows * columns_) * element_size_, Buffer::kAlignment);
}

size_t ProductResult::scratch_bytes(int64_t rows) const {
  if (!epilogue_) return 0;
  return rounded_bytes(rows) +
         align_up(epilogue_->scratch_bytes(static_cast<size_t>(rows)), Buffer::kAlignment);
}

void ProductResult::add_ahead(void* const* args, int64_t row, int64_t rows,
                              PrefetchList& ahead) const {
  if (epilogue_) return epilogue_->add_ahead(args, row, rows, ahead);
  const size_t row_bytes = static_cast<size_t>(columns_) * element_size_;
  ahead.add(static_cast<const char*>(args[output_]) + static_cast<size_t>(row) * row_bytes,
            static_cast<size_t>(rows) * row_bytes, PrefetchList::Use::kWrite);
}

uint32_t ProductResult::finish(void* const* args, float* sums, const TileRectangle& where,
                               void* scratch) const {
  uint32_t status = 0;
  void* values = sums;
  if (round_ != nullptr) {
    values = epilogue_ ? scratch
                       : static_cast<char*>(args[output_]) +
                             static_cast<size_t>(where.row * columns_) * element_size_;
    VectorCall call;
    call.src[0] = sums;
    call.dst = values;
    call.n = static_cast<size_t>(where.rows * columns_);
    call.status = &status;
    round_(call);
  }
  if (!epilogue_) return status;
  return status | epilogue_->run(args, values, where, columns_,
                                 static_cast<char*>(scratch) + rounded_bytes(where.rows));
}

}  // namespace keel
