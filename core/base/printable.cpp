#include "keel/core/base/printable.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace keel {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: the text does not begin with valid UTF-8
};

// Returns what `text`, which is not empty, begins with (RFC 3629: no surrogates, nothing overlong).
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(text[i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || surrogate || code > 0x10ffff) return {};
  return {code, bytes};
}

// Control characters, separators of lines, and what turns the direction of writing around.
bool obeyed_by_terminals(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

std::string escape(uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char text[16];
  std::snprintf(text, sizeof(text), code < 0x80 ? "\\x%02x" : "\\u%04x", code);
  return text;
}

std::string escaped(std::string_view text, bool keep_breaks) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.bytes == 0) {
      char byte[8];
      std::snprintf(byte, sizeof(byte), "\\x%02x", static_cast<unsigned char>(text[0]));
      out += byte;
    } else if (obeyed_by_terminals(c.code) && !(keep_breaks && c.code == '\n')) {
      out += escape(c.code);
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string printable(std::string_view text, size_t most) {
  if (text.size() <= most) return escaped(text, false);
  // A long text keeps its beginning and its end, where the cause of an error mostly stands. It is
  // cut between characters, not inside one.
  size_t head = most - most / 4;
  size_t end = text.size() - most / 4;
  while (head > 0 && continues_character(text[head])) --head;
  while (end < text.size() && continues_character(text[end])) ++end;
  return escaped(text.substr(0, head), false) + " ... (" + std::to_string(end - head) +
         " bytes left out) ... " + escaped(text.substr(end), false);
}

std::string printable_lines(std::string_view text) { return escaped(text, true); }

std::string printable(double number) {
  if (std::isnan(number)) return "nan";
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

}  // namespace keel
