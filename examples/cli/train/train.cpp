#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <keel/backends/npu/options.h>
#include <keel/backends/npu/profile/profile.h>
#include <keel/keel.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output_files.h"
#include "cli/train/evaluation.h"
#include "cli/train/finite_states.h"
#include "cli/train/metrics_file.h"
#include "cli/train/notices.h"
#include "cli/train/progress.h"
#include "cli/train/stop_signals.h"
#include "cli/train/summary.h"
#include "cli/train/train_options.h"
#include "cli/training_feed.h"

namespace keel_cli {
namespace {

// Once there are steps behind a training, no error takes them away: each is told of at once, the
// rest that was asked for is still done, and the command fails in the end.
class TrainRun {
 public:
  explicit TrainRun(const TrainFlags& flags) : flags_(flags), threads_(flags.threads) {
    require_writable("--summary", flags.summary);
    require_writable("--save", flags.save);
    // Written line by line: pipes and devices will do.
    std::error_code unknown;
    if (!std::filesystem::is_other(flags.metrics, unknown))
      require_writable("--metrics", flags.metrics);
    if (!flags.preset.empty() || flags.block_dim)
      device_options_ = keel::npu::options(flags.preset, {.cap = flags.block_dim});
    data_ = load_data(flags.data);
    outcome_.data = data_.origin;
    steps_per_epoch_ = data_.train.count() / flags.batch;
    if (steps_per_epoch_ == 0) {
      throw keel::Error(
          {.op = "--batch",
           .expected = "at most the " + std::to_string(data_.train.count()) + " training images",
           .got = std::to_string(flags.batch)});
    }
    total_steps_ =
        flags.steps ? *flags.steps : keel::checked_mul(*flags.epochs, steps_per_epoch_, "--epochs");
    if (flags.resume) check_resume(*flags.resume);
  }

  int run() {
    if (!flags_.profile.empty() && flags_.profile_first > total_steps_) {
      throw keel::Error({.op = "--profile-steps",
                         .expected = "steps up to " + std::to_string(total_steps_),
                         .got = std::to_string(flags_.profile_first),
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    StopSignals signals;
    model_ = flags_.model->build(graph_);
    const keel::Update update = make_optimizer(flags_.optimizer, flags_.rate).minimize(model_.loss);
    Evaluation evaluation(graph_, model_);
    keel::Session session(
        graph_, keel::device(flags_.backend + ":0"),
        {.seed = flags_.seed, .precision = flags_.precision, .device_options = device_options_});
    session.loop_size() = flags_.loop_size;
    const TrainingFeed feed =
        feed_training(data_.train, session.spec({model_.image, model_.label}),
                      {.seed = flags_.seed, .batch = flags_.batch, .cache = flags_.cache});
    outcome_.feed = feed.kind;
    keel::Trainer trainer(session,
                          {.update = update, .fetches = {model_.loss}, .source = feed.feeder});
    if (flags_.resume) trainer.resume(flags_.resume->path());
    MetricsFile metrics(flags_.metrics, /*append=*/flags_.resume.has_value(),
                        {.on_failure = [&](const keel::Error& error) { notices_.report(error); },
                         .on_closed_pipe =
                             [&] {
                               notices_.warn("the reader of --metrics went away");
                               signals.stop(SIGPIPE);
                             },
                         .stopping = [&] { return signals.signal() != 0; }});
    Progress progress(total_steps_, flags_.batch, flags_.quiet, session.step());
    outcome_.step_device_ns = trainer.program().info().step_device_ns;
    outcome_.modelled_device = trainer.program().info().modelled_device;
    announce(progress, session);
    progress.line("feed: " + feed.kind + (feed.why.empty() ? "" : " (" + feed.why + ")"));
    if (!flags_.profile.empty()) write_profile(trainer);

    const StopSignals::Watch watch(signals, trainer);
    fit(trainer, evaluation, metrics, progress, signals);
    metrics.close();
    conclude(trainer, evaluation, progress);
    if (!notices_.errors().empty()) return kExitFailed;
    return signals.signal() == 0 ? kExitDone : kExitSignalled + signals.signal();
  }

 private:
  void check_resume(const SavedRun& saved) const {
    saved.require_same_data(flags_.data, data_sha256(data_.train));
    saved.require_place(steps_per_epoch_, flags_.batch);
    if (!flags_.allow_non_finite) saved.require_finite();
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
        flags_.loop_tuner ? "to be found" : std::to_string(flags_.loop_size.value()),
        flags_.threads, flags_.threads == 1 ? "" : "s"));
    const int64_t left_out = data_.train.count() % flags_.batch;
    if (left_out != 0) {
      progress.line(fmt::format(
          "the last {} images of each epoch's order do not fill a batch and are left out",
          left_out));
    }
  }

  void fit(keel::Trainer& trainer, Evaluation& evaluation, MetricsFile& metrics, Progress& progress,
           StopSignals& signals) {
    keel::Session& session = trainer.session();
    // Where nobody sees the progress and nothing is saved, nobody wants the training.
    const auto stop_if_unseen = [&] {
      if (progress.reader_gone() && flags_.save.empty() && signals.signal() == 0)
        signals.stop(SIGPIPE);
    };
    stop_if_unseen();
    keel::TrainOptions options{.steps = total_steps_ - session.step(),
                               .steps_per_epoch = steps_per_epoch_,
                               .loop_tuner = flags_.loop_tuner};
    options.on_step = [&](int64_t step, std::span<const double> values, uint32_t float_status) {
      metrics.write(step, (step - 1) / steps_per_epoch_ + 1, values[0], float_status);
      progress.step(step, values[0]);
      outcome_.loss = values[0];
      if (!std::isfinite(values[0])) note_non_finite(step, values[0]);
      stop_if_unseen();
    };
    options.on_epoch_end = [&](int64_t epoch) {
      if (signals.signal() != 0) return;  // the test set may take longer than the training
      evaluate(evaluation, session);
      progress.line(fmt::format("epoch {}  loss {:.4f}  test accuracy {:.4f}", epoch, outcome_.loss,
                                outcome_.accuracy.value_or(0)));
      stop_if_unseen();
    };
    try {
      outcome_.report = trainer.fit(options);
    } catch (const std::exception& error) {
      outcome_.report = trainer.failed_report();
      if (outcome_.report.steps == 0) throw;
      notices_.report(error);
    }
  }

  void note_non_finite(int64_t step, double loss) {
    if (outcome_.first_non_finite_step) return;
    outcome_.first_non_finite_step = step;
    notices_.keep(fmt::format("step {}: the loss is {}; a smaller --lr may help", step,
                              name_of_non_finite(loss)));
  }

  void evaluate(Evaluation& evaluation, keel::Session& session) {
    outcome_.accuracy = evaluation.accuracy(session, data_.test);
    evaluated_at_ = session.step();
  }

  void conclude(keel::Trainer& trainer, Evaluation& evaluation, Progress& progress) {
    keel::Session& session = trainer.session();
    notices_.attempt([&] { outcome_.non_finite_state = non_finite_state(session); });
    if (outcome_.non_finite_state && !outcome_.first_non_finite_step) {
      notices_.warn(fmt::format("step {}: {}", session.step(), *outcome_.non_finite_state));
    }
    if (!flags_.save.empty()) notices_.attempt([&] { save(trainer); });
    if (!flags_.profile.empty()) notices_.attempt([&] { write_profile(trainer); });
    const bool measured = evaluated_at_ == session.step();
    if (!measured) outcome_.accuracy.reset();  // of an epoch before
    if (!measured && !outcome_.report.cancelled)
      notices_.attempt([&] { evaluate(evaluation, session); });
    print_result(progress);
    if (!flags_.summary.empty()) {
      outcome_.errors = notices_.errors();
      outcome_.warnings = notices_.warnings();
      notices_.attempt([&] { write_summary(flags_, outcome_, trainer); });
    }
  }

  // Before the training, so that a wrong folder is known early, and after it with its wall time.
  void write_profile(const keel::Trainer& trainer) const {
    const keel::TrainReport& report = outcome_.report;
    keel::npu::ProfileOptions options{.directory = flags_.profile,
                                      .first_step = flags_.profile_first,
                                      .last_step = std::min(flags_.profile_last, total_steps_),
                                      .steps_per_launch = loop_size_of(flags_, report)};
    if (report.steps > 0) {
      const auto ns = static_cast<int64_t>(report.seconds * 1e9);
      options.wall = {{fmt::format("training, {} steps", report.steps), 0, ns}};
    }
    keel::npu::write_profile(trainer.program(), options);
  }

  void save(keel::Trainer& trainer) const {
    if (outcome_.non_finite_state && !flags_.allow_non_finite)
      require_no_finite_file(flags_.save, *outcome_.non_finite_state);
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
                               {"isa", isa_of(trainer.session().device())}});
  }

  void print_result(Progress& progress) const {
    const keel::TrainReport& report = outcome_.report;
    progress.line(fmt::format(
        "{}: {} steps in {:.3f} s wall time ({:.1f} us a step, {:.0f} images/s), test accuracy {}",
        report.cancelled ? "interrupted" : "done", report.steps, report.seconds, outcome_.step_us(),
        outcome_.images_per_second(flags_.batch),
        outcome_.accuracy ? fmt::format("{:.4f}", *outcome_.accuracy) : "not measured"));
    if (report.steps > 0) progress.line("feeding: " + outcome_.feeding());
    if (flags_.loop_tuner) {
      progress.line(
          fmt::format("loop size: {} (found by --loop-size)", loop_size_of(flags_, report)));
    }
    if (outcome_.step_device_ns) {
      progress.line(fmt::format("modelled {}: {:.1f} us a step (device clock)",
                                outcome_.modelled_device,
                                static_cast<double>(*outcome_.step_device_ns) * 1e-3));
    } else if (flags_.backend == "npu") {
      progress.line("modelled time: none, the step's control flow depends on data");
    }
    if (report.float_status_step) {
      progress.line(fmt::format("float status: {}, first in step {}",
                                keel::describe_float_status(report.float_status),
                                *report.float_status_step));
    }
  }

  const TrainFlags& flags_;
  const keel::ComputeThreads threads_;
  std::shared_ptr<const keel::DeviceOptions> device_options_;
  keel::LabelledSplits data_;
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  keel::Graph graph_;
  keel_examples::Classifier model_;
  Notices notices_;
  TrainOutcome outcome_;
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
