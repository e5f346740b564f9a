#include "cli/bench/trainee.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/base/run_flags.h"

namespace keel_cli {

using Clock = std::chrono::steady_clock;

Trainee::Trainee(const Workload& work, const keel::LabelledImages& images) : work_(work) {
  model_ = work.model->build(graph_, format_of(images));
  const keel::Update update = keel::sgd(0.01).minimize(model_.loss);
  session_.emplace(graph_, keel::device(work.backend),
                   keel::SessionOptions{.disabled_passes = work.disabled_passes,
                                        .precision = work.precision,
                                        .placement = work.placement,
                                        .threads = work.threads});
  feed_ = feed_training(keel::Dataset::from_images(images),
                        session_->spec({model_.image, model_.label}), {.batch = work.batch});
  trainer_.emplace(
      *session_,
      keel::SinkOptions{.update = update, .fetches = {model_.loss}, .source = feed_.feeder});
}

double Trainee::train(double seconds, int64_t loop_size) {
  session_->set_loop_size(loop_size);
  if (step_us_ == 0) fit(1);
  const double launches = seconds * 1e6 / step_us_ / static_cast<double>(loop_size);
  return fit(loop_size * std::max<int64_t>(1, std::llround(std::min(launches, 1e9))));
}

double Trainee::fit(int64_t steps) {
  const auto start = Clock::now();
  const keel::TrainReport report = trainer_->fit({.steps = steps});
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  const double done = static_cast<double>(report.steps);
  steps_ = report.steps;
  queue_wait_us_ = static_cast<double>(report.queue_wait_ns) * 1e-3 / done;
  step_us_ = std::max(1e-3, took.count() / done);
  return step_us_;
}

}  // namespace keel_cli
