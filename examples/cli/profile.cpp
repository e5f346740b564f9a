#include <iostream>

#include <keel/backends/npu/profile/profile.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"

namespace keel_cli {

int run_profile(const std::vector<std::string>& words) {
  CommandLine line("profile", "DIR: the profile that `keel train --profile DIR` wrote, as a table");
  const bool has_folder = !words.empty() && words[0].rfind('-', 0) != 0;
  line.parse({words.begin() + (has_folder ? 1 : 0), words.end()});
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  if (!has_folder) {
    throw keel::Error({.op = "keel profile",
                       .message = "the folder is missing",
                       .fix = "keel train --profile DIR, then keel profile DIR",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  std::cout << keel::npu::profile_table(words[0]);
  return kExitDone;
}

}  // namespace keel_cli
