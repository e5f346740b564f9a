// Loaders: how the elements of an operand become lanes, of f32 or f64. Included once per Highway
// target.
#if defined(KEEL_BACKENDS_COMMON_VECTOR_LOADERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_COMMON_VECTOR_LOADERS_INL_H
#undef KEEL_BACKENDS_COMMON_VECTOR_LOADERS_INL_H
#else
#define KEEL_BACKENDS_COMMON_VECTOR_LOADERS_INL_H
#endif

#include <cstring>
#include <type_traits>

#include "hwy/highway.h"

#include "keel/backends/common/vector/byte_map.h"
#include "keel/backends/common/vector/half_codec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A loader has Element, the Lane that it is computed in, and load(d, from): one vector of D's
// lanes.
template <class T>
struct PlainLoader {
  using Element = T;
  using Lane = T;
  PlainLoader() = default;
  explicit PlainLoader(const ByteMap*) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const T* from) const {
    return hn::LoadU(d, from);
  }
};
using FloatLoader = PlainLoader<float>;
using DoubleLoader = PlainLoader<double>;

template <class Codec>
struct HalfLoader {
  using Element = uint16_t;
  using Lane = float;
  HalfLoader() = default;
  explicit HalfLoader(const ByteMap*) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const uint16_t* from) const {
    return Codec::load(d, from);
  }
};

template <ByteMap::Form kForm>
struct ByteLoader {
  using Element = uint8_t;
  using Lane = float;
  explicit ByteLoader(const ByteMap* map)
      : table_(map->table), scale_(map->scale), shift_(map->shift), inverse_(map->scale) {}

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const uint8_t* from) const {
    const hn::Rebind<uint8_t, D> d8;
    const hn::RebindToSigned<D> di;
    const auto index = hn::PromoteTo(di, hn::LoadU(d8, from));
    if constexpr (kForm == ByteMap::Form::kTable) return hn::GatherIndex(d, table_, index);
    const auto x = hn::ConvertTo(d, index);
    if constexpr (kForm == ByteMap::Form::kScale) return x * hn::Set(d, scale_);
    if constexpr (kForm == ByteMap::Form::kAffine) {
      return x * hn::Set(d, scale_) + hn::Set(d, shift_);
    }
#if HWY_TARGET <= HWY_AVX2
    return hn::MulAdd(x, hn::Set(d, inverse_.high), x * hn::Set(d, inverse_.low));
#else
    return x / hn::Set(d, scale_);
#endif
  }

 private:
  const float* table_;
  float scale_, shift_;
  ByteInverse inverse_;
};

#if HWY_TARGET == HWY_AVX3
// Bytes divided by 255, with one multiplication. In base 256, b / 255 is 0.bbb..., without end; a
// byte four times over is its first 32 bits. The 24 bits of an f32 begin with the first bit that is
// set, one of the first 8, so the next bit is among the 32. As 24 is three periods, it is that
// first bit again: the quotient is above the middle between two f32, and is rounded up. 0 stays 0.
struct ByteLoaderOf255 {
  using Element = uint8_t;
  using Lane = float;
  explicit ByteLoaderOf255(const ByteMap*) {}

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const uint8_t* from) const {
    static_assert(hn::MaxLanes(D()) == 16);
    const auto each = [](int lane) HWY_ATTR { return lane * 0x01010101; };
    const __m512i four_times = _mm512_setr_epi32(
        each(0), each(1), each(2), each(3), each(4), each(5), each(6), each(7), each(8), each(9),
        each(10), each(11), each(12), each(13), each(14), each(15));
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    const __m512i first_bits = _mm512_shuffle_epi8(bytes, four_times);
    constexpr int kUp = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
    return hn::Vec<D>{_mm512_cvt_roundepu32_ps(first_bits, kUp)} * hn::Set(d, 0x1p-32f);
  }
};
#endif

// Rounds to bf16 what another loader gives.
template <class Loader>
struct RoundedLoader {
  using Element = typename Loader::Element;
  using Lane = float;
  explicit RoundedLoader(const ByteMap* map) : loader_(map) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, const Element* from) const {
    return BFloat16Codec::round(d, loader_.load(d, from));
  }

 private:
  Loader loader_;
};

// The first `count` lanes, the others zero; reads nothing beyond. REQUIRES count > 0.
template <class Loader, class D>
HWY_INLINE hn::Vec<D> load_part(const Loader& loader, D d, const typename Loader::Element* from,
                                size_t count) {
  if constexpr (hn::MaxLanes(D()) == 1) return loader.load(d, from);
#if HWY_TARGET <= HWY_AVX2
  if constexpr (std::is_same_v<Loader, PlainLoader<typename Loader::Element>>) {
    return hn::MaskedLoad(hn::FirstN(d, count), d, from);
  }
#endif
  typename Loader::Element part[hn::MaxLanes(D())] = {};
  std::memcpy(part, from, count * sizeof(part[0]));
  return hn::IfThenElseZero(hn::FirstN(d, count), loader.load(d, part));
}

// Stores the first `count` lanes and nothing beyond. REQUIRES that these are not all.
template <class D>
HWY_INLINE void store_part(D d, hn::Vec<D> v, float* to, size_t count) {
#if HWY_TARGET == HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#elif HWY_TARGET == HWY_AVX2
  // AMD's processors take tens of operations for AVX2's masked store.
  static_cast<void>(d);
  __m128 rest = _mm256_castps256_ps128(v.raw);
  if (count & 4) {
    _mm_storeu_ps(to, rest);
    rest = _mm256_extractf128_ps(v.raw, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
    rest = _mm_movehl_ps(rest, rest);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, rest);
#else
  float lanes[hn::MaxLanes(D())];
  hn::StoreU(v, d, lanes);
  std::memcpy(to, lanes, count * sizeof(float));
#endif
}

// Calls f(loader) with the loader for a map that is no table.
template <class F>
HWY_INLINE void with_computed_bytes(const ByteMap* map, const F& f) {
  using Form = ByteMap::Form;
  if (map->form == Form::kScale) return f(ByteLoader<Form::kScale>(map));
  if (map->form == Form::kAffine) return f(ByteLoader<Form::kAffine>(map));
#if HWY_TARGET == HWY_AVX3
  if (map->scale == 255) return f(ByteLoaderOf255(map));
#endif
  f(ByteLoader<Form::kDivide>(map));
}

template <class F>
HWY_INLINE void with_bytes(const ByteMap* map, const F& f) {
  if (map->form == ByteMap::Form::kTable) return f(ByteLoader<ByteMap::Form::kTable>(map));
  with_computed_bytes(map, f);
}

template <class F>
struct WithRounding {
  const ByteMap* map;
  const F& f;
  template <class Loader>
  HWY_INLINE void operator()(const Loader&) const {
    f(RoundedLoader<Loader>(map));
  }
};

// Calls f(loader) with the loader for the dtype. REQUIRES f32, f16, bf16, or u8 with a map.
template <class F>
HWY_INLINE void with_loader(DType dtype, DType round_to, const ByteMap* map, const F& f) {
  if (dtype == f16) return f(HalfLoader<HalfCodec>(nullptr));
  if (dtype == bf16) return f(HalfLoader<BFloat16Codec>(nullptr));
  const WithRounding<F> rounding{map, f};
  if (dtype == u8 && round_to == bf16) return with_bytes(map, rounding);
  if (dtype == u8) return with_bytes(map, f);
  if (round_to == bf16) return rounding(FloatLoader(map));
  f(FloatLoader(map));
}

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_COMMON_VECTOR_LOADERS_INL_H
