// The graphs that `keel bench compile` grows: as users would write them, of about as many nodes as
// asked for. Pure functions.
#ifndef KEEL_EXAMPLES_CLI_BENCH_COMPILE_CASES_H
#define KEEL_EXAMPLES_CLI_BENCH_COMPILE_CASES_H

#include <cstdint>
#include <string>
#include <vector>

#include <keel/keel.h>

namespace keel_cli {

struct CompileCase {
  std::string name;
  // Adds layers, one at least, until there are about so many nodes; returns the loss.
  keel::Value (*build)(keel::Graph& graph, int64_t nodes);
};
// "chain": a deep mlp, each layer on top of the last. "branches": groups of branches side by side
// that read one value and are added up.
const std::vector<CompileCase>& compile_cases();

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_COMPILE_CASES_H
