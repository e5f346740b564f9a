// Ranks that train together make sure of this: that they are about to train the same, from the same
// states, and that they know of one another's end. All ranks of a group make the same calls, on the
// training thread.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_SAME_TRAINING_H
#define KEEL_EXAMPLES_CLI_TRAIN_SAME_TRAINING_H

#include <cstdint>
#include <string>

#include <keel/core/group/group.h>
#include <keel/keel.h>

#include "cli/train/train_options.h"

namespace keel_cli {

struct PlannedTraining {
  const keel::Graph& graph;  // with the update
  const keel::Device& device;
  int64_t items = 0;  // that are trained on
  const std::string& data_sha256;
  const std::string& test_sha256;
  int64_t steps = 0;
};

// Throws keel::RankLost where the ranks' plans differ, with both sides of what does.
void require_same_training(keel::Group& group, const TrainFlags& flags,
                           const PlannedTraining& plan);

// Replaces the states of all ranks by those of rank 0, and sees that they are equal then.
void take_states_of_first_rank(keel::Group& group, keel::Session& session);

// Returns whether this rank, or another one, says so. Without a group it is this rank's word.
bool on_any_rank(keel::Group* group, bool own);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_SAME_TRAINING_H
