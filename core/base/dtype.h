// DType: the element types of tensors. Plain values; any thread.
#ifndef KEEL_CORE_BASE_DTYPE_H
#define KEEL_CORE_BASE_DTYPE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"
#include "keel/core/base/half.h"

namespace keel {

// kToken orders effects inside a graph; no tensor has it.
enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kU8, kBool, kToken };

inline constexpr DType f64 = DType::kF64;
inline constexpr DType f32 = DType::kF32;
inline constexpr DType f16 = DType::kF16;
inline constexpr DType bf16 = DType::kBF16;
inline constexpr DType i64 = DType::kI64;
inline constexpr DType i32 = DType::kI32;
inline constexpr DType u8 = DType::kU8;
inline constexpr DType boolean = DType::kBool;
inline constexpr DType kDTypes[] = {f64, f32, f16, bf16, i64, i32, u8, boolean};

// Returns how many bytes one element takes; 0 for kToken.
constexpr size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kU8:
    case DType::kBool:
      return 1;
    case DType::kToken:
      return 0;
  }
  return 0;
}

constexpr bool is_float(DType d) noexcept { return d <= DType::kBF16; }
constexpr bool is_integer(DType d) noexcept { return d >= DType::kI64 && d <= DType::kU8; }
constexpr bool is_number(DType d) noexcept { return d <= DType::kU8; }

// "f32", "bool", ... as graphs and messages print them.
KEEL_API const char* name_of(DType dtype) noexcept;
// Returns the dtype of that name; throws Error naming the choices.
KEEL_API DType parse_dtype(std::string_view name);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = f32;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = bf16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Calls f.template operator()<T>() with the element type of `dtype`; kToken is a programming error
// and gives f<bool>.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF16:
      return f.template operator()<Half>();
    case DType::kBF16:
      return f.template operator()<BFloat16>();
    case DType::kI64:
      return f.template operator()<int64_t>();
    case DType::kI32:
      return f.template operator()<int32_t>();
    case DType::kU8:
      return f.template operator()<uint8_t>();
    default:
      return f.template operator()<bool>();
  }
}

}  // namespace keel

#endif  // KEEL_CORE_BASE_DTYPE_H
