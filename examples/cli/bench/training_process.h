// A training in a process of its own: what it needs of memory, which this process, with many
// trainings in it, cannot tell. One thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_TRAINING_PROCESS_H
#define KEEL_EXAMPLES_CLI_BENCH_TRAINING_PROCESS_H

#include <cstdint>
#include <string>
#include <vector>

namespace keel_cli {

struct TrainingProcess {
  double peak_rss_mib = 0;
  double seconds = 0;  // wall time from start to exit
};
// `keel train` with these flags, quiet. Throws Error where it cannot run or fails.
TrainingProcess run_training_process(const std::vector<std::string>& flags);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_TRAINING_PROCESS_H
