#include "keel/graph/runtime/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "keel/core/base/checked.h"
#include "keel/core/base/file.h"
#include "keel/core/base/function_ref.h"
#include "keel/core/base/json.h"

namespace keel {
namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
// The limit of the format's own library.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

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

Entry parse_entry(const std::string& name, const JsonView& view, uint64_t data_bytes) {
  view.require_only({"dtype", "shape", "data_offsets"});
  Entry entry{name, {parse_name(view["dtype"]), parse_shape(view["shape"])}, 0, 0};
  const JsonView offsets = view["data_offsets"];
  if (offsets.size() != 2) throw offsets.error("two offsets");
  const auto most = static_cast<int64_t>(data_bytes);
  const int64_t begin = offsets[0].integer(0, most);
  const int64_t end = offsets[1].integer(begin, most);
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

// The tensors in the order of their bytes, which must tile [0, data_bytes).
void require_tiling(std::vector<Entry>& entries, uint64_t data_bytes, const std::string& source) {
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

std::string read_header(uint64_t size, ReadAt read_at, const std::string& source) {
  const auto fail = [&](const std::string& expected, uint64_t got) {
    throw Error({.op = source,
                 .argument = "safetensors header",
                 .expected = expected,
                 .got = std::to_string(got)});
  };
  if (size < kLengthBytes) fail("a file of at least 8 bytes", size);
  unsigned char raw[kLengthBytes];
  read_at(0, raw, kLengthBytes);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{raw[i]} << (8 * i);
  const uint64_t most = std::min(size - kLengthBytes, kMostHeaderBytes);
  if (length < 2 || length > most) fail("a length from 2 to " + std::to_string(most), length);
  std::string header(static_cast<size_t>(length), '\0');
  read_at(kLengthBytes, header.data(), header.size());
  if (header[0] != '{') fail("'{' in front", static_cast<unsigned char>(header[0]));
  return header;
}

Safetensors read_from(uint64_t size, ReadAt read_at, const std::string& source) {
  const std::string header = read_header(size, read_at, source);
  const uint64_t data_begin = kLengthBytes + header.size();
  const uint64_t data_bytes = size - data_begin;
  if (data_bytes > static_cast<uint64_t>(INT64_MAX))
    throw Error({.op = source, .message = "too large"});
  const Json document = parse_json(header, source);
  const JsonView view(document, source);
  Safetensors result;
  std::vector<Entry> entries;
  for (const std::string& name : view.keys()) {
    if (name == kMetadata) {
      result.metadata = parse_metadata(view[name]);
    } else {
      entries.push_back(parse_entry(name, view[name], data_bytes));
    }
  }
  require_tiling(entries, data_bytes, source);
  for (const Entry& entry : entries) {
    Tensor tensor(entry.type.dtype, entry.type.shape);
    if (tensor.num_bytes() > 0) read_at(data_begin + entry.begin, tensor.raw(), tensor.num_bytes());
    result.tensors[entry.name] = std::move(tensor);
  }
  return result;
}

const char* format_name(DType dtype) {
  for (const auto& [name, other] : kNames) {
    if (other == dtype) return name;
  }
  return "";
}

void append_entry(std::string& header, const std::string& name, const Tensor& tensor,
                  uint64_t begin) {
  header += (header.size() > 1 ? "," : "") + quote_json(name) + ":{\"dtype\":\"" +
            format_name(tensor.dtype()) + "\",\"shape\":[";
  for (size_t axis = 0; axis < tensor.shape().rank(); ++axis)
    header += (axis > 0 ? "," : "") + std::to_string(tensor.shape()[axis]);
  header += "],\"data_offsets\":[" + std::to_string(begin) + "," +
            std::to_string(begin + tensor.num_bytes()) + "]}";
}

}  // namespace

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
                       const std::map<std::string, std::string>& metadata) {
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
  std::string header = "{";
  if (!metadata.empty()) {
    std::string pairs;
    for (const auto& [key, value] : metadata)
      pairs += (pairs.empty() ? "" : ",") + quote_json(key) + ":" + quote_json(value);
    header += quote_json(kMetadata) + ":{" + pairs + "}";
  }
  uint64_t begin = 0;
  for (const auto& [name, tensor] : order) {
    append_entry(header, name, tensor, begin);
    begin += tensor.num_bytes();
  }
  header += "}";
  header.resize(align_up(header.size(), kLengthBytes), ' ');

  AtomicFile file(path);
  unsigned char length[kLengthBytes];
  for (size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  file.write(length, sizeof length);
  file.write(header);
  for (const auto& [name, tensor] : order) file.write(tensor.raw(), tensor.num_bytes());
  file.commit();
}

}  // namespace keel
