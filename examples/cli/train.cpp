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
#include <keel/backends/npu/device/float_status.h>
#include <keel/backends/npu/presets/preset.h>
#include <keel/backends/npu/profile/profile.h>
#include <keel/backends/npu/scheduler/scheduler.h>
#include <keel/core/base/json.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/evaluation.h"
#include "cli/feeding_doctor.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "cli/train_options.h"
#include "cli/training_feed.h"

namespace keel_cli {
namespace {

std::atomic<keel::Trainer*> interrupted_trainer{nullptr};

// The first Ctrl-C ends the training after the step that runs (what is asked for is still saved and
// summarised), the second the process at once.
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
  bool seen() const { return interrupted_trainer == nullptr; }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  void (*previous_)(int) = SIG_DFL;
};

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

std::string property_of(const keel::Device& device, const std::string& wanted) {
  const std::vector<keel::DeviceInfo> devices = device.backend().devices();
  for (const auto& [name, value] : devices[0].properties) {
    if (name == wanted) return value;
  }
  return "";
}

// The host instructions that the device computes with; results are bit-equal on the same ones.
std::string isa_of(const keel::Device& device) { return property_of(device, "isa"); }

// What the device's arithmetic has raised so far, as words; "" for nothing.
std::string float_status_of(const keel::Device& device) {
  if (device.backend().name() != "npu") return "";
  return keel::npu::describe_float_status(keel::npu::float_status(device));
}

// Where the steps looped, what the compiler put around them, and what that came to.
void summarise_loop(const keel::Loop& loop, keel::Json& summary) {
  summary["loop_kind"] = keel::name_of(loop.kind());
  if (loop.kind() != keel::LoopKind::kDevice) summary["loop_reason"] = loop.placement().reason;
  keel::Json inserted = keel::Json::array();
  for (const keel::InsertedOp& op : loop.compile_report().inserted_ops) {
    keel::Json entry;
    entry["name"] = op.name;
    entry["type"] = op.type;
    inserted.push_back(std::move(entry));
  }
  summary["inserted_ops"] = std::move(inserted);
}

class TrainRun {
 public:
  explicit TrainRun(const TrainFlags& flags) : flags_(flags) {
    require_writable("--summary", flags.summary);
    require_writable("--save", flags.save);
    // Written line by line: pipes and devices will do.
    std::error_code unknown;
    if (!std::filesystem::is_other(flags.metrics, unknown))
      require_writable("--metrics", flags.metrics);
    keel::set_compute_threads(flags.threads);
    if (!flags.preset.empty()) keel::npu::select_preset(flags.preset);
    if (flags.block_dim) keel::npu::set_block_dim_options({.cap = flags.block_dim});
    data_ = load_data(flags.data, flags.max_data_bytes);
    steps_per_epoch_ = data_.train.count() / flags.batch;
    if (steps_per_epoch_ == 0) {
      throw keel::Error(
          {.op = "--batch",
           .expected = "at most the " + std::to_string(data_.train.count()) + " training images",
           .got = std::to_string(flags.batch)});
    }
    total_steps_ = flags.steps.value_or(flags.epochs.value_or(0) * steps_per_epoch_);
    if (flags.resume) check_resume(*flags.resume);
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
                          {.seed = flags_.seed, .precision = flags_.precision});
    session.loop_size() = flags_.loop_size;
    const TrainingFeed feed =
        feed_training(data_.train, session.spec({model_.image, model_.label}),
                      {.seed = flags_.seed, .batch = flags_.batch, .cache = flags_.cache});
    feed_ = feed.kind;
    keel::Trainer trainer(session, update, {model_.loss}, feed.feeder);
    if (flags_.resume) trainer.resume(flags_.resume->path());
    MetricsFile metrics(flags_.metrics);
    Progress progress(total_steps_, flags_.batch, flags_.quiet, session.step());
    if (flags_.backend == "npu") step_device_ns_ = trainer.program().info().step_device_ns;
    announce(progress, session);
    progress.line("feed: " + feed.kind + (feed.why.empty() ? "" : " (" + feed.why + ")"));
    if (!flags_.profile.empty()) write_profile(trainer);

    const auto epoch_of = [&](int64_t step) { return (step - 1) / steps_per_epoch_ + 1; };
    keel::TrainOptions options{.steps = total_steps_ - session.step(),
                               .steps_per_epoch = steps_per_epoch_,
                               .loop_tuner = flags_.loop_tuner};
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
    const InterruptScope interrupt(trainer);
    try {
      report_ = trainer.fit(options);
    } catch (...) {
      save_what_is_left(trainer);
      throw;
    }
    metrics.close();
    if (!flags_.save.empty()) save(trainer, session.device());
    if (!flags_.profile.empty()) write_profile(trainer);
    if (evaluated_at_ != session.step()) accuracy_ = evaluation.accuracy(session, data_.test);
    finish(trainer, progress);
    return interrupt.seen() ? kExitInterrupted : kExitDone;
  }

 private:
  void check_resume(const SavedRun& saved) const {
    saved.require_same_data(flags_.data, data_sha256(data_.train));
    if (total_steps_ >= saved.step()) return;
    throw keel::Error(
        {.op = flags_.steps ? "--steps" : "--epochs",
         .expected = fmt::format("at least the {} steps that {} has behind it: they count from the "
                                 "beginning",
                                 saved.step(), saved.path()),
         .got = std::to_string(total_steps_)});
  }

  void announce(Progress& progress, const keel::Session& session) const {
    progress.line("data: " + data_.origin);
    if (const auto& saved = flags_.resume) {
      progress.line(fmt::format("resuming {} at step {}", saved->path(), saved->step()));
      if (saved->at("backend") != flags_.backend || saved->at("isa") != isa_of(session.device())) {
        progress.line(
            fmt::format("it was trained on {} ({}): from here on the last bits are this device's",
                        saved->at("backend"), saved->at("isa")));
      }
    }
    progress.line(fmt::format(
        "training {} on {}:0 in {}, {} steps of {} images, loop size {}, {} thread{}",
        flags_.model->name, flags_.backend, flags_.precision, total_steps_, flags_.batch,
        loop_size_text(), flags_.threads, flags_.threads == 1 ? "" : "s"));
    const int64_t left_out = data_.train.count() % flags_.batch;
    if (left_out != 0) {
      progress.line(fmt::format(
          "the last {} images of each epoch's order do not fill a batch and are left out",
          left_out));
    }
  }

  std::string loop_size_text() const {
    return flags_.loop_tuner ? "to be found" : std::to_string(flags_.loop_size.value());
  }
  // In force at the end, once there was a step.
  int64_t loop_size() const {
    return report_.loop_size > 0 ? report_.loop_size : flags_.loop_size.value();
  }

  // Before the training, so that a wrong folder is known early, and after it with its wall time.
  void write_profile(const keel::Trainer& trainer) const {
    keel::npu::ProfileOptions options{.directory = flags_.profile,
                                      .first_step = flags_.profile_first,
                                      .last_step = std::min(flags_.profile_last, total_steps_),
                                      .steps_per_launch = loop_size()};
    if (report_.steps > 0) {
      const auto ns = static_cast<int64_t>(report_.seconds * 1e9);
      options.wall = {{fmt::format("training, {} steps", report_.steps), 0, ns}};
    }
    keel::npu::write_profile(trainer.program(), options);
  }

  // What the steps before the one that failed left is as good as a training that ends there.
  void save_what_is_left(keel::Trainer& trainer) const {
    if (flags_.save.empty()) return;
    try {
      save(trainer, trainer.session().device());
      std::cerr << fmt::format("keel: the training failed; {} holds its first {} steps\n",
                               flags_.save, trainer.session().step());
    } catch (const keel::Error& error) {
      std::cerr << fmt::format("keel: the training failed, and nothing was saved: {}\n",
                               error.what());
    }
  }

  void save(const keel::Trainer& trainer, const keel::Device& device) const {
    const bool built_in = flags_.data == kDigits;
    trainer.save(flags_.save, {{"model", flags_.model->name},
                               {"optimizer", flags_.optimizer},
                               {"lr", fmt::format("{}", flags_.rate)},
                               {"batch", std::to_string(flags_.batch)},
                               {"precision", flags_.precision},
                               {"data", built_in ? flags_.data
                                                 : std::filesystem::absolute(flags_.data).string()},
                               {"data_sha256", data_sha256(data_.train)},
                               {"backend", flags_.backend},
                               {"isa", isa_of(device)}});
  }

  void finish(keel::Trainer& trainer, Progress& progress) {
    keel::Session& session = trainer.session();
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
    if (report_.steps > 0) progress.line("feeding: " + verdict());
    if (flags_.loop_tuner) {
      progress.line(fmt::format("loop size: {} (found by --loop-size)", loop_size()));
    }
    if (step_device_ns_) {
      progress.line(fmt::format("modelled {}: {:.1f} us a step (device clock)",
                                keel::npu::current_preset()->name,
                                static_cast<double>(*step_device_ns_) * 1e-3));
    } else if (flags_.backend == "npu") {
      progress.line("modelled time: none, the step's control flow depends on data");
    }
    if (const std::string raised = float_status_of(session.device()); !raised.empty()) {
      progress.line("float status: " + raised);
    }
    if (!flags_.summary.empty()) write_summary(trainer, step_us, rate);
  }

  std::string verdict() const {
    return feeding_verdict({.step_us = report_.seconds * 1e6,
                            .queue_wait_us = static_cast<double>(report_.queue_wait_ns) * 1e-3,
                            .stages = {}});
  }

  void write_summary(keel::Trainer& trainer, double step_us, double rate) const {
    const keel::Session& session = trainer.session();
    keel::Json summary;
    summary["keel_version"] = KEEL_VERSION;
    summary["backend"] = flags_.backend;
    summary["device"] = session.device().name();
    summary["model"] = flags_.model->name;
    summary["data"] = data_.origin;
    summary["feed"] = feed_;
    summary["dtype"] = "f32";  // of the states
    summary["precision"] = flags_.precision;
    summary["optimizer"] = flags_.optimizer;
    summary["lr"] = flags_.rate;
    summary["seed"] = flags_.seed;
    summary["threads"] = flags_.threads;
    summary["batch"] = flags_.batch;
    summary["loop_size"] = loop_size();
    summarise_loop(trainer.loop(), summary);
    summary["epochs"] = report_.epochs;
    summary["steps"] = report_.steps;
    summary["launches"] = report_.launches;
    summary["host_syncs"] = report_.host_syncs;
    summary["compiles"] = session.compiles();
    summary["train_loss"] = loss_;
    summary["test_accuracy"] = accuracy_.value_or(std::numeric_limits<double>::quiet_NaN());
    summary["train_seconds"] = report_.seconds;
    summary["step_us"] = step_us;
    summary["images_per_second"] = rate;
    summary["elements_ahead"] = report_.elements_ahead;
    summary["queue_wait_seconds"] = static_cast<double>(report_.queue_wait_ns) * 1e-9;
    summary["metrics_wait_seconds"] = static_cast<double>(report_.metrics_wait_ns) * 1e-9;
    summary["peak_rss_bytes"] = peak_rss_bytes();
    if (report_.steps > 0) summary["feeding"] = verdict();
    summary["state_sha256"] = session.state_sha256();
    if (const std::string isa = isa_of(session.device()); !isa.empty()) summary["isa"] = isa;
    if (flags_.resume) summary["resumed_at_step"] = flags_.resume->step();
    if (flags_.backend == "npu") {
      summary["npu_strict"] = property_of(session.device(), "strict").starts_with("on");
      summary["npu_float_status"] = float_status_of(session.device());
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
  std::string feed_;
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
