#include "keel/data/formats/idx.h"

#include <array>
#include <cstdio>
#include <vector>

#include "keel/core/base/read_budget.h"
#include "keel/data/formats/byte_source.h"
#include "keel/data/formats/lazy_tensor.h"

namespace keel {
namespace {

constexpr unsigned char kUnsignedByte = 0x08;
constexpr uint64_t kRankOffset = 3;
constexpr uint64_t kDimsOffset = 4;

std::string hex(const std::array<unsigned char, 4>& bytes) {
  char text[16];
  std::snprintf(text, sizeof(text), "%02x %02x %02x %02x", bytes[0], bytes[1], bytes[2], bytes[3]);
  return text;
}

void check_magic(const ByteSource& source, const std::array<unsigned char, 4>& magic, size_t rank) {
  if (magic[0] != 0 || magic[1] != 0) {
    throw source.error("not an IDX file: it begins with " + hex(magic) + ", not with 00 00", 0);
  }
  if (magic[2] != kUnsignedByte) {
    throw source.error("expected elements of type 08 (unsigned byte), got " + hex(magic), 2);
  }
  if (magic[3] != rank) {
    throw source.error("expected " + std::to_string(rank) + " dimensions, got " +
                           std::to_string(static_cast<int>(magic[3])),
                       kRankOffset);
  }
}

Shape read_dims(ByteSource& source, size_t rank) {
  if (rank > Shape::kMaxRank) {
    throw source.error("it has " + std::to_string(rank) + " dimensions, and a tensor at most " +
                           std::to_string(Shape::kMaxRank),
                       kRankOffset);
  }
  std::vector<unsigned char> bytes(rank * 4);
  source.read(bytes.data(), bytes.size(), "the list of dimensions");
  Shape shape;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t dim = 0;
    for (size_t i = 0; i < 4; ++i) dim = dim * 256 + bytes[axis * 4 + i];
    shape.push_back(dim);
  }
  return shape;
}

void check_size(const ByteSource& source, const Shape& shape, uint64_t header, int64_t max_bytes) {
  int64_t bytes = 0;
  try {
    bytes = shape.num_elements();
  } catch (const Error&) {
    throw source.error("the dimensions " + to_string(shape) + " do not fit in 64 bits",
                       kDimsOffset);
  }
  if (bytes > max_bytes) {
    throw source.error("the dimensions " + to_string(shape) + " need " + std::to_string(bytes) +
                           " bytes, the limit is " + std::to_string(max_bytes),
                       kDimsOffset, raise_read_limit());
  }
  if (header + static_cast<uint64_t>(bytes) > source.content_limit()) {
    throw source.error("truncated: the dimensions " + to_string(shape) + " need " +
                           std::to_string(bytes) + " bytes, more than the file can hold",
                       kDimsOffset);
  }
}

}  // namespace

Tensor read_idx(const std::string& path, size_t rank, int64_t max_bytes) {
  ByteSource source(path);
  std::array<unsigned char, 4> magic{};
  source.read(magic.data(), magic.size(), "the magic number");
  check_magic(source, magic, rank);
  const Shape shape = read_dims(source, rank);
  check_size(source, shape, source.offset(), read_limit(source.file_bytes(), max_bytes));
  Tensor tensor = tensor_filled_later(u8, shape, path);
  source.read(tensor.raw(), tensor.num_bytes(), "data of dimensions " + to_string(shape));
  source.finish();
  return tensor;
}

std::optional<IdxHeader> look_at_idx(const std::string& path) {
  try {
    ByteSource source(path);
    std::array<unsigned char, 4> magic{};
    source.read(magic.data(), magic.size(), "the magic number");
    if (magic[3] < 1) return std::nullopt;
    check_magic(source, magic, magic[3]);
    return IdxHeader{magic[3], read_dims(source, 1)[0]};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace keel
