// The instructions of the vector library: plain functions over contiguous elements, looked up once
// by op name and dtypes when a program is compiled; calling one neither allocates nor throws, and
// may happen on any number of threads at once.
//
// Ops, by their Keel names.
// All dtypes but bool: add sub mul div mod pow maximum minimum neg abs sign square relu floor ceil
// round (half to even), and into bool equal not_equal less less_equal
// greater greater_equal. f64, f32, f16, bf16 besides: exp log log1p expm1 sqrt rsqrt tanh sigmoid
// gelu (by erf) sin cos erf reciprocal. bool: logical_and logical_or logical_xor logical_not equal
// not_equal maximum minimum. f32: round_to_bf16, what a cast to bf16 and back makes of it, which is
// no op. Every dtype: select (src[0] is bool; src[1] where it holds, else src[2]), cast (any pair),
// copy. Several of f32 or f64 in one pass are a chain (chain.h).
//
// Corners: f16 and bf16 are computed in f32 and rounded to nearest even, as if stored after each
// instruction. NaN wins in maximum, minimum and relu. Integers wrap around; x / 0 and x mod
// 0 are 0 in integers; div truncates towards zero; mod takes the sign of the divisor (as NumPy's),
// in floats too. Integer pow squares repeatedly and wraps; a negative exponent gives 0 except for
// bases 1 and -1 (and 0 for base 0). Casts of floats to integers truncate and saturate, NaN gives
// 0; integers to narrower ones wrap; to bool is "not zero". Functions of f32 are within 4 ULP of
// the exact result (gelu 6; sin, cos: for |x| <= 1e5, beyond within 1e-6), exp and log of f64
// within 2; mod and pow, and the other functions of f64, are those of the C library.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_INSTRUCTIONS_H
#define KEEL_BACKENDS_COMMON_VECTOR_INSTRUCTIONS_H

#include <cstdint>
#include <string_view>

#include "keel/backends/common/vector_call.h"
#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::vector {

// Returns the instruction `op` from operands of dtype `in` (for select: src[1] and src[2]) to
// `out`, for the host ISA in use; nullptr where there is none. `saturate_f16` asks for the variant
// whose f16 results stop at +-65504 and raise kFloatStatusF16Overflow in VectorCall::status (NaN
// stays NaN); it changes nothing where the result is not f16.
KEEL_API VectorInstruction find_instruction(std::string_view op, DType in, DType out,
                                            bool saturate_f16 = false);

// Returns how often the instruction `op` goes through a vector unit's lanes for each element, for
// prices and to cut work into blocks: once where units have an instruction for it, else for each
// instruction of the usual polynomial or iteration. Assumed, as no such table is published; the
// same for every dtype. 0 where there is no such instruction.
KEEL_API int64_t instruction_passes(std::string_view op);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_INSTRUCTIONS_H
