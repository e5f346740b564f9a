#include <iostream>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <keel/core/base/printable.h>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/bench/loop_timelines.h"
#include "cli/bench/loop_training.h"

namespace keel_cli {
namespace {

struct LoopRow {
  int64_t size = 1;
  int64_t steps = 0;  // of a round
  int64_t launches = 0;
  int64_t synchronisations = 0;
  std::vector<StepSplit> rounds;
};

class LoopBench {
 public:
  LoopBench(const BenchFlags& flags, const std::vector<int64_t>& sizes)
      : flags_(flags), data_(load_data(flags.data)), training_(flags, data_.train, {}) {
    for (const int64_t size : sizes) rows_.push_back({.size = size});
  }

  keel::Json run() {
    const double step_us = warm_up();
    for (LoopRow& row : rows_) {
      const double wanted = flags_.seconds * 1e6 / kLoopRounds / step_us;
      row.launches = std::max<int64_t>(1, std::llround(wanted / static_cast<double>(row.size)));
      row.steps = row.launches * row.size;
    }
    for (int round = 0; round < kLoopRounds; ++round) {
      for (LoopRow& row : rows_) row.rounds.push_back(measure(row));
    }
    print();
    keel::Json json = as_json();
    json["timelines"] = measure_timelines(flags_, data_.train);
    print_timelines(json["timelines"]);
    print_clock();
    return json;
  }

 private:
  // Brings caches, threads and the queue into their state; the time of a step in long launches.
  double warm_up() {
    LoopRow row{.size = 50};
    row.steps = 200;
    measure(row);
    return std::max(0.1, measure(row).step);
  }

  StepSplit measure(LoopRow& row) {
    const LoopMeasurement measured = training_.fit(row.steps, row.size);
    row.launches = measured.counts.launches;
    row.synchronisations = measured.counts.round_trips;
    return measured.split;
  }

  static double middle(const LoopRow& row, double StepSplit::*part) {
    return spread_of(row.rounds, part).median;
  }
  static double spread(const LoopRow& row) { return spread_of(row.rounds, &StepSplit::step).share; }

  std::optional<double> device_us(int64_t size) const {
    return step_device_us(training_.program().info(), size);
  }

  void print() const {
    std::cout << fmt::format(
        "{} on {}, {} images a step, {} thread{}, feed: {}\n"
        "wall time of a step in us, medians of {} rounds; step = busy + queue wait + idle, idle = "
        "launch + host + wait for metrics, copy runs beside\n",
        flags_.model->name, training_.device().name(), flags_.batch, flags_.threads,
        flags_.threads == 1 ? "" : "s", training_.feed(), kLoopRounds);
    const bool modelled = device_us(1).has_value();
    std::cout << fmt::format("{:>6} {:>9} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
                             "size", "step", "+-%", "busy", "wait", "idle", "launch", "host",
                             "copy", "launches", "syncs");
    if (modelled) std::cout << fmt::format("  {:>16}", "device clock us");
    std::cout << "\n";
    for (const LoopRow& row : rows_) {
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
  }

  void print_clock() const {
    if (!device_us(1)) return;
    std::cout << "device clock: what the modelled "
              << keel::printable(training_.program().info().modelled_device)
              << " would take; not to be compared with the wall times\n";
  }

  keel::Json as_json() const {
    keel::Json json;
    json["model"] = flags_.model->name;
    json["backend"] = flags_.backend;
    json["data"] = data_.origin;
    json["feed"] = training_.feed();
    json["batch"] = flags_.batch;
    json["threads"] = flags_.threads;
    json["rounds"] = kLoopRounds;
    if (device_us(1)) json["npu_preset"] = training_.program().info().modelled_device;
    for (const LoopRow& row : rows_) {
      keel::Json entry;
      entry["loop_size"] = row.size;
      entry["steps"] = row.steps;
      entry["launches"] = row.launches;
      entry["synchronisations"] = row.synchronisations;
      add_split(row.rounds, entry);
      if (const auto us = device_us(row.size)) entry["step_device_us"] = *us;  // device clock
      json["sizes"].push_back(entry);
    }
    return json;
  }

  const BenchFlags& flags_;
  keel::LabelledSplits data_;
  LoopTraining training_;
  std::vector<LoopRow> rows_;
};

void declare_loop_suite(CommandLine& line) {
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
  return {"loop", "what a step costs by loop size, and where its time goes", declare_loop_suite,
          measure_loop};
}

}  // namespace keel_cli
