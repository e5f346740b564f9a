#include <chrono>
#include <functional>
#include <iostream>
#include <optional>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <nlohmann/json.hpp>

#include "cli/base/flag_errors.h"
#include "cli/bench/bench.h"
#include "cli/train/feeding_doctor.h"

namespace keel_cli {
namespace {

using Clock = std::chrono::steady_clock;
using keel::Dataset;

constexpr uint64_t kSeed = 0;

struct FeedFlags {
  BenchFlags bench;
  bool normalise = false;
  int map_threads = 1;
  int64_t depth = 0;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Does what a user's map would do: bytes to floats in 0 .. 1.
void normalise(const keel::ItemView& in, const keel::ItemSlot& out) {
  const auto from = in.data<uint8_t>(0);
  const auto to = out.data<float>(0);
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<float>(from[i]) * (1.0f / 255.0f);
  out.data<uint8_t>(1)[0] = in.data<uint8_t>(1)[0];
}

class FeedBench {
 public:
  explicit FeedBench(const FeedFlags& flags) : flags_(flags), threads_(flags.bench.threads) {
    data_ = load_data(flags.bench.data);
    device_ = keel::device(flags.bench.backend);
  }

  keel::Json run() {
    build_stages();
    train();
    verdict_ = feeding_verdict(signs_);
    print();
    return as_json();
  }

 private:
  // Measures the feed stage by stage: each with all stages before it, on a thread of its own.
  void build_stages() {
    Dataset items = Dataset::from_images(data_.train);
    measure("batch in order", items, "--batch N with another N");
    items = items.shuffle(kSeed);
    measure("shuffle", items, "keeping the set on the device (Dataset::cache(device))");
    if (flags_.normalise) {
      keel::ElementSpec floats = items.spec();
      floats.fields[0].type.dtype = keel::f32;
      items = items.map(floats, normalise, {.name = "normalise", .threads = flags_.map_threads});
      measure("map(normalise)", items,
              fmt::format("--map-threads {}, or --map none: the graph scales bytes",
                          flags_.map_threads + 1));
    }
    batches_ = items.batch(flags_.bench.batch).repeat();
    measure_queue();
  }

  void measure(const std::string& name, const Dataset& items, const std::string& advice) {
    const Dataset batches = items.batch(flags_.bench.batch).repeat();
    keel::DatasetIterator iterator(batches);
    std::vector<keel::Tensor> slots;
    std::vector<void*> fields;
    for (const keel::FieldSpec& field : batches.spec().fields) {
      slots.emplace_back(field.type.dtype, field.type.shape);
      fields.push_back(slots.back().raw());
    }
    add(name, advice, batch_us([&] { iterator.next_into(fields); }));
  }

  // The whole feed, with somebody who takes every batch at once: what it takes beyond the pipeline
  // is the copies to the device, which the queue times, and handing batches from thread to thread.
  void measure_queue() {
    const auto feeder = keel::feed(*batches_, {device_, batches_->spec()}, feed_options());
    keel::DeviceQueue& queue = *feeder->queue();
    std::vector<void*> fields(batches_->spec().fields.size());
    const double us = batch_us([&] {
      keel::Cursor cursor;
      if (queue.dequeue(fields, &cursor, nullptr) == keel::DequeueStatus::kElement) {
        queue.release();
      }
    });
    feeder->stop();
    const keel::QueueCounters counters = queue.counters();
    const double copy_us =
        static_cast<double>(counters.copy_ns) * 1e-3 / static_cast<double>(counters.enqueued);
    add("copy to the device", "fewer bytes: bytes instead of floats, cast in the graph",
        upto_us_ + copy_us);
    add("hand over to the device", "a larger --batch: each is handed to another thread", us);
  }

  double batch_us(const std::function<void()>& next) const {
    for (int i = 0; i < 20; ++i) next();
    int64_t batches = 0;
    const auto start = Clock::now();
    double seconds = 0;
    do {
      for (int i = 0; i < 50; ++i) next();
      batches += 50;
      seconds = seconds_since(start);
    } while (seconds < flags_.bench.seconds);
    return seconds * 1e6 / static_cast<double>(batches);
  }

  void add(const std::string& name, const std::string& advice, double us) {
    const double before = upto_us_;
    upto_us_ = std::max(before, us);
    signs_.stages.push_back({name, upto_us_ - before,
                             static_cast<double>(flags_.bench.batch) * 1e6 / upto_us_, advice});
  }

  keel::FeedOptions feed_options() const { return {.name = "train", .depth = flags_.depth}; }

  void train() {
    keel::Graph graph;
    keel_examples::ImageFormat format = format_of(data_.train);
    if (flags_.normalise) format.dtype = keel::f32;
    const keel_examples::Classifier model = flags_.bench.model->build(graph, format);
    const keel::Update update = keel::sgd(0.01).minimize(model.loss);
    keel::Session session(graph, device_,
                          {.disabled_passes = flags_.bench.disabled_passes, .loop_size = 100});
    const auto feeder =
        keel::feed(*batches_, session.spec({model.image, model.label}), feed_options());
    keel::Trainer trainer(session, {.update = update, .fetches = {model.loss}, .source = feeder});
    trainer.fit({.steps = 100});
    const std::vector<int64_t> before = feeder->queue()->occupancy();
    keel::TrainReport total;
    const auto start = Clock::now();
    do {
      const keel::TrainReport report = trainer.fit({.steps = 100});
      total.steps += report.steps;
      total.queue_wait_ns += report.queue_wait_ns;
    } while (seconds_since(start) < flags_.bench.seconds);
    const double to_us = 1e-3 / static_cast<double>(total.steps);
    signs_.step_us = seconds_since(start) * 1e9 * to_us;
    signs_.queue_wait_us = static_cast<double>(total.queue_wait_ns) * to_us;
    occupancy_ = feeder->queue()->occupancy();
    for (size_t i = 0; i < occupancy_.size(); ++i) occupancy_[i] -= before[i];
  }

  void print() const {
    std::cout << fmt::format(
        "feeding {} on {}, {} images a batch, {} map thread{} (wall time)\n\n"
        "{:<22} {:>16} {:>14} {:>12}\n",
        flags_.bench.model->name, device_.name(), flags_.bench.batch, flags_.map_threads,
        flags_.map_threads == 1 ? "" : "s", "stage", "images/s so far", "own us/batch",
        "of a step");
    for (const FeedStage& stage : signs_.stages) {
      std::cout << fmt::format("{:<22} {:>16.0f} {:>14.2f} {:>10.0f} %\n", stage.name,
                               stage.images_per_second, stage.own_us,
                               100 * stage.own_us / signs_.step_us);
    }
    std::cout << fmt::format(
        "\na training step takes {:.1f} us, of which the device waits {:.1f} us for data\n"
        "how full the queue of {} was when the device came for more:\n{}\n{}\n",
        signs_.step_us, signs_.queue_wait_us, occupancy_.size() - 1,
        occupancy_histogram(occupancy_), verdict_);
  }

  keel::Json as_json() const {
    keel::Json json;
    json["model"] = flags_.bench.model->name;
    json["backend"] = flags_.bench.backend;
    json["data"] = data_.origin;
    json["batch"] = flags_.bench.batch;
    json["threads"] = flags_.bench.threads;
    json["map_threads"] = flags_.map_threads;
    for (const FeedStage& stage : signs_.stages) {
      json["stages"].push_back({{"name", stage.name},
                                {"images_per_second", stage.images_per_second},
                                {"own_us", stage.own_us},
                                {"share_of_step", stage.own_us / signs_.step_us}});
    }
    json["step_us"] = signs_.step_us;
    json["queue_wait_us"] = signs_.queue_wait_us;
    json["queue_depth"] = occupancy_.size() - 1;
    json["queue_occupancy"] = occupancy_;
    json["verdict"] = verdict_;
    return json;
  }

  const FeedFlags& flags_;
  const keel::ComputeThreads threads_;
  keel::LabelledSplits data_;
  keel::Device device_;
  std::optional<Dataset> batches_;  // what the stages so far make
  double upto_us_ = 0;
  FeedSigns signs_;
  std::vector<int64_t> occupancy_;
  std::string verdict_;
};

void declare_feed_suite(CommandLine& line) {
  declare_bench_flags(line);
  line.add("map", "none|normalise", "what is done to the images on the host (none)");
  line.add("map-threads", "N", "threads of that map (1)");
  line.add("depth", "N", "batches that can wait in the queue (min(128, 2 GiB / batch bytes))");
}

keel::Json measure_feed(const CommandLine& line) {
  FeedFlags flags;
  flags.bench = read_bench_flags(line);
  flags.normalise = line.choice("map", {"none", "normalise"}).value_or("none") == "normalise";
  if (line.has("map-threads") && !flags.normalise)
    refuse_flag("--map-threads", "is about a map, and --map is none", "add --map normalise");
  flags.map_threads = static_cast<int>(line.integer("map-threads", 1, 256).value_or(1));
  flags.depth = line.integer("depth", 1, int64_t{1} << 20).value_or(0);
  return FeedBench(flags).run();
}

}  // namespace

Suite feed_suite() {
  return {"feed", "what feeding can do, stage by stage, and what a training waits for",
          declare_feed_suite, measure_feed};
}

}  // namespace keel_cli
