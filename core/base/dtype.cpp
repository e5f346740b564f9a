#include "keel/core/base/dtype.h"

#include "keel/core/base/error.h"

namespace keel {

const char* name_of(DType dtype) noexcept {
  static constexpr const char* kNames[] = {"f64", "f32", "f16",  "bf16", "i64",
                                           "i32", "u8",  "bool", "token"};
  return kNames[static_cast<size_t>(dtype)];
}

DType parse_dtype(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(DType::kToken); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == name_of(dtype)) return dtype;
  }
  throw Error({.op = "dtype",
               .expected = "one of f64 f32 f16 bf16 i64 i32 u8 bool",
               .got = "'" + std::string(name) + "'",
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace keel
