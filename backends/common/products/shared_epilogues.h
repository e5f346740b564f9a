// SharedEpilogues: what runs the epilogues of products, made once for all nodes of a compilation
// that share a body, because deep graphs repeat few kinds of layers. It keeps the bodies, and may
// go before what it gave out. One thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_SHARED_EPILOGUES_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_SHARED_EPILOGUES_H

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "keel/backends/common/product_epilogue.h"

namespace keel {

class SharedEpilogues {
 public:
  // `saturate_f16`: f16 results stop at +-65504 instead of becoming infinite.
  explicit SharedEpilogues(bool saturate_f16) : saturate_f16_(saturate_f16) {}

  // `columns` are those between rows of the result, as for ProductEpilogue. REQUIRES an epilogue
  // that is supported.
  std::shared_ptr<const ProductEpilogue> of(const AnchoredNode& product, int64_t columns);

 private:
  bool saturate_f16_;
  std::map<std::pair<std::shared_ptr<const Graph>, int64_t>, std::shared_ptr<const ProductEpilogue>>
      epilogues_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_SHARED_EPILOGUES_H
