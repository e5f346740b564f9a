// The gradient of a convolution for its images, with a stride, as products. A pixel of the images
// meets every stride-th tap alone, which ones follows from its place modulo the stride: from its
// phase. The pixels of one phase are a product without zeros between the elements of dy, whose rows
// lie a stride apart in the images. Pure functions; any thread.
#ifndef KEEL_OPS_PRODUCTS_PRODUCT_PHASES_H
#define KEEL_OPS_PRODUCTS_PRODUCT_PHASES_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/node.h"
#include "keel/ops/products/product_matrices.h"

namespace keel {

struct ProductPhase {
  // There is a product for each group; k is 0 where no tap meets the phase, whose pixels are zero.
  ProductMatrices matrices;
  // Where the rows of C lie: windows of one pixel over the images, channels being C's columns.
  WindowRows pixels;

  // The element of the images that a row of C begins with, but for the group's start.
  int64_t place_of(int64_t row) const;
};

// Says why a product has no such phases; empty where it has some. Others than gradients for images
// with a stride have none, nor do images of NCHW, nor more phases than are worth a product each.
KEEL_API std::string why_no_phases(const Node& product);

// Returns all phases of which the images have pixels. REQUIRES that why_no_phases is empty.
KEEL_API std::vector<ProductPhase> product_phases(const Node& product);

}  // namespace keel

#endif  // KEEL_OPS_PRODUCTS_PRODUCT_PHASES_H
