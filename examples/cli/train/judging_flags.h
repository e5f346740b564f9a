// How `keel train` judges a training while it goes on: on which items, how often, by what, and
// what follows from it. Plain value.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_JUDGING_FLAGS_H
#define KEEL_EXAMPLES_CLI_TRAIN_JUDGING_FLAGS_H

#include <cstdint>
#include <optional>
#include <string>

#include "cli/base/command_line.h"
#include "cli/model/evaluation.h"
#include "cli/model/task.h"

namespace keel_cli {

struct JudgingFlags {
  int64_t validation = 0;     // training items kept aside for it; 0: those of the test are used
  int64_t every_n_steps = 0;  // 0: at the end of each epoch
  std::string metric = "accuracy";
  int64_t top_k = kUsualTopK;
  int64_t patience = 0;
  double min_gain = 0;
  std::optional<double> target;
  bool keep_best = false;
  std::string save_best;  // empty: not written

  bool larger_is_better() const { return metric != "loss"; }
  // Says whether the training goes by its judgement, and not only tells of it.
  bool decides() const { return patience > 0 || target || keep_best || !save_best.empty(); }
  double of(const Scores& scores) const;
};

void declare_judging_flags(CommandLine& line);
// Throws keel::Error for flags that are wrong, or that make no sense for such a task.
JudgingFlags read_judging_flags(const CommandLine& line, const TaskKind& task);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_JUDGING_FLAGS_H
