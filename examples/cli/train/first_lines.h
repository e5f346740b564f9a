// The lines that a training begins with, for people: on what it trains, where, from what, and what
// of the data or of the last update it leaves out.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_FIRST_LINES_H
#define KEEL_EXAMPLES_CLI_TRAIN_FIRST_LINES_H

#include <cstdint>
#include <optional>

#include <keel/keel.h>

#include "cli/model/task.h"
#include "cli/train/notices.h"
#include "cli/train/progress.h"
#include "cli/train/summary.h"
#include "cli/train/train_options.h"

namespace keel_cli {

// Holds what the lines are about; all of it outlives the call.
struct StartOfTraining {
  const TrainFlags& flags;
  const TrainTask& task;
  const TrainOutcome& outcome;  // as far as it is known before the first step
  const keel::Session& session;
  const keel::Update& own_update;  // that the model brings
  const std::optional<keel::ImageAugmentation>& augmentation;
  int ranks = 1;
  int64_t items = 0;  // that are trained on
  int64_t steps = 0;
};

void print_first_lines(const StartOfTraining& start, Progress& progress, Notices& notices);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_FIRST_LINES_H
