// The checksums in the metadata of a safetensors file, as safetensors.h describes them: what the
// writer adds and what the reader compares. Internal to graph/runtime. Plain values; any thread.
#ifndef KEEL_GRAPH_RUNTIME_SAFETENSORS_CHECKSUMS_H
#define KEEL_GRAPH_RUNTIME_SAFETENSORS_CHECKSUMS_H

#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace keel {

class SafetensorsChecksums {
 public:
  explicit SafetensorsChecksums(std::string digests) : digests_(std::move(digests)) {}
  // Throw Error naming the file, and the tensor where it is one's data that are wrong.
  void require_count(size_t tensors, const std::string& source) const;
  void require_tensor(size_t index, const std::string& digest, const std::string& name,
                      const std::string& source) const;

 private:
  std::string digests_;  // of the tensors, one behind the other
};

// Returns the metadata with the entries of the checksums, the header's own still zeros. Throws
// Error where the metadata have entries of these names.
std::map<std::string, std::string> with_checksums(std::map<std::string, std::string> metadata,
                                                  const std::string& tensor_digests,
                                                  const std::string& path);
// Puts the header's digest in the place of the zeros. `length`: the bytes before the JSON text.
void seal_header(const std::string& length, std::string& json);

// Takes the checksums out of the metadata; nothing where the file has none. Throws Error where the
// header's is wrong or only some are there.
std::optional<SafetensorsChecksums> take_checksums(std::map<std::string, std::string>& metadata,
                                                   const std::string& length,
                                                   const std::string& json,
                                                   const std::string& source);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_SAFETENSORS_CHECKSUMS_H
