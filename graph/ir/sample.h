// Sample: one random test case of an op, from which the conformance suite
// derives its checks: reference gradient against central differences, every
// backend against the reference, decomposition against the reference, printer
// round trip, and a benchmark row. SampleSource: the random choices, drawn from
// a seed, so that a failing case can be repeated.
#ifndef KEEL_GRAPH_IR_SAMPLE_H
#define KEEL_GRAPH_IR_SAMPLE_H

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/graph.h"

namespace keel {

struct Sample {
  std::vector<Tensor> inputs;
  // Builds the op from one graph input for each tensor; returns the values to
  // check.
  std::function<Values(Graph&, const Values&)> build;
  // Says whether input i may be differentiated here (a float input away from kinks
  // and poles); empty means every float input.
  std::vector<bool> differentiable;
};

class KEEL_API SampleSource {
 public:
  // `dtype`: what the case's main inputs should have. `size`: 0..100, how large
  // shapes may become.
  SampleSource(uint64_t seed, DType dtype, int size);

  DType dtype() const noexcept { return dtype_; }
  int size() const noexcept { return size_; }
  uint64_t bits();
  int64_t integer(int64_t low, int64_t high);  // inclusive
  double real(double low, double high);
  bool coin();
  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(integer(0, static_cast<int64_t>(choices.size()) - 1))];
  }

  // Dimensions are mostly small; now and then 0, 1 or, with a large size(),
  // some hundreds in all.
  int64_t dim();
  Shape shape(size_t min_rank, size_t max_rank);
  // Draws like shape(), with no dimension 0.
  Shape nonempty_shape(size_t min_rank, size_t max_rank);
  // Returns a shape that broadcasts with `shape` without enlarging it: dimensions
  // replaced by 1 or dropped in front.
  Shape broadcastable_to(const Shape& shape);

  // Values of dtype(): floats spread over [low, high], integers over the same
  // range rounded inward; exact in f16.
  Tensor values(const Shape& shape, double low = -2, double high = 2);
  Tensor values(DType dtype, const Shape& shape, double low, double high);
  // Like values, with every two elements at least `gap` apart and none within
  // `gap` of zero: for ops with kinks or ties (max, relu, abs). Falls back to
  // wider ranges when the shape needs it.
  Tensor separated_values(const Shape& shape, double gap = 0.05);

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
  DType dtype_;
  int size_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_SAMPLE_H
