#include "cli/bench/loop_training.h"

#include <chrono>

#include <keel/core/base/json.h>
#include <keel/core/base/ns_since.h>
#include <nlohmann/json.hpp>

namespace keel_cli {
namespace {

using Clock = std::chrono::steady_clock;

// The time that launches took, in ns, and its parts.
struct Spent {
  double launches = 0;
  int64_t busy = 0, queue_wait = 0, metrics_wait = 0;
};

// A device that is driven step by step waits for no data: the host does, before the launch.
StepSplit split_of(const Spent& spent, double wall_ns, int64_t copy_ns, int64_t steps,
                   keel::LoopKind kind) {
  const double to_us = 1e-3 / static_cast<double>(steps);
  const auto waits = static_cast<double>(spent.queue_wait + spent.metrics_wait);
  const double busy = static_cast<double>(spent.busy) - (kind == keel::LoopKind::kHost ? 0 : waits);
  StepSplit split;
  split.step = wall_ns * to_us;
  split.queue_wait = static_cast<double>(spent.queue_wait) * to_us;
  split.busy = busy * to_us;
  split.launch = (spent.launches - busy - waits) * to_us;
  split.host = (wall_ns - spent.launches) * to_us;
  split.idle = split.step - split.busy - split.queue_wait;
  split.copy = static_cast<double>(copy_ns) * to_us;
  return split;
}

}  // namespace

void add_split(const std::vector<StepSplit>& rounds, keel::Json& entry) {
  const auto middle = [&](double StepSplit::*part) { return spread_of(rounds, part).median; };
  entry["step_us"] = middle(&StepSplit::step);
  entry["step_spread"] = spread_of(rounds, &StepSplit::step).share;
  entry["host_us"] = middle(&StepSplit::host);
  entry["launch_us"] = middle(&StepSplit::launch);
  entry["copy_us"] = middle(&StepSplit::copy);
  entry["queue_wait_us"] = middle(&StepSplit::queue_wait);
  entry["busy_us"] = middle(&StepSplit::busy);
  entry["idle_us"] = middle(&StepSplit::idle);
}

LoopTraining::LoopTraining(const BenchFlags& flags, const keel::LabelledImages& images,
                           const LoopTrainingOptions& options) {
  model_ = flags.model->build(graph_, format_of(images));
  const keel::Update update = keel::sgd(0.01).minimize(model_.loss);
  session_.emplace(graph_, keel::device(flags.backend),
                   keel::SessionOptions{.disabled_passes = flags.disabled_passes,
                                        .threads = flags.threads,
                                        .data_sink = options.data_sink});
  feed_ = feed_training(keel::Dataset::from_images(images),
                        session_->spec({model_.image, model_.label}),
                        {.batch = flags.batch, .cache = options.cache});
  const keel::SinkOptions step{.update = update, .fetches = {model_.loss}, .source = feed_.feeder};
  trainer_.emplace(*session_, step);
  loop_.emplace(session_->sink(step));
}

LoopMeasurement LoopTraining::fit(int64_t steps, int64_t size) {
  session_->set_loop_size(size);
  const int64_t copied = feed_.feeder->queue()->counters().copy_ns;
  const auto start = Clock::now();
  const keel::TrainReport report = trainer_->fit({.steps = steps});
  const auto wall_ns = static_cast<double>(keel::ns_since(start));
  const int64_t copy_ns = feed_.feeder->queue()->counters().copy_ns - copied;
  const Spent spent{report.seconds * 1e9, report.busy_ns, report.queue_wait_ns,
                    report.metrics_wait_ns};
  return {split_of(spent, wall_ns, copy_ns, report.steps, trainer_->loop().kind()),
          {report.steps, report.launches, report.host_syncs, report.transfers}};
}

LoopMeasurement LoopTraining::call(int64_t calls, int64_t size) {
  const int64_t copied = feed_.feeder->queue()->counters().copy_ns;
  Spent spent;
  LoopCounts counts;
  const auto start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) {
    const keel::LoopReport report = loop_->run(size);
    spent.launches += static_cast<double>(report.wall_ns);
    spent.busy += report.busy_ns;
    spent.queue_wait += report.queue_wait_ns;
    spent.metrics_wait += report.metrics_wait_ns;
    counts.steps += report.steps;
    counts.launches += report.launches;
    counts.round_trips += report.host_syncs;
    counts.transfers += report.transfers;
  }
  const auto wall_ns = static_cast<double>(keel::ns_since(start));
  const int64_t copy_ns = feed_.feeder->queue()->counters().copy_ns - copied;
  return {split_of(spent, wall_ns, copy_ns, counts.steps, loop_->kind()), counts};
}

}  // namespace keel_cli
