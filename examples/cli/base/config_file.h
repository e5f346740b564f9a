// The file of --config: flags of a command as one JSON object, whose keys are their names. Flags on
// the command line win over it. Pure functions but for reading the file; one thread.
#ifndef KEEL_EXAMPLES_CLI_BASE_CONFIG_FILE_H
#define KEEL_EXAMPLES_CLI_BASE_CONFIG_FILE_H

#include <string>
#include <utility>
#include <vector>

#include <keel/core/base/json.h>

namespace keel_cli {

// A flag as a command declares it: CommandLine::add.
struct DeclaredFlag {
  std::string name, value, help;
  bool repeated = false;
};

// Flags with their values as the command line would have them, in order; a flag that may be given
// several times stands there as often.
using GivenFlags = std::vector<std::pair<std::string, std::string>>;

inline constexpr const char* kConfigFlag = "config";

// Returns a flag as it is typed: "-n", "--steps".
std::string flag_text(const std::string& name);

// Reads the file. Throws keel::Error where it cannot be read, is too large or no JSON.
keel::Json read_config_file(const std::string& path);

// Returns the flags that the document gives: switches by true or false, numbers and texts by what
// the flag takes, several values by an array. Throws keel::Error (kInvalidArgument) naming source
// and key for a key that is no flag of the command, and for a value of another type.
GivenFlags flags_in(const keel::Json& document, const std::string& source,
                    const std::vector<DeclaredFlag>& flags);

// Says whether a text names the flag ("--batch"), as a word of its own.
bool names_flag(const std::string& text, const std::string& flag);

// Returns a note for an error about flags that no word names, because they come from the file of
// --config among the words: "--batch is from run.json"; empty where there is none such.
std::string origin_of_flags(const std::string& error, const std::vector<std::string>& words);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_CONFIG_FILE_H
