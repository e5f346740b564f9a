#include "keel/backends/common/vector/softmax_gradient.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/softmax_gradient.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/loaders-inl.h"
#include "keel/backends/common/vector/reduce_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// Calls body(p, dy, number of the vector, lanes in use) for each vector of a row; the other lanes
// of the last one are zero.
template <class F>
HWY_INLINE void for_vectors(const float* p, const float* dy, size_t cols, const F& body) {
  const Tag d;
  const FloatLoader loader;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + lanes <= cols; c += lanes)
    body(hn::LoadU(d, p + c), hn::LoadU(d, dy + c), c / lanes, lanes);
  if (c == cols) return;
  const size_t count = cols - c;
  body(load_part(loader, d, p + c, count), load_part(loader, d, dy + c, count), c / lanes, count);
}

// sum(term(p, dy)) of a row, in two accumulators in turn, then lanes in halves.
template <class F>
HWY_INLINE float row_sum(const float* p, const float* dy, size_t cols, const F& term) {
  const Tag d;
  Vec sums[2] = {hn::Zero(d), hn::Zero(d)};
  for_vectors(p, dy, cols, [&](Vec a, Vec b, size_t vector, size_t) HWY_ATTR {
    sums[vector % 2] = sums[vector % 2] + term(a, b);
  });
  return reduce_lanes<SumLanes>(d, sums[0] + sums[1]);
}

// to = f(p, dy) of a row.
template <class F>
HWY_INLINE void map_row(const float* p, const float* dy, size_t cols, float* to, const F& f) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  for_vectors(p, dy, cols, [&](Vec a, Vec b, size_t vector, size_t count) HWY_ATTR {
    if (count == lanes) return hn::StoreU(f(a, b), d, to + vector * lanes);
    HWY_ALIGN float rest[hn::MaxLanes(Tag())];
    hn::Store(f(a, b), d, rest);
    std::memcpy(to + vector * lanes, rest, count * sizeof(float));
  });
}

void softmax_gradient(const SoftmaxGradientCall& call) {
  const Tag d;
  for (size_t at = 0; at < call.rows * call.cols; at += call.cols) {
    const float *p = call.probabilities + at, *dy = call.upstream + at;
    const Vec mean =
        hn::Set(d, row_sum(p, dy, call.cols, [](Vec a, Vec b) HWY_ATTR { return a * b; }));
    map_row(p, dy, call.cols, call.dst + at, [&](Vec a, Vec b) HWY_ATTR { return (b - mean) * a; });
  }
}

void log_softmax_gradient(const SoftmaxGradientCall& call) {
  const Tag d;
  for (size_t at = 0; at < call.rows * call.cols; at += call.cols) {
    const float *p = call.probabilities + at, *dy = call.upstream + at;
    const Vec sum = hn::Set(d, row_sum(p, dy, call.cols, [](Vec, Vec b) HWY_ATTR { return b; }));
    map_row(p, dy, call.cols, call.dst + at, [&](Vec a, Vec b) HWY_ATTR { return b - sum * a; });
  }
}

}  // namespace

SoftmaxGradientInstruction softmax_gradient_here() { return &softmax_gradient; }
SoftmaxGradientInstruction log_softmax_gradient_here() { return &log_softmax_gradient; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {

HWY_EXPORT(softmax_gradient_here);
HWY_EXPORT(log_softmax_gradient_here);

SoftmaxGradientInstruction find_softmax_gradient() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(softmax_gradient_here)();
}
SoftmaxGradientInstruction find_log_softmax_gradient() {
  host_isa();
  return HWY_DYNAMIC_DISPATCH(log_softmax_gradient_here)();
}

}  // namespace keel::vector
#endif
