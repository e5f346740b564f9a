// var and stddev: how far elements lie from their mean along axes. Axes may be negative (-1 is the
// last); an empty list means all of them. Computed in two passes, first the mean and then the
// squared distances from it (themselves centred once more), so that a mean that is large beside the
// distances costs no digits.
// Floats only; 16-bit ones are computed in f32 and rounded once.
//
// Each function adds one node to the graph of its operand. Errors and printed graphs name `site`,
// or where that is not given the line that made the operand.
#ifndef KEEL_OPS_VARIANCE_H
#define KEEL_OPS_VARIANCE_H

#include <cstdint>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

// Axes count from the front, each once, ascending; none means all.
struct VarianceAttributes {
  std::vector<int64_t> axes;
  bool keepdims = false;
  bool sample = false;
  static void fields(auto&& visit) {
    visit("axes", &VarianceAttributes::axes);
    visit("keepdims", &VarianceAttributes::keepdims);
    visit("sample", &VarianceAttributes::sample);
  }
};

struct VarianceOptions {
  bool keepdims = false;  // reduced axes stay with size 1
  // With n elements the sum of squares is divided by n, as for a whole population; with `sample` by
  // n - 1, Bessel's correction, which estimates the variance of what the sample was drawn from.
  bool sample = false;
};

// sum((x - mean(x))^2) / n. NaN where n is 0, or 1 with `sample`.
KEEL_API Value var(Operand x, const std::vector<int64_t>& axes = {}, VarianceOptions options = {},
                   CallSite site = {});
// Returns its square root: NumPy's std, a name that a namespace has in C++. Where it is 0 the
// gradient is 0: all elements are equal, and no direction is better than another.
KEEL_API Value stddev(Operand x, const std::vector<int64_t>& axes = {},
                      VarianceOptions options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_VARIANCE_H
