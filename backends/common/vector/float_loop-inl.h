// Loops that carry an operation on one vector of f32 or f64 lanes over the n elements of a
// VectorCall. Included once per Highway target by the files that define instructions.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_FLOAT_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_FLOAT_LOOP_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_FLOAT_LOOP_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_FLOAT_LOOP_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"

#include "keel/backends/common/vector/half_codec-inl.h"
#include "keel/backends/common/vector/instruction_table.h"
#include "keel/backends/common/vector/instructions.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using LanesOf = hn::Vec<hn::ScalableTag<T>>;

// The sources of a call as streams of vectors; a scalar source is a stream that stands still.
template <class T, int kSources>
class LaneSources {
 public:
  using Tag = hn::ScalableTag<T>;
  using V = hn::Vec<Tag>;

  HWY_INLINE explicit LaneSources(const VectorCall& call) {
    const Tag d;
    for (int s = 0; s < kSources; ++s) {
      if (call.scalar[s]) {
        hn::Store(hn::Set(d, *static_cast<const T*>(call.src[s])), d, spread_[s]);
        at_[s] = spread_[s];
        mask_[s] = 0;
      } else {
        at_[s] = static_cast<const T*>(call.src[s]);
        mask_[s] = ~size_t{0};
      }
    }
  }

  HWY_INLINE V load(int s, size_t i) const { return hn::LoadU(Tag(), at_[s] + (i & mask_[s])); }

  // Returns the `count` elements from i on, the other lanes zero.
  HWY_INLINE V load_rest(int s, size_t i, size_t count) const {
    if (mask_[s] == 0) return hn::Load(Tag(), spread_[s]);
    HWY_ALIGN T lanes[hn::MaxLanes(Tag())] = {};
    std::memcpy(lanes, at_[s] + i, count * sizeof(T));
    return hn::Load(Tag(), lanes);
  }

 private:
  const T* at_[kSources];
  size_t mask_[kSources];  // 0 where the stream stands still
  HWY_ALIGN T spread_[kSources][hn::MaxLanes(Tag())];
};

template <class Op, class T, int kSources>
HWY_INLINE LanesOf<T> apply(const Op& op, const LaneSources<T, kSources>& from, size_t i) {
  if constexpr (kSources == 1) return op(from.load(0, i));
  if constexpr (kSources == 2) return op(from.load(0, i), from.load(1, i));
  if constexpr (kSources == 3) return op(from.load(0, i), from.load(1, i), from.load(2, i));
}

template <class Op, class T, int kSources>
HWY_INLINE LanesOf<T> apply_rest(const Op& op, const LaneSources<T, kSources>& from, size_t i,
                                 size_t count) {
  if constexpr (kSources == 1) return op(from.load_rest(0, i, count));
  if constexpr (kSources == 2) {
    return op(from.load_rest(0, i, count), from.load_rest(1, i, count));
  }
  if constexpr (kSources == 3) {
    return op(from.load_rest(0, i, count), from.load_rest(1, i, count),
              from.load_rest(2, i, count));
  }
}

template <class T>
HWY_INLINE void store_rest(LanesOf<T> v, T* to, size_t count) {
  const hn::ScalableTag<T> d;
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

// Computes from element i on, as far as whole vectors go, past the caches; returns where it
// stopped. Elements before the first vector boundary of dst are stored as usual.
template <class Op, class T, int kSources>
HWY_INLINE size_t stream_lanes(const Op& op, const LaneSources<T, kSources>& from, T* dst,
                               size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t past = reinterpret_cast<uintptr_t>(dst) / sizeof(T) % lanes;
  size_t i = past == 0 ? 0 : std::min(lanes - past, n);
  if (i != 0) store_rest(apply_rest(op, from, 0, i), dst, i);
  for (; i + lanes <= n; i += lanes) hn::Stream(apply(op, from, i), d, dst + i);
  return i;
}

// f32 or f64 in and out. Op has kSources and operator()(V...) -> V for vectors of them.
template <class T, class Op>
void run_lanes(const VectorCall& call) {
  const hn::ScalableTag<T> d;
  const Op op;
  const LaneSources<T, Op::kSources> from(call);
  auto* dst = static_cast<T*>(call.dst);
  const size_t n = call.n, lanes = hn::Lanes(d);
  size_t i = call.streams ? stream_lanes(op, from, dst, n) : 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto first = apply(op, from, i);
    const auto second = apply(op, from, i + lanes);
    hn::StoreU(first, d, dst + i);
    hn::StoreU(second, d, dst + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(apply(op, from, i), d, dst + i);
  if (i < n) store_rest(apply_rest(op, from, i, n - i), dst + i, n - i);
}

// One byte for each lane: 1 where the mask is set, else 0.
template <class D>
HWY_INLINE void store_bools(D d, hn::Mask<D> mask, uint8_t* to) {
  const hn::RebindToSigned<D> di;
  const auto ones = hn::IfThenElseZero(mask, hn::BitCast(d, hn::Set(di, 1)));
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::Rebind<uint8_t, D> d8;
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, ones)), d8, to);
  } else {
    HWY_ALIGN int64_t lanes[hn::MaxLanes(D())];
    hn::Store(hn::BitCast(di, ones), di, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = static_cast<uint8_t>(lanes[i]);
  }
}

// f32 or f64 in, bool out. Op's test(V, V) gives a mask.
template <class T, class Op>
void run_lanes_to_bool(const VectorCall& call) {
  const hn::ScalableTag<T> d;
  const LaneSources<T, 2> from(call);
  auto* dst = static_cast<uint8_t*>(call.dst);
  const size_t n = call.n, lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    store_bools(d, Op::test(from.load(0, i), from.load(1, i)), dst + i);
  }
  if (i < n) {
    uint8_t rest[hn::MaxLanes(d)];
    store_bools(d, Op::test(from.load_rest(0, i, n - i), from.load_rest(1, i, n - i)), rest);
    std::memcpy(dst + i, rest, n - i);
  }
}

// Runs an f32 instruction on f16 or bf16 operands: blocks are widened into a buffer, and narrowed
// again where the result is not bool. Each result is rounded once, as if stored.
template <VectorInstruction kF32, class Codec, bool kToBool, bool kSaturate>
void run_half(const VectorCall& call) {
  constexpr size_t kBlock = 512;
  alignas(64) float in[3][kBlock];
  alignas(64) float out[kBlock];
  VectorCall inner;
  for (int s = 0; s < 3; ++s) {
    if (call.src[s] == nullptr) continue;
    inner.src[s] = in[s];
    inner.scalar[s] = call.scalar[s];
    if (call.scalar[s]) Codec::widen(static_cast<const uint16_t*>(call.src[s]), 1, in[s]);
  }
  for (size_t i = 0; i < call.n; i += kBlock) {
    inner.n = std::min(kBlock, call.n - i);
    for (int s = 0; s < 3; ++s) {
      if (call.src[s] == nullptr || call.scalar[s]) continue;
      Codec::widen(static_cast<const uint16_t*>(call.src[s]) + i, inner.n, in[s]);
    }
    inner.dst = kToBool ? static_cast<void*>(static_cast<uint8_t*>(call.dst) + i) : out;
    kF32(inner);
    if constexpr (!kToBool) {
      const uint32_t status =
          Codec::template narrow<kSaturate>(out, inner.n, static_cast<uint16_t*>(call.dst) + i);
      if (kSaturate && call.status != nullptr) *call.status |= status;
    }
  }
}

// The table entries of one floating-point instruction: f64, f32, f16, f16 saturating, bf16.
#define KEEL_FLOAT_INSTRUCTION(name, passes, Op)                                                   \
  {name, passes, f64, f64, false, &run_lanes<double, Op>},                                         \
      {name, passes, f32, f32, false, &run_lanes<float, Op>},                                      \
      {name, passes, f16, f16, false, &run_half<&run_lanes<float, Op>, HalfCodec, false, false>},  \
      {name, passes, f16, f16, true, &run_half<&run_lanes<float, Op>, HalfCodec, false, true>}, {  \
    name, passes, bf16, bf16, false, &run_half<&run_lanes<float, Op>, BFloat16Codec, false, false> \
  }

// The same for one whose result is bool.
#define KEEL_FLOAT_TEST(name, Op)                                                         \
  {name, 2, f64, boolean, false, &run_lanes_to_bool<double, Op>},                         \
      {name, 2, f32, boolean, false, &run_lanes_to_bool<float, Op>},                      \
      {name,    2,     f16,                                                               \
       boolean, false, &run_half<&run_lanes_to_bool<float, Op>, HalfCodec, true, false>}, \
  {                                                                                       \
    name, 2, bf16, boolean, false,                                                        \
        &run_half<&run_lanes_to_bool<float, Op>, BFloat16Codec, true, false>              \
  }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_FLOAT_LOOP_INL_H
