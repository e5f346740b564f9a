#include <iostream>

#include <keel/backends/npu/profile/profile.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"

namespace keel_cli {

int run_profile(const std::vector<std::string>& words) {
  CommandLine line("profile", "DIR: the profile that `keel train --profile DIR` wrote, as a table");
  line.add_subject("folder", "keel train --profile DIR, then keel profile DIR");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  std::cout << keel::npu::profile_table(line.subject());
  return kExitDone;
}

}  // namespace keel_cli
