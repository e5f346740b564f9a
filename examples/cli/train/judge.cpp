#include "cli/train/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/core.h>

namespace keel_cli {
namespace {

constexpr const char* kMetric = "best_metric";
constexpr const char* kValue = "best_value";
constexpr const char* kStep = "best_step";
constexpr const char* kSince = "best_since";
constexpr const char* kLast = "last_value";

// Names what the best is the best of: the measure, and the data.
std::string judged_by(const JudgingFlags& flags) {
  return fmt::format("{} {}",
                     flags.validation > 0 ? fmt::format("validation {}", flags.validation) : "test",
                     flags.metric == "top-k" ? fmt::format("top-{}", flags.top_k) : flags.metric);
}

// One for both sets.
int64_t batch_for(const JudgingFlags& flags, const TrainTask& task) {
  return evaluation_batch(std::max(task.test_items().size().value(), flags.validation));
}

}  // namespace

Judge::Judge(const JudgingFlags& flags, const Evaluation& evaluation, keel::Session& session,
             const TrainTask& task, const std::shared_ptr<keel::Group>& group, Events events)
    : flags_(flags),
      session_(session),
      events_(std::move(events)),
      task_(task),
      top_k_(evaluation.top_k()),
      test_(evaluation.on(session, task.test_items(), batch_for(flags, task), group)) {
  if (flags.validation == 0) return;
  const auto parts = task.training_items().split(flags.validation);
  validation_ = evaluation.on(session, parts.second, batch_for(flags, task), group);
}

keel::ValidationOptions Judge::validation_options(const keel::Trainer& trainer,
                                                  int64_t steps_per_epoch) {
  keel::ValidationOptions options{.every_n_steps = flags_.every_n_steps,
                                  .larger_is_better = flags_.larger_is_better(),
                                  .min_gain = flags_.min_gain,
                                  .patience = flags_.patience,
                                  .target = flags_.target,
                                  .keep_best = flags_.keep_best,
                                  .best_before = best_before_};
  options.measure = [this, &trainer, steps_per_epoch] { return measure(trainer, steps_per_epoch); };
  options.on_result = [this](const keel::ValidationResult& result) {
    history_.back().best = result.best;
    events_.on_judgement(history_.back());
    if (result.best) events_.save_best();
  };
  return options;
}

double Judge::measure(const keel::Trainer& trainer, int64_t steps_per_epoch) {
  Judgement judgement{.step = session_.step()};
  judgement.epoch = (judgement.step - 1) / steps_per_epoch + 1;
  if (const keel::TrainReport* report = trainer.running_report();
      report != nullptr && !report->epoch_means.empty()) {
    judgement.epoch_loss = report->epoch_means.back().means.at(0);
    judgement.epoch_steps = report->epoch_means.back().steps;
  }
  judgement.scores = validation_ ? validation_->scores() : test_scores();
  history_.push_back(judgement);
  return flags_.of(judgement.scores);
}

const Scores& Judge::test_scores() {
  if (tested_at_ != session_.step()) {
    test_scores_ = test_.scores();
    tested_at_ = session_.step();
  }
  return *test_scores_;
}

std::string Judge::describe(const Scores& scores) const {
  return (validation_ ? "validation" : task_.test_name()) + " " + task_.describe(scores, top_k_);
}

void Judge::add_best(const JudgingFlags& flags, const std::optional<keel::ValidationBest>& best,
                     std::map<std::string, std::string>& metadata) {
  if (!best || !std::isfinite(best->value)) return;
  metadata[kMetric] = judged_by(flags);
  metadata[kValue] = fmt::format("{}", best->value);
  metadata[kStep] = std::to_string(best->step);
  metadata[kSince] = std::to_string(best->since);
  if (best->last && std::isfinite(*best->last)) metadata[kLast] = fmt::format("{}", *best->last);
}

std::string Judge::resume_best(const std::map<std::string, std::string>& metadata,
                               const std::string& path) {
  const auto metric = metadata.find(kMetric);
  if (metric == metadata.end()) return "";
  const auto text = [&](const char* name) {
    const auto found = metadata.find(name);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (metric->second != judged_by(flags_)) {
    return fmt::format("step {}, {} {}, and this training goes by {}", text(kStep), metric->second,
                       text(kValue), judged_by(flags_));
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  keel::parse_in_file("--resume: " + path, [&] {
    best_before_ = {.value = keel::parse_number(text(kValue), kValue),
                    .step = keel::parse_integer(text(kStep), kStep, 0, kMost),
                    .since = keel::parse_integer(text(kSince), kSince, 0, kMost)};
    // Older files lack it.
    if (metadata.contains(kLast)) best_before_->last = keel::parse_number(text(kLast), kLast);
    return 0;
  });
  return "";
}

}  // namespace keel_cli
