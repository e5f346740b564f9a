// Trainee: a training in this process that goes on whenever it is its turn, alone or as a rank of a
// group. It holds its own graph, session and feed; one thread at a time, and one trainee at a time.
#ifndef KEEL_EXAMPLES_CLI_BENCH_TRAINEE_H
#define KEEL_EXAMPLES_CLI_BENCH_TRAINEE_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <keel/core/group/group.h>
#include <keel/keel.h>

#include "cli/train/training_feed.h"
#include "models/classifier.h"

namespace keel_cli {

// The training that is measured, but for its loop size, which any training can change.
struct Workload {
  const keel_examples::Model* model = nullptr;
  std::string backend, precision;
  int threads = 1;
  int64_t batch = 1;  // of this rank
  std::vector<std::string> disabled_passes = {};
  keel::PlacementPolicy placement = keel::PlacementPolicy::kFull;
  std::shared_ptr<keel::Group> group = nullptr;  // whose ranks train it together
};

class Trainee {
 public:
  Trainee(const Workload& work, const keel::LabelledImages& images);

  // Trains for about so long in launches of `loop_size`; the wall time of a step in us. Ranks train
  // for as many steps as rank 0.
  double train(double seconds, int64_t loop_size);

  const Workload& work() const noexcept { return work_; }
  const std::string& feed() const noexcept { return feed_.kind; }
  // Belongs to the last train().
  int64_t steps() const noexcept { return steps_; }
  double queue_wait_us() const noexcept { return queue_wait_us_; }
  // Belongs to all train() together.
  double seconds() const noexcept { return seconds_; }
  // Returns the bytes of the gradients of the states that are trained.
  int64_t gradient_bytes() const;
  const keel::ProgramInfo& program() const { return trainer_->program().info(); }

 private:
  double fit(int64_t steps);

  const Workload work_;
  keel::Graph graph_;
  keel_examples::Classifier model_;
  std::optional<keel::Session> session_;
  TrainingFeed feed_;
  std::optional<keel::Trainer> trainer_;
  double step_us_ = 0;
  double queue_wait_us_ = 0;
  double seconds_ = 0;
  int64_t steps_ = 0;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_TRAINEE_H
