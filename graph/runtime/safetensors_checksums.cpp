#include "keel/graph/runtime/safetensors_checksums.h"

#include <string_view>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/json.h"
#include "keel/core/base/sha256.h"

namespace keel {
namespace {

constexpr const char* kFormat = "keel_format";
constexpr const char* kFormatVersion = "1";
constexpr const char* kHeaderDigest = "keel_sha256";
constexpr const char* kTensorDigests = "keel_tensor_sha256";
constexpr const char* kEntries[] = {kFormat, kHeaderDigest, kTensorDigests};
constexpr size_t kDigestDigits = 64;

// Returns where the digits of the header's digest stand in the JSON text; npos where they do not
// stand as the writer puts them. Where the same letters are a part of a longer text, the quote
// before them is escaped.
size_t digest_place(const std::string& json) {
  const std::string before = quote_json(kHeaderDigest) + ":\"";
  size_t at = json.find(before);
  while (at != std::string::npos && at > 0 && json[at - 1] == '\\') at = json.find(before, at + 1);
  if (at == std::string::npos || json.size() - at < before.size() + kDigestDigits)
    return std::string::npos;
  return at + before.size();
}

std::string header_digest(const std::string& length, const std::string& json, size_t place) {
  Sha256 hash;
  const std::string_view text = json;
  hash.update(length);
  hash.update(text.substr(0, place));
  hash.update(std::string(kDigestDigits, '0'));
  hash.update(text.substr(place + kDigestDigits));
  return hash.finish();
}

[[noreturn]] void refuse(const std::string& source, const std::string& argument,
                         const std::string& message) {
  throw Error({.op = source,
               .argument = argument,
               .message = message,
               .fix = "the file is damaged, or another program changed it: take another copy"});
}

}  // namespace

void SafetensorsChecksums::require_count(size_t tensors, const std::string& source) const {
  if (digests_.size() == tensors * kDigestDigits) return;
  refuse(source, "checksums",
         "are " + std::to_string(digests_.size()) + " digits, which is not " +
             std::to_string(kDigestDigits) + " for each of " + std::to_string(tensors) +
             " tensors");
}

void SafetensorsChecksums::require_tensor(size_t index, const std::string& digest,
                                          const std::string& name,
                                          const std::string& source) const {
  if (digests_.compare(index * kDigestDigits, kDigestDigits, digest) == 0) return;
  refuse(source, "tensor '" + name + "'", "its data do not match its checksum");
}

std::map<std::string, std::string> with_checksums(std::map<std::string, std::string> metadata,
                                                  const std::string& tensor_digests,
                                                  const std::string& path) {
  for (const char* entry : kEntries) {
    if (!metadata.contains(entry)) continue;
    throw Error({.op = path,
                 .argument = "metadata",
                 .message = std::string("'") + entry + "' is kept for the checksum",
                 .fix = "give it another name"});
  }
  metadata[kFormat] = kFormatVersion;
  metadata[kHeaderDigest] = std::string(kDigestDigits, '0');
  metadata[kTensorDigests] = tensor_digests;
  return metadata;
}

void seal_header(const std::string& length, std::string& json) {
  const size_t place = digest_place(json);
  json.replace(place, kDigestDigits, header_digest(length, json, place));
}

std::optional<SafetensorsChecksums> take_checksums(std::map<std::string, std::string>& metadata,
                                                   const std::string& length,
                                                   const std::string& json,
                                                   const std::string& source) {
  std::map<std::string, std::string> found;
  for (const char* entry : kEntries) {
    if (auto node = metadata.extract(entry)) found.insert(std::move(node));
  }
  if (found.empty()) return std::nullopt;
  const size_t place = digest_place(json);
  const bool whole = found.size() == std::size(kEntries) && place != std::string::npos;
  if (!whole || found[kHeaderDigest] != header_digest(length, json, place))
    refuse(source, "safetensors header", "does not match its checksum");
  if (found[kFormat] != kFormatVersion) {
    throw Error({.op = source,
                 .argument = kFormat,
                 .expected = kFormatVersion,
                 .got = "'" + found[kFormat] + "'",
                 .fix = "read it with the version of Keel that wrote it, or a newer one"});
  }
  return SafetensorsChecksums(std::move(found[kTensorDigests]));
}

}  // namespace keel
