#include "keel/backends/npu/isa/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/npu/isa/softmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/npu/isa/host_isa.h"
#include "keel/backends/npu/isa/reduce_lanes-inl.h"
#include "keel/backends/npu/isa/softmax_narrow-inl.h"
#include "keel/backends/npu/isa/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using Lanes = hn::Vec<Tag>;

// Holds what a pass over a row gathers: sums of exponentials, and of the shifted logits.
struct RowSums {
  float exponentials = 0, shifted = 0;
};

// e^(x - top) of a row, to `to` unless it is null, and the sums. Two accumulators, then lanes in
// halves.
template <bool kStore, bool kShifted>
HWY_INLINE RowSums exponential_pass(const float* from, size_t cols, float top, float* to) {
  const Tag d;
  const FloatLoader loader(nullptr);
  const size_t lanes = hn::Lanes(d);
  const Lanes maximum = hn::Set(d, top);
  Lanes sums[2] = {hn::Zero(d), hn::Zero(d)};
  Lanes shifts = hn::Zero(d);
  size_t c = 0;
  for (; c + 2 * lanes <= cols; c += 2 * lanes) {
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      const Lanes x = hn::LoadU(d, from + c + v * lanes) - maximum;
      const Lanes e = exp_clamped(d, x);
      sums[v] = sums[v] + e;
      if constexpr (kShifted) shifts = shifts + x;
      if constexpr (kStore) hn::StoreU(e, d, to + c + v * lanes);
    }
  }
  for (; c < cols; c += lanes) {
    const size_t count = std::min(lanes, cols - c);
    const auto inside = hn::FirstN(d, count);
    const Lanes x = load_part(loader, d, from + c, count) - maximum;
    const Lanes e = hn::IfThenElseZero(inside, exp_clamped(d, x));
    sums[0] = sums[0] + e;
    if constexpr (kShifted) shifts = shifts + hn::IfThenElseZero(inside, x);
    if constexpr (kStore) {
      HWY_ALIGN float rest[hn::MaxLanes(Tag())];
      hn::Store(e, d, rest);
      std::memcpy(to + c, rest, count * sizeof(float));
    }
  }
  return {reduce_lanes<SumLanes>(d, sums[0] + sums[1]),
          kShifted ? reduce_lanes<SumLanes>(d, shifts) : 0.0f};
}

// A NaN or an infinite maximum makes the whole row NaN.
HWY_INLINE float inverse_of(float sum, float top) {
  return std::isfinite(top) ? 1.0f / sum : std::numeric_limits<float>::quiet_NaN();
}

// to = f(from), a vector at a time.
template <class F>
HWY_INLINE void map_row(const float* from, size_t cols, float* to, const F& f) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + lanes <= cols; c += lanes) hn::StoreU(f(hn::LoadU(d, from + c)), d, to + c);
  if (c == cols) return;
  HWY_ALIGN float rest[hn::MaxLanes(Tag())] = {};
  std::memcpy(rest, from + c, (cols - c) * sizeof(float));
  hn::Store(f(hn::Load(d, rest)), d, rest);
  std::memcpy(to + c, rest, (cols - c) * sizeof(float));
}

HWY_INLINE float row_maximum(const float* row, size_t cols) {
  return reduce_run<MaxLanesOp>(FloatLoader(nullptr), row, cols);
}

void softmax(const SoftmaxCall& call) {
  if (call.cols == 0) return;
  if (call.cols <= kNarrowColumns) return softmax_narrow(call);
  for (size_t r = 0; r < call.rows; ++r) {
    const float* from = call.src + r * call.stride;
    float* to = call.dst + r * call.dst_stride;
    const float top = row_maximum(from, call.cols);
    const RowSums sums = exponential_pass<true, false>(from, call.cols, top, to);
    const Lanes inverse = hn::Set(Tag(), inverse_of(sums.exponentials, top));
    map_row(to, call.cols, to, [&](Lanes e) HWY_ATTR { return e * inverse; });
  }
}

void log_softmax(const SoftmaxCall& call) {
  if (call.cols == 0) return;
  if (call.cols <= kNarrowColumns) return log_softmax_narrow(call);
  for (size_t r = 0; r < call.rows; ++r) {
    const float* from = call.src + r * call.stride;
    const float top = row_maximum(from, call.cols);
    const RowSums sums = exponential_pass<false, false>(from, call.cols, top, nullptr);
    const float valid = inverse_of(1.0f, top);  // 1, or NaN
    const Lanes maximum = hn::Set(Tag(), top);
    const Lanes log_sum = log(Tag(), hn::Set(Tag(), sums.exponentials * valid));
    map_row(from, call.cols, call.dst + r * call.dst_stride,
            [&](Lanes x) HWY_ATTR { return (x - maximum) - log_sum; });
  }
}

// Computes one row of the fused kernel; `gradient` may be the row itself.
template <bool kSmooth>
HWY_INLINE void cross_entropy_row(const CrossEntropyCall& call, const float* row, size_t label,
                                  float* loss, float* gradient) {
  const Tag d;
  const float top = row_maximum(row, call.cols);
  const float at_label = row[label] - top;
  const RowSums sums = gradient != nullptr
                           ? exponential_pass<true, kSmooth>(row, call.cols, top, gradient)
                           : exponential_pass<false, kSmooth>(row, call.cols, top, nullptr);
  const float kept = 1.0f - call.smoothing;
  const float spread = call.smoothing / static_cast<float>(call.cols);
  const float inverse = inverse_of(sums.exponentials, top);
  if (loss != nullptr) {
    const float valid = inverse_of(1.0f, top);
    const float log_sum = hn::GetLane(log(d, hn::Set(d, sums.exponentials * valid)));
    *loss = log_sum - kept * at_label;
    if (kSmooth) *loss -= spread * sums.shifted;
  }
  if (gradient == nullptr) return;
  const float hit = (gradient[label] * inverse - (spread + kept)) * call.scale;
  const Lanes factor = hn::Set(d, inverse), rest = hn::Set(d, spread);
  const Lanes scale = hn::Set(d, call.scale);
  map_row(gradient, call.cols, gradient,
          [&](Lanes e) HWY_ATTR { return (e * factor - rest) * scale; });
  gradient[label] = hit;
}

template <class T>
int64_t cross_entropy_of(const CrossEntropyCall& call) {
  const auto* labels = static_cast<const T*>(call.labels);
  for (size_t r = 0; r < call.rows; ++r) {
    const auto label = static_cast<int64_t>(labels[r]);
    if (label < 0 || static_cast<uint64_t>(label) >= call.cols) return static_cast<int64_t>(r);
  }
  if (call.cols <= kNarrowColumns && call.cols > 0) {
    cross_entropy_narrow(call,
                         [labels](size_t r) HWY_ATTR { return static_cast<int64_t>(labels[r]); });
    return -1;
  }
  for (size_t r = 0; r < call.rows; ++r) {
    const float* row = call.logits + r * call.stride;
    float* gradient = call.gradient == nullptr ? nullptr : call.gradient + r * call.gradient_stride;
    float* loss = call.loss == nullptr ? nullptr : call.loss + r;
    const auto label = static_cast<size_t>(labels[r]);
    call.smoothing != 0.0f ? cross_entropy_row<true>(call, row, label, loss, gradient)
                           : cross_entropy_row<false>(call, row, label, loss, gradient);
  }
  return -1;
}

int64_t cross_entropy(const CrossEntropyCall& call) {
  if (call.label_dtype == i64) return cross_entropy_of<int64_t>(call);
  if (call.label_dtype == i32) return cross_entropy_of<int32_t>(call);
  return cross_entropy_of<uint8_t>(call);
}

}  // namespace

SoftmaxInstruction softmax_here() { return &softmax; }
SoftmaxInstruction log_softmax_here() { return &log_softmax; }
CrossEntropyInstruction cross_entropy_here() { return &cross_entropy; }

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::npu {

HWY_EXPORT(softmax_here);
HWY_EXPORT(log_softmax_here);
HWY_EXPORT(cross_entropy_here);

SoftmaxInstruction find_softmax() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(softmax_here)();
}
SoftmaxInstruction find_log_softmax() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(log_softmax_here)();
}
CrossEntropyInstruction find_softmax_cross_entropy() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(cross_entropy_here)();
}

}  // namespace keel::npu
#endif
