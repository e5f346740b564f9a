// The summary of a training: one JSON object about the run, what `--summary` writes.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_SUMMARY_H
#define KEEL_EXAMPLES_CLI_TRAIN_SUMMARY_H

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <keel/core/base/json.h>
#include <keel/keel.h>

#include "cli/model/saved_model.h"
#include "cli/train/judge.h"
#include "cli/train/rank_reports.h"
#include "cli/train/train_options.h"

namespace keel_cli {

// Holds what a training came to.
struct TrainOutcome {
  std::string data;  // where the images came from
  std::string feed;
  bool data_sink = true;    // else the host fed each step
  int64_t total_steps = 0;  // that were asked for, with those before a resumed file
  keel::TrainReport report;
  double loss = std::numeric_limits<double>::quiet_NaN();  // of the last step
  std::optional<StepScale> scale;                          // likewise, where the loss is scaled
  std::optional<Scores> test;                              // with the states at the end
  int64_t top_k = 0;
  std::vector<Judgement> history;
  std::optional<LoadedWeights> init;             // what --init found
  std::optional<int64_t> first_non_finite_step;  // whose loss was NaN or infinite
  std::optional<std::string> non_finite_state;   // at the end
  std::optional<int64_t> step_device_ns;
  // These two are of the fast phase of an accelerated training.
  std::string fast_precision;
  std::optional<int64_t> fast_step_device_ns;
  std::string modelled_device;    // whose time that is
  RankReports ranks;              // empty: it trained alone
  std::string rank_transport;     // of several ranks: Group::transport()
  std::string why_not_bit_equal;  // on other numbers of ranks; empty: it is
  std::vector<std::string> errors, warnings;

  // Wall time of a step, and images a second; 0 without a step.
  double step_us() const;
  double images_per_second(int64_t batch) const;
  // Says what bounded the training (feeding_doctor.h).
  std::string feeding() const;
};

// Returns the flags that decide what a training of the graph for that many steps computes, as
// summaries and saved files have them, and the dtypes of the states that it trains.
keel::Json run_configuration(const TrainFlags& flags, const keel::Graph& graph,
                             int64_t total_steps);

// Writes it to the file of --summary, atomically.
void write_summary(const TrainFlags& flags, const TrainOutcome& outcome, keel::Trainer& trainer);

// Adds how many copies between host and device there were, and of how many bytes.
void add_transfers(const keel::Transfers& transfers, keel::Json& entry);

// In force at the end, once there was a step.
int64_t loop_size_of(const TrainFlags& flags, const keel::TrainReport& report);
// The host instructions that the device computes with; results are bit-equal on the same ones.
std::string isa_of(const keel::Device& device);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_SUMMARY_H
