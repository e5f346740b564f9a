// Flags that say in which dtypes a model computes, on every command that runs one, and what a file
// of saved states keeps of them.
#ifndef KEEL_EXAMPLES_CLI_BASE_PRECISION_FLAGS_H
#define KEEL_EXAMPLES_CLI_BASE_PRECISION_FLAGS_H

#include <functional>
#include <map>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/base/command_line.h"

namespace keel_cli {

struct PrecisionFlags {
  keel::Precision value;  // empty: the device's default
  std::string mix_list;   // the text of the file of --modify-mixlist; empty: none
  std::string dtypes;     // the same of --customize-dtypes
  // Which of the three were given as flags.
  bool mode_given = false, mix_list_given = false, dtypes_given = false;

  // Returns the flag that names the mode, "--precision"; empty where none does.
  std::string mode_flag() const;
  // Throws keel::Error, with the flags' names, where the device has not got the mode or the mode
  // takes no mix list.
  keel::ResolvedPrecision resolved_on(const keel::Backend& backend,
                                      const keel::DeviceOptions* options = nullptr) const;
  std::string mode_on(const keel::Backend& backend,
                      const keel::DeviceOptions* options = nullptr) const;
  // The compiler refuses a step that updates states in a mode for inference; this does so before
  // anything is written, and names the flag.
  void require_for_training(const keel::Backend& backend,
                            const keel::DeviceOptions* options = nullptr) const;
};

// --precision, --precision-mode, --precision-mode-v2, --modify-mixlist and --customize-dtypes.
void declare_precision_flags(CommandLine& line);
bool has_precision_flag(const CommandLine& line);
// Warns of what the files name in vain.
PrecisionFlags read_precision(const CommandLine& line);

// Entries that are saved beside the states of a run, and read by a run from there: `find` looks up
// an entry, `source` names the file in errors.
std::map<std::string, std::string> saved_form(const PrecisionFlags& flags, const std::string& mode);
using SavedEntry = std::function<std::optional<std::string>(const std::string& name)>;
PrecisionFlags saved_precision(const SavedEntry& find, const std::string& source);
// Returns what flags say: those about a mix list or customised dtypes leave the rest to the file; a
// mode that was given stands without the file's list and rules.
PrecisionFlags precision_over(const PrecisionFlags& flags, const SavedEntry& find,
                              const std::string& source);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_PRECISION_FLAGS_H
