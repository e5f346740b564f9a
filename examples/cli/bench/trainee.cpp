#include "cli/bench/trainee.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <keel/core/group/group_agreement.h>
#include <keel/ops/nn/data_parallel.h>

#include "cli/base/run_flags.h"
#include "cli/train/training_update.h"

namespace keel_cli {

namespace {

using Clock = std::chrono::steady_clock;

keel::BatchShare share_of(const std::shared_ptr<keel::Group>& group) {
  if (group == nullptr) return {};
  return {.count = group->size(), .index = group->rank()};
}

}  // namespace

Trainee::Trainee(const Workload& work, const keel::LabelledImages& images) : work_(work) {
  model_ = work.model->build(graph_, format_of(images));
  // Its loss is the one that ranks sum: a rank's own would be computed beside it.
  const TrainingUpdate update =
      make_update(model_.loss, keel::DataParallel(work.group), "sgd", 0.01, {}, {.steps = 1});
  session_.emplace(graph_, keel::device(work.backend),
                   keel::SessionOptions{.disabled_passes = work.disabled_passes,
                                        .precision = work.precision,
                                        .placement = work.placement,
                                        .threads = work.threads});
  feed_ = feed_training(keel::Dataset::from_images(images),
                        session_->spec({model_.image, model_.label}),
                        {.batch = work.batch, .share = share_of(work.group)});
  trainer_.emplace(*session_,
                   keel::SinkOptions{
                       .update = update.update,
                       .fetches = {update.loss},
                       .source = feed_.feeder,
                       .agreement = work.group ? keel::make_group_agreement(work.group) : nullptr});
}

double Trainee::train(double seconds, int64_t loop_size) {
  session_->set_loop_size(loop_size);
  if (step_us_ == 0) fit(1);
  const double fitting = seconds * 1e6 / step_us_ / static_cast<double>(loop_size);
  int64_t launches = std::max<int64_t>(1, std::llround(std::min(fitting, 1e9)));
  if (work_.group) work_.group->broadcast(&launches, sizeof launches, 0);
  return fit(loop_size * launches);
}

int64_t Trainee::gradient_bytes() const {
  int64_t bytes = 0;
  for (const keel::Value& state : keel::trainable_states(model_.loss))
    bytes += static_cast<int64_t>(state.shape().num_bytes(state.dtype()));
  return bytes;
}

double Trainee::fit(int64_t steps) {
  const auto start = Clock::now();
  const keel::TrainReport report = trainer_->fit({.steps = steps});
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  const double done = static_cast<double>(report.steps);
  steps_ = report.steps;
  queue_wait_us_ = static_cast<double>(report.queue_wait_ns) * 1e-3 / done;
  step_us_ = std::max(1e-3, took.count() / done);
  seconds_ += took.count() * 1e-6;
  return step_us_;
}

}  // namespace keel_cli
