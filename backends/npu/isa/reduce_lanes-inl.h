// The reduction of a contiguous run of floats, in the one order that the number of elements and the vectors' width
// fix: four accumulator vectors in turn, added in pairs, then their lanes in halves. Included once per Highway target.
#if defined(KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
#undef KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
#else
#define KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
#endif

#include <limits>

#include "hwy/highway.h"
#include "keel/backends/npu/isa/cube_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct SumLanes {
  static constexpr float kIdentity = 0.0f;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return a + b;
  }
  static float one(float a, float b) { return a + b; }
};
struct ProdLanes {
  static constexpr float kIdentity = 1.0f;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return a * b;
  }
  static float one(float a, float b) { return a * b; }
};
struct MaxLanesOp {  // NaN wins
  static constexpr float kIdentity = -std::numeric_limits<float>::infinity();
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::IfThenElse(hn::Or(a > b, hn::IsNaN(a)), a, b);
  }
  static float one(float a, float b) { return a > b || a != a ? a : b; }
};
struct MinLanesOp {
  static constexpr float kIdentity = std::numeric_limits<float>::infinity();
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::IfThenElse(hn::Or(a < b, hn::IsNaN(a)), a, b);
  }
  static float one(float a, float b) { return a < b || a != a ? a : b; }
};

// The lanes of one vector, halves upon halves.
template <class Op, class V>
HWY_INLINE float reduce_lanes(V v) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN float lanes[hn::MaxLanes(hn::ScalableTag<float>())];
  hn::Store(v, d, lanes);
  for (size_t half = hn::Lanes(d) / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] = Op::one(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}

template <class Op, class Loader>
HWY_INLINE float reduce_run(const Loader& loader, const typename Loader::Element* from, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<hn::ScalableTag<float>> sums[4];
#pragma GCC unroll 4
  for (size_t v = 0; v < 4; ++v) sums[v] = hn::Set(d, Op::kIdentity);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; ++v) {
      sums[v] = Op::of(sums[v], loader.load(d, from + i + v * lanes));
    }
  }
#pragma GCC unroll 4
  for (size_t v = 0; v < 4; ++v, i += lanes) {
    if (i >= n) break;
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto loaded =
        count == lanes ? loader.load(d, from + i) : load_part(loader, d, from + i, count);
    const auto part =
        hn::IfThenElse(hn::FirstN(d, count), loaded, hn::Set(d, Op::kIdentity));
    sums[v] = Op::of(sums[v], part);
  }
  return reduce_lanes<Op>(Op::of(Op::of(sums[0], sums[1]), Op::of(sums[2], sums[3])));
}

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
