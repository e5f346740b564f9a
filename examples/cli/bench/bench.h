// Suite: one measurement of `keel bench`, and what all suites share. A suite declares its flags,
// measures, prints a table and returns the same as JSON; `--json` writes that JSON, and `--html` a
// page made of it and nothing else. One thread.
#ifndef KEEL_EXAMPLES_CLI_BENCH_BENCH_H
#define KEEL_EXAMPLES_CLI_BENCH_BENCH_H

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <keel/core/base/json.h>
#include <keel/keel.h>

#include "cli/base/run_flags.h"
#include "models/classifier.h"

namespace keel_cli {

struct Suite {
  const char* name;
  const char* summary;
  void (*declare)(CommandLine& line);
  // Its tables; which suite of which version made them is added.
  keel::Json (*measure)(const CommandLine& line);
};

Suite train_suite();
Suite kernels_suite();
Suite loop_suite();
Suite feed_suite();
Suite compile_suite();
// The others one after the other, in short.
Suite all_suite();
// All but the last.
const std::vector<Suite>& suites();

// The suite's measurement with these flags.
keel::Json measure(const Suite& suite, const std::vector<std::string>& words);

// Flags of suites that measure one model on one backend.
struct BenchFlags {
  const keel_examples::Model* model = nullptr;
  std::string data = kDigits;
  std::string backend = "npu";
  int64_t batch = 100;
  int threads = 1;
  double seconds = 1;  // of wall time for each row of the table
  std::vector<std::string> disabled_passes;
};
void declare_bench_flags(CommandLine& line);
BenchFlags read_bench_flags(const CommandLine& line);

// Flags of suites that compare; `without` is what holds where the flag is not given. All backends
// that are read have a device to run on: throws keel::Error where the environment says otherwise.
void declare_backends(CommandLine& line, const char* without);
std::vector<std::string> read_backends(const CommandLine& line, std::vector<std::string> without);
void declare_thread_counts(CommandLine& line, const char* whose, const char* without);
std::vector<int64_t> read_thread_counts(const CommandLine& line, std::vector<int64_t> without);
void declare_seconds(CommandLine& line, const char* on, const char* without);
double read_seconds(const CommandLine& line, double without);
inline constexpr double kLeastSeconds = 1e-3;  // that --seconds takes
// The names of all built-in models.
std::vector<std::string> names_of_models();

// Batch of the model's usual training.
int64_t usual_batch(const keel_examples::Model& model);

// The middle value; half the distance between the quartiles, as a share of it.
struct Spread {
  double median = 0;
  double share = 0;
};
Spread spread_of(std::vector<double> values);
// Returns the spread of one part of what each round measured.
template <class Round>
Spread spread_of(const std::vector<Round>& rounds, double Round::*part) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(round.*part);
  return spread_of(std::move(values));
}

// Modelled time of a step in launches of that size, in us; nothing where the device prices none.
std::optional<double> step_device_us(const keel::ProgramInfo& program, int64_t loop_size);

inline constexpr int kRounds = 5;
// Works for about `seconds`; returns what it measured (a time, a rate).
using Turn = std::function<double(double seconds)>;
// All take turns, so that a machine that is slow for a while is slow for all of them; a round to
// warm up is not counted. `seconds` for each in all rounds together. By contestant: what its rounds
// measured.
std::vector<std::vector<double>> take_turns(const std::vector<Turn>& contestants, double seconds);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_BENCH_H
