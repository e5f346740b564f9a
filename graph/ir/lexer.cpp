#include "keel/graph/ir/lexer.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "keel/core/base/printable.h"

namespace keel {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Returns what messages show of a token.
std::string shown(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end of the text";
  constexpr size_t kMost = 80;
  return "'" + printable(token.text, kMost) + "'";
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) { advance(); }

Token Lexer::take() {
  Token taken = std::move(token_);
  advance();
  return taken;
}

bool Lexer::next_is(std::string_view text) const noexcept {
  return (token_.kind == TokenKind::kSymbol || token_.kind == TokenKind::kName) &&
         token_.text == text;
}

bool Lexer::accept(std::string_view text) {
  if (!next_is(text)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view text) {
  if (!accept(text)) fail(token_, "'" + std::string(text) + "'");
}

Token Lexer::expect(TokenKind kind, const char* what) {
  if (token_.kind != kind) fail(token_, what);
  return take();
}

void Lexer::fail(const Token& at, const std::string& expected, const std::string& fix) const {
  throw Error({.op = "graph text",
               .argument = place(at.offset),
               .expected = expected,
               .got = shown(at),
               .fix = fix});
}

void Lexer::fail_because(const Token& at, const Error& error) const {
  throw error.with_context("graph text: " + place(at.offset));
}

std::string Lexer::place(size_t offset) const {
  const std::string_view before = text_.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = offset - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return std::to_string(line) + ":" + std::to_string(column);
}

void Lexer::advance() {
  while (next_ < text_.size() && is_space(text_[next_])) ++next_;
  token_ = Token{};
  token_.offset = next_;
  if (next_ == text_.size()) return;
  const char c = text_[next_];
  const char after = next_ + 1 < text_.size() ? text_[next_ + 1] : '\0';
  if (c == '%') {
    lex_reference();
  } else if (c == '"') {
    lex_string();
  } else if (is_digit(c) || (c == '-' && is_name(after))) {
    lex_number();
  } else if (is_name(c)) {
    token_.kind = TokenKind::kName;
    while (next_ < text_.size() && is_name(text_[next_])) ++next_;
  } else {
    token_.kind = TokenKind::kSymbol;
    next_ += c == '<' && after == '-' ? 2 : text_.substr(next_, 3) == "..." ? 3 : 1;
  }
  token_.text = text_.substr(token_.offset, next_ - token_.offset);
}

void Lexer::lex_reference() {
  token_.kind = TokenKind::kReference;
  ++next_;
  token_.node = lex_index();
  if (next_ < text_.size() && text_[next_] == '.') {
    ++next_;
    token_.output = lex_index();
  }
}

uint32_t Lexer::lex_index() {
  uint32_t index = 0;
  const char* const begin = text_.data() + next_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), index);
  if (error != std::errc()) {
    token_.text = text_.substr(token_.offset, next_ - token_.offset);
    fail(token_, "a value such as %3 or %3.1");
  }
  next_ += static_cast<size_t>(end - begin);
  return index;
}

// Takes what may belong to a number; whoever needs one converts the text and finds out.
void Lexer::lex_number() {
  token_.kind = TokenKind::kNumber;
  ++next_;
  while (next_ < text_.size()) {
    const char c = text_[next_];
    const bool signed_exponent = (c == '-' || c == '+') && text_[next_ - 1] == 'e';
    if (!is_name(c) && c != '.' && !signed_exponent) return;
    ++next_;
  }
}

void Lexer::lex_string() {
  token_.kind = TokenKind::kString;
  for (++next_; next_ < text_.size() && text_[next_] != '\n'; ++next_) {
    if (text_[next_] == '"') {
      ++next_;
      return;
    }
    if (text_[next_] != '\\') {
      token_.string += text_[next_];
    } else if (!lex_escape()) {
      token_.text = text_.substr(token_.offset, next_ - token_.offset);
      fail(token_, "one of \\\" \\\\ \\n \\t \\x00 to \\xff after the backslash");
    }
  }
  token_.text = text_.substr(token_.offset, next_ - token_.offset);
  fail(token_, "a closing quote on the same line");
}

// Starts at a backslash and leaves next_ on the escape's last character.
bool Lexer::lex_escape() {
  const std::string_view rest = text_.substr(next_ + 1, 3);
  if (rest.empty()) return false;
  if (rest[0] == 'x') {
    const int high = rest.size() == 3 ? hex_digit(rest[1]) : -1;
    const int low = rest.size() == 3 ? hex_digit(rest[2]) : -1;
    if (high < 0 || low < 0) return false;
    token_.string += static_cast<char>(high * 16 + low);
    next_ += 3;
    return true;
  }
  const size_t known = std::string_view("\"\\nt").find(rest[0]);
  if (known == std::string_view::npos) return false;
  token_.string += "\"\\\n\t"[known];
  next_ += 1;
  return true;
}

}  // namespace keel
