#include "keel/core/tensor/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/function_ref.h"
#include "keel/core/tensor/canonical_bool.h"

namespace keel {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kHeaderAlignment = 64;
constexpr size_t kMaxHeaderBytes = size_t{1} << 16;

struct ElementFormat {
  const char* name;  // kind and bytes, as in "<f4"
  DType dtype;
};
constexpr std::array kFormats = {ElementFormat{"f2", f16},    ElementFormat{"f4", f32},
                                 ElementFormat{"f8", f64},    ElementFormat{"i4", i32},
                                 ElementFormat{"i8", i64},    ElementFormat{"u1", u8},
                                 ElementFormat{"b1", boolean}};

struct Header {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
  size_t data_offset = 0;
};

// Gives bytes, from a file or memory.
struct Source {
  std::string name;
  uint64_t size;
  FunctionRef<void(uint64_t, void*, size_t)> read_at;
};

[[noreturn]] void refuse(const std::string& name, const std::string& message,
                         const std::string& fix = "") {
  throw Error({.op = name, .message = message, .fix = fix});
}

// Reads the Python dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, nothing
// else.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header parse() {
    expect('{');
    while (!take('}')) {
      parse_member();
      if (take(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (at_ != text_.size()) fail("text behind the dictionary");
    if (!descr_ || !order_ || !dims_) fail("one of 'descr', 'fortran_order', 'shape' is missing");
    Header header;
    header.fortran_order = *order_;
    if (dims_->size() > Shape::kMaxRank) {
      refuse(name_, "the array has rank " + std::to_string(dims_->size()) + ", the most here is " +
                        std::to_string(Shape::kMaxRank));
    }
    header.shape = Shape(*dims_);
    parse_descr(*descr_, header);
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    refuse(name_, "bad .npy header at byte " + std::to_string(at_) + ": " + message);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a quoted string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string is not closed");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }
  int64_t dimension() {
    skip_space();
    int64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [end, status] = std::from_chars(first, text_.data() + text_.size(), value);
    if (status != std::errc{} || value < 0) fail("expected a dimension >= 0 of at most 63 bits");
    at_ += static_cast<size_t>(end - first);
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> dims;
    expect('(');
    while (!take(')')) {
      dims.push_back(dimension());
      if (take(',')) continue;
      if (dims.size() == 1) fail("expected ',' after the only dimension");
      expect(')');
      break;
    }
    return dims;
  }
  void parse_member() {
    const std::string key = quoted();
    expect(':');
    const auto once = [&](bool had) {
      if (had) fail("the key '" + key + "' stands here twice");
    };
    if (key == "descr") {
      once(descr_.has_value());
      if (text_.substr(at_).find_first_not_of(" \t") != std::string_view::npos && take('[')) {
        fail("structured arrays are not supported");
      }
      descr_ = quoted();
    } else if (key == "fortran_order") {
      once(order_.has_value());
      const bool yes = take_word("True");
      if (!yes && !take_word("False")) fail("expected True or False");
      order_ = yes;
    } else if (key == "shape") {
      once(dims_.has_value());
      dims_ = tuple();
    } else {
      fail("unexpected key '" + key + "'");
    }
  }
  void parse_descr(const std::string& descr, Header& header) const {
    const char order = descr.empty() ? '\0' : descr[0];
    const std::string kind = descr.empty() ? "" : descr.substr(1);
    for (const auto& format : kFormats) {
      if (kind != format.name) continue;
      const bool one_byte = size_of(format.dtype) == 1;
      if (order != '<' && order != '>' && !(one_byte && (order == '|' || order == '='))) break;
      header.dtype = format.dtype;
      header.big_endian = order == '>';
      return;
    }
    const bool void2 = kind == "V2";
    throw Error({.op = name_,
                 .expected = "elements of f2, f4, f8, i4, i8, u1 or b1",
                 .got = "'" + descr + "'" + (void2 ? " (what a bfloat16 array is saved as)" : ""),
                 .fix = void2 ? "save it as float32" : "convert the array before saving it"});
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  std::optional<std::string> descr_;
  std::optional<bool> order_;
  std::optional<std::vector<int64_t>> dims_;
};

Header read_header(const Source& source) {
  std::array<unsigned char, 12> start{};
  const size_t available = static_cast<size_t>(std::min<uint64_t>(source.size, start.size()));
  source.read_at(0, start.data(), available);
  if (available < 10 || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    refuse(source.name, "this is no .npy file: it does not begin with \\x93NUMPY");
  }
  const int major = start[6];
  // 3.0 is 2.0 with a header in UTF-8; what is read of one is ASCII in either.
  if (major < 1 || major > 3 || start[7] != 0) {
    throw Error({.op = source.name,
                 .expected = "format version 1.0, 2.0 or 3.0",
                 .got = std::to_string(major) + "." + std::to_string(start[7])});
  }
  const size_t preamble = major == 1 ? 10 : 12;
  size_t length = size_t{start[8]} | size_t{start[9]} << 8;
  if (major > 1) length |= size_t{start[10]} << 16 | size_t{start[11]} << 24;
  if (available < preamble || length > source.size - preamble)
    refuse(source.name, "the file ends inside its header");
  if (length > kMaxHeaderBytes)
    refuse(source.name,
           "the header has " + std::to_string(length) + " bytes, the most here is 65536");
  std::string text(length, '\0');
  source.read_at(preamble, text.data(), length);
  Header header = HeaderParser(text, source.name).parse();
  header.data_offset = preamble + length;
  return header;
}

void swap_bytes(char* bytes, size_t count, size_t element) {
  for (size_t i = 0; i < count; ++i) std::reverse(bytes + i * element, bytes + (i + 1) * element);
}

// The source holds the elements first axis fastest; they are put last axis fastest, piece by piece.
void read_fortran_order(const Source& source, uint64_t offset, Tensor& to) {
  constexpr size_t kPiece = size_t{1} << 18;
  const Shape& shape = to.shape();
  const size_t element = size_of(to.dtype());
  const size_t total = to.num_bytes();
  std::vector<char> piece(std::min(kPiece, total));
  std::vector<int64_t> index(shape.rank(), 0);
  for (size_t done = 0; done < total; done += piece.size()) {
    piece.resize(std::min(piece.size(), total - done));
    source.read_at(offset + done, piece.data(), piece.size());
    for (size_t from = 0; from < piece.size(); from += element) {
      int64_t place = 0;
      for (size_t axis = 0; axis < shape.rank(); ++axis) place = place * shape[axis] + index[axis];
      std::memcpy(static_cast<char*>(to.raw()) + static_cast<size_t>(place) * element,
                  piece.data() + from, element);
      for (size_t axis = 0; axis < shape.rank(); ++axis) {
        if (++index[axis] < shape[axis]) break;
        index[axis] = 0;
      }
    }
  }
}

size_t data_bytes(const Header& header, const std::string& name) {
  try {
    return header.shape.num_bytes(header.dtype);
  } catch (const Error& error) {
    throw error.with_context(name);
  }
}

// The header alone does not say that there is memory for what it describes.
Tensor tensor_for(const Header& header, const std::string& name) {
  try {
    return Tensor(header.dtype, header.shape);
  } catch (const Error& error) {
    throw error.with_context(name);
  }
}

Tensor read(const Source& source) {
  const Header header = read_header(source);
  const size_t bytes = data_bytes(header, source.name);
  const uint64_t present = source.size - header.data_offset;
  if (present != bytes) {
    throw Error({.op = source.name,
                 .expected = std::to_string(bytes) + " bytes of data for " +
                             to_string(Type{header.dtype, header.shape}),
                 .got = std::to_string(present)});
  }
  Tensor tensor = tensor_for(header, source.name);
  if (bytes == 0) return tensor;
  auto* data = static_cast<char*>(tensor.raw());
  if (header.fortran_order && header.shape.rank() > 1)
    read_fortran_order(source, header.data_offset, tensor);
  else
    source.read_at(header.data_offset, data, bytes);
  if (header.big_endian)
    swap_bytes(data, static_cast<size_t>(tensor.num_elements()), size_of(header.dtype));
  canonicalise_bools(tensor);
  return tensor;
}

// Everything before the data.
std::string header_text(const Tensor& tensor) {
  if (tensor.empty()) throw Error({.op = "npy", .expected = "a tensor", .got = "an empty Tensor"});
  const char* kind = nullptr;
  for (const auto& format : kFormats) {
    if (format.dtype == tensor.dtype()) kind = format.name;
  }
  if (kind == nullptr) {
    throw Error({.op = "npy",
                 .expected = "f16, f32, f64, i32, i64, u8 or bool",
                 .got = name_of(tensor.dtype()),
                 .fix = "NumPy has no such type: cast the tensor to f32 first"});
  }
  std::string text = std::string("{'descr': '") + (size_of(tensor.dtype()) == 1 ? '|' : '<') +
                     kind + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < tensor.shape().rank(); ++i) {
    if (i != 0) text += ' ';
    text += std::to_string(tensor.shape()[i]) + ',';
  }
  if (tensor.shape().rank() > 1) text.pop_back();
  text += "), }";
  constexpr size_t kPreamble = 10;
  text.append(align_up(kPreamble + text.size() + 1, kHeaderAlignment) - kPreamble - text.size() - 1,
              ' ');
  text += '\n';
  std::string result(kMagic);
  result +=
      {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return result + text;
}

}  // namespace

Tensor parse_npy(std::string_view bytes, const std::string& source_name) {
  const auto read_at = [&](uint64_t offset, void* to, size_t count) {
    if (count != 0) std::memcpy(to, bytes.data() + offset, count);
  };
  return read({.name = source_name, .size = bytes.size(), .read_at = read_at});
}

Tensor read_npy(const std::string& path) {
  const InputFile file(path);
  const auto read_at = [&](uint64_t offset, void* to, size_t count) {
    file.read_at(offset, to, count);
  };
  return read({.name = path, .size = file.size(), .read_at = read_at});
}

std::string format_npy(const Tensor& tensor) {
  std::string bytes = header_text(tensor);
  if (tensor.num_bytes() != 0)
    bytes.append(static_cast<const char*>(tensor.raw()), tensor.num_bytes());
  return bytes;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  const std::string header = header_text(tensor);
  AtomicFile file(path);
  file.write(header);
  file.write(tensor.raw(), tensor.num_bytes());
  file.commit();
}

}  // namespace keel
