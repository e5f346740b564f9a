#include <algorithm>
#include <iterator>
#include <limits>

#include "keel/backends/cpu/element_loop.h"
#include "keel/backends/cpu/instructions.h"
#include "keel/ops/scalar_rules.h"

namespace keel::cpu {
namespace {

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double,
                                       std::conditional_t<std::is_integral_v<T>, int64_t, float>>;

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return scalar::add(a, b);
  }
};
struct Prod {
  template <class T>
  T operator()(T a, T b) const {
    return scalar::mul(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return scalar::maximum(a, b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return scalar::minimum(a, b);
  }
};

template <class F, class A>
constexpr A identity() {
  using Limits = std::numeric_limits<A>;
  if constexpr (std::is_same_v<F, Sum>)
    return A{0};
  else if constexpr (std::is_same_v<F, Prod>)
    return A{1};
  else if constexpr (std::is_same_v<F, Max>)
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  else
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

// Element i goes to lane i % kLanes; the lanes are merged pairwise. The order is the same on every
// machine, and wide enough for any vector unit.
template <class T, class F>
void reduce_rows(const ReduceCall& c) {
  using A = Accumulator<T>;
  constexpr size_t kLanes = 64;
  const F f;
  for (size_t r = 0; r < c.rows; ++r) {
    const auto* row = static_cast<const T*>(c.src) + r * c.stride;
    A lanes[kLanes];
    std::fill_n(lanes, kLanes, identity<F, A>());
    size_t i = 0;
    for (; i + kLanes <= c.cols; i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) lanes[k] = f(lanes[k], static_cast<A>(row[i + k]));
    }
    for (size_t k = 0; i + k < c.cols; ++k) lanes[k] = f(lanes[k], static_cast<A>(row[i + k]));
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t k = 0; k < half; ++k) lanes[k] = f(lanes[k], lanes[k + half]);
    }
    static_cast<A*>(c.dst)[r] = lanes[0];
  }
}

template <class T, class F>
void reduce_columns(const ReduceCall& c) {
  using A = Accumulator<T>;
  const F f;
  auto* out = static_cast<A*>(c.dst);
  for (size_t r = 0; r < c.rows; ++r) {
    const auto* row = static_cast<const T*>(c.src) + r * c.stride;
    for (size_t i = 0; i < c.cols; ++i) out[i] = f(out[i], static_cast<A>(row[i]));
  }
}

template <class F>
void write_identity(std::string_view, DType dtype, void* accumulator) {
  switch (accumulator_of(dtype)) {
    case DType::kF64:
      *static_cast<double*>(accumulator) = identity<F, double>();
      break;
    case DType::kF32:
      *static_cast<float*>(accumulator) = identity<F, float>();
      break;
    default:
      *static_cast<int64_t*>(accumulator) = identity<F, int64_t>();
      break;
  }
}

template <class F>
ReduceInstructions instructions(DType dtype) {
  return visit_dtype(dtype, []<class T>() {
    return ReduceInstructions{reduce_rows<T, F>, reduce_columns<T, F>,
                              reduce_columns<Accumulator<T>, F>, write_identity<F>};
  });
}

}  // namespace

ReduceInstructions find_reduction(std::string_view op, DType dtype) {
  struct Row {
    std::string_view op;
    ReduceInstructions (*of)(DType dtype);
  };
  static constexpr Row kRows[] = {{"sum", instructions<Sum>},
                                  {"prod", instructions<Prod>},
                                  {"max", instructions<Max>},
                                  {"min", instructions<Min>}};
  const auto row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == op; });
  return row == std::end(kRows) ? ReduceInstructions() : row->of(dtype);
}

}  // namespace keel::cpu
