// Symbols: the bytes that a text holds, as the metadata of a saved charlm keep them: those that it
// was trained on, and so may write. Pure functions; any thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_SYMBOLS_H
#define KEEL_EXAMPLES_CLI_MODEL_SYMBOLS_H

#include <bitset>
#include <string>
#include <string_view>

#include "models/generative.h"

namespace keel_cli {

using Symbols = std::bitset<keel_examples::kSymbols>;

Symbols symbols_in(std::string_view text);
// Digits of base 16, of four bytes each, the lowest first; and back. Throws keel::Error naming
// `what` for a text that is no such digits, or names no byte at all.
std::string to_text(const Symbols& symbols);
Symbols parse_symbols(std::string_view text, const std::string& what);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_SYMBOLS_H
