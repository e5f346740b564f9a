#include "keel/ops/exchange/graphdef/file/text_form.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include <protozero/pbf_writer.hpp>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/file/text_schema.h"

namespace keel::graphdef {
namespace {

constexpr int kMaxDepth = 64;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// Tokens of the text, and where they lie.
class TextReader {
 public:
  TextReader(std::string_view text, const std::string& source) : text_(text), source_(source) {
    skip_space();
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool accept(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }

  // A name in brackets is that of an extension, which no schema here has.
  std::string_view field_name() {
    if (peek() != '[') return word();
    const size_t end = text_.find(']', at_);
    if (end == std::string_view::npos) fail("a name that does not end");
    const size_t first = at_;
    at_ = end + 1;
    return ended(first);
  }
  std::string_view word() {
    const size_t first = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == first) fail("expected a name");
    return ended(first);
  }
  // A number or a word such as true, DT_FLOAT or inf, with its sign.
  std::string_view scalar() {
    const size_t first = at_;
    if (peek() == '-' || peek() == '+') ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool exponent_sign = (c == '+' || c == '-') && at_ > first + 1 &&
                                 (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!is_word(c) && c != '.' && !exponent_sign) break;
      ++at_;
    }
    if (at_ == first) fail("expected a value");
    return ended(first);
  }
  // Strings side by side are one.
  std::string strings() {
    std::string value;
    if (peek() != '"' && peek() != '\'') fail("expected a string");
    while (peek() == '"' || peek() == '\'') append_string(value);
    return value;
  }

  [[noreturn]] void fail(const std::string& message) const {
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n') + 1;
    const std::string_view rest = text_.substr(at_, 20);
    throw Error({.op = source_,
                 .argument = "line " + std::to_string(line),
                 .got = at_end() ? "the end" : "'" + printable(std::string(rest)) + "'",
                 .message = message,
                 .fix = "this is no TensorFlow graph, or a damaged one"});
  }

 private:
  std::string_view ended(size_t first) {
    const std::string_view token = text_.substr(first, at_ - first);
    skip_space();
    return token;
  }
  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (is_space(text_[at_]))
        ++at_;
      else
        return;
    }
  }
  void append_string(std::string& value) {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') fail("a string that does not end");
      if (text_[at_] == '\\')
        append_escape(value);
      else
        value += text_[at_++];
    }
    if (at_end()) fail("a string that does not end");
    ++at_;
    skip_space();
  }
  void append_escape(std::string& value) {
    static constexpr std::string_view kNames = "abfnrtv\\'\"?", kBytes = "\a\b\f\n\r\t\v\\'\"?";
    ++at_;
    if (at_end()) fail("a string that does not end");
    const size_t known = kNames.find(text_[at_]);
    if (known != std::string_view::npos) {
      value += kBytes[known];
      ++at_;
      return;
    }
    const bool hex = text_[at_] == 'x' || text_[at_] == 'X';
    if (hex) ++at_;
    const int base = hex ? 16 : 8;
    int code = 0, digits = 0;
    for (; digits < (hex ? 2 : 3) && !at_end() && digit_value(text_[at_]) < base; ++digits)
      code = code * base + digit_value(text_[at_++]);
    if (digits == 0 || code > 0xff) fail("an escape that means nothing");
    value += static_cast<char>(code);
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
};

// Decimal, hexadecimal or octal, as the text form has them.
std::optional<int64_t> integer_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  unsigned base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  uint64_t value = 0;
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    const auto digit = static_cast<unsigned>(digit_value(c));
    if (digit >= base) return std::nullopt;
    if (value > (std::numeric_limits<uint64_t>::max() - digit) / base) return std::nullopt;
    value = value * base + digit;
  }
  return static_cast<int64_t>(negative ? ~value + 1 : value);
}

std::optional<double> real_of(std::string_view text) {
  std::string copy(text);
  if (copy.ends_with('f') && !copy.ends_with("inf")) copy.pop_back();
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || end != copy.c_str() + copy.size()) return std::nullopt;
  return value;
}

class Translator {
 public:
  Translator(std::string_view text, const std::string& source) : reader_(text, source) {}

  std::string run(const TextMessage& schema) {
    std::string wire;
    fields(schema, '\0', wire, 0);
    return wire;
  }

 private:
  // Fields up to the closing bracket, which is taken, too; up to the end for '\0'.
  void fields(const TextMessage& schema, char closing, std::string& wire, int depth) {
    if (depth > kMaxDepth)
      reader_.fail("messages nest deeper than " + std::to_string(kMaxDepth) + " levels");
    while (true) {
      if (closing == '\0' ? reader_.at_end() : reader_.accept(closing)) return;
      if (reader_.at_end()) reader_.fail("a message that does not end");
      const std::string_view name = reader_.field_name();
      const TextField* field = schema.find(name);
      const bool colon = reader_.accept(':');
      if (reader_.accept('[')) {
        if (!reader_.accept(']')) {
          do value(field, true, wire, depth);
          while (reader_.accept(','));
          reader_.expect(']');
        }
      } else {
        value(field, colon, wire, depth);
      }
      if (!reader_.accept(',')) reader_.accept(';');
    }
  }

  void value(const TextField* field, bool colon, std::string& wire, int depth) {
    const bool angle = reader_.peek() == '<';
    if (angle || reader_.peek() == '{') {
      if (field != nullptr && field->type != TextType::kMessage)
        reader_.fail("the field " + std::string(field->name) + " is no message");
      static constexpr TextMessage kUnknown{nullptr, 0};
      std::string inner;
      reader_.accept(angle ? '<' : '{');
      fields(field == nullptr ? kUnknown : *field->message, angle ? '>' : '}', inner, depth + 1);
      if (field != nullptr) protozero::pbf_writer(wire).add_message(field->number, inner);
      return;
    }
    if (!colon) reader_.fail("expected ':' or '{'");
    if (field == nullptr)
      skip_scalar();
    else
      scalar(*field, wire);
  }

  void skip_scalar() {
    if (reader_.peek() == '"' || reader_.peek() == '\'')
      reader_.strings();
    else
      reader_.scalar();
  }

  void scalar(const TextField& field, std::string& wire) {
    protozero::pbf_writer writer(wire);
    if (field.type == TextType::kBytes) {
      writer.add_bytes(field.number, reader_.strings());
      return;
    }
    const std::string_view text = reader_.scalar();
    switch (field.type) {
      case TextType::kBool:
        writer.add_int64(field.number, text == "true" || text == "True" || text == "t"
                                           ? 1
                                           : required(field, text, falsehood(text)));
        return;
      case TextType::kDataType: {
        const int64_t number = data_type_number(text);
        writer.add_int64(field.number,
                         number >= 0 ? number : required(field, text, integer_of(text)));
        return;
      }
      case TextType::kFloat:
        writer.add_float(field.number, static_cast<float>(required(field, text, real_of(text))));
        return;
      case TextType::kDouble:
        writer.add_double(field.number, required(field, text, real_of(text)));
        return;
      case TextType::kInteger:
        writer.add_int64(field.number, required(field, text, integer_of(text)));
        return;
      default:
        reader_.fail("the field " + std::string(field.name) + " is a message");
    }
  }

  static std::optional<int64_t> falsehood(std::string_view text) {
    if (text == "false" || text == "False" || text == "f") return 0;
    return integer_of(text);
  }

  template <class T>
  T required(const TextField& field, std::string_view text, const std::optional<T>& value) const {
    if (!value)
      reader_.fail("'" + printable(std::string(text.substr(0, 40))) +
                   "' is no value of the field " + std::string(field.name) + "; behind it");
    return *value;
  }

  TextReader reader_;
};

// The wire form of a graph may begin as text does: its first tag is a line's end, the length of the
// first node may be a letter, and that of the node's name a sign. Its next tags are control
// characters, which are in text by mistake at most.
bool has_control_characters(std::string_view bytes) {
  return std::any_of(bytes.begin(), bytes.end(),
                     [](char c) { return static_cast<unsigned char>(c) < ' ' && !is_space(c); });
}

}  // namespace

bool is_text_form(std::string_view bytes) {
  // Lengths that are signs are below 128, so that the first tag behind such a name lies in here.
  constexpr size_t kLookedAt = 256;
  size_t at = 0;
  const auto skip = [&](auto&& wanted) {
    while (at < bytes.size() && wanted(bytes[at])) ++at;
  };
  skip(is_space);
  while (at < bytes.size() && bytes[at] == '#') {
    skip([](char c) { return c != '\n'; });
    skip(is_space);
  }
  const size_t first = at;
  skip(is_word);
  if (at == first) return false;
  skip(is_space);
  return at < bytes.size() && (bytes[at] == ':' || bytes[at] == '{' || bytes[at] == '<') &&
         !(bytes[0] == '\n' && has_control_characters(bytes.substr(first, kLookedAt)));
}

std::string wire_form(std::string_view text, const std::string& source, MessageKind kind) {
  return Translator(text, source)
      .run(kind == MessageKind::kMetaGraph ? meta_graph_schema() : graph_schema());
}

}  // namespace keel::graphdef
