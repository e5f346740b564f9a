// The matrices of a product: which of a node's operands is multiplied from the left, and where in
// memory the rows of both and of the result lie. A matrix product and the three products of a
// convolution are all C = A x B, and differ in nothing else, so that one kernel and one price serve
// them. Pure functions; any thread.
#ifndef KEEL_OPS_PRODUCTS_PRODUCT_MATRICES_H
#define KEEL_OPS_PRODUCTS_PRODUCT_MATRICES_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/graph/ir/node.h"
#include "keel/ops/products/window_rows.h"

namespace keel {

struct ProductMatrices {
  struct Operand {
    size_t input = 0;         // of the node
    bool transposed = false;  // A is stored [k, m], B is stored [n, k]
    int64_t stride = 0;       // elements from a row as stored to the next
    // Set where the rows as stored are windows.
    std::optional<WindowRows> windows;
  };
  // The elements that the matrices of one product of the batch begin with.
  struct Starts {
    int64_t a = 0, b = 0, c = 0;
  };

  int64_t m = 0, n = 0, k = 0;  // C is [m, n], the sums are over k
  Operand a, b;
  int64_t c_stride = 0;     // elements from a row of C to the next
  bool wide = false;        // C is f32 whatever the operands are
  bool direct = false;      // each element of C has to be the sum of its own terms (winograd.h)
  bool rows_alone = false;  // a row of C has to have the bits that it has whatever others there are
  // k is so many parts, whose sums are added as a tree (ops/sums/part_sums.h). In a and b the
  // matrices of a part begin `part_step` elements behind those of the part before.
  int64_t parts = 1;
  Starts part_step;
  std::vector<Starts> batch;
};

// Why a node with trait product cannot be computed as such matrices; empty where it can. Matrix
// products always can. Convolutions cannot that have no elements or sum nothing; where all groups
// have one channel (K would be the taps, too short for a product); and gradients for the images
// with a stride, since most of their products would be with zeros: they have phases
// (product_phases.h).
KEEL_API std::string why_no_matrices(const Node& product);

// REQUIRES known dimensions and that why_no_matrices is empty.
KEEL_API ProductMatrices product_matrices(const Node& product);

// Returns what product_matrices would of the first part alone, with `parts` and `part_step` of all.
KEEL_API ProductMatrices matrices_of_part(const Node& product);

}  // namespace keel

#endif  // KEEL_OPS_PRODUCTS_PRODUCT_MATRICES_H
