// Values that people type: environment variables, flags, names. One parser for all of them, strict
// (no spaces, no trailing text), with errors of ErrorKind::kInvalidArgument that say what was
// expected and suggest the nearest name. Pure functions but for reading the environment, which must
// not be changed by other threads meanwhile.
#ifndef KEEL_CORE_BASE_ENVIRONMENT_H
#define KEEL_CORE_BASE_ENVIRONMENT_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"

namespace keel {

// Parses a decimal integer in [min, max]; `what` names it in errors ("--batch", "NPU_LOOP_SIZE").
KEEL_API int64_t parse_integer(std::string_view text, const std::string& what,
                               int64_t min = std::numeric_limits<int64_t>::min(),
                               int64_t max = std::numeric_limits<int64_t>::max());
// Parses a finite decimal number in [min, max].
KEEL_API double parse_number(std::string_view text, const std::string& what,
                             double min = std::numeric_limits<double>::lowest(),
                             double max = std::numeric_limits<double>::max());
// Returns the same text, which must be one of `choices`.
KEEL_API std::string parse_choice(std::string_view text, const std::string& what,
                                  const std::vector<std::string>& choices);

// Runs `parse`, one of the parsers above, on text that a file holds: what is wrong with it is the
// file's fault, so its Error names `where` and has ErrorKind::kFailed.
template <class Parse>
auto parse_in_file(const std::string& where, Parse parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw Error({.op = where, .message = error.what()});
  }
}

// Returns the variable's value, or nothing where it is unset or empty; throws like the parsers
// above.
KEEL_API std::optional<std::string> environment_text(const std::string& name);
KEEL_API std::optional<int64_t> environment_integer(
    const std::string& name, int64_t min = std::numeric_limits<int64_t>::min(),
    int64_t max = std::numeric_limits<int64_t>::max());
KEEL_API std::optional<std::string> environment_choice(const std::string& name,
                                                       const std::vector<std::string>& choices);

// Returns the choice that `name` was most likely meant to be (fewest edits; of equals the first one
// that begins with the same letter), or "" where none is close, or several that begin otherwise are
// equally so.
KEEL_API std::string nearest(std::string_view name, const std::vector<std::string>& choices);
// "did you mean 'batch'?", or "" where nothing is close: for ErrorInfo::fix.
KEEL_API std::string did_you_mean(std::string_view name, const std::vector<std::string>& choices);
// Returns which of `choices` is the name. Throws `refusal` where none is, with did_you_mean as its
// fix.
size_t place_among(std::string_view name, const std::vector<std::string>& choices,
                   ErrorInfo refusal);

}  // namespace keel

#endif  // KEEL_CORE_BASE_ENVIRONMENT_H
