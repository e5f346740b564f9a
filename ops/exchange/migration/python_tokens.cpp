#include "keel/ops/exchange/migration/python_tokens.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/error.h"
#include "keel/core/base/read_budget.h"

namespace keel::migration {
namespace {

using Kind = PythonToken::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || byte >= 0x80;
}
bool continues_name(char c) { return begins_name(c) || is_digit(c); }

// r"", b"", u"", f"" and their pairs, in either case.
bool is_string_prefix(std::string_view name) {
  constexpr std::string_view kLetters = "rRbBuUfF";
  return name.size() <= 2 && std::all_of(name.begin(), name.end(), [&](char c) {
           return kLetters.find(c) != std::string_view::npos;
         });
}

class Tokenizer {
 public:
  Tokenizer(std::string_view text, const std::string& source)
      : text_(text), source_(source), most_tokens_(read_budget() / sizeof(PythonToken)) {}

  std::vector<PythonToken> run() {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    while (at_ < text_.size()) next();
    if (!open_.empty()) fail(open_.back().second, "a bracket is not closed");
    add(Kind::kEnd, text_.size(), text_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(uint32_t line, const std::string& message) const {
    throw Error({.op = source_ + ":" + std::to_string(line), .message = message});
  }

  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }

  void add(Kind kind, size_t begin, size_t end) {
    // A vector that grows holds its elements twice for a moment.
    if (tokens_.size() >= most_tokens_ / 3)
      throw over_read_budget(source_, "script", read_budget());
    tokens_.push_back({kind, !open_.empty(), line_, text_.substr(begin, end - begin)});
  }

  void next() {
    const char c = text_[at_];
    if (c == '\0') fail(line_, "has a NUL byte: this is no script");
    if (c == '\n' || c == '\r') {
      if (open_.empty()) add(Kind::kEnd, at_, at_);
      skip_line_break();
    } else if (c == ' ' || c == '\t' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '#') {
      skip_comment();
    } else if (c == '\\') {
      continue_line();
    } else if (c == '"' || c == '\'') {
      read_string();
    } else if (begins_name(c)) {
      read_name();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      read_number();
    } else {
      read_operator();
    }
  }

  // "\r\n" is one break.
  void skip_line_break() {
    at_ += text_[at_] == '\r' && peek(1) == '\n' && at_ + 1 < text_.size() ? 2 : 1;
    ++line_;
  }

  void skip_comment() {
    at_ = std::min(text_.size(), text_.find_first_of(std::string_view("\r\n\0", 3), at_));
  }

  void continue_line() {
    ++at_;
    if (at_ == text_.size()) return;
    if (text_[at_] != '\n' && text_[at_] != '\r') fail(line_, "a '\\' stands inside of a line");
    skip_line_break();
  }

  void read_name() {
    size_t end = at_;
    while (end < text_.size() && continues_name(text_[end])) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    const bool quoted = end < text_.size() && (text_[end] == '"' || text_[end] == '\'');
    if (quoted && is_string_prefix(name)) {
      at_ = end;
      return read_string();
    }
    add(Kind::kName, at_, end);
    at_ = end;
  }

  // A number in any notation, and whatever letters follow it.
  void read_number() {
    const size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool sign = (c == '+' || c == '-') && at_ > begin &&
                        (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') && is_digit(peek(1));
      if (!continues_name(c) && c != '.' && !sign) break;
      ++at_;
    }
    add(Kind::kNumber, begin, at_);
  }

  void read_string() {
    const uint32_t first_line = line_;
    const char quote = text_[at_];
    const bool triple = peek(1) == quote && peek(2) == quote;
    const size_t marks = triple ? 3 : 1;
    at_ += marks;
    const size_t begin = at_;
    while (true) {
      if (at_ >= text_.size()) fail(first_line, "a string is not closed");
      const char c = text_[at_];
      if (c == '\0') fail(line_, "has a NUL byte: this is no script");
      if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) break;
      if (c == '\\') {
        ++at_;
        if (at_ >= text_.size()) continue;
        if (text_[at_] != '\n' && text_[at_] != '\r') {
          ++at_;
          continue;
        }
        skip_line_break();
      } else if (c == '\n' || c == '\r') {
        if (!triple) fail(first_line, "a string is not closed");
        skip_line_break();
      } else {
        ++at_;
      }
    }
    add(Kind::kString, begin, at_);
    tokens_.back().line = first_line;
    at_ += marks;
  }

  void read_operator() {
    const char c = text_[at_];
    if (c == ';') {
      add(Kind::kEnd, at_, at_);
      ++at_;
      return;
    }
    if (c == ')' || c == ']' || c == '}') close(c);
    const bool with_equals =
        std::string_view("=!<>+-*/%&|^@:").find(c) != std::string_view::npos && peek(1) == '=';
    const size_t end = at_ + (with_equals ? 2 : 1);
    add(Kind::kOperator, at_, end);
    at_ = end;
    if (c == '(' || c == '[' || c == '{') open_.emplace_back(c, line_);
  }

  void close(char c) {
    const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open_.empty() || open_.back().first != opening)
      fail(line_, std::string("a '") + c + "' closes nothing");
    open_.pop_back();
  }

  std::string_view text_;
  const std::string& source_;
  const uint64_t most_tokens_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  std::vector<std::pair<char, uint32_t>> open_;  // brackets, with their lines
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view text, const std::string& source) {
  return Tokenizer(text, source).run();
}

}  // namespace keel::migration
