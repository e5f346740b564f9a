#include <chrono>
#include <iostream>
#include <optional>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/train/training_feed.h"

namespace keel_cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLoopRounds = 7;

// Where the wall time of a step goes, in us. busy + queue_wait + idle make up step; idle is what
// the device spends neither computing nor waiting for data: launch (from the host's call to the
// first task and from the last one back) and host (between launches, in the Trainer). copy is the
// producer's, beside the step.
struct StepSplit {
  double step = 0, host = 0, launch = 0, copy = 0, queue_wait = 0, busy = 0, idle = 0;
};

struct Row {
  int64_t size = 1;
  int64_t steps = 0;  // of a round
  int64_t launches = 0;
  int64_t synchronisations = 0;
  std::vector<StepSplit> rounds;
};

class LoopBench {
 public:
  LoopBench(const BenchFlags& flags, const std::vector<int64_t>& sizes) : flags_(flags) {
    data_ = load_data(flags.data);
    model_ = flags.model->build(graph_, format_of(data_.train));
    const keel::Update update = keel::sgd(0.01).minimize(model_.loss);
    session_.emplace(
        graph_, keel::device(flags.backend + ":0"),
        keel::SessionOptions{.disabled_passes = flags.disabled_passes, .threads = flags.threads});
    feed_ = feed_training(keel::Dataset::from_images(data_.train),
                          session_->spec({model_.image, model_.label}), {.batch = flags.batch});
    trainer_.emplace(
        *session_,
        keel::SinkOptions{.update = update, .fetches = {model_.loss}, .source = feed_.feeder});
    for (const int64_t size : sizes) rows_.push_back({.size = size});
  }

  keel::Json run() {
    const double step_us = warm_up();
    for (Row& row : rows_) {
      const double wanted = flags_.seconds * 1e6 / kLoopRounds / step_us;
      row.launches = std::max<int64_t>(1, std::llround(wanted / static_cast<double>(row.size)));
      row.steps = row.launches * row.size;
    }
    for (int round = 0; round < kLoopRounds; ++round) {
      for (Row& row : rows_) row.rounds.push_back(measure(row));
    }
    print();
    return as_json();
  }

 private:
  // Brings caches, threads and the queue into their state; the time of a step in long launches.
  double warm_up() {
    Row row{.size = 50};
    row.steps = 200;
    measure(row);
    return std::max(0.1, measure(row).step);
  }

  StepSplit measure(Row& row) {
    session_->set_loop_size(row.size);
    const keel::QueueCounters before = feed_.feeder->queue()->counters();
    const auto start = Clock::now();
    const keel::TrainReport report = trainer_->fit({.steps = row.steps});
    const double wall_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    const keel::QueueCounters after = feed_.feeder->queue()->counters();
    row.launches = report.launches;
    row.synchronisations = report.host_syncs;
    const double to_us = 1e-3 / static_cast<double>(report.steps);
    const auto spent = [&](int64_t ns) { return static_cast<double>(ns) * to_us; };
    StepSplit split;
    split.step = wall_ns * to_us;
    split.queue_wait = spent(report.queue_wait_ns);
    split.busy = spent(report.busy_ns - report.queue_wait_ns - report.metrics_wait_ns);
    split.launch = report.seconds * 1e9 * to_us - spent(report.busy_ns);
    split.host = (wall_ns - report.seconds * 1e9) * to_us;
    split.idle = split.step - split.busy - split.queue_wait;
    split.copy = spent(after.copy_ns - before.copy_ns);
    return split;
  }

  static double middle(const Row& row, double StepSplit::*part) {
    return spread_of(row.rounds, part).median;
  }
  static double spread(const Row& row) { return spread_of(row.rounds, &StepSplit::step).share; }

  std::optional<double> device_us(int64_t size) const {
    return step_device_us(trainer_->program().info(), size);
  }

  void print() const {
    std::cout << fmt::format(
        "{} on {}:0, {} images a step, {} thread{}, feed: {}\n"
        "wall time of a step in us, medians of {} rounds; step = busy + queue wait + idle, idle = "
        "launch + host, copy runs beside\n",
        flags_.model->name, flags_.backend, flags_.batch, flags_.threads,
        flags_.threads == 1 ? "" : "s", feed_.kind, kLoopRounds);
    const bool modelled = device_us(1).has_value();
    std::cout << fmt::format("{:>6} {:>9} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
                             "size", "step", "+-%", "busy", "wait", "idle", "launch", "host",
                             "copy", "launches", "syncs");
    if (modelled) std::cout << fmt::format("  {:>16}", "device clock us");
    std::cout << "\n";
    for (const Row& row : rows_) {
      std::cout << fmt::format(
          "{:>6} {:>9.2f} {:>5.1f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9} "
          "{:>6}",
          row.size, middle(row, &StepSplit::step), spread(row) * 100, middle(row, &StepSplit::busy),
          middle(row, &StepSplit::queue_wait), middle(row, &StepSplit::idle),
          middle(row, &StepSplit::launch), middle(row, &StepSplit::host),
          middle(row, &StepSplit::copy), row.launches, row.synchronisations);
      if (modelled) std::cout << fmt::format("  {:>16.2f}", *device_us(row.size));
      std::cout << "\n";
    }
    if (modelled) {
      std::cout << "device clock: what the modelled "
                << keel::printable(trainer_->program().info().modelled_device)
                << " would take; not to be compared with the wall times\n";
    }
  }

  keel::Json as_json() const {
    keel::Json json;
    json["model"] = flags_.model->name;
    json["backend"] = flags_.backend;
    json["data"] = data_.origin;
    json["feed"] = feed_.kind;
    json["batch"] = flags_.batch;
    json["threads"] = flags_.threads;
    json["rounds"] = kLoopRounds;
    if (device_us(1)) json["npu_preset"] = trainer_->program().info().modelled_device;
    for (const Row& row : rows_) {
      keel::Json entry;
      entry["loop_size"] = row.size;
      entry["steps"] = row.steps;
      entry["launches"] = row.launches;
      entry["synchronisations"] = row.synchronisations;
      entry["step_us"] = middle(row, &StepSplit::step);
      entry["step_spread"] = spread(row);
      entry["host_us"] = middle(row, &StepSplit::host);
      entry["launch_us"] = middle(row, &StepSplit::launch);
      entry["copy_us"] = middle(row, &StepSplit::copy);
      entry["queue_wait_us"] = middle(row, &StepSplit::queue_wait);
      entry["busy_us"] = middle(row, &StepSplit::busy);
      entry["idle_us"] = middle(row, &StepSplit::idle);
      if (const auto us = device_us(row.size)) entry["step_device_us"] = *us;  // device clock
      json["sizes"].push_back(entry);
    }
    return json;
  }

  const BenchFlags& flags_;
  keel::LabelledSplits data_;
  keel::Graph graph_;
  keel_examples::Classifier model_;
  std::optional<keel::Session> session_;
  TrainingFeed feed_;
  std::optional<keel::Trainer> trainer_;
  std::vector<Row> rows_;
};

void declare(CommandLine& line) {
  declare_bench_flags(line);
  line.add("sizes", "N,N,...", "loop sizes (1,2,5,10,50,100,600)");
}

keel::Json measure_loop(const CommandLine& line) {
  const BenchFlags flags = read_bench_flags(line);
  const auto sizes = line.integers("sizes", 1, int64_t{1} << 30, {1, 2, 5, 10, 50, 100, 600});
  return LoopBench(flags, sizes).run();
}

}  // namespace

Suite loop_suite() {
  return {"loop", "what a step costs by loop size, and where its time goes", declare, measure_loop};
}

}  // namespace keel_cli
