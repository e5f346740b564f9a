// A training in a process of its own: what it needs of memory, which this process, with many
// trainings in it, cannot tell. One thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_TRAINING_PROCESS_H
#define KEEL_EXAMPLES_CLI_BENCH_TRAINING_PROCESS_H

#include <string>
#include <vector>

namespace keel_cli {

// The most memory, in MiB, that a quiet `keel train` with these flags held. Throws Error where it
// cannot run or fails.
double peak_rss_mib_of_training(const std::vector<std::string>& flags);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_TRAINING_PROCESS_H
