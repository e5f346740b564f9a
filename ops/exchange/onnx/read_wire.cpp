#include "keel/ops/exchange/onnx/read_wire.h"

#include "keel/core/base/error.h"
#include "keel/core/base/read_budget.h"

namespace keel::onnx {
namespace {

const char* name_of(protozero::pbf_wire_type type) {
  switch (type) {
    case protozero::pbf_wire_type::varint:
      return "a varint";
    case protozero::pbf_wire_type::fixed64:
      return "eight bytes";
    case protozero::pbf_wire_type::length_delimited:
      return "bytes with a length";
    case protozero::pbf_wire_type::fixed32:
      return "four bytes";
    default:
      return "an unknown wire type";
  }
}

}  // namespace

WireMessage::WireMessage(std::string_view bytes, WireSource& source)
    : source_(source), reader_(bytes.data(), bytes.size()) {}

WireMessage::WireMessage(std::string_view bytes, const WireMessage& parent, const char* name,
                         size_t index)
    : source_(parent.source_),
      parent_(&parent),
      name_(name),
      index_(index),
      depth_(parent.depth_ + 1),
      reader_(bytes.data(), bytes.size()) {
  if (depth_ > kMaxDepth)
    fail("messages nest deeper than " + std::to_string(kMaxDepth) + " levels");
}

WireMessage WireMessage::message(const char* name, size_t index) {
  return WireMessage(bytes(name), *this, name, index);
}

std::string WireMessage::place() const {
  std::string place = parent_ == nullptr ? "" : parent_->place();
  if (name_[0] == '\0') return place;
  if (!place.empty()) place += ".";
  place += name_;
  if (index_ != kNoIndex) place += "[" + std::to_string(index_) + "]";
  return place;
}

void WireMessage::fail(const std::string& message) const {
  throw Error({.op = source_.name,
               .argument = place(),
               .message = message,
               .fix = std::string("this is no ") + source_.kind + ", or a damaged one"});
}

void WireMessage::take(uint64_t bytes, const char* what) {
  if (bytes > source_.budget - source_.taken)
    throw over_read_budget(source_.name, what, source_.budget);
  source_.taken += bytes;
}

bool WireMessage::next() {
  try {
    if (pending_) reader_.skip();
    pending_ = reader_.next();
  } catch (const protozero::exception& error) {
    fail(std::string("cannot be read: ") + error.what());
  }
  tag_ = pending_ ? reader_.tag() : 0;
  return pending_;
}

template <class Read>
auto WireMessage::checked(const char* name, protozero::pbf_wire_type expected, Read read) {
  if (!pending_) fail(std::string(name) + " was read twice");
  if (reader_.wire_type() != expected) {
    fail(std::string(name) + ": expected " + name_of(expected) + ", got " +
         name_of(reader_.wire_type()));
  }
  pending_ = false;
  try {
    return read();
  } catch (const protozero::exception& error) {
    fail(std::string(name) + ": " + error.what());
  }
}

int64_t WireMessage::integer(const char* name) {
  return checked(name, protozero::pbf_wire_type::varint, [&] { return reader_.get_int64(); });
}

float WireMessage::real(const char* name) {
  return checked(name, protozero::pbf_wire_type::fixed32, [&] { return reader_.get_float(); });
}

std::string_view WireMessage::bytes(const char* name) {
  return checked(name, protozero::pbf_wire_type::length_delimited, [&] {
    const protozero::data_view view = reader_.get_view();
    return std::string_view(view.data(), view.size());
  });
}

std::string WireMessage::text(const char* name) {
  const std::string_view view = bytes(name);
  if (view.find('\0') != std::string_view::npos) fail(std::string(name) + ": holds a NUL");
  take(view.size(), name);
  return std::string(view);
}

template <class T, class ReadOne, class ReadPacked>
void WireMessage::append_all(const char* name, std::vector<T>& values,
                             protozero::pbf_wire_type single, ReadOne read_one,
                             ReadPacked read_packed) {
  if (pending_ && reader_.wire_type() == single) {
    take(sizeof(T), name);
    values.push_back(checked(name, single, read_one));
    return;
  }
  checked(name, protozero::pbf_wire_type::length_delimited, [&] {
    const auto range = read_packed();
    take(static_cast<uint64_t>(range.size()) * sizeof(T), name);
    for (const auto value : range) values.push_back(value);
    return 0;
  });
}

void WireMessage::append(const char* name, std::vector<int64_t>& values) {
  append_all(
      name, values, protozero::pbf_wire_type::varint, [&] { return reader_.get_int64(); },
      [&] { return reader_.get_packed_int64(); });
}

void WireMessage::append(const char* name, std::vector<float>& values) {
  append_all(
      name, values, protozero::pbf_wire_type::fixed32, [&] { return reader_.get_float(); },
      [&] { return reader_.get_packed_float(); });
}

void WireMessage::append(const char* name, std::vector<double>& values) {
  append_all(
      name, values, protozero::pbf_wire_type::fixed64, [&] { return reader_.get_double(); },
      [&] { return reader_.get_packed_double(); });
}

}  // namespace keel::onnx
