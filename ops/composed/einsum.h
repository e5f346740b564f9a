// einsum: sums of products, written by the labels of the axes. A composition of matmul, mul, sum
// and transpose.
#ifndef KEEL_OPS_COMPOSED_EINSUM_H
#define KEEL_OPS_COMPOSED_EINSUM_H

#include <string>

#include "keel/core/base/export.h"
#include "keel/graph/ir/value.h"

namespace keel {

// "bij,bjk->bik": one letter for each axis of each operand, and those of the result. Axes of one
// letter have one size and move together; a letter that the result lacks is summed over. Without
// "->" the result has the letters that occur once, in alphabetical order. A letter twice in one
// operand takes its diagonal ("ii->i"). Spaces mean nothing.
//
// "...ij,jk->...ik": an ellipsis stands for the axes of an operand that have no letter, counted
// from the last of them; those of several operands have one size in each place, and an operand may
// have fewer. Without "->" they come first in the result; a result without "..." is summed over
// them.
//
// Operands have one number dtype, and are combined from left to right, two at a time: by matmul
// where they share letters that are summed over, else by mul. Where several letters of an operand
// become one axis of a product, at most one dimension of that operand may be unknown.
//
// Errors name `site`. Throws Error where the equation is no such thing, or does not fit the
// operands.
KEEL_API Value einsum(const std::string& equation, const Values& operands,
                      CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_COMPOSED_EINSUM_H
