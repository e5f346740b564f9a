// Lexer: the tokens of the text form of graphs, with their places. Part of parse_graph; the text is
// untrusted and must outlive the lexer. One thread.
#ifndef KEEL_GRAPH_IR_LEXER_H
#define KEEL_GRAPH_IR_LEXER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "keel/core/base/error.h"

namespace keel {

enum class TokenKind { kEnd, kName, kNumber, kReference, kString, kSymbol };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // as written
  size_t offset = 0;
  std::string string;   // kString: without quotes and escapes
  uint32_t node = 0;    // kReference: %node.output
  uint32_t output = 0;  // 0 where it is left out
};

class Lexer {
 public:
  explicit Lexer(std::string_view text);

  const Token& peek() const noexcept { return token_; }
  Token take();
  // Returns whether the next token is this symbol or name.
  bool next_is(std::string_view text) const noexcept;
  // Takes the next token if it is this symbol or name.
  bool accept(std::string_view text);
  // Takes it or fails.
  void expect(std::string_view text);
  Token expect(TokenKind kind, const char* what);
  // Upper bound of what a list that starts here can hold.
  size_t rest() const noexcept { return text_.size() - token_.offset; }

  // Error "graph text: 3:5: expected ..., got ...".
  [[noreturn]] void fail(const Token& at, const std::string& expected,
                         const std::string& fix = "") const;
  // `error`, which came up for what starts at `at`, with its place in front.
  [[noreturn]] void fail_because(const Token& at, const Error& error) const;

 private:
  void advance();
  void lex_reference();
  void lex_number();
  void lex_string();
  bool lex_escape();
  uint32_t lex_index();
  std::string place(size_t offset) const;

  std::string_view text_;
  size_t next_ = 0;
  Token token_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_LEXER_H
