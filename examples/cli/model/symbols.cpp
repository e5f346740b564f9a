#include "cli/model/symbols.h"

namespace keel_cli {
namespace {

constexpr std::string_view kDigits16 = "0123456789abcdef";
constexpr size_t kBits = 4;  // of a digit

}  // namespace

Symbols symbols_in(std::string_view text) {
  Symbols symbols;
  for (const char c : text) symbols.set(static_cast<unsigned char>(c));
  return symbols;
}

std::string to_text(const Symbols& symbols) {
  std::string text;
  for (size_t first = 0; first < symbols.size(); first += kBits) {
    size_t digit = 0;
    for (size_t bit = 0; bit < kBits; ++bit)
      digit |= (symbols.test(first + bit) ? size_t{1} : size_t{0}) << bit;
    text += kDigits16[digit];
  }
  return text;
}

Symbols parse_symbols(std::string_view text, const std::string& what) {
  Symbols symbols;
  const bool digits = text.size() * kBits == symbols.size() &&
                      text.find_first_not_of(kDigits16) == std::string_view::npos;
  if (digits) {
    for (size_t i = 0; i < symbols.size(); ++i)
      symbols.set(i, (kDigits16.find(text[i / kBits]) >> i % kBits & 1) != 0);
  }
  if (symbols.any()) return symbols;
  throw keel::Error({.op = what,
                     .expected = "64 digits of base 16, not all of them 0",
                     .got = "'" + std::string(text) + "'"});
}

}  // namespace keel_cli
