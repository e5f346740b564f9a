// Loops that carry an operation on one vector of f32 lanes over the n elements of a VectorCall.
// Included once per Highway target by the files that define instructions.
#if defined(KEEL_BACKENDS_NPU_ISA_VECTOR_DRIVER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_NPU_ISA_VECTOR_DRIVER_INL_H
#undef KEEL_BACKENDS_NPU_ISA_VECTOR_DRIVER_INL_H
#else
#define KEEL_BACKENDS_NPU_ISA_VECTOR_DRIVER_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"

#include "keel/backends/npu/isa/half_codec-inl.h"
#include "keel/backends/npu/isa/instruction_table.h"
#include "keel/backends/npu/isa/vector_unit.h"

HWY_BEFORE_NAMESPACE();
namespace keel::npu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vf = hn::Vec<F32>;

// Base of operations without immediates.
struct NoImmediate {
  explicit NoImmediate(const VectorCall&) {}
};

// The sources of a call as streams of vectors; a scalar source is a stream that stands still.
template <int kSources>
class F32Sources {
 public:
  HWY_INLINE explicit F32Sources(const VectorCall& call) {
    const F32 d;
    for (int s = 0; s < kSources; ++s) {
      if (call.scalar[s]) {
        hn::Store(hn::Set(d, *static_cast<const float*>(call.src[s])), d, spread_[s]);
        at_[s] = spread_[s];
        mask_[s] = 0;
      } else {
        at_[s] = static_cast<const float*>(call.src[s]);
        mask_[s] = ~size_t{0};
      }
    }
  }

  HWY_INLINE Vf load(int s, size_t i) const { return hn::LoadU(F32(), at_[s] + (i & mask_[s])); }

  // Returns the `count` elements from i on, the other lanes zero.
  HWY_INLINE Vf load_rest(int s, size_t i, size_t count) const {
    if (mask_[s] == 0) return hn::Load(F32(), spread_[s]);
    HWY_ALIGN float lanes[hn::MaxLanes(F32())] = {};
    std::memcpy(lanes, at_[s] + i, count * sizeof(float));
    return hn::Load(F32(), lanes);
  }

 private:
  const float* at_[kSources];
  size_t mask_[kSources];  // 0 where the stream stands still
  HWY_ALIGN float spread_[kSources][hn::MaxLanes(F32())];
};

template <class Op, int kSources>
HWY_INLINE Vf apply(const Op& op, const F32Sources<kSources>& from, size_t i) {
  if constexpr (kSources == 1) return op(from.load(0, i));
  if constexpr (kSources == 2) return op(from.load(0, i), from.load(1, i));
  if constexpr (kSources == 3) return op(from.load(0, i), from.load(1, i), from.load(2, i));
}

template <class Op, int kSources>
HWY_INLINE Vf apply_rest(const Op& op, const F32Sources<kSources>& from, size_t i, size_t count) {
  if constexpr (kSources == 1) return op(from.load_rest(0, i, count));
  if constexpr (kSources == 2) {
    return op(from.load_rest(0, i, count), from.load_rest(1, i, count));
  }
  if constexpr (kSources == 3) {
    return op(from.load_rest(0, i, count), from.load_rest(1, i, count),
              from.load_rest(2, i, count));
  }
}

HWY_INLINE void store_rest(Vf v, float* to, size_t count) {
  HWY_ALIGN float lanes[hn::MaxLanes(F32())];
  hn::Store(v, F32(), lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

// Computes from element i on, as far as whole vectors go, past the caches; returns where it
// stopped. Elements before the first vector boundary of dst are stored as usual.
template <class Op, int kSources>
HWY_INLINE size_t stream_f32(const Op& op, const F32Sources<kSources>& from, float* dst, size_t n) {
  const size_t lanes = hn::Lanes(F32());
  const size_t past = reinterpret_cast<uintptr_t>(dst) / sizeof(float) % lanes;
  size_t i = past == 0 ? 0 : std::min(lanes - past, n);
  if (i != 0) store_rest(apply_rest(op, from, 0, i), dst, i);
  for (; i + lanes <= n; i += lanes) hn::Stream(apply(op, from, i), F32(), dst + i);
  return i;
}

// f32 in, f32 out. Op has kSources and operator()(Vf...) -> Vf.
template <class Op>
void run_f32(const VectorCall& call) {
  const Op op(call);
  const F32Sources<Op::kSources> from(call);
  auto* dst = static_cast<float*>(call.dst);
  const size_t n = call.n, lanes = hn::Lanes(F32());
  size_t i = call.streams ? stream_f32(op, from, dst, n) : 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const Vf first = apply(op, from, i);
    const Vf second = apply(op, from, i + lanes);
    hn::StoreU(first, F32(), dst + i);
    hn::StoreU(second, F32(), dst + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(apply(op, from, i), F32(), dst + i);
  if (i < n) store_rest(apply_rest(op, from, i, n - i), dst + i, n - i);
}

// f32 in, bool out. Op's operator()(Vf...) gives 1.0f or 0.0f bits as an integer 1 or 0 per lane.
template <class Op>
void run_f32_to_bool(const VectorCall& call) {
  const hn::Rebind<uint8_t, F32> d8;
  const Op op(call);
  const F32Sources<Op::kSources> from(call);
  auto* dst = static_cast<uint8_t*>(call.dst);
  const size_t n = call.n, lanes = hn::Lanes(F32());
  const hn::RebindToSigned<F32> di;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, apply(op, from, i))), d8, dst + i);
  }
  if (i < n) {
    uint8_t rest[hn::MaxLanes(F32())];
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, apply_rest(op, from, i, n - i))), d8, rest);
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
  inner.imm[0] = call.imm[0];
  inner.imm[1] = call.imm[1];
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

// The table rows of one floating-point instruction: f32, f16, f16 saturating, bf16.
#define KEEL_FLOAT_INSTRUCTION(name, Op)                                          \
  {name, f32, f32, false, &run_f32<Op>},                                          \
      {name, f16, f16, false, &run_half<&run_f32<Op>, HalfCodec, false, false>},  \
      {name, f16, f16, true, &run_half<&run_f32<Op>, HalfCodec, false, true>}, {  \
    name, bf16, bf16, false, &run_half<&run_f32<Op>, BFloat16Codec, false, false> \
  }

// The same for one whose result is bool.
#define KEEL_FLOAT_TEST(name, Op)                                                             \
  {name, f32, boolean, false, &run_f32_to_bool<Op>},                                          \
      {name, f16, boolean, false, &run_half<&run_f32_to_bool<Op>, HalfCodec, true, false>}, { \
    name, bf16, boolean, false, &run_half<&run_f32_to_bool<Op>, BFloat16Codec, true, false>   \
  }

}  // namespace keel::npu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_NPU_ISA_VECTOR_DRIVER_INL_H
