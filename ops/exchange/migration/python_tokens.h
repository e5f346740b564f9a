// The tokens of a Python script: names, numbers, strings, operators and the ends of statements, as
// far as a scan for names needs them. Comments are left out; a string is one token, whatever is in
// it, f-strings with their fields included. Bytes beyond ASCII belong to names, so that a script in
// any encoding that extends ASCII is read. Pure; any thread.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_TOKENS_H
#define KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_TOKENS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keel::migration {

struct PythonToken {
  enum class Kind : uint8_t {
    kName,
    kNumber,
    kString,    // `text` is what lies between the quotes, escapes as they are
    kOperator,  // one character, or two where the second is '='
    kEnd,       // of a statement: a line break outside of brackets, or a ';'
  };
  Kind kind = Kind::kEnd;
  bool in_brackets = false;
  uint32_t line = 1;
  std::string_view text;

  bool is(Kind wanted, std::string_view wanted_text) const {
    return kind == wanted && text == wanted_text;
  }
  bool is_name(std::string_view name) const { return is(Kind::kName, name); }
  bool is_operator(std::string_view sign) const { return is(Kind::kOperator, sign); }
};

// Returns the tokens of `text`, which must outlive them; the last one is an end. Throws Error
// naming `source` and the line for a string or bracket that is not closed, a bracket that closes
// none, a NUL byte, and where tokens would take more memory than the read budget.
std::vector<PythonToken> python_tokens(std::string_view text, const std::string& source);

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_PYTHON_TOKENS_H
