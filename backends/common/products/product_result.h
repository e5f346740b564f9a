// ProductResult: what becomes of a product's sums, some rows of the result at a time: they are
// rounded where the result has 16 bits, go through what is fused behind the product, and to the
// kernel's outputs. Belongs to the product's kernel; immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_PRODUCT_RESULT_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_PRODUCT_RESULT_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/prefetch.h"
#include "keel/backends/common/product_epilogue.h"
#include "keel/backends/common/tile_program.h"
#include "keel/backends/common/vector_call.h"

namespace keel {

class ProductResult {
 public:
  // `columns` are those of the result as a matrix. `saturate_f16`: f16 results stop at +-65504.
  // REQUIRES an epilogue that is supported, if there is one.
  ProductResult(const AnchoredNode& product, int64_t columns, bool saturate_f16);

  // Says whether sums are the result and can be written to output 0 where they belong.
  bool is_sums() const noexcept { return round_ == nullptr && !epilogue_; }
  // Says whether finish() may raise the float status.
  bool reports_status() const noexcept { return reports_status_; }
  std::vector<KernelPlan::InPlace> in_place() const;
  // Returns the scratch of finish() for so many rows: a multiple of 64 bytes, and aligned so.
  size_t scratch_bytes(int64_t rows) const;

  // Adds what finish() reads and writes for so many rows, or the output where sums are the result.
  void add_ahead(void* const* args, int64_t row, int64_t rows, PrefetchList& ahead) const;
  // Takes whole rows of sums, one behind the other, to the outputs among `args`. Returns the status
  // bits raised. REQUIRES that the result is not just the sums.
  uint32_t finish(void* const* args, float* sums, const TileRectangle& where, void* scratch) const;

 private:
  size_t rounded_bytes(int64_t rows) const;

  size_t output_;  // the argument
  int64_t columns_;
  size_t element_size_;  // of the product
  VectorInstruction round_ = nullptr;
  std::optional<ProductEpilogue> epilogue_;
  bool reports_status_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_PRODUCT_RESULT_H
