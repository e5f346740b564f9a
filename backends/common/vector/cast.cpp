// Vector instructions: casts between every two dtypes.
#include <algorithm>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "keel/backends/common/vector/cast.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "keel/backends/common/vector/element_loop-inl.h"
#include "keel/backends/common/vector/half_codec-inl.h"
#include "keel/backends/common/vector/instruction_table.h"
#include "keel/core/base/half.h"
#include "keel/core/tensor/convert.h"

HWY_BEFORE_NAMESPACE();
namespace keel::vector::HWY_NAMESPACE {
namespace {

struct Bool {};  // stands for bool elements, which are bytes

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, Bool>, uint8_t, T>;

template <class From, class To>
HWY_INLINE Stored<To> convert(Stored<From> value) {
  if constexpr (std::is_same_v<To, Bool>) {
    return value != 0 ? 1 : 0;
  } else if constexpr (std::is_same_v<From, Bool>) {
    return static_cast<To>(value != 0 ? 1 : 0);
  } else {
    return convert_element<To>(value);
  }
}

template <class From, class To>
void plain(const VectorCall& call) {
  run_unary<Stored<From>, Stored<To>>(
      call, [](Stored<From> value) HWY_ATTR { return convert<From, To>(value); });
}

constexpr size_t kBlock = 512;

// f16 or bf16 to To, by way of f32.
template <class Codec, class To>
void from_half(const VectorCall& call) {
  if constexpr (std::is_same_v<To, float>) {
    if (!call.scalar[0]) {
      return Codec::widen(static_cast<const uint16_t*>(call.src[0]), call.n,
                          static_cast<float*>(call.dst));
    }
  }
  alignas(64) float wide[kBlock];
  const auto* src = static_cast<const uint16_t*>(call.src[0]);
  VectorCall inner;
  inner.src[0] = wide;
  inner.scalar[0] = call.scalar[0];
  if (call.scalar[0] && call.n > 0) Codec::widen(src, 1, wide);
  for (size_t i = 0; i < call.n; i += kBlock) {
    inner.n = std::min(kBlock, call.n - i);
    if (!call.scalar[0]) Codec::widen(src + i, inner.n, wide);
    inner.dst = static_cast<Stored<To>*>(call.dst) + i;
    plain<float, To>(inner);
  }
}

// Returns the f32 whose rounding to 8 or 11 bits is that of the element itself.
template <class From>
HWY_INLINE float widen_for_half(Stored<From> value) {
  if constexpr (std::is_same_v<From, int64_t>) {
    return round_double_to_odd_float(round_integer_to_odd_double(value));
  } else if constexpr (std::is_same_v<From, int32_t>) {
    return round_double_to_odd_float(value);
  } else if constexpr (std::is_same_v<From, double>) {
    return round_double_to_odd_float(value);
  } else {
    return convert<From, float>(value);
  }
}

template <class From, class Codec, bool kSaturate>
void to_half(const VectorCall& call) {
  auto* dst = static_cast<uint16_t*>(call.dst);
  if constexpr (std::is_same_v<From, float>) {
    if (!call.scalar[0]) {
      const auto* floats = static_cast<const float*>(call.src[0]);
      const uint32_t raised = Codec::template narrow<kSaturate>(floats, call.n, dst);
      if (kSaturate && call.status != nullptr) *call.status |= raised;
      return;
    }
  }
  alignas(64) float wide[kBlock];
  const auto* src = static_cast<const Stored<From>*>(call.src[0]);
  for (size_t i = 0; i < call.n; i += kBlock) {
    const size_t n = std::min(kBlock, call.n - i);
    for (size_t j = 0; j < n; ++j) wide[j] = widen_for_half<From>(src[call.scalar[0] ? 0 : i + j]);
    const uint32_t status = Codec::template narrow<kSaturate>(wide, n, dst + i);
    if (kSaturate && call.status != nullptr) *call.status |= status;
  }
}

template <class FromCodec, class ToCodec, bool kSaturate>
void half_to_half(const VectorCall& call) {
  alignas(64) float wide[kBlock];
  auto* dst = static_cast<uint16_t*>(call.dst);
  const auto* src = static_cast<const uint16_t*>(call.src[0]);
  for (size_t i = 0; i < call.n; i += kBlock) {
    const size_t n = std::min(kBlock, call.n - i);
    if (call.scalar[0]) {
      FromCodec::widen(src, 1, wide);
      std::fill(wide, wide + n, wide[0]);
    } else {
      FromCodec::widen(src + i, n, wide);
    }
    const uint32_t status = ToCodec::template narrow<kSaturate>(wide, n, dst + i);
    if (kSaturate && call.status != nullptr) *call.status |= status;
  }
}

void round_to_bf16(const VectorCall& call) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const hn::CappedTag<float, 1> one;
  const auto* src = static_cast<const float*>(call.src[0]);
  auto* dst = static_cast<float*>(call.dst);
  if (call.scalar[0]) {
    if (call.n == 0) return;
    const float rounded = hn::GetLane(BFloat16Codec::round(one, hn::LoadU(one, src)));
    std::fill_n(dst, call.n, rounded);
    return;
  }
  size_t i = 0;
  for (; i + lanes <= call.n; i += lanes)
    hn::StoreU(BFloat16Codec::round(d, hn::LoadU(d, src + i)), d, dst + i);
  for (; i < call.n; ++i)
    hn::StoreU(BFloat16Codec::round(one, hn::LoadU(one, src + i)), one, dst + i);
}

// f32 to an integer, a vector at a time where the whole range fits the conversion.
void f32_to_i32(const VectorCall& call) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  const auto* src = static_cast<const float*>(call.src[0]);
  auto* dst = static_cast<int32_t*>(call.dst);
  if (call.scalar[0]) return plain<float, int32_t>(call);
  size_t i = 0;
  for (; i + lanes <= call.n; i += lanes) {
    const auto v = hn::LoadU(d, src + i);
    const auto inside = hn::And(v >= hn::Set(d, -0x1p31f), v < hn::Set(d, 0x1p31f));
    const auto low = hn::ConvertTo(di, hn::IfThenElseZero(inside, v));
    const auto over = hn::RebindMask(di, v >= hn::Set(d, 0x1p31f));
    const auto under = hn::RebindMask(di, v < hn::Set(d, -0x1p31f));
    const auto capped = hn::IfThenElse(over, hn::Set(di, INT32_MAX), low);
    hn::StoreU(hn::IfThenElse(under, hn::Set(di, INT32_MIN), capped), di, dst + i);
  }
  for (; i < call.n; ++i) dst[i] = convert_element<int32_t>(src[i]);
}

void f32_to_u8(const VectorCall& call) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  const auto* src = static_cast<const float*>(call.src[0]);
  auto* dst = static_cast<uint8_t*>(call.dst);
  if (call.scalar[0]) return plain<float, uint8_t>(call);
  size_t i = 0;
  for (; i + lanes <= call.n; i += lanes) {
    const auto v = hn::LoadU(d, src + i);
    const auto positive = hn::IfThenElseZero(v > hn::Zero(d), v);
    const auto bounded = hn::Min(positive, hn::Set(d, 255.0f));
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, bounded)), d8, dst + i);
  }
  for (; i < call.n; ++i) dst[i] = convert_element<uint8_t>(src[i]);
}

#define KEEL_CASTS_FROM(dtype, From)                                    \
  {"cast", 1, dtype, f64, false, &plain<From, double>},                 \
      {"cast", 1, dtype, i64, false, &plain<From, int64_t>},            \
      {"cast", 1, dtype, boolean, false, &plain<From, Bool>},           \
      {"cast", 1, dtype, f16, false, &to_half<From, HalfCodec, false>}, \
      {"cast", 1, dtype, f16, true, &to_half<From, HalfCodec, true>}, { \
    "cast", 1, dtype, bf16, false, &to_half<From, BFloat16Codec, false> \
  }
#define KEEL_PLAIN_CASTS_FROM(dtype, From)                                           \
  KEEL_CASTS_FROM(dtype, From), {"cast", 1, dtype, f32, false, &plain<From, float>}, \
      {"cast", 1, dtype, i32, false, &plain<From, int32_t>}, {                       \
    "cast", 1, dtype, u8, false, &plain<From, uint8_t>                               \
  }
#define KEEL_HALF_CASTS_FROM(dtype, Codec)                                    \
  {"cast", 1, dtype, f32, false, &from_half<Codec, float>},                   \
      {"cast", 1, dtype, f64, false, &from_half<Codec, double>},              \
      {"cast", 1, dtype, i64, false, &from_half<Codec, int64_t>},             \
      {"cast", 1, dtype, i32, false, &from_half<Codec, int32_t>},             \
      {"cast", 1, dtype, u8, false, &from_half<Codec, uint8_t>},              \
      {"cast", 1, dtype, boolean, false, &from_half<Codec, Bool>},            \
      {"cast", 1, dtype, f16, false, &half_to_half<Codec, HalfCodec, false>}, \
      {"cast", 1, dtype, f16, true, &half_to_half<Codec, HalfCodec, true>}, { \
    "cast", 1, dtype, bf16, false, &half_to_half<Codec, BFloat16Codec, false> \
  }

constexpr InstructionEntry kEntries[] = {
    KEEL_CASTS_FROM(f32, float),
    {"cast", 1, f32, f32, false, &plain<float, float>},
    {"cast", 1, f32, i32, false, &f32_to_i32},
    {"round_to_bf16", 1, f32, f32, false, &round_to_bf16},
    {"cast", 1, f32, u8, false, &f32_to_u8},
    KEEL_PLAIN_CASTS_FROM(f64, double),
    KEEL_PLAIN_CASTS_FROM(i64, int64_t),
    KEEL_PLAIN_CASTS_FROM(i32, int32_t),
    KEEL_PLAIN_CASTS_FROM(u8, uint8_t),
    KEEL_PLAIN_CASTS_FROM(boolean, Bool),
    KEEL_HALF_CASTS_FROM(f16, HalfCodec),
    KEEL_HALF_CASTS_FROM(bf16, BFloat16Codec),
};

}  // namespace

InstructionTable cast_entries() { return {kEntries, sizeof(kEntries) / sizeof(kEntries[0])}; }

}  // namespace keel::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::vector {
HWY_EXPORT(cast_entries);
InstructionTable cast_table() { return HWY_DYNAMIC_DISPATCH(cast_entries)(); }
}  // namespace keel::vector
#endif
