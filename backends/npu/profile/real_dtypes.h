// The names that the real tool's tables have for dtypes. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_REAL_DTYPES_H
#define KEEL_BACKENDS_NPU_PROFILE_REAL_DTYPES_H

#include <optional>
#include <string_view>

#include "keel/core/base/dtype.h"

namespace keel::npu {

// "FLOAT16"; "N/A" for a token.
const char* real_name_of(DType dtype) noexcept;
// Returns the dtype of such a name, of the same with the prefix "DT_", or of Keel's own; nothing
// for what Keel does not have.
std::optional<DType> dtype_of_real_name(std::string_view name);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_REAL_DTYPES_H
