#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <unistd.h>
#include <vector>

#include <fmt/core.h>
#include <keel/backends/npu/presets/preset.h>
#include <keel/backends/npu/profile/profile.h>
#include <keel/backends/npu/scheduler/scheduler.h>
#include <keel/core/base/json.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/evaluation.h"
#include "cli/progress.h"
#include "cli/train_options.h"

namespace keel_cli {
namespace {

std::atomic<keel::Trainer*> interrupted_trainer{nullptr};

// The first Ctrl-C ends the training after the step that runs, the second the process at once.
extern "C" void on_interrupt(int) {
  keel::Trainer* trainer = interrupted_trainer.exchange(nullptr);
  if (trainer == nullptr) _exit(kExitInterrupted);
  trainer->cancel();
}

class InterruptScope {
 public:
  explicit InterruptScope(keel::Trainer& trainer) {
    interrupted_trainer = &trainer;
    previous_ = std::signal(SIGINT, on_interrupt);
  }
  ~InterruptScope() {
    std::signal(SIGINT, previous_);
    interrupted_trainer = nullptr;
  }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  void (*previous_)(int) = SIG_DFL;
};

// Before hours of training go by: whether the file can be written at the end.
void require_writable(const std::string& flag, const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  std::error_code error;
  std::string problem;
  if (fs::is_directory(path, error))
    problem = "is a folder";
  else if (!fs::is_directory(folder, error))
    problem = "its folder does not exist";
  else if (access(folder.c_str(), W_OK) != 0)
    problem = "its folder cannot be written";
  if (problem.empty()) return;
  throw keel::Error({.op = flag, .argument = path, .message = problem});
}

// One JSON object a line and step.
class MetricsFile {
 public:
  explicit MetricsFile(const std::string& path) : path_(path) {
    if (path.empty()) return;
    out_.open(path, std::ios::trunc);
    if (!out_)
      throw keel::Error({.op = "--metrics", .argument = path, .message = "cannot be written"});
  }
  void write(int64_t step, int64_t epoch, double loss) {
    if (path_.empty()) return;
    out_ << "{\"step\":" << step << ",\"epoch\":" << epoch
         << ",\"loss\":" << keel::format_float(static_cast<float>(loss)) << "}\n";
  }
  void close() {
    if (path_.empty()) return;
    out_.close();
    if (!out_)
      throw keel::Error(
          {.op = "--metrics", .argument = path_, .message = "could not be written whole"});
  }

 private:
  std::string path_;
  std::ofstream out_;
};

class TrainRun {
 public:
  explicit TrainRun(const TrainFlags& flags) : flags_(flags) {
    require_writable("--summary", flags.summary);
    require_writable("--save", flags.save);
    require_writable("--metrics", flags.metrics);
    keel::set_compute_threads(flags.threads);
    if (!flags.preset.empty()) keel::npu::select_preset(flags.preset);
    if (flags.block_dim) keel::npu::set_block_dim_options({.cap = flags.block_dim});
    data_ = flags.data == "digits" ? keel::make_digits() : keel::load_mnist(flags.data);
    steps_per_epoch_ = data_.train.count() / flags.batch;
    if (steps_per_epoch_ == 0) {
      throw keel::Error(
          {.op = "--batch",
           .expected = "at most the " + std::to_string(data_.train.count()) + " training images",
           .got = std::to_string(flags.batch)});
    }
    total_steps_ = flags.steps.value_or(flags.epochs.value_or(0) * steps_per_epoch_);
  }

  int run() {
    if (!flags_.profile.empty() && flags_.profile_first > total_steps_) {
      throw keel::Error({.op = "--profile-steps",
                         .expected = "steps up to " + std::to_string(total_steps_),
                         .got = std::to_string(flags_.profile_first),
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    model_ = flags_.model->build(graph_);
    const keel::Update update = make_optimizer(flags_.optimizer, flags_.rate).minimize(model_.loss);
    Evaluation evaluation(graph_, model_);
    keel::Session session(graph_, keel::device(flags_.backend + ":0"),
                          {.seed = flags_.seed, .loop_size = flags_.loop_size});
    const auto batches =
        keel::Dataset::from_images(data_.train).shuffle(flags_.seed).batch(flags_.batch).repeat();
    const auto feeder =
        keel::feed(batches, session.spec({model_.image, model_.label}), {.name = "train"});
    keel::Trainer trainer(session, update, {model_.loss}, feeder);
    MetricsFile metrics(flags_.metrics);
    Progress progress(total_steps_, flags_.batch, flags_.quiet);
    if (flags_.backend == "npu") step_device_ns_ = trainer.program().info().step_device_ns;
    announce(progress);
    if (!flags_.profile.empty()) write_profile(trainer);

    const auto epoch_of = [&](int64_t step) { return (step - 1) / steps_per_epoch_ + 1; };
    keel::TrainOptions options{.steps = total_steps_, .steps_per_epoch = steps_per_epoch_};
    options.on_step = [&](int64_t step, std::span<const double> values) {
      metrics.write(step, epoch_of(step), values[0]);
      progress.step(step, values[0]);
      loss_ = values[0];
    };
    options.on_epoch_end = [&](int64_t epoch) {
      accuracy_ = evaluation.accuracy(session, data_.test);
      progress.line(
          fmt::format("epoch {}  loss {:.4f}  test accuracy {:.4f}", epoch, loss_, *accuracy_));
      evaluated_at_ = session.step();
    };
    {
      const InterruptScope scope(trainer);
      report_ = trainer.fit(options);
    }
    metrics.close();
    if (!flags_.profile.empty()) write_profile(trainer);
    if (evaluated_at_ != session.step()) accuracy_ = evaluation.accuracy(session, data_.test);
    finish(session, progress);
    return report_.cancelled ? kExitInterrupted : kExitDone;
  }

 private:
  void announce(Progress& progress) const {
    progress.line("data: " + data_.origin);
    progress.line(
        fmt::format("training {} on {}:0, {} steps of {} images, loop size {}, {} thread{}",
                    flags_.model->name, flags_.backend, total_steps_, flags_.batch,
                    flags_.loop_size, flags_.threads, flags_.threads == 1 ? "" : "s"));
    const int64_t left_out = data_.train.count() % flags_.batch;
    if (left_out != 0) {
      progress.line(fmt::format(
          "the last {} images of each epoch's order do not fill a batch and are left out",
          left_out));
    }
  }

  // Before the training, so that a wrong folder is known early, and after it with its wall time.
  void write_profile(const keel::Trainer& trainer) const {
    keel::npu::ProfileOptions options{.directory = flags_.profile,
                                      .first_step = flags_.profile_first,
                                      .last_step = std::min(flags_.profile_last, total_steps_),
                                      .steps_per_launch = flags_.loop_size};
    if (report_.steps > 0) {
      const auto ns = static_cast<int64_t>(report_.seconds * 1e9);
      options.wall = {{fmt::format("training, {} steps", report_.steps), 0, ns}};
    }
    keel::npu::write_profile(trainer.program(), options);
  }

  void finish(keel::Session& session, Progress& progress) {
    if (!flags_.save.empty()) session.save(flags_.save, {{"model", flags_.model->name}});
    const double step_us =
        report_.steps == 0 ? 0 : report_.seconds * 1e6 / static_cast<double>(report_.steps);
    const double rate = report_.seconds == 0
                            ? 0
                            : static_cast<double>(report_.steps * flags_.batch) / report_.seconds;
    progress.line(
        fmt::format("{}: {} steps in {:.3f} s wall time ({:.1f} us a step, {:.0f} images/s), test "
                    "accuracy {:.4f}",
                    report_.cancelled ? "interrupted" : "done", report_.steps, report_.seconds,
                    step_us, rate, accuracy_.value_or(0)));
    if (step_device_ns_) {
      progress.line(fmt::format("modelled {}: {:.1f} us a step (device clock)",
                                keel::npu::current_preset()->name,
                                static_cast<double>(*step_device_ns_) * 1e-3));
    }
    if (!flags_.summary.empty()) write_summary(session, step_us, rate);
  }

  void write_summary(keel::Session& session, double step_us, double rate) const {
    keel::Json summary;
    summary["keel_version"] = KEEL_VERSION;
    summary["backend"] = flags_.backend;
    summary["device"] = session.device().name();
    summary["model"] = flags_.model->name;
    summary["data"] = data_.origin;
    summary["dtype"] = "f32";
    summary["optimizer"] = flags_.optimizer;
    summary["lr"] = flags_.rate;
    summary["seed"] = flags_.seed;
    summary["threads"] = flags_.threads;
    summary["batch"] = flags_.batch;
    summary["loop_size"] = flags_.loop_size;
    summary["epochs"] = report_.epochs;
    summary["steps"] = report_.steps;
    summary["launches"] = report_.launches;
    summary["compiles"] = session.compiles();
    summary["train_loss"] = loss_;
    summary["test_accuracy"] = accuracy_.value_or(std::numeric_limits<double>::quiet_NaN());
    summary["train_seconds"] = report_.seconds;
    summary["step_us"] = step_us;
    summary["images_per_second"] = rate;
    summary["queue_wait_seconds"] = static_cast<double>(report_.queue_wait_ns) * 1e-9;
    summary["state_sha256"] = session.state_sha256();
    const std::vector<keel::DeviceInfo> devices = session.device().backend().devices();
    for (const auto& [name, value] : devices[0].properties) {
      if (name == "isa") summary["isa"] = value;
    }
    if (step_device_ns_) {
      summary["npu_preset"] = keel::npu::current_preset()->name;
      summary["step_device_us"] = static_cast<double>(*step_device_ns_) * 1e-3;  // device clock
    }
    keel::write_file_atomically(flags_.summary, keel::write_json(summary, 2) + "\n");
  }

  const TrainFlags& flags_;
  keel::LabelledSplits data_;
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  keel::Graph graph_;
  keel_examples::Classifier model_;
  keel::TrainReport report_;
  double loss_ = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> accuracy_;
  std::optional<int64_t> step_device_ns_;
  int64_t evaluated_at_ = -1;
};

}  // namespace

int run_train(const std::vector<std::string>& words) {
  CommandLine line("train", "trains a model and prints its accuracy on the test set");
  declare_train_flags(line);
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const TrainFlags flags = read_train_flags(line);
  return TrainRun(flags).run();
}

}  // namespace keel_cli
