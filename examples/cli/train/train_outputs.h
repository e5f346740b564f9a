// The files that a training is asked to write: looked at before it begins, so that none is lost at
// its end. Pure but for looking at files; one thread.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_TRAIN_OUTPUTS_H
#define KEEL_EXAMPLES_CLI_TRAIN_TRAIN_OUTPUTS_H

#include <string>

#include "cli/base/command_line.h"
#include "cli/train/train_options.h"

namespace keel_cli {

// Throws keel::Error where a file that is written is another one, too, or one that is read. `data`:
// where the training data are.
void require_own_files(const CommandLine& line, const TrainFlags& flags, const std::string& data);

// Throws keel::Error for a file that cannot be written.
void require_writable_files(const TrainFlags& flags);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_TRAIN_OUTPUTS_H
