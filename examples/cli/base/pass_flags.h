// --disable-pass, on every command that compiles a model: compiler passes that are switched off, by
// their names in the table that `keel info --passes` prints.
#ifndef KEEL_EXAMPLES_CLI_BASE_PASS_FLAGS_H
#define KEEL_EXAMPLES_CLI_BASE_PASS_FLAGS_H

#include <string>
#include <vector>

#include "cli/base/command_line.h"

namespace keel_cli {

void declare_pass_flag(CommandLine& line);
// Throws keel::Error for a name that no pass has, and for a pass that cannot be switched off.
std::vector<std::string> read_disabled_passes(const CommandLine& line);

// The table of passes, and what their conflicts come to: as text, or as one JSON object.
void print_passes(bool as_json);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_PASS_FLAGS_H
