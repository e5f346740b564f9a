#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include <fmt/core.h>
#include <keel/core/base/printable.h>
#include <nlohmann/json.hpp>

#include "cli/base/pass_flags.h"
#include "cli/bench/bench.h"
#include "cli/bench/trainee.h"
#include "cli/bench/training_process.h"

namespace keel_cli {
namespace {

constexpr int64_t kMostBatch = 1 << 20;

struct TrainSuiteFlags {
  std::vector<const keel_examples::Model*> models;
  std::vector<std::string> backends, precisions;
  keel::PlacementPolicy placement = keel::PlacementPolicy::kFull;
  std::vector<int64_t> threads, batches, loop_sizes;  // no batches: each model's usual one
  std::string data;
  double seconds = 1;
  std::vector<std::string> disabled_passes;
};

struct TrainRow {
  Workload work;
  int64_t loop_size = 1;
  int64_t steps = 0;                           // of a round
  std::vector<double> step_us, queue_wait_us;  // by round
  Spread step;
};

keel::Json names_of(const Workload& work) {
  keel::Json json;
  json["model"] = work.model->name;
  json["backend"] = work.backend;
  json["precision"] = work.precision;
  json["threads"] = work.threads;
  json["batch"] = work.batch;
  return json;
}

class TrainBench {
 public:
  explicit TrainBench(const TrainSuiteFlags& flags) : flags_(flags) {
    data_ = load_data(flags.data);
    for (const keel_examples::Model* model : flags.models) {
      for (const int64_t batch : batches_of(*model)) require_images(batch);
    }
    json_["data"] = data_.origin;
    json_["rounds"] = kRounds;
    json_["seconds"] = flags.seconds;
    for (const char* table : {"rows", "speed_ups", "processes", "modelled"})
      json_[table] = keel::Json::array();
  }

  keel::Json run() {
    std::cout << fmt::format(
        "training on {}, medians of {} rounds in turns\nwall time: shuffle, feeding and "
        "normalisation included; rss: most memory of a training in a process of its own\n"
        "{:<11} {:<8} {:<11} {:>7} {:>6} {:>6} {:>11} {:>6} {:>11} {:>9} {:>9} {:>8}\n",
        keel::printable(data_.origin), kRounds, "model", "backend", "precision", "threads", "batch",
        "size", "step us", "+-%", "images/s", "wait us", "speed-up", "rss MiB");
    for (const keel_examples::Model* model : flags_.models) {
      for (const int64_t batch : batches_of(*model)) contest(*model, batch);
    }
    print_modelled();
    return std::move(json_);
  }

 private:
  std::vector<int64_t> batches_of(const keel_examples::Model& model) const {
    return flags_.batches.empty() ? std::vector<int64_t>{usual_batch(model)} : flags_.batches;
  }

  // Trainees that do the same work take turns.
  void contest(const keel_examples::Model& model, int64_t batch) {
    std::vector<std::unique_ptr<Trainee>> trainees;
    for (const std::string& backend : flags_.backends) {
      for (const std::string& precision : flags_.precisions) {
        for (const int64_t threads : flags_.threads) {
          const Workload work{.model = &model,
                              .backend = backend,
                              .precision = precision,
                              .threads = static_cast<int>(threads),
                              .batch = batch,
                              .disabled_passes = flags_.disabled_passes,
                              .placement = flags_.placement};
          trainees.push_back(std::make_unique<Trainee>(work, data_.train));
        }
      }
    }
    std::vector<TrainRow> rows;
    for (const auto& trainee : trainees) {
      for (const int64_t size : flags_.loop_sizes) rows.push_back({trainee->work(), size});
    }
    std::vector<Turn> turns;
    for (size_t i = 0; i < rows.size(); ++i) {
      turns.push_back([&, i](double seconds) {
        Trainee& trainee = *trainees[i / flags_.loop_sizes.size()];
        const double us = trainee.train(seconds, rows[i].loop_size);
        rows[i].steps = trainee.steps();
        rows[i].queue_wait_us.push_back(trainee.queue_wait_us());
        return us;
      });
    }
    const auto measured = take_turns(turns, flags_.seconds);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].step_us = measured[i];
      rows[i].step = spread_of(measured[i]);
      rows[i].queue_wait_us.erase(rows[i].queue_wait_us.begin());  // the warm-up's
    }
    add_modelled(trainees);
    const std::string feed = trainees.front()->feed();
    trainees.clear();
    for (const TrainRow& row : rows) add(row, rows, feed);
  }

  void require_images(int64_t batch) const {
    if (batch <= data_.train.count()) return;
    throw keel::Error(
        {.op = "--batches",
         .expected = "at most the " + std::to_string(data_.train.count()) + " training images",
         .got = std::to_string(batch)});
  }

  // How many times as fast as the same with one thread, by round; nothing where that is not here.
  static std::optional<Spread> speed_up(const TrainRow& row, const std::vector<TrainRow>& rows) {
    if (row.work.threads == 1) return std::nullopt;
    const auto one = std::find_if(rows.begin(), rows.end(), [&](const TrainRow& other) {
      return other.work.threads == 1 && other.work.backend == row.work.backend &&
             other.work.precision == row.work.precision && other.loop_size == row.loop_size;
    });
    if (one == rows.end()) return std::nullopt;
    std::vector<double> ratios;
    for (size_t i = 0; i < row.step_us.size(); ++i)
      ratios.push_back(one->step_us[i] / row.step_us[i]);
    return spread_of(ratios);
  }

  void add(const TrainRow& row, const std::vector<TrainRow>& rows, const std::string& feed) {
    const Workload& work = row.work;
    const double rate = static_cast<double>(work.batch) * 1e6 / row.step.median;
    const double wait = spread_of(row.queue_wait_us).median;
    keel::Json entry = names_of(work);
    entry["loop_size"] = row.loop_size;
    entry["feed"] = feed;
    entry["steps"] = row.steps;
    entry["step_us"] = row.step.median;
    entry["step_spread"] = row.step.share;
    entry["images_per_second"] = rate;
    entry["queue_wait_us"] = wait;
    json_["rows"].push_back(entry);
    std::cout << fmt::format(
        "{:<11} {:<8} {:<11} {:>7} {:>6} {:>6} {:>11.2f} {:>6.1f} {:>11.0f} {:>9.2f} {:>9} {:>8}\n",
        work.model->name, work.backend, work.precision, work.threads, work.batch, row.loop_size,
        row.step.median, row.step.share * 100, rate, wait, add_speed_up(row, rows),
        add_process(row));
  }

  std::string add_speed_up(const TrainRow& row, const std::vector<TrainRow>& rows) {
    const auto ratio = speed_up(row, rows);
    if (!ratio) return "-";
    keel::Json entry = names_of(row.work);
    entry["loop_size"] = row.loop_size;
    entry["speed_up"] = ratio->median;
    entry["speed_up_spread"] = ratio->share;
    json_["speed_ups"].push_back(entry);
    return fmt::format("{:.2f}", ratio->median);
  }

  // Once for a workload, with the first loop size.
  std::string add_process(const TrainRow& row) {
    if (row.loop_size != flags_.loop_sizes.front()) return "-";
    const Workload& work = row.work;
    const double fitting = flags_.seconds * 1e6 / row.step.median;
    const int64_t steps = std::clamp<int64_t>(std::llround(fitting), 1, 100);
    std::vector<std::string> words = {"--model",     work.model->name,
                                      "--backend",   work.backend,
                                      "--threads",   std::to_string(work.threads),
                                      "--batch",     std::to_string(work.batch),
                                      "--steps",     std::to_string(steps),
                                      "--data",      flags_.data,
                                      "--loop-size", std::to_string(row.loop_size)};
    if (work.precision != keel::kDefaultPrecision)
      words.insert(words.end(), {"--precision", work.precision});
    for (const std::string& pass : work.disabled_passes)
      words.insert(words.end(), {"--disable-pass", pass});
    if (work.placement != keel::PlacementPolicy::kFull)
      words.insert(words.end(), {"--placement", keel::name_of(work.placement)});
    const double peak_rss_mib = peak_rss_mib_of_training(words);
    keel::Json entry = names_of(work);
    entry["steps"] = steps;
    entry["peak_rss_mib"] = peak_rss_mib;
    json_["processes"].push_back(entry);
    return fmt::format("{:.0f}", peak_rss_mib);
  }

  // Threads change nothing on the device clock.
  void add_modelled(const std::vector<std::unique_ptr<Trainee>>& trainees) {
    for (const auto& trainee : trainees) {
      const Workload& work = trainee->work();
      if (work.threads != flags_.threads.front()) continue;
      for (const int64_t size : flags_.loop_sizes) {
        const auto us = step_device_us(trainee->program(), size);
        if (!us) continue;
        json_["npu_preset"] = trainee->program().modelled_device;
        keel::Json entry = names_of(work);
        entry.erase("threads");
        entry["loop_size"] = size;
        entry["step_device_us"] = *us;
        json_["modelled"].push_back(entry);
      }
    }
  }

  void print_modelled() const {
    if (json_["modelled"].empty()) return;
    std::cout << fmt::format(
        "\ndevice clock: what the modelled {} would take; not to be compared with the wall times\n"
        "{:<11} {:<11} {:>6} {:>6} {:>12}\n",
        keel::printable(json_["npu_preset"].get<std::string>()), "model", "precision", "batch",
        "size", "device us");
    for (const keel::Json& row : json_["modelled"]) {
      std::cout << fmt::format("{:<11} {:<11} {:>6} {:>6} {:>12.2f}\n",
                               row["model"].get<std::string>(), row["precision"].get<std::string>(),
                               row["batch"].get<int64_t>(), row["loop_size"].get<int64_t>(),
                               row["step_device_us"].get<double>());
    }
  }

  const TrainSuiteFlags& flags_;
  keel::LabelledSplits data_;
  keel::Json json_;
};

void declare_train_suite(CommandLine& line) {
  line.add("models", "NAME,NAME,...", "of " + alternatives(names_of_models()) + " (all of them)");
  declare_data_flag(line);
  declare_backends(line, "cpu,npu");
  line.add("precision", "NAME,NAME,...", "as of keel train (fp32)");
  declare_placement_flag(line);
  declare_thread_counts(line, "compute threads, the device's included", "1,2");
  line.add("batches", "N,N,...", "images a step (mlp 128, the others 100)");
  line.add("loop-sizes", "N,N,...", "steps in a launch (100)");
  declare_seconds(line, "each row", "1");
  declare_pass_flag(line);
}

keel::Json measure_train(const CommandLine& line) {
  const std::vector<std::string> models = names_of_models();
  TrainSuiteFlags flags;
  for (const std::string& name : line.choices("models", models, models))
    flags.models.push_back(&keel_examples::find_model(name));
  flags.data = read_data(line);
  flags.backends = read_backends(line, {"cpu", "npu"});
  flags.placement = read_placement(line);
  flags.precisions = line.choices("precision", keel::precision_names(), {keel::kDefaultPrecision});
  flags.threads = read_thread_counts(line, {1, 2});
  flags.batches = line.integers("batches", 1, kMostBatch, {});
  flags.loop_sizes = line.integers("loop-sizes", 1, int64_t{1} << 30, {100});
  flags.seconds = read_seconds(line, 1);
  flags.disabled_passes = read_disabled_passes(line);
  return TrainBench(flags).run();
}

}  // namespace

Suite train_suite() {
  return {"train", "training throughput by backend, precision, threads, batch and loop size",
          declare_train_suite, measure_train};
}

}  // namespace keel_cli
