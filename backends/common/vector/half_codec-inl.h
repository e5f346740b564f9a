// Conversions between f32 and the 16-bit floats: one vector at a time, and runs of elements.
// Rounding is to nearest even with subnormals kept and NaN staying NaN, in integer operations where
// the target has no such instruction.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_HALF_CODEC_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_HALF_CODEC_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_HALF_CODEC_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_HALF_CODEC_INL_H
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#include "keel/backends/common/vector/host_isa.h"
#include "keel/core/device/float_status.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Codec is HalfCodec or BFloat16Codec: load(d, from) and store(d, v, to) move one vector of D's
// lanes; narrow_by_instruction(from, n, to) narrows as many of the first elements as it returns.
template <class Codec>
struct HalfRuns {
  static void widen(const uint16_t* from, size_t n, float* to) {
    const hn::ScalableTag<float> d;
    const size_t lanes = hn::Lanes(d);
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(Codec::load(d, from + i), d, to + i);
    if (i == n) return;
    uint16_t rest[hn::MaxLanes(d)] = {};
    HWY_ALIGN float wide[hn::MaxLanes(d)];
    std::memcpy(rest, from + i, (n - i) * sizeof(uint16_t));
    hn::Store(Codec::load(d, rest), d, wide);
    std::memcpy(to + i, wide, (n - i) * sizeof(float));
  }

  // Returns the status bits that saturation raised.
  template <bool kSaturate>
  static uint32_t narrow(const float* from, size_t n, uint16_t* to) {
    const hn::ScalableTag<float> d;
    const size_t lanes = hn::Lanes(d);
    uint32_t status = 0;
    size_t i = kSaturate ? 0 : Codec::narrow_by_instruction(from, n, to);
    for (; i + lanes <= n; i += lanes) {
      auto v = hn::LoadU(d, from + i);
      if constexpr (kSaturate) status |= Codec::saturate(d, v);
      Codec::store(d, v, to + i);
    }
    if (i == n) return status;
    HWY_ALIGN float wide[hn::MaxLanes(d)] = {};
    uint16_t rest[hn::MaxLanes(d)];
    std::memcpy(wide, from + i, (n - i) * sizeof(float));
    auto v = hn::Load(d, wide);
    if constexpr (kSaturate) status |= Codec::saturate(d, v);
    Codec::store(d, v, rest);
    std::memcpy(to + i, rest, (n - i) * sizeof(uint16_t));
    return status;
  }
};

struct BFloat16Codec : HalfRuns<BFloat16Codec> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* from) {
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
  }

  // Rounded to the upper halves; what is below them is left over.
  template <class D, class DU = hn::RebindToUnsigned<D>>
  static HWY_INLINE hn::Vec<DU> rounded_bits(HWY_MAYBE_UNUSED D d, hn::Vec<D> v) {
    const DU du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = bits + (odd + hn::Set(du, 0x7fffu));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
    return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
  }

  // Returns what a store and a load make of v.
  template <class D>
  static HWY_INLINE hn::Vec<D> round(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::And(rounded_bits(d, v), hn::Set(du, 0xffff0000u)));
  }

  template <class D>
  static HWY_INLINE void store(HWY_MAYBE_UNUSED D d, hn::Vec<D> v, uint16_t* to) {
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToSigned<D> di;
    const auto result = hn::ShiftRight<16>(rounded_bits(d, v));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, to);
  }

  template <class D>
  static HWY_INLINE uint32_t saturate(D, hn::Vec<D>&) {
    return 0;
  }

#if HWY_TARGET == HWY_AVX3
  // Returns the 16 of `low`, then the 16 of `high`, by the instruction of AVX512_BF16, which takes
  // subnormals for zero. It is in assembly, because the intrinsic wants a target of its own.
  // REQUIRES has_bf16_dot_products().
  static HWY_INLINE __m512i rounded_by_instruction(__m512 low, __m512 high) {
    __m512i both;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(high), "v"(low));
    return both;
  }

  // This finds them by their bits, as comparisons take them for zero where the thread has that set.
  static HWY_INLINE __mmask16 subnormals(__m512 v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __mmask16 low = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_test_epi32_mask(low, bits, _mm512_set1_epi32(0x007fffff));
  }
#endif

  // The instruction rounds two vectors in the time of an addition, but takes subnormals for zero:
  // vectors that have some go the other way.
  static HWY_INLINE size_t narrow_by_instruction(HWY_MAYBE_UNUSED const float* from,
                                                 HWY_MAYBE_UNUSED size_t n,
                                                 HWY_MAYBE_UNUSED uint16_t* to) {
    size_t i = 0;
#if HWY_TARGET == HWY_AVX3
    if (!has_bf16_dot_products() || host_isa() == HostIsa::kAvx512) return 0;
    const hn::ScalableTag<float> d;
    for (; i + 32 <= n; i += 32) {
      const auto low = hn::LoadU(d, from + i), high = hn::LoadU(d, from + i + 16);
      const int subnormal = subnormals(low.raw) | subnormals(high.raw);
      if (HWY_UNLIKELY(subnormal != 0)) {
        store(d, low, to + i);
        store(d, high, to + i + 16);
        continue;
      }
      _mm512_storeu_si512(to + i, rounded_by_instruction(low.raw, high.raw));
    }
#endif
    return i;
  }
};

struct HalfCodec : HalfRuns<HalfCodec> {
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* from) {
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<uint16_t, D> du16;
    return hn::PromoteTo(d, hn::BitCast(d16, hn::LoadU(du16, from)));
#else
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(d16, from));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    // The exponent is rebased by a multiplication, which gets subnormals right too.
    const auto value = hn::BitCast(du, hn::BitCast(d, magnitude) * hn::Set(d, 0x1p112f));
    const auto special = hn::BitCast(d, magnitude) >= hn::Set(d, 0x1p-96f);
    const auto infinite = hn::Or(magnitude, hn::Set(du, 0x7f800000u));
    return hn::BitCast(d,
                       hn::Or(hn::IfThenElse(hn::RebindMask(du, special), infinite, value), sign));
#endif
  }

  template <class D>
  static HWY_INLINE void store(HWY_MAYBE_UNUSED D d, hn::Vec<D> v, uint16_t* to) {
    const hn::Rebind<uint16_t, D> du16;
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, D> d16;
    hn::StoreU(hn::BitCast(du16, hn::DemoteTo(d16, v)), du16, to);
#else
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto normal =
        hn::ShiftRight<13>(magnitude - hn::Set(du, 0x38000000u) + hn::Set(du, 0xfffu) + odd);
    // Adding 0.5 lets the addition round to units of 2^-24, the spacing of f16's subnormals.
    const auto half = hn::Set(d, 0.5f);
    const auto small = hn::BitCast(du, hn::BitCast(d, magnitude) + half) - hn::BitCast(du, half);
    const auto quiet =
        hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x1ffu)), hn::Set(du, 0x7e00u));
    const auto absolute = hn::BitCast(d, magnitude);
    auto result =
        hn::IfThenElse(hn::RebindMask(du, absolute < hn::Set(d, 0x1p-14f)), small, normal);
    result = hn::IfThenElse(hn::RebindMask(du, absolute >= hn::Set(d, 65520.0f)),
                            hn::Set(du, 0x7c00u), result);
    result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, result);
    hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, hn::Or(result, sign))), du16, to);
#endif
  }

  static HWY_INLINE size_t narrow_by_instruction(const float*, size_t, uint16_t*) { return 0; }

  // Stops v at the largest finite values; tells whether it had to.
  template <class D>
  static HWY_INLINE uint32_t saturate(D d, hn::Vec<D>& v) {
    const auto beyond = hn::Abs(v) >= hn::Set(d, 65520.0f);
    if (hn::AllFalse(d, beyond)) return 0;
    v = hn::IfThenElse(beyond, hn::CopySign(hn::Set(d, 65504.0f), v), v);
    return kFloatStatusF16Overflow;
  }
};

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_HALF_CODEC_INL_H
