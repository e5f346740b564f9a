#include "keel/core/base/sha256.h"

#include <openssl/evp.h>

#include "keel/core/base/error.h"

namespace keel {

struct Sha256::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();

  Context() { start(); }
  ~Context() { EVP_MD_CTX_free(handle); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void start() {
    require(handle != nullptr && EVP_DigestInit_ex(handle, EVP_sha256(), nullptr) == 1);
  }
  static void require(bool done) {
    if (!done) throw Error({.op = "sha256", .message = "OpenSSL could not compute the digest"});
  }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, size_t count) {
  if (count != 0) Context::require(EVP_DigestUpdate(context_->handle, bytes, count) == 1);
}

std::string Sha256::finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  Context::require(EVP_DigestFinal_ex(context_->handle, digest, &size) == 1);
  context_->start();
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * size_t{size});
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish();
}

}  // namespace keel
