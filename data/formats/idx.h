// IDX: the format of MNIST's files: a magic number (two zero bytes, the element type, the rank),
// the dimensions as big-endian 32-bit numbers, then the elements. Files of unsigned bytes are read,
// plain or gzip-compressed. A file's claims are checked before memory is asked for, its length and
// gzip checksum before the result is handed out. Pure functions; any thread.
#ifndef KEEL_DATA_FORMATS_IDX_H
#define KEEL_DATA_FORMATS_IDX_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// u8, of the file's dimensions. Throws Error naming file, offset and reason: cannot be read, wrong
// magic or rank, dimensions that give more than max_bytes (0: 256 MiB, or 16 times the file's size
// where that is more) or than the file can hold, truncated, damaged, bytes behind the end.
KEEL_API Tensor read_idx(const std::string& path, size_t rank, int64_t max_bytes = 0);

// What an IDX file of bytes says of itself.
struct IdxHeader {
  size_t rank = 0;
  int64_t count = 0;  // its first dimension
};
// Nothing where the file cannot be read or does not begin like one of rank 1 or more. Only its
// beginning is looked at.
KEEL_API std::optional<IdxHeader> look_at_idx(const std::string& path);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_IDX_H
