#include "keel/graph/runtime/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "keel/core/base/checked.h"
#include "keel/core/base/file.h"
#include "keel/core/base/function_ref.h"
#include "keel/core/base/json.h"
#include "keel/core/base/read_budget.h"
#include "keel/core/base/sha256.h"
#include "keel/core/tensor/canonical_bool.h"
#include "keel/graph/runtime/safetensors_checksums.h"

namespace keel {
namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
// The limit of the format's own library.
constexpr uint64_t kMostHeaderBytes = 100'000'000;
// This is what an Entry, a Tensor, its Buffer and its place in the result take beyond the data.
constexpr uint64_t kTensorBytes = 768;
// Data are hashed while they are still in the cache.
constexpr size_t kPieceBytes = size_t{1} << 18;

constexpr std::pair<const char*, DType> kNames[] = {{"F64", f64},   {"F32", f32},     {"F16", f16},
                                                    {"BF16", bf16}, {"I64", i64},     {"I32", i32},
                                                    {"U8", u8},     {"BOOL", boolean}};

using ReadAt = FunctionRef<void(uint64_t offset, void* bytes, size_t count)>;

struct Entry {
  std::string name;
  Type type;
  uint64_t begin = 0;
  uint64_t end = 0;
};

DType parse_name(const JsonView& view) {
  for (const auto& [name, dtype] : kNames) {
    if (view.text() == name) return dtype;
  }
  throw view.error("one of F64 F32 F16 BF16 I64 I32 U8 BOOL");
}

Shape parse_shape(const JsonView& view) {
  if (view.size() > Shape::kMaxRank)
    throw view.error("at most " + std::to_string(Shape::kMaxRank) + " dimensions");
  Shape shape;
  for (size_t i = 0; i < view.size(); ++i) shape.push_back(view[i].integer(0));
  return shape;
}

// The offsets may lie beyond the file's end: require_tiling says so, with the end that they
// promise.
Entry parse_entry(const std::string& name, const JsonView& view) {
  view.require_only({"dtype", "shape", "data_offsets"});
  Entry entry{name, {parse_name(view["dtype"]), parse_shape(view["shape"])}, 0, 0};
  const JsonView offsets = view["data_offsets"];
  if (offsets.size() != 2) throw offsets.error("two offsets");
  const int64_t begin = offsets[0].integer(0);
  const int64_t end = offsets[1].integer(begin);
  size_t bytes = 0;
  try {
    bytes = entry.type.shape.num_bytes(entry.type.dtype);
  } catch (const Error& error) {
    throw error.with_context(view.where());
  }
  if (bytes != static_cast<size_t>(end - begin)) {
    throw offsets.error(std::to_string(bytes) + " bytes for " + to_string(entry.type));
  }
  entry.begin = static_cast<uint64_t>(begin);
  entry.end = static_cast<uint64_t>(end);
  return entry;
}

std::map<std::string, std::string> parse_metadata(const JsonView& view) {
  std::map<std::string, std::string> metadata;
  for (const std::string& key : view.keys()) metadata[key] = view[key].text();
  return metadata;
}

Error cut_short(const std::string& source, uint64_t size, uint64_t promised) {
  return Error({.op = source,
                .message = "is cut short: it ends at byte " + std::to_string(size) +
                           ", and its header promises " + std::to_string(promised),
                .fix = "take another copy of it, or an older file"});
}

// Sorts the tensors in the order of their bytes, which must tile the file from `data_begin` on.
void require_tiling(std::vector<Entry>& entries, uint64_t data_begin, uint64_t size,
                    const std::string& source) {
  const uint64_t data_bytes = size - data_begin;
  uint64_t promised = 0;
  for (const Entry& entry : entries) promised = std::max(promised, entry.end);
  if (promised > data_bytes) throw cut_short(source, size, data_begin + promised);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      throw Error({.op = source,
                   .argument = "tensor '" + entry.name + "'",
                   .expected = "data from byte " + std::to_string(covered),
                   .got = std::to_string(entry.begin),
                   .message = entry.begin < covered ? "overlaps the tensor before it"
                                                    : "leaves a hole before it"});
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    throw Error({.op = source,
                 .argument = "data",
                 .expected = std::to_string(covered) + " bytes, the end of the last tensor",
                 .got = std::to_string(data_bytes)});
  }
}

// All that lies before the data: the length, as it stands in the file, and the JSON text.
struct Header {
  std::string length;
  std::string json;
};

Header read_header(uint64_t size, uint64_t budget, ReadAt read_at, const std::string& source) {
  const auto fail = [&](const std::string& expected, uint64_t got) {
    throw NotSafetensors({.op = source,
                          .argument = "safetensors header",
                          .expected = expected,
                          .got = std::to_string(got),
                          .fix = "give a file of safetensors, such as keel train --save writes"});
  };
  if (size < kLengthBytes) fail("a file of at least 8 bytes", size);
  Header header{std::string(kLengthBytes, '\0'), {}};
  read_at(0, header.length.data(), kLengthBytes);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= uint64_t{static_cast<unsigned char>(header.length[i])} << (8 * i);
  const uint64_t most = std::min(size - kLengthBytes, kMostHeaderBytes);
  // Text that begins as a header does, but ends before it, was one; other files are none at all.
  if (length > most && length <= kMostHeaderBytes && most > 0) {
    char first = '\0';
    read_at(kLengthBytes, &first, 1);
    if (first == '{') throw cut_short(source, size, kLengthBytes + length);
  }
  if (length < 2 || length > most) fail("a length from 2 to " + std::to_string(most), length);
  if (length > budget) throw over_read_budget(source, "safetensors header", budget);
  header.json.resize(static_cast<size_t>(length));
  read_at(kLengthBytes, header.json.data(), header.json.size());
  if (header.json[0] != '{') fail("'{' in front", static_cast<unsigned char>(header.json[0]));
  return header;
}

// Returns the header's JSON, where it, the text and the tensors' own memory fit into the budget.
Json parse_header(const std::string& text, uint64_t budget, const std::string& source) {
  Json document;
  try {
    document = parse_json(text, source, budget - text.size());
  } catch (const JsonTooLarge&) {
    throw over_read_budget(source, "safetensors header", budget);
  }
  if (document.size() > (budget - text.size()) / kTensorBytes)
    throw over_read_budget(source, std::to_string(document.size()) + " tensors", budget);
  return document;
}

// The header alone does not say that there is memory for what it describes.
Tensor tensor_of(const Entry& entry, const std::string& source) {
  try {
    return Tensor(entry.type.dtype, entry.type.shape);
  } catch (const Error& error) {
    throw error.with_context(source + ": tensor '" + entry.name + "'");
  }
}

// Fills the tensor and returns the digest of its data.
std::string read_tensor(Tensor& tensor, uint64_t offset, ReadAt read_at) {
  Sha256 hash;
  auto* bytes = static_cast<unsigned char*>(tensor.raw());
  for (size_t done = 0; done < tensor.num_bytes();) {
    const size_t count = std::min(kPieceBytes, tensor.num_bytes() - done);
    read_at(offset + done, bytes + done, count);
    hash.update(bytes + done, count);
    done += count;
  }
  return hash.finish();
}

Safetensors read_from(uint64_t size, ReadAt read_at, const std::string& source) {
  const uint64_t budget = read_budget();
  const Header header = read_header(size, budget, read_at, source);
  const uint64_t data_begin = kLengthBytes + header.json.size();
  const uint64_t data_bytes = size - data_begin;
  if (data_bytes > static_cast<uint64_t>(INT64_MAX))
    throw Error({.op = source, .message = "too large"});
  Safetensors result;
  std::vector<Entry> entries;
  std::optional<SafetensorsChecksums> checksums;
  {
    const Json document = parse_header(header.json, budget, source);
    const JsonView view(document, source);
    if (const auto metadata = view.find(kMetadata)) result.metadata = parse_metadata(*metadata);
    // Before anything else in the header is believed.
    checksums = take_checksums(result.metadata, header.length, header.json, source);
    entries.reserve(document.size());
    for (const std::string& name : view.keys()) {
      if (name != kMetadata) entries.push_back(parse_entry(name, view[name]));
    }
  }
  require_tiling(entries, data_begin, size, source);
  if (checksums) checksums->require_count(entries.size(), source);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    Tensor tensor = tensor_of(entry, source);
    const std::string digest = read_tensor(tensor, data_begin + entry.begin, read_at);
    if (checksums) checksums->require_tensor(i, digest, entry.name, source);
    canonicalise_bools(tensor);
    result.tensors[entry.name] = std::move(tensor);
  }
  result.has_checksums = checksums.has_value();
  return result;
}

const char* format_name(DType dtype) {
  for (const auto& [name, other] : kNames) {
    if (other == dtype) return name;
  }
  return "";
}

// Behind the metadata, which are always there.
void append_entry(std::string& header, const std::string& name, const Tensor& tensor,
                  uint64_t begin) {
  header +=
      "," + quote_json(name) + ":{\"dtype\":\"" + format_name(tensor.dtype()) + "\",\"shape\":[";
  for (size_t axis = 0; axis < tensor.shape().rank(); ++axis)
    header += (axis > 0 ? "," : "") + std::to_string(tensor.shape()[axis]);
  header += "],\"data_offsets\":[" + std::to_string(begin) + "," +
            std::to_string(begin + tensor.num_bytes()) + "]}";
}

}  // namespace

NotSafetensors::~NotSafetensors() = default;

Safetensors read_safetensors(const std::string& path) {
  const InputFile file(path);
  return read_from(
      file.size(),
      [&](uint64_t offset, void* bytes, size_t count) { file.read_at(offset, bytes, count); },
      path);
}

Safetensors parse_safetensors(std::string_view bytes, const std::string& source_name) {
  return read_from(
      bytes.size(),
      [&](uint64_t offset, void* out, size_t count) {
        std::memcpy(out, bytes.substr(static_cast<size_t>(offset), count).data(), count);
      },
      source_name);
}

void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void()>& before_it_appears) {
  std::vector<std::pair<std::string, Tensor>> order(tensors.begin(), tensors.end());
  for (const auto& [name, tensor] : order) {
    if (tensor.empty() || name == kMetadata) {
      throw Error({.op = path,
                   .argument = "tensor '" + name + "'",
                   .message = tensor.empty() ? "is empty" : "has a name that the format reserves"});
    }
  }
  // Wide elements first, so that every tensor is aligned to its elements.
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  std::string digests;
  for (const auto& [name, tensor] : order) {
    Sha256 hash;
    hash.update(tensor.raw(), tensor.num_bytes());
    digests += hash.finish();
  }
  std::string header = "{";
  std::string pairs;
  for (const auto& [key, value] : with_checksums(metadata, digests, path))
    pairs += (pairs.empty() ? "" : ",") + quote_json(key) + ":" + quote_json(value);
  header += quote_json(kMetadata) + ":{" + pairs + "}";
  uint64_t begin = 0;
  for (const auto& [name, tensor] : order) {
    append_entry(header, name, tensor, begin);
    begin += tensor.num_bytes();
  }
  header += "}";
  header.resize(align_up(header.size(), kLengthBytes), ' ');
  if (header.size() > kMostHeaderBytes) {
    throw Error({.op = path,
                 .argument = "safetensors header",
                 .expected = "at most " + std::to_string(kMostHeaderBytes) + " bytes",
                 .got = std::to_string(header.size()),
                 .fix = "save fewer tensors or shorter metadata"});
  }
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  seal_header(length, header);

  AtomicFile file(path);
  file.write(length);
  file.write(header);
  for (const auto& [name, tensor] : order) file.write(tensor.raw(), tensor.num_bytes());
  file.commit(before_it_appears);
}

}  // namespace keel
