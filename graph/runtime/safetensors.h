// Safetensors files: tensors by name and a map of strings: 8 bytes of header length, a JSON header,
// the bytes. The reader takes nothing on trust: sizes are checked before memory is allocated,
// tensors must tile the data exactly. Pure functions but for the file; any thread.
#ifndef KEEL_GRAPH_RUNTIME_SAFETENSORS_H
#define KEEL_GRAPH_RUNTIME_SAFETENSORS_H

#include <map>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// dtypes F64 F32 F16 BF16 I64 I32 U8 BOOL, rank <= 8. Throws Error naming the file, the tensor,
// what was expected and what came: bad length or JSON, unknown keys or dtypes, a repeated name,
// offsets that overlap, leave holes, or do not fit the shape or the file.
KEEL_API Safetensors read_safetensors(const std::string& path);
// Atomic (core/base/file.h). Throws Error for an empty Tensor and for the name "__metadata__".
KEEL_API void write_safetensors(const std::string& path,
                                const std::map<std::string, Tensor>& tensors,
                                const std::map<std::string, std::string>& metadata = {});

// The same from bytes in memory; `source_name` stands for the path in errors.
KEEL_API Safetensors parse_safetensors(std::string_view bytes, const std::string& source_name);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SAFETENSORS_H
