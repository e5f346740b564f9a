#include <iostream>

#include <keel/backends/npu/cost/calibrate.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"

namespace keel_cli {

int run_calibrate(const std::vector<std::string>& words) {
  CommandLine line("calibrate",
                   "what the NPU's device model predicts for published measurements, misses "
                   "included");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  std::cout << keel::npu::calibration_table(keel::npu::calibrate());
  return kExitDone;
}

}  // namespace keel_cli
