// CompileCounts: how much the passes of a compilation leave, as the table of `keel bench compile`
// and its page show it. Plain values; any thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_COMPILE_COUNTS_H
#define KEEL_EXAMPLES_CLI_BENCH_COMPILE_COUNTS_H

#include <cstdint>
#include <string>

#include <keel/core/base/json.h>
#include <nlohmann/json.hpp>

namespace keel_cli {

struct CompileCounts {
  int64_t gradient = 0;  // nodes with the gradient's among them
  int64_t fused = 0;     // nodes of the step, all passes behind them
  int64_t tasks = 0;     // of the backend's program
};

// Counts by the `passes` of a row of the suite's JSON. The pass that wraps the step into a loop
// leaves a graph of the loop alone, so that it says nothing of the step.
inline CompileCounts counts_of_passes(const keel::Json& passes) {
  CompileCounts counts;
  for (const keel::Json& pass : passes) {
    if (pass.contains("tasks")) {
      counts.tasks = pass["tasks"];
      continue;
    }
    const std::string name = pass["name"];
    if (name == "make_sunk_loop") continue;
    counts.fused = pass["nodes"];
    if (name == "specialise") counts.gradient = counts.fused;
  }
  return counts;
}

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_COMPILE_COUNTS_H
