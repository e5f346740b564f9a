// The files that a command is asked to write: none may be another one of them, nor a file that the
// command reads. Compared before anything is opened, by device and inode where the files exist and
// by their paths with links resolved, so that links, hard links and "./x" are seen through.
#ifndef KEEL_EXAMPLES_CLI_BASE_OUTPUT_FILES_H
#define KEEL_EXAMPLES_CLI_BASE_OUTPUT_FILES_H

#include <string>
#include <vector>

namespace keel_cli {

struct NamedFile {
  std::string flag;  // "--save"
  std::string path;  // empty: the flag is not given
};

// Throws keel::Error (kInvalidArgument) naming both flags and the file.
void require_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

// Return the files that a command with this value of --data or --preset reads; none for built-in
// data and presets. `preset_files` adds the file that KEEL_NPU_PRESET names. `preset` is empty
// without the flag.
std::vector<NamedFile> data_files(const std::string& data);
std::vector<NamedFile> preset_files(const std::string& preset);

// Before hours of work go by: throws Error where a file that is to be written at the end, whole,
// cannot be.
void require_writable(const std::string& flag, const std::string& path);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_OUTPUT_FILES_H
