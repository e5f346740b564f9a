// What the suites of `keel bench` share: the model, data and session that a measurement runs on.
// `keel bench SUITE [flags]`; a suite prints a table and writes the same as JSON where asked to.
#ifndef KEEL_EXAMPLES_CLI_BENCH_H
#define KEEL_EXAMPLES_CLI_BENCH_H

#include <cstdint>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/run_flags.h"
#include "models/classifier.h"

namespace keel_cli {

int bench_loop(const std::vector<std::string>& words);
int bench_feed(const std::vector<std::string>& words);

struct BenchFlags {
  const keel_examples::Model* model = nullptr;
  std::string data = kDigits;
  std::string backend = "npu";
  int64_t batch = 100;
  int threads = 1;
  double seconds = 1;  // of wall time for each row of the table
  std::string json;
};
void declare_bench_flags(CommandLine& line);
BenchFlags read_bench_flags(const CommandLine& line);

// The middle value; half the distance between the quartiles, as a share of it.
struct Spread {
  double median = 0;
  double share = 0;
};
Spread spread_of(std::vector<double> values);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_H
