// ByteSource: the content of a file, read from front to back: plain, or decompressed where the file
// begins like gzip (whatever its name). Never holds more than a chunk. Used by one thread.
#ifndef KEEL_DATA_FORMATS_BYTE_SOURCE_H
#define KEEL_DATA_FORMATS_BYTE_SOURCE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "keel/core/base/error.h"

namespace keel {

class ByteSource {
 public:
  // Throws Error where the file cannot be opened or is empty.
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Exactly `count` bytes, or an Error naming file, offset and reason; `what` is what they are
  // ("the header").
  void read(void* bytes, size_t count, const std::string& what);
  // Says whether the content ends here; then finish() has been done.
  bool ended();
  // The content must end here, and for gzip checksum and length must be right.
  void finish();

  // The most bytes the content can have, judged by the file's size: for plain files its size.
  uint64_t content_limit() const noexcept;
  uint64_t file_bytes() const noexcept;
  // "<path>: <reason> (at byte <offset> of the ... data)".
  Error error(const std::string& reason, uint64_t offset, const std::string& fix = "") const;
  uint64_t offset() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_BYTE_SOURCE_H
