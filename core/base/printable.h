// printable: text of unknown origin (arguments, names, keys of files, what other programs said) as
// it may stand in a message, a label or on a terminal. Every Error and every logged line passes
// through it. Pure functions; any thread.
#ifndef KEEL_CORE_BASE_PRINTABLE_H
#define KEEL_CORE_BASE_PRINTABLE_H

#include <cstddef>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"

namespace keel {

// Line breaks, tabs and other control characters (those that change the direction of writing
// included) become \n, \t, \x1b, \u202e, and bytes that are no UTF-8 \xff; the rest stays as it is,
// backslashes too, so that a text that has been through once is not changed again. Of more than
// `most` bytes the middle is left out, and its size stands there instead.
KEEL_API std::string printable(std::string_view text, size_t most = std::string_view::npos);
// Does the same for text of several lines: line breaks stay.
KEEL_API std::string printable_lines(std::string_view text);
// Returns the shortest decimal that reads back as the same number, or inf, -inf or nan.
KEEL_API std::string printable(double number);

}  // namespace keel

#endif  // KEEL_CORE_BASE_PRINTABLE_H
