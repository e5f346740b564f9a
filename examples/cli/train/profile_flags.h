// Flags that say what a training's profile holds and where it goes: --profile, --profile-steps, and
// by Ascend's names --profiling-mode and --profiling-options. Where none of these says anything,
// PROFILING_MODE=true in the environment asks for a profile, with PROFILING_OPTIONS or defaults.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_PROFILE_FLAGS_H
#define KEEL_EXAMPLES_CLI_TRAIN_PROFILE_FLAGS_H

#include <cstdint>
#include <string>

#include <keel/backends/npu/profile/profiling_options.h>

#include "cli/base/command_line.h"

namespace keel_cli {

struct ProfileFlags {
  std::string folder;  // empty: no profile
  keel::npu::ProfilingOptions options;
  int64_t first_step = 1, last_step = 3;
};

void declare_profile_flags(CommandLine& line);
// Throws keel::Error for flags that contradict each other, and for a backend without profiles.
ProfileFlags read_profile_flags(const CommandLine& line, const std::string& backend);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_PROFILE_FLAGS_H
