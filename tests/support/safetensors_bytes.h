// Safetensors files as bytes: built by hand, altered, and given the checksums that Keel's reader
// wants, computed here by the definition in graph/runtime/safetensors.h and by OpenSSL.
#ifndef KEEL_TESTS_SUPPORT_SAFETENSORS_BYTES_H
#define KEEL_TESTS_SUPPORT_SAFETENSORS_BYTES_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <openssl/evp.h>

namespace keel_test {

inline std::string sha256_by_openssl(const std::string& bytes) {
  unsigned char digest[32];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("EVP_Digest failed");
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Length, header and data, one behind the other.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>((uint64_t{header.size()} >> (8 * i)) & 0xff);
  return bytes + header + data;
}

inline std::string safetensors_header(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  return file.substr(8, static_cast<size_t>(length));
}

// The first `from` in the text replaced by `to`; throws where there is none.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("'" + from + "' is not in the file");
  return text.replace(at, from.size(), to);
}

// A file that Keel wrote and that was altered since, with the checksums of what it holds now.
inline std::string with_right_checksums(const std::string& file) {
  std::string header = safetensors_header(file);
  const std::string data = file.substr(8 + header.size());
  const auto json = nlohmann::json::parse(header);
  std::vector<std::pair<size_t, size_t>> places;
  for (const auto& [name, entry] : json.items()) {
    if (name != "__metadata__")
      places.emplace_back(entry.at("data_offsets")[0], entry.at("data_offsets")[1]);
  }
  std::sort(places.begin(), places.end());
  std::string digests;
  for (const auto& [begin, end] : places)
    digests += sha256_by_openssl(data.substr(begin, end - begin));
  const auto put = [&](const std::string& name, const std::string& digits) {
    const auto old = json.at("__metadata__").at(name).get<std::string>();
    const std::string before = "\"" + name + "\":\"";
    header = replaced(header, before + old, before + digits);
  };
  put("keel_tensor_sha256", digests);
  put("keel_sha256", std::string(64, '0'));
  const std::string digest = sha256_by_openssl(safetensors_bytes(header, ""));
  header = replaced(header, std::string("\"keel_sha256\":\"") + std::string(64, '0'),
                    "\"keel_sha256\":\"" + digest);
  return safetensors_bytes(header, data);
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_SAFETENSORS_BYTES_H
