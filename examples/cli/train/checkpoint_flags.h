// How `keel train` saves itself while it goes on: the flags around --checkpoint, and the options of
// a Trainer that they come to. Plain value.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_CHECKPOINT_FLAGS_H
#define KEEL_EXAMPLES_CLI_TRAIN_CHECKPOINT_FLAGS_H

#include <cstdint>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/output_files.h"
#include "cli/model/saved_run.h"

namespace keel_cli {

struct CheckpointFlags {
  std::string folder;  // empty: none are written
  int64_t steps = 0;   // these two say how often; neither: at the end of each epoch
  double seconds = 0;
  int64_t keep = 3;
  keel::OnSaveError on_error = keel::OnSaveError::kContinue;
};

void declare_checkpoint_flags(CommandLine& line);
// Throws keel::Error for flags that are wrong, or that say how to do what is not done.
CheckpointFlags read_checkpoint_flags(const CommandLine& line);
// Returns the options but for what is called back.
keel::CheckpointOptions checkpoint_options(const CheckpointFlags& flags, int64_t steps_per_epoch);

// Throws keel::Error where the output is a file of the folder that is a checkpoint, or may become
// one.
void require_no_checkpoint(const CheckpointFlags& flags, const NamedFile& output);
// Throws keel::Error for a name that checkpoints have in any folder: the file would be taken for
// the one of the step in it.
void require_no_name_of_checkpoint(const NamedFile& output);

// Makes the folder. Throws keel::Error where it cannot be written to, or holds the checkpoints of
// another training than the one that is resumed.
void prepare_checkpoint_folder(const CheckpointFlags& flags, const std::optional<SavedRun>& resume);

// Returns the file of --resume, which may name a folder of checkpoints.
SavedRun read_saved_run(const std::string& file_or_folder);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_CHECKPOINT_FLAGS_H
