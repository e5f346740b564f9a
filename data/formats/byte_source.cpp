#include "keel/data/formats/byte_source.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>
#include <zlib.h>

#include "keel/core/base/file.h"

namespace keel {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
// zlib's maximum expansion: 258 bytes for 2 bits.
constexpr uint64_t kMaxExpansion = 1032;
constexpr int kGzipWindowBits = 16 + MAX_WBITS;
constexpr unsigned char kGzipMagic[2] = {0x1f, 0x8b};

}  // namespace

struct ByteSource::State {
  explicit State(const std::string& path) : file(path) {}
  ~State() {
    if (gzip) inflateEnd(&stream);
  }
  void fill();
  size_t inflate_into(unsigned char* bytes, size_t count);
  void begin_next_member();
  uint64_t compressed_offset() const { return file_offset - stream.avail_in; }
  Error gzip_error(const std::string& reason) const;

  InputFile file;
  bool gzip = false;
  uint64_t file_offset = 0;  // bytes taken from the file
  uint64_t offset = 0;       // bytes of content handed out
  z_stream stream{};
  bool member_ended = false;
  std::optional<unsigned char> held;  // content taken ahead, to see whether there is more
  std::vector<unsigned char> chunk;
};

ByteSource::ByteSource(const std::string& path) : state_(std::make_unique<State>(path)) {
  State& s = *state_;
  if (s.file.size() == 0) throw Error({.op = path, .message = "the file is empty"});
  unsigned char magic[2] = {};
  if (s.file.size() >= sizeof(magic)) s.file.read_at(0, magic, sizeof(magic));
  if (!std::equal(std::begin(magic), std::end(magic), std::begin(kGzipMagic))) return;
  s.chunk.resize(kChunkBytes);
  if (inflateInit2(&s.stream, kGzipWindowBits) != Z_OK) {
    throw Error({.op = path, .message = "not enough memory to decompress"});
  }
  s.gzip = true;
}

ByteSource::~ByteSource() = default;

Error ByteSource::State::gzip_error(const std::string& reason) const {
  return Error({.op = file.path(),
                .message = reason + " (at byte " + std::to_string(compressed_offset()) +
                           " of the gzip file)"});
}

// Makes input available, if the file has any left.
void ByteSource::State::fill() {
  if (stream.avail_in > 0) return;
  const uint64_t rest = file.size() - file_offset;
  const size_t count = static_cast<size_t>(std::min<uint64_t>(rest, chunk.size()));
  if (count == 0) return;
  file.read_at(file_offset, chunk.data(), count);
  file_offset += count;
  stream.next_in = chunk.data();
  stream.avail_in = static_cast<uInt>(count);
}

// Members that follow one another are one content; anything else behind a member is an error.
void ByteSource::State::begin_next_member() {
  if (*stream.next_in != kGzipMagic[0]) throw gzip_error("bytes that are no gzip follow the data");
  inflateReset(&stream);
  member_ended = false;
}

// Up to `count` bytes; fewer only at the end of the content.
size_t ByteSource::State::inflate_into(unsigned char* bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    fill();
    if (stream.avail_in == 0 && member_ended) break;
    if (member_ended) begin_next_member();
    const size_t part = std::min<size_t>(count - done, std::numeric_limits<uInt>::max());
    stream.next_out = bytes + done;
    stream.avail_out = static_cast<uInt>(part);
    const bool no_input = stream.avail_in == 0;
    const int status = inflate(&stream, Z_NO_FLUSH);
    const size_t got = part - stream.avail_out;
    done += got;
    if (status == Z_STREAM_END) {
      member_ended = true;
    } else if (status == Z_MEM_ERROR) {
      throw gzip_error("not enough memory to decompress");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      throw gzip_error(std::string("damaged gzip data: ") +
                       (stream.msg != nullptr ? stream.msg : "unknown reason"));
    } else if (no_input && got == 0) {
      throw gzip_error("truncated: the file ends inside the compressed data");
    }
  }
  return done;
}

void ByteSource::read(void* bytes, size_t count, const std::string& what) {
  State& s = *state_;
  size_t got = 0;
  if (s.gzip) {
    auto* out = static_cast<unsigned char*>(bytes);
    if (s.held && count > 0) {
      *out = *s.held;
      s.held.reset();
      got = 1;
    }
    got += s.inflate_into(out + got, count - got);
  } else {
    got = static_cast<size_t>(std::min<uint64_t>(count, s.file.size() - s.offset));
    s.file.read_at(s.offset, bytes, got);
  }
  if (got < count) {
    throw error("truncated: " + what + " needs " + std::to_string(count) + " bytes, " +
                    std::to_string(got) + " are there",
                s.offset + got);
  }
  s.offset += count;
}

bool ByteSource::ended() {
  State& s = *state_;
  if (!s.gzip) return s.offset == s.file.size();
  if (!s.held) {
    unsigned char next = 0;
    if (s.inflate_into(&next, 1) == 0) return true;
    s.held = next;
  }
  return false;
}

void ByteSource::finish() {
  if (!ended()) throw error("more bytes than the header announces", state_->offset);
}

uint64_t ByteSource::content_limit() const noexcept {
  const uint64_t size = state_->file.size();
  if (!state_->gzip) return size;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  return std::min(size, kMost / kMaxExpansion) * kMaxExpansion;
}

uint64_t ByteSource::file_bytes() const noexcept { return state_->file.size(); }

Error ByteSource::error(const std::string& reason, uint64_t offset, const std::string& fix) const {
  return Error({.op = state_->file.path(),
                .message = reason + " (at byte " + std::to_string(offset) + " of the " +
                           (state_->gzip ? "uncompressed data" : "file") + ")",
                .fix = fix});
}

uint64_t ByteSource::offset() const noexcept { return state_->offset; }

}  // namespace keel
