#include "keel/backends/npu/profile/real_dtypes.h"

#include <string>

namespace keel::npu {

const char* real_name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF64:
      return "DOUBLE";
    case DType::kF32:
      return "FLOAT";
    case DType::kF16:
      return "FLOAT16";
    case DType::kBF16:
      return "DT_BF16";
    case DType::kI64:
      return "INT64";
    case DType::kI32:
      return "INT32";
    case DType::kU8:
      return "UINT8";
    case DType::kBool:
      return "BOOL";
    case DType::kToken:
      break;
  }
  return "N/A";
}

std::optional<DType> dtype_of_real_name(std::string_view name) {
  for (const DType dtype : kDTypes) {
    const std::string real = real_name_of(dtype);
    if (name == real || name == "DT_" + real || name == name_of(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace keel::npu
