// Tolerance: how far a result may be from the reference: the op's own bound, |got - expected| <=
// ulps * ulp(expected) + k * eps(dtype) * scale, element by element. To k * eps products add what
// keel/ops/product_bound.h allows them.
#ifndef KEEL_OPS_CONFORMANCE_TOLERANCE_H
#define KEEL_OPS_CONFORMANCE_TOLERANCE_H

#include <string>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/conformance/evaluate.h"

namespace keel::conformance {

// Returns the distance between 1 and the next number of a float dtype; 0 for other dtypes.
double epsilon(DType dtype);
// Returns the distance between `value` and the next number of a float dtype; 0 for other dtypes.
double ulp(DType dtype, double value);

// Returns the scale of each element of an output of `node`. Products and reductions: the op itself
// on the inputs' magnitudes (sum|a||b|, sum|x|), at least the largest input magnitude where the op
// is composed of others. Element-wise ops: the largest magnitude among the inputs' elements it
// depends on. Others: the largest magnitude among all inputs.
Tensor scale_of(const Node& node, size_t output, const std::vector<Tensor>& inputs);

// Returns what the errors of a product's terms may come to, relative to sum|a||b|; 0 for other
// nodes and of integers.
double product_error(const Node& node, size_t output, const std::vector<Tensor>& inputs);

// Returns what differs: nothing, or the first and the worst element in words. NaN equals NaN, an
// infinity nothing but itself, and where the bound is 0 a zero one of the same sign. `scale` may be
// empty where bound.k and `product_error` are 0.
std::string compare(const Tensor& got, const Tensor& expected, const ErrorBound& bound,
                    const Tensor& scale, double product_error = 0);

// compare() for every output of a specialised graph against its evaluation, with the bound of the
// op that computes it (looking through reshapes, transposes and the like).
std::string compare_outputs(const std::vector<Tensor>& got, const Graph& graph,
                            const Evaluation& expected);

}  // namespace keel::conformance

#endif  // KEEL_OPS_CONFORMANCE_TOLERANCE_H
