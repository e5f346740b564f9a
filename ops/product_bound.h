// The product bound: how far a product of floats may be from the exact one, and what backends keep
// to so that it is not further. Pure; any thread.
//
// An element of a product is a sum of k terms a * b, computed in f32 (f64 for f64). In whatever
// order they are summed, each term carries to first order one relative error of at most u = 2^-24
// (2^-53) for each operation between it and the result, so the error is at most the largest number
// of these times u * sum|a||b|. Backends cut k into panels and add up the panels' sums: a term
// passes one rounding for each term of its panel (a multiplication and an addition, or one FMA) and
// one for each panel. The cube takes panels of 512 to 1,024 terms, Eigen some hundreds.
//
// The numbers below 2^-126 of bf16 operands may count as 0, and sums as small, where the host
// multiplies by AVX512_BF16 or AMX (KEEL_ISA avx512_bf16 and amx): such terms are outside the
// bound.
#ifndef KEEL_OPS_PRODUCT_BOUND_H
#define KEEL_OPS_PRODUCT_BOUND_H

#include <algorithm>
#include <cstdint>

namespace keel {

// No sum of terms is longer before it is added to others.
inline constexpr int64_t kLongestProductPanel = 1024;
// Several panels are not shorter than this on average.
inline constexpr int64_t kShortestProductPanel = 128;

// Returns the most roundings between a term and the result of a product over `k` terms. What is
// allowed is this times u * sum|a||b|, and one ulp of the result for rounding it to 16 bits and for
// what is left out at second order.
constexpr double product_roundings(int64_t k) noexcept {
  const int64_t panels = (k + kShortestProductPanel - 1) / kShortestProductPanel;
  return static_cast<double>(std::min(k, kLongestProductPanel) + panels);
}

}  // namespace keel

#endif  // KEEL_OPS_PRODUCT_BOUND_H
