// Flags that may be given several times. They are declared like others, for the help, and taken out
// of the words before CommandLine parses the rest, in which each flag occurs once.
#ifndef KEEL_EXAMPLES_CLI_BASE_REPEATED_FLAGS_H
#define KEEL_EXAMPLES_CLI_BASE_REPEATED_FLAGS_H

#include <string>
#include <vector>

namespace keel_cli {

// Returns the values of `--name VALUE` and `--name=VALUE` in their order, and takes both out of
// `words`. Throws keel::Error where a value is missing.
std::vector<std::string> take_repeated(std::vector<std::string>& words, const std::string& name);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_REPEATED_FLAGS_H
