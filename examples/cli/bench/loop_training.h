// LoopTraining: a training whose launches are measured: where the wall time of its steps goes, and
// how often host and device meet. It holds its own graph, session and feed; one thread at a time.
#ifndef KEEL_EXAMPLES_CLI_BENCH_LOOP_TRAINING_H
#define KEEL_EXAMPLES_CLI_BENCH_LOOP_TRAINING_H

#include <cstdint>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/bench/bench.h"
#include "cli/train/training_feed.h"
#include "models/classifier.h"

namespace keel_cli {

inline constexpr int kLoopRounds = 7;

// Where the wall time of a step goes, in us. busy + queue_wait + idle make up step; idle is what
// the device spends neither computing nor waiting for data: launch (from the host's call to the
// first task and from the last one back, with the host's own copies of the batch), host (between
// launches) and what is left, which is the device's wait for a place to put metrics. copy is the
// producer's, beside the step.
struct StepSplit {
  double step = 0, host = 0, launch = 0, copy = 0, queue_wait = 0, busy = 0, idle = 0;
};
// Adds the parts to a row of a suite's JSON: the medians of the rounds, and the spread of the
// whole.
void add_split(const std::vector<StepSplit>& rounds, keel::Json& entry);

// Counted by the device, its stream and the queue.
struct LoopCounts {
  int64_t steps = 0, launches = 0, round_trips = 0;
  keel::Transfers transfers;
};

struct LoopMeasurement {
  StepSplit split;
  LoopCounts counts;
};

struct LoopTrainingOptions {
  bool data_sink = true;
  bool cache = true;  // a small set is kept on the device
};

class LoopTraining {
 public:
  LoopTraining(const BenchFlags& flags, const keel::LabelledImages& images,
               const LoopTrainingOptions& options);

  // So many steps by the Trainer, in launches of `size`.
  LoopMeasurement fit(int64_t steps, int64_t size);
  // So many calls of the loop, of `size` steps each.
  LoopMeasurement call(int64_t calls, int64_t size);

  const std::string& feed() const noexcept { return feed_.kind; }
  const keel::Device& device() const { return session_->device(); }
  const keel::Program& program() const { return trainer_->program(); }

 private:
  keel::Graph graph_;
  keel_examples::Classifier model_;
  std::optional<keel::Session> session_;
  TrainingFeed feed_;
  std::optional<keel::Trainer> trainer_;
  std::optional<keel::Loop> loop_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_LOOP_TRAINING_H
