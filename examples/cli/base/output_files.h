// The files that a command is asked to write: none may be another one of them, nor a file that the
// command reads, nor the one that standard output or standard error goes to. Compared before
// anything is opened, by device and inode where the files exist and by their paths with links
// resolved, so that links, hard links and "./x" are seen through.
#ifndef KEEL_EXAMPLES_CLI_BASE_OUTPUT_FILES_H
#define KEEL_EXAMPLES_CLI_BASE_OUTPUT_FILES_H

#include <string>
#include <vector>

namespace keel_cli {

struct NamedFile {
  std::string flag;  // "--save"
  std::string path;  // empty: the flag is not given
};

// Throws keel::Error (kInvalidArgument) naming both flags and the file. `inputs` are those of the
// command itself: `common_inputs` are compared, too.
void require_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

// Returns the files that a command reads whatever else it does: those of --config, --plugin,
// --preset and the flags about precision, and those that KEEL_NPU_PRESET and RANK_TABLE_FILE name.
// Built-in presets are none.
std::vector<NamedFile> common_inputs();
// The command line adds what its flags name to `common_inputs`, for the life of the process. The
// main thread only.
void remember_common_input(NamedFile file);
// The flags that name files among `common_inputs`, without their dashes.
const std::vector<std::string>& common_input_flags();

// Returns the files that a command with this value of --data reads; none for built-in data.
std::vector<NamedFile> data_files(const std::string& data);

// Before hours of work go by: throws Error where a file that is to be written at the end, whole,
// cannot be.
void require_writable(const std::string& flag, const std::string& path);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_OUTPUT_FILES_H
