// WireMessage: one protocol-buffer message, field by field, over protozero, which leaves most
// checks to its caller: here a field of another wire type than its reader expects, one that is cut
// off and memory beyond the budget are Errors that name the file and the place in it. Views point
// into the bytes that were given. Internal to the reader; one thread at a time.
#ifndef KEEL_OPS_EXCHANGE_ONNX_READ_WIRE_H
#define KEEL_OPS_EXCHANGE_ONNX_READ_WIRE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <protozero/pbf_reader.hpp>

namespace keel::onnx {

// The part that is common to all messages of one file.
struct WireSource {
  std::string name;     // of the file, for errors
  uint64_t budget = 0;  // bytes of memory that the structs may take
  uint64_t taken = 0;
  const char* kind = "ONNX file";  // what it should be, for errors
};

class WireMessage {
 public:
  static constexpr int kMaxDepth = 64;

  // The outermost message. `source` must outlive it.
  WireMessage(std::string_view bytes, WireSource& source);
  // Returns the message in the current field, "<name>[<index>]" in errors; this one must outlive
  // it.
  WireMessage message(const char* name, size_t index);
  WireMessage message(const char* name) { return message(name, kNoIndex); }

  // Goes on to the next field, and past the current one if nobody read it; false at the end.
  bool next();
  uint32_t tag() const noexcept { return tag_; }

  int64_t integer(const char* name);
  float real(const char* name);
  std::string_view bytes(const char* name);
  // A copy, which must be text without NUL.
  std::string text(const char* name);
  // Append what the field holds, packed or one by one.
  void append(const char* name, std::vector<int64_t>& values);
  void append(const char* name, std::vector<float>& values);
  void append(const char* name, std::vector<double>& values);

  // Counts memory that is about to be taken for `what`. Throws Error beyond the budget.
  void take(uint64_t bytes, const char* what);
  [[noreturn]] void fail(const std::string& message) const;
  // "graph.node[3].attribute[0]".
  std::string place() const;
  const WireSource& source() const noexcept { return source_; }

 private:
  static constexpr size_t kNoIndex = static_cast<size_t>(-1);
  WireMessage(std::string_view bytes, const WireMessage& parent, const char* name, size_t index);
  template <class Read>
  auto checked(const char* name, protozero::pbf_wire_type expected, Read read);
  template <class T, class ReadOne, class ReadPacked>
  void append_all(const char* name, std::vector<T>& values, protozero::pbf_wire_type single,
                  ReadOne read_one, ReadPacked read_packed);

  WireSource& source_;
  const WireMessage* parent_ = nullptr;
  const char* name_ = "";
  size_t index_ = kNoIndex;
  int depth_ = 0;
  protozero::pbf_reader reader_;
  uint32_t tag_ = 0;
  bool pending_ = false;  // the current field was not read
};

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_READ_WIRE_H
