// Files in the IDX format and gzip members, as bytes.
#ifndef KEEL_TESTS_SUPPORT_IDX_BYTES_H
#define KEEL_TESTS_SUPPORT_IDX_BYTES_H

#include <cstdint>
#include <string>
#include <vector>
#include <zlib.h>

#include <doctest/doctest.h>

namespace keel_test {

inline std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((value >> shift) & 0xffu);
  return bytes;
}

// An IDX file of bytes: the header for these dimensions, and `data` as it is.
inline std::string idx_bytes(const std::vector<uint32_t>& dims, const std::string& data) {
  std::string bytes{0, 0, 8, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) bytes += big_endian(dim);
  return bytes + data;
}

// One gzip member; a file may hold several.
inline std::string gzip(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_IDX_BYTES_H
