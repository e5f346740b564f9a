// Judge: measures a training while it goes on and tells of it: after each epoch, or every so many
// steps, on validation or test items; what the Trainer does about it stands in
// validation_options(). Keeps the history for the summary, and writes the file of --save-best. On
// the training thread; the session and the data must outlive it.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_JUDGE_H
#define KEEL_EXAMPLES_CLI_TRAIN_JUDGE_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/model/task.h"
#include "cli/train/judging_flags.h"

namespace keel_cli {

struct Judgement {
  int64_t step = 0;
  int64_t epoch = 0;                 // of the last step
  std::optional<double> epoch_loss;  // mean loss of that epoch's steps in this run until then
  int64_t epoch_steps = 0;           // how many those are
  Scores scores;
  bool best = false;
};

class Judge {
 public:
  struct Events {
    std::function<void(const Judgement&)> on_judgement;
    std::function<void()> save_best;
  };

  // `group`: the ranks that judge together, all of them at the same time.
  Judge(const JudgingFlags& flags, const Evaluation& evaluation, keel::Session& session,
        const TrainTask& task, const std::shared_ptr<keel::Group>& group, Events events);

  // `trainer` is the one that fits with them.
  keel::ValidationOptions validation_options(const keel::Trainer& trainer, int64_t steps_per_epoch);
  // The scores of the test items with the states as they are; measured anew where the last ones
  // were of another step.
  const Scores& test_scores();
  const std::vector<Judgement>& history() const noexcept { return history_; }
  int64_t top_k() const noexcept { return top_k_; }

  // "test accuracy 0.9123, top-5 0.9951, loss 0.3021".
  std::string describe(const Scores& scores) const;

  // Write into the metadata of a saved file what resuming needs to go on judging, and read it back.
  // Where the file was judged by something else, its best cannot be compared and is forgotten: then
  // resume_best returns which it was, in words, and else nothing.
  static void add_best(const JudgingFlags& flags, const std::optional<keel::ValidationBest>& best,
                       std::map<std::string, std::string>& metadata);
  std::string resume_best(const std::map<std::string, std::string>& metadata,
                          const std::string& path);

 private:
  double measure(const keel::Trainer& trainer, int64_t steps_per_epoch);

  const JudgingFlags& flags_;
  keel::Session& session_;
  Events events_;
  const TrainTask& task_;
  int64_t top_k_;
  Evaluation::Set test_;
  std::optional<Evaluation::Set> validation_;
  std::optional<Scores> test_scores_;
  int64_t tested_at_ = -1;
  std::vector<Judgement> history_;
  std::optional<keel::ValidationBest> best_before_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_JUDGE_H
