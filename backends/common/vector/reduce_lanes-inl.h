// The reduction of a contiguous run of f32 or f64 lanes, in the one order that the number of
// elements and the vectors' width fix: four accumulator vectors in turn, added in pairs, then their
// lanes in halves. Included once per Highway target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_REDUCE_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_REDUCE_LANES_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_REDUCE_LANES_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_REDUCE_LANES_INL_H
#endif

#include <cmath>
#include <limits>

#include "hwy/highway.h"

#include "keel/backends/common/vector/loaders-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
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
template <class Op, class T>
class MetLanes {
 public:
  using Tag = hn::ScalableTag<T>;
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
      const V zero = hn::And(signs_, hn::Set(d, T(-0.0)));
      const V ordered = hn::IfThenElse(extreme == hn::Zero(d), zero, extreme);
      return hn::IfThenElse(nan_, hn::Set(d, std::numeric_limits<T>::quiet_NaN()), ordered);
    }
  }
  // Does the same for the extreme of all lanes.
  HWY_INLINE T corrected(T extreme) const;

 private:
  hn::Mask<Tag> nan_;
  V signs_;
};

// Returns the lanes of one vector, halves upon halves.
template <class Op, class D, class V = hn::Vec<D>>
HWY_INLINE hn::TFromD<D> reduce_lanes(HWY_MAYBE_UNUSED D d, V v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(v);
#else
  constexpr size_t kLanesOf16Bytes = 16 / sizeof(hn::TFromD<D>);
  if constexpr (hn::MaxLanes(D()) > kLanesOf16Bytes) {
    const hn::Half<D> dh;
    return reduce_lanes<Op>(dh, Op::of(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  } else if constexpr (kLanesOf16Bytes == 2) {
    return hn::GetLane(Op::of(v, hn::Shuffle01(v)));
  } else {
    const V pairs = Op::of(v, hn::Shuffle1032(v));
    return hn::GetLane(Op::of(pairs, hn::Shuffle2301(pairs)));
  }
#endif
}

template <class Op, class T>
HWY_INLINE T MetLanes<Op, T>::corrected(T extreme) const {
  if constexpr (!Op::kExtreme) {
    return extreme;
  } else {
    const Tag d;
    if (!hn::AllFalse(d, nan_)) return std::numeric_limits<T>::quiet_NaN();
    if (extreme != T(0)) return extreme;
    return std::copysign(T(0), reduce_lanes<typename Op::Signs>(d, signs_));
  }
}

// The accumulators of a run.
template <class Op, class T>
struct RunSums {
  using Tag = hn::ScalableTag<T>;
  using V = hn::Vec<Tag>;

  HWY_INLINE RunSums() : met(identity()) {
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; ++v) sums[v] = identity();
  }
  static HWY_INLINE V identity() { return hn::Set(Tag(), static_cast<T>(Op::kIdentity)); }
  HWY_INLINE void add(size_t at, V v) {
    sums[at] = Op::of(sums[at], v);
    met.add(v);
  }
  HWY_INLINE T result() const {
    const V sum = Op::of(Op::of(sums[0], sums[1]), Op::of(sums[2], sums[3]));
    return met.corrected(reduce_lanes<Op>(Tag(), sum));
  }

  V sums[4];
  MetLanes<Op, T> met;
};

template <class Op, class Loader>
HWY_INLINE typename Loader::Lane reduce_run(const Loader& loader,
                                            const typename Loader::Element* from, size_t n) {
  using Run = RunSums<Op, typename Loader::Lane>;
  const typename Run::Tag d;
  const size_t lanes = hn::Lanes(d);
  Run run;
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
    run.add(v, hn::IfThenElse(hn::FirstN(d, count), loaded, Run::identity()));
  }
  return run.result();
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_REDUCE_LANES_INL_H
