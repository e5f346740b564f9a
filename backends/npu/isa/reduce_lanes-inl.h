// The reduction of a contiguous run of floats, in the one order that the number of elements and the
// vectors' width fix: four accumulator vectors in turn, added in pairs, then their lanes in halves.
// Included once per Highway target.
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

// of: the operation, where NaN need not win; strict: where it must; kNanWins tells whether the two
// differ.
struct SumLanes {
  static constexpr float kIdentity = 0.0f;
  static constexpr bool kNanWins = false;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return a + b;
  }
  template <class V>
  static HWY_INLINE V strict(V a, V b) {
    return a + b;
  }
};
struct ProdLanes {
  static constexpr float kIdentity = 1.0f;
  static constexpr bool kNanWins = false;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return a * b;
  }
  template <class V>
  static HWY_INLINE V strict(V a, V b) {
    return a * b;
  }
};
struct MaxLanesOp {
  static constexpr float kIdentity = -std::numeric_limits<float>::infinity();
  static constexpr bool kNanWins = true;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Max(a, b);
  }
  template <class V>
  static HWY_INLINE V strict(V a, V b) {
    return hn::IfThenElse(hn::Or(a > b, hn::IsNaN(a)), a, b);
  }
};
struct MinLanesOp {
  static constexpr float kIdentity = std::numeric_limits<float>::infinity();
  static constexpr bool kNanWins = true;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Min(a, b);
  }
  template <class V>
  static HWY_INLINE V strict(V a, V b) {
    return hn::IfThenElse(hn::Or(a < b, hn::IsNaN(a)), a, b);
  }
};

// The lanes of one vector, halves upon halves.
template <class Op, class D, class V = hn::Vec<D>>
HWY_INLINE float reduce_lanes(HWY_MAYBE_UNUSED D d, V v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(v);
#else
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> dh;
    return reduce_lanes<Op>(dh, Op::of(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  } else {
    const V pairs = Op::of(v, hn::Shuffle1032(v));
    return hn::GetLane(Op::of(pairs, hn::Shuffle2301(pairs)));
  }
#endif
}

// The accumulators of a run, and whether a NaN went by.
template <class Op>
struct RunSums {
  using Tag = hn::ScalableTag<float>;
  using V = hn::Vec<Tag>;

  HWY_INLINE RunSums() : nan(hn::IsNaN(hn::Zero(Tag()))) {
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; ++v) sums[v] = hn::Set(Tag(), Op::kIdentity);
  }
  HWY_INLINE void add(size_t at, V v) {
    sums[at] = Op::of(sums[at], v);
    if constexpr (Op::kNanWins) nan = hn::Or(nan, hn::IsNaN(v));
  }
  HWY_INLINE float result() const {
    if (Op::kNanWins && !hn::AllFalse(Tag(), nan)) return std::numeric_limits<float>::quiet_NaN();
    return reduce_lanes<Op>(Tag(), Op::of(Op::of(sums[0], sums[1]), Op::of(sums[2], sums[3])));
  }

  V sums[4];
  hn::Mask<Tag> nan;
};

template <class Op, class Loader>
HWY_INLINE float reduce_run(const Loader& loader, const typename Loader::Element* from, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  RunSums<Op> run;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; ++v) run.add(v, loader.load(d, from + i + v * lanes));
  }
#pragma GCC unroll 4
  for (size_t v = 0; v < 4; ++v, i += lanes) {
    if (i >= n) break;
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto loaded =
        count == lanes ? loader.load(d, from + i) : load_part(loader, d, from + i, count);
    run.add(v, hn::IfThenElse(hn::FirstN(d, count), loaded, hn::Set(d, Op::kIdentity)));
  }
  return run.result();
}

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
