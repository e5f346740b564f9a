// The reduction of a contiguous run of floats, in the one order that the number of elements and the
// vectors' width fix: four accumulator vectors in turn, added in pairs, then their lanes in halves.
// Included once per Highway target.
#if defined(KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
#undef KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
#else
#define KEEL_BACKENDS_NPU_ISA_REDUCE_LANES_INL_H
#endif

#include <cmath>
#include <limits>

#include "hwy/highway.h"

#include "keel/backends/npu/isa/cube_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// of: the operation; of extremes where no NaN is met and zeros count as equal. kExtreme: it is one,
// so that both need looking after: `Signs` joins the sign bits of what went by to that of a result
// that is zero.
struct SumLanes {
  static constexpr float kIdentity = 0.0f;
  static constexpr bool kExtreme = false;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return a + b;
  }
};
struct ProdLanes {
  static constexpr float kIdentity = 1.0f;
  static constexpr bool kExtreme = false;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return a * b;
  }
};
// A maximum of 0 is -0 where every element has the sign bit.
struct MaxLanesOp {
  static constexpr float kIdentity = -std::numeric_limits<float>::infinity();
  static constexpr bool kExtreme = true;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Max(a, b);
  }
  struct Signs {
    template <class V>
    static HWY_INLINE V of(V a, V b) {
      return hn::And(a, b);
    }
  };
};
// A minimum of 0 is -0 where any element has it.
struct MinLanesOp {
  static constexpr float kIdentity = std::numeric_limits<float>::infinity();
  static constexpr bool kExtreme = true;
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    return hn::Min(a, b);
  }
  struct Signs {
    template <class V>
    static HWY_INLINE V of(V a, V b) {
      return hn::Or(a, b);
    }
  };
};

// Holds what else an extreme is made of: whether a NaN went by, and the signs; of other operations
// nothing.
template <class Op>
class MetLanes {
 public:
  using Tag = hn::ScalableTag<float>;
  using V = hn::Vec<Tag>;

  HWY_INLINE explicit MetLanes(V first) : nan_(hn::IsNaN(first)), signs_(first) {}
  HWY_INLINE void add(V v) {
    if constexpr (Op::kExtreme) {
      nan_ = hn::Or(nan_, hn::IsNaN(v));
      signs_ = Op::Signs::of(signs_, v);
    }
  }
  // Lane by lane what `extreme` is with them.
  HWY_INLINE V corrected(V extreme) const {
    if constexpr (!Op::kExtreme) {
      return extreme;
    } else {
      const Tag d;
      const V zero = hn::And(signs_, hn::Set(d, -0.0f));
      const V ordered = hn::IfThenElse(extreme == hn::Zero(d), zero, extreme);
      return hn::IfThenElse(nan_, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), ordered);
    }
  }
  // Does the same for the extreme of all lanes.
  HWY_INLINE float corrected(float extreme) const;

 private:
  hn::Mask<Tag> nan_;
  V signs_;
};

// Returns the lanes of one vector, halves upon halves.
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

template <class Op>
HWY_INLINE float MetLanes<Op>::corrected(float extreme) const {
  if constexpr (!Op::kExtreme) {
    return extreme;
  } else {
    const Tag d;
    if (!hn::AllFalse(d, nan_)) return std::numeric_limits<float>::quiet_NaN();
    if (extreme != 0.0f) return extreme;
    return std::copysign(0.0f, reduce_lanes<typename Op::Signs>(d, signs_));
  }
}

// The accumulators of a run.
template <class Op>
struct RunSums {
  using Tag = hn::ScalableTag<float>;
  using V = hn::Vec<Tag>;

  HWY_INLINE RunSums() : met(hn::Set(Tag(), Op::kIdentity)) {
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; ++v) sums[v] = hn::Set(Tag(), Op::kIdentity);
  }
  HWY_INLINE void add(size_t at, V v) {
    sums[at] = Op::of(sums[at], v);
    met.add(v);
  }
  HWY_INLINE float result() const {
    const V sum = Op::of(Op::of(sums[0], sums[1]), Op::of(sums[2], sums[3]));
    return met.corrected(reduce_lanes<Op>(Tag(), sum));
  }

  V sums[4];
  MetLanes<Op> met;
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
