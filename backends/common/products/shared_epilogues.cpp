#include "keel/backends/common/products/shared_epilogues.h"

#include "keel/backends/common/vector/element_kernels.h"
#include "keel/backends/common/vector/softmax_rows.h"

namespace keel {

std::shared_ptr<const ProductEpilogue> SharedEpilogues::of(const AnchoredNode& product,
                                                           int64_t columns) {
  auto& epilogue = epilogues_[{product.node().bodies()[0], columns}];
  if (epilogue == nullptr) {
    epilogue = std::make_shared<const ProductEpilogue>(
        product, vector::instruction_lookup(saturate_f16_), vector::make_softmax_rows, columns);
  }
  return epilogue;
}

}  // namespace keel
