// Matrices by their diagonals: tril, triu, eye. Diagonal k of a matrix holds the elements [i, i +
// k]: 0 is the main one, positive ones lie above it.
//
// Each function adds its nodes to the graph of its operand. Errors and printed graphs name `site`,
// or where that is not given the line that made the operand.
#ifndef KEEL_OPS_TRIANGLE_H
#define KEEL_OPS_TRIANGLE_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct TriangleAttributes {
  int64_t diagonal = 0;
  static void fields(auto&& visit) { visit("diagonal", &TriangleAttributes::diagonal); }
};

// x (any dtype, rank >= 2) with 0 above this diagonal of the last two axes, whatever stood there.
KEEL_API Value tril(Operand x, int64_t diagonal = 0, CallSite site = {});
// Likewise, with 0 below it.
KEEL_API Value triu(Operand x, int64_t diagonal = 0, CallSite site = {});

struct EyeOptions {
  int64_t columns = -1;  // -1: as many as rows
  int64_t diagonal = 0;
  DType dtype = f32;
};
// Returns the matrix that is 1 on a diagonal and 0 elsewhere, in any dtype.
KEEL_API Value eye(Graph& graph, int64_t rows, EyeOptions options = {},
                   CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_TRIANGLE_H
