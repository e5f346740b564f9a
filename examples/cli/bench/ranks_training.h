// Steps of trainings by `keel bench ranks`: on one rank with as many threads as there are ranks,
// and on all ranks with a thread each, in turns. One thread of each rank.
#ifndef KEEL_EXAMPLES_CLI_BENCH_RANKS_TRAINING_H
#define KEEL_EXAMPLES_CLI_BENCH_RANKS_TRAINING_H

#include <memory>
#include <string>
#include <vector>

#include <keel/core/base/json.h>
#include <keel/core/group/group.h>

#include "models/classifier.h"

namespace keel_cli {

struct RankTrainingFlags {
  std::vector<const keel_examples::Model*> models;
  std::string data, backend;
  double seconds = 0.3;  // for each row
};

// Returns a row for each model and number of ranks, and adds to `trainings` for each model what
// its modelled scaling follows from (`name`, `gradient_bytes`, `step_device_us`), where the backend
// has a device clock. All ranks call it; rank 0 prints.
keel::Json measure_rank_trainings(const std::shared_ptr<keel::Group>& group,
                                  const RankTrainingFlags& flags, keel::Json& trainings);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BENCH_RANKS_TRAINING_H
