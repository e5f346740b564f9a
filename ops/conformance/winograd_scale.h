// The scale that errors of a convolution by transformed tiles (ops/products/winograd.h) have.
// Pure functions; any thread.
#ifndef KEEL_OPS_CONFORMANCE_WINOGRAD_SCALE_H
#define KEEL_OPS_CONFORMANCE_WINOGRAD_SCALE_H

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/products/winograd.h"

namespace keel::conformance {

// Returns the same tiles of the inputs' magnitudes by the magnitudes of the matrices: to first
// order an error is at most winograd_roundings times u = 2^-24 times this. f64, as many elements as
// the result.
std::vector<double> winograd_scale(const ProductMatrices& matrices, const WinogradForm& form,
                                   const std::vector<Tensor>& inputs);

// Returns the most roundings between a term and the result: of the terms that are summed one after
// the other, and of each of the transforms' sums.
double winograd_roundings(const WinogradForm& form);

}  // namespace keel::conformance

#endif  // KEEL_OPS_CONFORMANCE_WINOGRAD_SCALE_H
