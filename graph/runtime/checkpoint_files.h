// The checkpoints in a folder: how their files are called, which there are, which one a training
// goes on from. Pure but for the file system; any thread.
#ifndef KEEL_GRAPH_RUNTIME_CHECKPOINT_FILES_H
#define KEEL_GRAPH_RUNTIME_CHECKPOINT_FILES_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"

namespace keel {

struct CheckpointFile {
  int64_t step = 0;  // as its name says
  std::string path;
};

// Returns "FOLDER/step-0000001200.safetensors".
KEEL_API std::string checkpoint_path(const std::string& folder, int64_t step);
// Lists the files of such names, oldest first; temporary files of a save are none. Throws Error
// where the folder cannot be read.
KEEL_API std::vector<CheckpointFile> checkpoints_in(const std::string& folder);

// Returns the file to go on from: `path`, or where that is a folder its newest checkpoint. Of a
// folder the file is read whole: where it is damaged, the Error names it and the newest whole one
// before it, which a user may give instead; another run than the last one is never begun in
// silence.
KEEL_API std::string checkpoint_to_resume(const std::string& path);

// Throws Error where the folder holds checkpoints and `resumed_from`, a file or nothing, is not in
// it: they are another training's.
KEEL_API void require_own_checkpoints(const std::string& folder, const std::string& resumed_from);

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_CHECKPOINT_FILES_H
