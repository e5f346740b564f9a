#include "keel/backends/common/vector/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/softmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/double_math-inl.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/math-inl.h"
#include "keel/backends/common/vector/reduce_lanes-inl.h"
#include "keel/backends/common/vector/softmax_narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

template <class T>
using Lanes = hn::Vec<hn::ScalableTag<T>>;

// Holds what a pass over a row gathers: sums of exponentials, and of the shifted logits.
template <class T>
struct RowSums {
  T exponentials = 0, shifted = 0;
};

// e^(x - top) of a row, to `to` unless it is null, and the sums. Two accumulators, then lanes in
// halves.
template <bool kStore, bool kShifted, class T>
HWY_INLINE RowSums<T> exponential_pass(const T* from, size_t cols, T top, T* to) {
  const hn::ScalableTag<T> d;
  const PlainLoader<T> loader;
  const size_t lanes = hn::Lanes(d);
  const Lanes<T> maximum = hn::Set(d, top);
  Lanes<T> sums[2] = {hn::Zero(d), hn::Zero(d)};
  Lanes<T> shifts = hn::Zero(d);
  size_t c = 0;
  for (; c + 2 * lanes <= cols; c += 2 * lanes) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      const Lanes<T> x = hn::LoadU(d, from + c + v * lanes) - maximum;
      const Lanes<T> e = exp_clamped(d, x);
      sums[v] = sums[v] + e;
      if constexpr (kShifted) shifts = shifts + x;
      if constexpr (kStore) hn::StoreU(e, d, to + c + v * lanes);
    }
  }
  for (; c < cols; c += lanes) {
    const size_t count = std::min(lanes, cols - c);
    const auto inside = hn::FirstN(d, count);
    const Lanes<T> x = load_part(loader, d, from + c, count) - maximum;
    const Lanes<T> e = hn::IfThenElseZero(inside, exp_clamped(d, x));
    sums[0] = sums[0] + e;
    if constexpr (kShifted) shifts = shifts + hn::IfThenElseZero(inside, x);
    if constexpr (kStore) {
      HWY_ALIGN T rest[hn::MaxLanes(d)];
      hn::Store(e, d, rest);
      std::memcpy(to + c, rest, count * sizeof(T));
    }
  }
  return {reduce_lanes<SumLanes>(d, sums[0] + sums[1]),
          kShifted ? reduce_lanes<SumLanes>(d, shifts) : T(0)};
}

// A NaN or an infinite maximum makes the whole row NaN.
template <class T>
HWY_INLINE T inverse_of(T sum, T top) {
  return std::isfinite(top) ? T(1) / sum : std::numeric_limits<T>::quiet_NaN();
}

// to = f(from), a vector at a time.
template <class T, class F>
HWY_INLINE void map_row(const T* from, size_t cols, T* to, const F& f) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + lanes <= cols; c += lanes) hn::StoreU(f(hn::LoadU(d, from + c)), d, to + c);
  if (c == cols) return;
  HWY_ALIGN T rest[hn::MaxLanes(d)] = {};
  std::memcpy(rest, from + c, (cols - c) * sizeof(T));
  hn::Store(f(hn::Load(d, rest)), d, rest);
  std::memcpy(to + c, rest, (cols - c) * sizeof(T));
}

template <class T>
HWY_INLINE T row_maximum(const T* row, size_t cols) {
  return reduce_run<MaxLanesOp>(PlainLoader<T>(), row, cols);
}

template <class T>
bool is_narrow(size_t cols) {
  return sizeof(T) == sizeof(float) && cols <= kNarrowColumns;
}

template <class T>
void softmax(const SoftmaxCall& call) {
  const hn::ScalableTag<T> d;
  if (call.cols == 0) return;
  if (is_narrow<T>(call.cols)) return softmax_narrow(call);
  for (size_t r = 0; r < call.rows; ++r) {
    const T* from = static_cast<const T*>(call.src) + r * call.stride;
    T* to = static_cast<T*>(call.dst) + r * call.dst_stride;
    const T top = row_maximum(from, call.cols);
    const RowSums<T> sums = exponential_pass<true, false>(from, call.cols, top, to);
    const Lanes<T> inverse = hn::Set(d, inverse_of(sums.exponentials, top));
    map_row(to, call.cols, to, [&](Lanes<T> e) HWY_ATTR { return e * inverse; });
  }
}

template <class T>
void log_softmax(const SoftmaxCall& call) {
  const hn::ScalableTag<T> d;
  if (call.cols == 0) return;
  if (is_narrow<T>(call.cols)) return log_softmax_narrow(call);
  for (size_t r = 0; r < call.rows; ++r) {
    const T* from = static_cast<const T*>(call.src) + r * call.stride;
    const T top = row_maximum(from, call.cols);
    const RowSums<T> sums =
        exponential_pass<false, false>(from, call.cols, top, static_cast<T*>(nullptr));
    const T valid = inverse_of(T(1), top);  // 1, or NaN
    const Lanes<T> maximum = hn::Set(d, top);
    const Lanes<T> log_sum = log(d, hn::Set(d, sums.exponentials * valid));
    map_row(from, call.cols, static_cast<T*>(call.dst) + r * call.dst_stride,
            [&](Lanes<T> x) HWY_ATTR { return (x - maximum) - log_sum; });
  }
}

// Computes one row of the fused kernel; `gradient` may be the row itself.
template <bool kSmooth, class T>
HWY_INLINE void cross_entropy_row(const CrossEntropyCall& call, const T* row, size_t label, T* loss,
                                  T* gradient) {
  const hn::ScalableTag<T> d;
  const T top = row_maximum(row, call.cols);
  const T at_label = row[label] - top;
  const RowSums<T> sums = gradient != nullptr
                              ? exponential_pass<true, kSmooth>(row, call.cols, top, gradient)
                              : exponential_pass<false, kSmooth>(row, call.cols, top, gradient);
  const T smoothing = static_cast<T>(call.smoothing), factor_of_all = static_cast<T>(call.scale);
  const T kept = T(1) - smoothing;
  const T spread = smoothing / static_cast<T>(call.cols);
  const T inverse = inverse_of(sums.exponentials, top);
  if (loss != nullptr) {
    const T valid = inverse_of(T(1), top);
    const T log_sum = hn::GetLane(log(d, hn::Set(d, sums.exponentials * valid)));
    *loss = log_sum - kept * at_label;
    if (kSmooth) *loss -= spread * sums.shifted;
  }
  if (gradient == nullptr) return;
  const T hit = (gradient[label] * inverse - (spread + kept)) * factor_of_all;
  const Lanes<T> factor = hn::Set(d, inverse), rest = hn::Set(d, spread);
  const Lanes<T> scale = hn::Set(d, factor_of_all);
  map_row(gradient, call.cols, gradient,
          [&](Lanes<T> e) HWY_ATTR { return (e * factor - rest) * scale; });
  gradient[label] = hit;
}

template <class T, class Label>
int64_t cross_entropy_of(const CrossEntropyCall& call) {
  const auto* labels = static_cast<const Label*>(call.labels);
  for (size_t r = 0; r < call.rows; ++r) {
    const auto label = static_cast<int64_t>(labels[r]);
    if (label < 0 || static_cast<uint64_t>(label) >= call.cols) return static_cast<int64_t>(r);
  }
  if (is_narrow<T>(call.cols) && call.cols > 0) {
    cross_entropy_narrow(call,
                         [labels](size_t r) HWY_ATTR { return static_cast<int64_t>(labels[r]); });
    return -1;
  }
  auto* gradients = static_cast<T*>(call.gradient);
  auto* losses = static_cast<T*>(call.loss);
  const bool smooth = static_cast<T>(call.smoothing) != T(0);
  for (size_t r = 0; r < call.rows; ++r) {
    const T* row = static_cast<const T*>(call.logits) + r * call.stride;
    T* gradient = gradients == nullptr ? nullptr : gradients + r * call.gradient_stride;
    T* loss = losses == nullptr ? nullptr : losses + r;
    const auto label = static_cast<size_t>(labels[r]);
    smooth ? cross_entropy_row<true>(call, row, label, loss, gradient)
           : cross_entropy_row<false>(call, row, label, loss, gradient);
  }
  return -1;
}

template <class T>
int64_t cross_entropy(const CrossEntropyCall& call) {
  if (call.label_dtype == i64) return cross_entropy_of<T, int64_t>(call);
  if (call.label_dtype == i32) return cross_entropy_of<T, int32_t>(call);
  return cross_entropy_of<T, uint8_t>(call);
}

}  // namespace

SoftmaxInstruction softmax_here(DType dtype) {
  if (dtype == f64) return &softmax<double>;
  return dtype == f32 ? &softmax<float> : nullptr;
}
SoftmaxInstruction log_softmax_here(DType dtype) {
  if (dtype == f64) return &log_softmax<double>;
  return dtype == f32 ? &log_softmax<float> : nullptr;
}
CrossEntropyInstruction cross_entropy_here(DType dtype) {
  if (dtype == f64) return &cross_entropy<double>;
  return dtype == f32 ? &cross_entropy<float> : nullptr;
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {

HWY_EXPORT(softmax_here);
HWY_EXPORT(log_softmax_here);
HWY_EXPORT(cross_entropy_here);

SoftmaxInstruction find_softmax(DType dtype) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(softmax_here)(dtype);
}
SoftmaxInstruction find_log_softmax(DType dtype) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(log_softmax_here)(dtype);
}
CrossEntropyInstruction find_softmax_cross_entropy(DType dtype) {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(cross_entropy_here)(dtype);
}

}  // namespace keel::vector
#endif
