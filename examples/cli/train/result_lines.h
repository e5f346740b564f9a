// The lines that a training ends with, for people: how long it took, what it is worth, why it
// stopped.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_RESULT_LINES_H
#define KEEL_EXAMPLES_CLI_TRAIN_RESULT_LINES_H

#include "cli/model/task.h"
#include "cli/train/notices.h"
#include "cli/train/progress.h"
#include "cli/train/summary.h"

namespace keel_cli {

void print_result(const TrainFlags& flags, const TrainOutcome& outcome, const TrainTask& task,
                  Progress& progress);
// Warns of a training that has skipped all its updates: its weights are those it began with.
void warn_if_all_were_skipped(const TrainFlags& flags, const TrainOutcome& outcome,
                              Notices& notices);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_RESULT_LINES_H
