// SHA-256, in pieces or at once; the digest as 64 lower-case hexadecimal digits. Used by one thread
// at a time.
#ifndef KEEL_CORE_BASE_SHA256_H
#define KEEL_CORE_BASE_SHA256_H

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"

namespace keel {

class KEEL_API Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(const void* bytes, size_t count);
  void update(std::string_view bytes) { update(bytes.data(), bytes.size()); }
  // Returns the digest of everything so far; the object then starts over.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

KEEL_API std::string sha256_hex(std::string_view bytes);

}  // namespace keel

#endif  // KEEL_CORE_BASE_SHA256_H
