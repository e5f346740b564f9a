// SHA-256 against the examples of FIPS 180-4 and NIST.
#include <string>

#include <doctest/doctest.h>

#include "keel/core/base/sha256.h"

TEST_SUITE_BEGIN("unit");

TEST_CASE("sha256 matches the published digests") {
  using keel::sha256_hex;
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 in pieces is the same and starts over when finished") {
  keel::Sha256 sha;
  const std::string text(1000, 'a');
  for (int i = 0; i < 1000; ++i) {
    sha.update(text.substr(0, static_cast<size_t>(i)));
    sha.update(text.data(), text.size() - static_cast<size_t>(i));
  }
  const std::string million_a = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  CHECK(sha.finish() == million_a);
  sha.update("abc");
  CHECK(sha.finish() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha.finish() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_SUITE_END();
