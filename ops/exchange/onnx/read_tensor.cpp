#include <bit>
#include <cstring>
#include <string>

#include <sys/stat.h>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/tensor/canonical_bool.h"
#include "keel/core/tensor/convert.h"
#include "keel/ops/exchange/onnx/read_messages.h"

namespace keel::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw data is little endian");

[[noreturn]] void refuse(const TensorProto& proto, const std::string& source,
                         const std::string& message, const std::string& fix = "") {
  throw Error(
      {.op = source, .argument = "tensor '" + proto.name + "'", .message = message, .fix = fix});
}

void read_external_entry(WireMessage message, TensorProto& proto) {
  std::string key, value;
  while (message.next()) {
    if (message.tag() == StringEntryField::kKey) key = message.text("key");
    if (message.tag() == StringEntryField::kValue) value = message.text("value");
  }
  proto.external_data[key] = value;
}

Shape shape_of(const TensorProto& proto, const std::string& source) {
  if (proto.dims.size() > Shape::kMaxRank) {
    refuse(proto, source,
           "has " + std::to_string(proto.dims.size()) +
               " dimensions; Keel's tensors have at most " + std::to_string(Shape::kMaxRank));
  }
  for (const int64_t dim : proto.dims)
    if (dim < 0) refuse(proto, source, "has a dimension of " + std::to_string(dim));
  return Shape(proto.dims);
}

size_t bytes_of(const TensorProto& proto, const std::string& source, const Type& type) {
  try {
    return type.shape.num_bytes(type.dtype);
  } catch (const Error& error) {
    refuse(proto, source, "has the shape " + to_string(type.shape) + ": " + error.what());
  }
}

// Returns a number of the entry, 0 or more.
uint64_t external_number(const TensorProto& proto, const std::string& source, const char* key,
                         uint64_t otherwise) {
  const auto entry = proto.external_data.find(key);
  if (entry == proto.external_data.end()) return otherwise;
  const std::string& text = entry->second;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos)
    refuse(proto, source, "external data: " + std::string(key) + " is '" + text + "', no number");
  if (text.size() > 18)
    refuse(proto, source, "external data: " + std::string(key) + " is " + text + ", too large");
  return std::stoull(text);
}

// Returns the file beside `source` that holds the data, which must be a regular file and no link.
std::string external_path(const TensorProto& proto, const std::string& source) {
  const auto entry = proto.external_data.find("location");
  if (entry == proto.external_data.end() || entry->second.empty())
    refuse(proto, source, "external data without a location");
  std::string location = entry->second;
  if (location.starts_with("./")) location.erase(0, 2);
  if (location.find('/') != std::string::npos || location == ".." || location == ".") {
    refuse(proto, source, "its data lies in '" + entry->second + "'",
           "external data is read from files of the model's own folder only");
  }
  const size_t slash = source.rfind('/');
  std::string path = slash == std::string::npos ? location : source.substr(0, slash + 1) + location;
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
    refuse(proto, source, "its data lies behind the link '" + location + "'", "copy the file");
  return path;
}

InputFile external_file(const TensorProto& proto, const std::string& source) {
  const std::string path = external_path(proto, source);
  try {
    return InputFile(path);
  } catch (const Error& error) {
    struct stat status {};
    const bool missing = ::stat(path.c_str(), &status) != 0;
    refuse(proto, source, std::string("external data: ") + error.what(),
           missing ? "put that file beside the model" : "");
  }
}

void read_external(const TensorProto& proto, const std::string& source, const Shape& shape,
                   Tensor& tensor, DType dtype) {
  const InputFile file = external_file(proto, source);
  const uint64_t wanted = shape.num_bytes(dtype);
  const uint64_t offset = external_number(proto, source, "offset", 0);
  const uint64_t length = external_number(proto, source, "length", wanted);
  if (length != wanted) {
    refuse(proto, source,
           "its external data has " + std::to_string(length) + " bytes, " +
               to_string(Type{dtype, shape}) + " needs " + std::to_string(wanted));
  }
  if (offset > file.size() || length > file.size() - offset) {
    refuse(proto, source,
           "its external data ends at byte " + std::to_string(offset + length) + " of " +
               file.path() + ", which has " + std::to_string(file.size()));
  }
  tensor = Tensor(dtype, shape);
  file.read_at(offset, tensor.raw(), length);
}

template <class T, class From>
Tensor converted(const Shape& shape, const std::vector<From>& values) {
  Tensor tensor(keel::dtype_of<T>, shape);
  auto elements = tensor.data<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (is_half_type<T>)
      elements[i] = T::from_bits(static_cast<uint16_t>(values[i]));
    else
      elements[i] = static_cast<T>(values[i]);
  }
  return tensor;
}

// Returns how many elements the typed field has in which data of that dtype lies.
size_t typed_count(const TensorProto& proto, DType dtype) {
  if (dtype == f32) return proto.floats.size();
  if (dtype == f64) return proto.doubles.size();
  return proto.integers.size();
}

Tensor from_typed_field(const TensorProto& proto, DType dtype, const Shape& shape) {
  if (dtype == f32) return Tensor::of<float>(shape, proto.floats);
  if (dtype == f64) return Tensor::of<double>(shape, proto.doubles);
  return visit_dtype(dtype, [&]<class T>() { return converted<T>(shape, proto.integers); });
}

}  // namespace

TensorProto read_tensor(WireMessage message) {
  TensorProto proto;
  while (message.next()) {
    switch (message.tag()) {
      case TensorField::kDims:
        message.append("dims", proto.dims);
        break;
      case TensorField::kDataType:
        proto.type = static_cast<DataType>(message.integer("data_type"));
        break;
      case TensorField::kFloatData:
        message.append("float_data", proto.floats);
        break;
      case TensorField::kInt32Data:
        message.append("int32_data", proto.integers);
        break;
      case TensorField::kInt64Data:
        message.append("int64_data", proto.integers);
        break;
      case TensorField::kUint64Data:
        message.append("uint64_data", proto.integers);
        break;
      case TensorField::kDoubleData:
        message.append("double_data", proto.doubles);
        break;
      case TensorField::kStringData:
        proto.has_strings = true;
        break;
      case TensorField::kName:
        proto.name = message.text("name");
        break;
      case TensorField::kRawData:
        proto.raw = message.bytes("raw_data");
        break;
      case TensorField::kSegment:
        message.fail("a tensor in segments");
      case TensorField::kExternalData:
        read_external_entry(message.message("external_data"), proto);
        break;
      case TensorField::kDataLocation:
        proto.external =
            message.integer("data_location") == static_cast<int64_t>(DataLocation::kExternal);
        break;
      default:
        break;
    }
  }
  const int fields = (proto.raw && !proto.raw->empty() ? 1 : 0) + (proto.floats.empty() ? 0 : 1) +
                     (proto.doubles.empty() ? 0 : 1) + (proto.integers.empty() ? 0 : 1) +
                     (proto.external ? 1 : 0);
  if (fields > 1) message.fail("its data lies in two places, which may differ");
  return proto;
}

std::optional<DType> dtype_of(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return f32;
    case DataType::kDouble:
      return f64;
    case DataType::kFloat16:
      return f16;
    case DataType::kBfloat16:
      return bf16;
    case DataType::kInt64:
      return i64;
    case DataType::kInt32:
      return i32;
    case DataType::kUint8:
      return u8;
    case DataType::kBool:
      return boolean;
    default:
      return std::nullopt;
  }
}

std::string name_of(DataType type) {
  static constexpr const char* kNames[] = {"UNDEFINED",  "FLOAT",   "UINT8",  "INT8",   "UINT16",
                                           "INT16",      "INT32",   "INT64",  "STRING", "BOOL",
                                           "FLOAT16",    "DOUBLE",  "UINT32", "UINT64", "COMPLEX64",
                                           "COMPLEX128", "BFLOAT16"};
  const auto number = static_cast<size_t>(type);
  return number < std::size(kNames) ? kNames[number]
                                    : "type " + std::to_string(static_cast<int32_t>(type));
}

Tensor to_tensor(const TensorProto& proto, const std::string& source) {
  const std::optional<DType> dtype = dtype_of(proto.type);
  if (!dtype)
    refuse(proto, source, "is of " + name_of(proto.type) + ", which Keel has no dtype for");
  const Shape shape = shape_of(proto, source);
  const size_t wanted = bytes_of(proto, source, {*dtype, shape});
  const auto elements = static_cast<size_t>(shape.num_elements());
  Tensor tensor;
  if (proto.external) {
    read_external(proto, source, shape, tensor, *dtype);
  } else if (proto.raw) {
    if (proto.raw->size() != wanted) {
      refuse(proto, source,
             "has " + std::to_string(proto.raw->size()) + " bytes of data, " +
                 to_string(Type{*dtype, shape}) + " needs " + std::to_string(wanted));
    }
    tensor = Tensor(*dtype, shape);
    if (wanted != 0) std::memcpy(tensor.raw(), proto.raw->data(), wanted);
  } else {
    if (typed_count(proto, *dtype) != elements) {
      refuse(proto, source,
             "has " + std::to_string(typed_count(proto, *dtype)) + " elements, " +
                 to_string(Type{*dtype, shape}) + " needs " + std::to_string(elements));
    }
    return from_typed_field(proto, *dtype, shape);
  }
  canonicalise_bools(tensor);
  return tensor;
}

}  // namespace keel::onnx
