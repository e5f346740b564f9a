// The flags of `keel train` that write what its steps compute, by the names of Ascend's options
// enable_dump and enable_dump_debug.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_DUMP_FLAGS_H
#define KEEL_EXAMPLES_CLI_TRAIN_DUMP_FLAGS_H

#include <keel/keel.h>

#include "cli/base/command_line.h"

namespace keel_cli {

void declare_dump_flags(CommandLine& line);
// Throws keel::Error (kInvalidArgument) for texts that are wrong, for both at once, and for flags
// that are about one that is not given.
keel::DumpOptions read_dump_flags(const CommandLine& line);

// Throws an error about DumpOptions as one about the flags.
[[noreturn]] void throw_in_dump_flags(const keel::Error& error);
// Returns what `action` does, whose errors come in those words.
template <class Action>
auto in_dump_flags(Action action) {
  try {
    return action();
  } catch (const keel::Error& error) {
    if (error.info().op != "dump" || error.info().argument.empty()) throw;
    throw_in_dump_flags(error);
  }
}

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_DUMP_FLAGS_H
