// Matrix products. a is [..., m, k] (or [..., k, m] with transpose_a), b is [..., k, n] (or [...,
// n, k]); the result is
// [..., m, n]. Leading dimensions broadcast as in NumPy. A vector counts as one row on the left and
// as one column on the right, and the result lacks that axis: two vectors give a scalar. One number
// dtype throughout; floats are accumulated in at least f32 (f64 in f64), integers wrap in their own
// dtype. A `wide` product of f16 or bf16 gives f32: the sums as accumulated, never rounded to the
// operands' dtype.
//
// A product with `rows_alone` gives each row the bits that it has whatever other rows there are.
// One with `parts` sums over so many parts of k, whose sums are added as a tree
// (ops/sums/part_sums.h).
#ifndef KEEL_OPS_MATMUL_H
#define KEEL_OPS_MATMUL_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// The flags transpose take the last two axes of an operand the other way round.
struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  bool wide = false;  // f16 or bf16 operands, f32 result
  bool rows_alone = false;
  int64_t parts = 1;  // of matrices that both have k as their first axis
  static void fields(auto&& visit) {
    visit("transpose_a", &MatmulAttributes::transpose_a);
    visit("transpose_b", &MatmulAttributes::transpose_b);
    visit("wide", &MatmulAttributes::wide);
    visit("rows_alone", &MatmulAttributes::rows_alone);
    visit("parts", &MatmulAttributes::parts);
  }
};

// Adds one node and returns its value; errors name `site`, or where that is not given the line that
// made `a`; vectors add views around it. Throws Error for operands of rank 0, a vector to
// transpose, inner dimensions that differ, and mixed or bool dtypes, and where a wide product's
// operands are neither f16 nor bf16, and for parts
// that do not divide k or do not lie along first axes. The gradients of a wide product are those of
// its operands, in their dtype: the upstream f32 gradient is rounded to it first, so that both
// products are of low operands with f32 sums.
KEEL_API Value matmul(Operand a, Operand b, MatmulAttributes options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_MATMUL_H
