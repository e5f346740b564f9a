// Safetensors files: tensors by name and a map of strings: 8 bytes of header length, a JSON header,
// the bytes. The reader takes nothing on trust: sizes are checked before memory is allocated,
// tensors must tile the data exactly, checksums must be right. Pure functions but for the file; any
// thread.
//
// A file that Keel writes carries its checksums in three entries of the metadata, so that readers
// that know nothing of them read the file as any other:
//   keel_format         "1"
//   keel_tensor_sha256  one digest of 64 hexadecimal digits for each tensor, in the order of their
//                       bytes in the file
//   keel_sha256         the digest of all that lies before the data (length and header), with its
//                       own 64 digits taken as zeros
// Every bit of the file counts in one of the digests.
#ifndef KEEL_GRAPH_RUNTIME_SAFETENSORS_H
#define KEEL_GRAPH_RUNTIME_SAFETENSORS_H

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// A file that is none of safetensors, be it empty: not one that was damaged, or that cannot be
// read.
class KEEL_API NotSafetensors : public Error {
 public:
  using Error::Error;
  ~NotSafetensors() override;
};

struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  // without the checksums
  // Keel wrote the file, and its checksums were right. False for files of other programs, which
  // have none; a file whose checksums are wrong or incomplete is not read at all.
  bool has_checksums = false;
};

// dtypes F64 F32 F16 BF16 I64 I32 U8 BOOL, rank <= 8. Throws Error naming the file, the tensor,
// what was expected and what came: bad length or JSON, unknown keys or dtypes, a repeated name,
// offsets that overlap, leave holes, or do not fit the shape or the file, a wrong checksum, a
// header that would take more memory than the read budget (core/base/read_budget.h), tensors that
// the host has no memory for; NotSafetensors for what does not begin as such a file.
KEEL_API Safetensors read_safetensors(const std::string& path);
// Atomic; `before_it_appears` is that of AtomicFile::commit() (core/base/file.h). Throws Error for
// an empty Tensor, for the name "__metadata__", for metadata under the names of the checksums, and
// for a header longer than the format allows.
KEEL_API void write_safetensors(const std::string& path,
                                const std::map<std::string, Tensor>& tensors,
                                const std::map<std::string, std::string>& metadata = {},
                                const std::function<void()>& before_it_appears = {});

// Does the same from bytes in memory; `source_name` stands for the path in errors.
KEEL_API Safetensors parse_safetensors(std::string_view bytes, const std::string& source_name);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SAFETENSORS_H
