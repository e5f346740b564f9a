// The lines that a training ends with, for people: how long it took, what it is worth, why it
// stopped.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_RESULT_LINES_H
#define KEEL_EXAMPLES_CLI_TRAIN_RESULT_LINES_H

#include "cli/model/task.h"
#include "cli/train/progress.h"
#include "cli/train/summary.h"

namespace keel_cli {

void print_result(const TrainFlags& flags, const TrainOutcome& outcome, const TrainTask& task,
                  Progress& progress);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_RESULT_LINES_H
