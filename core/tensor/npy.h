// .npy files (NumPy's format): reads versions 1.0 to 3.0, writes 1.0, little endian, C order. f2
// f4 f8 i4 i8 u1 and b1 become f16 f32 f64 i32 i64 u8 and bool; Fortran order and big endian are
// converted. Everything is checked before memory is allocated. Pure functions but for the file; any
// thread.
#ifndef KEEL_CORE_TENSOR_NPY_H
#define KEEL_CORE_TENSOR_NPY_H

#include <string>
#include <string_view>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Throws Error naming the file, what was expected and what came.
KEEL_API Tensor read_npy(const std::string& path);
// Atomic (core/base/file.h). bf16 has no NumPy type and is refused: cast it to f32 first.
KEEL_API void write_npy(const std::string& path, const Tensor& tensor);

// Does the same on bytes in memory; `source_name` stands for the path in errors.
KEEL_API Tensor parse_npy(std::string_view bytes, const std::string& source_name);
KEEL_API std::string format_npy(const Tensor& tensor);

}  // namespace keel

#endif  // KEEL_CORE_TENSOR_NPY_H
