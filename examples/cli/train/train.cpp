#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <keel/backends/npu/options.h>
#include <keel/core/base/json.h>
#include <keel/core/group/group_agreement.h>
#include <keel/graph/runtime/rank_states.h>
#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/errors.h"
#include "cli/base/ranks.h"
#include "cli/model/evaluation.h"
#include "cli/model/f16_overflow.h"
#include "cli/model/finite_states.h"
#include "cli/model/saved_model.h"
#include "cli/model/table_columns.h"
#include "cli/model/task.h"
#include "cli/onnx/model_file.h"
#include "cli/train/checkpoint_flags.h"
#include "cli/train/first_lines.h"
#include "cli/train/judge.h"
#include "cli/train/metrics_file.h"
#include "cli/train/notices.h"
#include "cli/train/progress.h"
#include "cli/train/rank_reports.h"
#include "cli/train/result_lines.h"
#include "cli/train/same_training.h"
#include "cli/train/stop_signals.h"
#include "cli/train/summary.h"
#include "cli/train/train_options.h"
#include "cli/train/train_outputs.h"
#include "cli/train/training_feed.h"
#include "cli/train/training_profile.h"

namespace keel_cli {
namespace {

// Once there are steps behind a training, no error takes them away: each is told of at once, the
// rest that was asked for is still done, and the command fails in the end.
class TrainRun {
 public:
  // `group`: the ranks that train together; of one, or null, this one trains alone.
  TrainRun(const TrainFlags& flags, const std::shared_ptr<keel::Group>& group)
      : flags_(flags),
        group_(group->size() > 1 ? group : nullptr),
        threads_(flags.threads),
        notices_(flags.is_first_rank()) {
    require_target_loss(flags);
    if (flags.is_first_rank()) require_writable_files(flags);
    device_options_ = device_options(flags);
    if (!flags.init.empty()) init_.emplace("--init", flags.init);
    if (init_ && !flags.allow_non_finite)
      init_->require_finite("take an older file, or add --allow-non-finite");
    make_task(flags);
    if (init_) require_order_of_columns(*init_, flags.data, flags.label);
    outcome_.data = task_->origin();
    const keel::Dataset items = task_->training_items();
    const int64_t aside = flags.judging.validation;
    const int64_t overlap = aside > 0 ? task_->overlap() : 0;
    const int64_t most = std::max<int64_t>(items.size().value() - overlap, 0);
    if (aside >= most) {
      throw keel::Error(
          {.op = "--validation",
           .expected = fmt::format("fewer than the {} training {}", most, task_->items()),
           .got = std::to_string(aside)});
    }
    items_ = most - aside;
    steps_per_epoch_ = items_ / flags.global_batch();
    if (steps_per_epoch_ == 0) {
      const std::string left = aside == 0 ? "" : fmt::format(" that --validation {} leaves", aside);
      throw keel::Error(
          {.op = "--batch",
           .expected = fmt::format("at most the {} training {}{}", items_, task_->items(), left),
           .got = group_ ? fmt::format("{} for each of {} ranks", flags.batch, group_->size())
                         : std::to_string(flags.batch)});
    }
    total_steps_ =
        flags.steps ? *flags.steps : keel::checked_mul(*flags.epochs, steps_per_epoch_, "--epochs");
    if (flags.saves()) {
      saved_data_ = data_to_save(flags.data, flags.label);
      if (is_model_file(flags.task->name)) path_to_save("--model", flags.task->name);
    }
    if (flags.augmentation.changes())
      augmentation_ = flags.augmentation.of_images(task_->image_shape());
    outcome_.total_steps = total_steps_;
    if (flags.resume || flags.saves() || group_) data_sha256_ = task_->data_sha256();
    if (flags.resume) check_resume(*flags.resume);
    if (flags.is_first_rank()) prepare_checkpoint_folder(flags.checkpoint, flags.resume);
  }

  int run() {
    profile_.emplace(flags_, group_.get(), total_steps_);
    StopSignals signals;
    const TrainingUpdate update = build();
    const Evaluation evaluation(graph_, model_.measured, flags_.judging.top_k);
    const keel::Device device = keel::device(flags_.device, {});
    if (group_) require_same_on_all_ranks(device);
    keel::Session session(graph_, device,
                          {.seed = flags_.seed,
                           .disabled_passes = flags_.disabled_passes,
                           .precision = flags_.precision.value,
                           .placement = flags_.placement,
                           .device_options = device_options_,
                           .data_sink = flags_.data_sink});
    session.loop_size() = flags_.loop_size;
    load_weights(session);
    const TrainingFeed feed = feed_from(session);
    keel::Trainer trainer(session, step_of(update, feed), accelerated());
    begin(trainer);
    Progress progress(total_steps_, flags_.global_batch(), task_->items(), flags_.quiet,
                      session.step(), slowest_rank_note());
    Judge judge(flags_.judging, evaluation, session, *task_, group_,
                {.on_judgement = [&](const Judgement& j) { tell(j, judge, progress); },
                 .save_best = [&] { save_best(trainer); }});
    std::string forgotten;
    if (flags_.resume)
      forgotten = judge.resume_best(flags_.resume->metadata(), flags_.resume->path());
    MetricsFile metrics(flags_.is_first_rank() ? flags_.metrics : "", /*steps_done=*/session.step(),
                        {.on_failure = [&](const keel::Error& error) { notices_.report(error); },
                         .on_closed_pipe =
                             [&] {
                               notices_.warn("the reader of --metrics went away");
                               signals.stop(SIGPIPE);
                             },
                         .stopping = [&] { return signals.signal() != 0; }});
    print_first_lines(start_of(session), progress, notices_);
    if (!forgotten.empty() && flags_.judging.decides()) warn_of_a_forgotten_best(forgotten);
    print_what_metrics_lack(metrics, session.step(), progress);
    progress.line("feed: " + feed.kind + (feed.why.empty() ? "" : " (" + feed.why + ")"));
    for (const std::string& warning : flags_.profile.options.warnings) notices_.warn(warning);
    profile_->begin(trainer);

    const StopSignals::Watch watch(signals, trainer);
    fit(trainer, judge, metrics, progress, signals);
    metrics.close(/*through=*/!outcome_.report.cancelled);
    conclude(trainer, judge, progress);
    if (group_) group_->leave();
    if (!notices_.errors().empty()) return kExitFailed;
    return signals.signal() == 0 ? kExitDone : kExitSignalled + signals.signal();
  }

 private:
  // Data that a resumed file names may have been moved.
  void make_task(const TrainFlags& flags) {
    try {
      task_ = flags.task->make(flags.data, flags.label);
    } catch (const keel::Error& error) {
      std::error_code unknown;
      const bool moved = flags.resume && flags.data == flags.resume->at("data") &&
                         flags.data != kDigits && !std::filesystem::exists(flags.data, unknown);
      if (!moved) throw;
      throw keel::Error(
          {.op = "--resume",
           .argument = flags.resume->path(),
           .message = std::string("was trained on data that are not read: ") + error.what(),
           .fix = "say with --data where they are now",
           .kind = error.info().kind});
    }
  }

  // Makes the model and its update; what it begins with may be loaded into `states_of_model_`.
  TrainingUpdate build() {
    model_ = flags_.own_update() ? task_->build_with_own_update(graph_) : task_->build(graph_);
    require_weights();
    states_before_update_ = graph_.states();
    states_of_model_ = weight_states(graph_);
    const keel::DataParallel ranks(group_, {.micro_shards = flags_.micro_shards});
    if (group_) outcome_.rank_transport = group_->transport();
    outcome_.why_not_bit_equal = ranks.why_not_bit_equal(model_.loss);
    TrainingUpdate update =
        flags_.own_update()
            ? guard_own_update(model_.own_update, model_.loss, flags_.update)
            : make_update(model_.loss, ranks, flags_.optimizer, flags_.rate, flags_.update,
                          {.steps = total_steps_, .steps_per_epoch = steps_per_epoch_});
    model_.loss = update.loss;
    if (flags_.update.average) average_weights();
    return update;
  }

  void require_same_on_all_ranks(const keel::Device& device) const {
    require_same_training(*group_, flags_,
                          {.graph = graph_,
                           .device = device,
                           .items = items_,
                           .data_sha256 = data_sha256_,
                           .test_sha256 = task_->test_sha256(),
                           .steps = total_steps_});
  }

  void load_weights(keel::Session& session) {
    if (!flags_.resume) load_weights_of_model(session);
    if (init_) outcome_.init = init_->load_matching(session, states_before_update_);
  }

  TrainingFeed feed_from(const keel::Session& session) {
    TrainingFeed feed = feed_training(items_trained_on(), session.spec(model_.measured.inputs),
                                      {.seed = flags_.seed,
                                       .batch = flags_.batch,
                                       .share = flags_.share,
                                       .cache = flags_.cache,
                                       .augmentation = augmentation_});
    outcome_.feed = feed.kind;
    outcome_.data_sink = flags_.data_sink;
    return feed;
  }

  keel::SinkOptions step_of(const TrainingUpdate& update, const TrainingFeed& feed) {
    keel::Values fetches = {model_.loss};
    fetches.insert(fetches.end(), update.scaling.begin(), update.scaling.end());
    if (!update.scaling.empty()) skipped_ = update.scaling.back();
    return {.update = update.update,
            .fetches = fetches,
            .source = feed.feeder,
            .stop_when = update.stop_when,
            .agreement = group_ ? keel::make_group_agreement(group_) : nullptr};
  }

  // Brings the states to where the training begins, and notes what it is about to run.
  void begin(keel::Trainer& trainer) {
    if (trainer.fast_loop() != nullptr) {
      outcome_.fast_precision = trainer.fast_loop()->compile_report().precision.mode;
      outcome_.fast_step_device_ns = trainer.fast_loop()->program().info().step_device_ns;
    }
    if (flags_.resume) trainer.resume(flags_.resume->path());
    if (group_) take_states_of_first_rank(*group_, trainer.session());
    outcome_.step_device_ns = trainer.program().info().step_device_ns;
    outcome_.modelled_device = trainer.program().info().modelled_device;
  }

  std::function<std::string()> slowest_rank_note() const {
    if (!group_) return {};
    return [note = SlowestRankNote(group_)]() mutable { return note.next(); };
  }

  StartOfTraining start_of(const keel::Session& session) const {
    return {.flags = flags_,
            .task = *task_,
            .outcome = outcome_,
            .session = session,
            .own_update = model_.own_update,
            .augmentation = augmentation_,
            .ranks = group_ ? group_->size() : 1,
            .items = items_,
            .steps = total_steps_};
  }

  void warn_of_a_forgotten_best(const std::string& forgotten) {
    notices_.warn(
        fmt::format("the best of {} cannot be compared, so the first judgement is the "
                    "best: it was {}",
                    flags_.resume->path(), forgotten));
  }

  void print_what_metrics_lack(const MetricsFile& metrics, int64_t step, Progress& progress) {
    if (metrics.lacks_last_step()) {
      notices_.warn(fmt::format("metrics: {} has no line of step {}: lines are missing before it",
                                flags_.metrics, step));
    }
    if (metrics.lines_taken_out() > 0) {
      progress.line(
          fmt::format("metrics: {} lines behind step {} are taken out of {} with the next",
                      metrics.lines_taken_out(), step, flags_.metrics));
    }
  }

  std::optional<keel::AcceleratedTraining> accelerated() const {
    if (!flags_.accelerate) return std::nullopt;
    return keel::AcceleratedTraining{
        .mode = *flags_.accelerate,
        .tell = {.loss = model_.loss, .final_loss = flags_.target_loss}};
  }

  void require_weights() const {
    if (flags_.own_update() || !keel::trainable_states(model_.loss).empty()) return;
    throw keel::Error({.op = "--model " + flags_.task->name,
                       .message = "has no weights to train",
                       .fix = "a frozen graph only answers: take the model that it was made of",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }

  // A model out of a file begins with the weights that are there.
  void load_weights_of_model(keel::Session& session) const {
    const auto& weights = task_->weights();
    if (weights.empty()) return;
    if (const auto problem = non_finite_state(weights); problem && !flags_.allow_non_finite) {
      throw keel::Error({.op = "--model " + flags_.task->name,
                         .message = *problem,
                         .fix = "take another file, or add --allow-non-finite"});
    }
    const keel::WeightsMatch match = keel::load_weights(session, states_of_model_, weights);
    if (match.complete()) return;
    throw keel::Error({.op = "--model " + flags_.task->name, .message = keel::describe(match)});
  }

  keel::Dataset items_trained_on() const {
    const keel::Dataset all = task_->training_items();
    return flags_.judging.validation == 0 ? all : all.take(items_);
  }

  // Makes evaluation and the picture use the averages of the weights; the loss that is trained on
  // stays as it is.
  void average_weights() {
    // Weights that --freeze keeps have no averages.
    const auto averaged = [&](const keel::Value& value) {
      const keel::Values weights = keel::trainable_states(value);
      const bool any = std::any_of(weights.begin(), weights.end(), [&](const keel::Value& w) {
        return graph_.find_state(keel::name_of(w.node()) + kAverage).valid();
      });
      return any ? keel::with_averaged_weights(value) : value;
    };
    model_.measured.output = averaged(model_.measured.output);
    if (model_.made.valid()) model_.made = averaged(model_.made);
  }

  void check_resume(const SavedRun& saved) const {
    require_own_label(saved.find("label"), saved.path(), flags_.data, flags_.label);
    saved.require_same_data(flags_.data, data_sha256_);
    saved.require_place(steps_per_epoch_, flags_.global_batch());
    if (!flags_.allow_non_finite) saved.require_finite();
    if (total_steps_ >= saved.step()) return;
    throw keel::Error(
        {.op = flags_.steps ? "--steps" : "--epochs",
         .expected = fmt::format("at least the {} steps that {} has behind it: they count from the "
                                 "beginning",
                                 saved.step(), saved.path()),
         .got = flags_.steps ? std::to_string(total_steps_)
                             : fmt::format("{}, which are {} steps", *flags_.epochs, total_steps_),
         .fix = "give more with --steps or --epochs"});
  }

  void fit(keel::Trainer& trainer, Judge& judge, MetricsFile& metrics, Progress& progress,
           StopSignals& signals) {
    keel::Session& session = trainer.session();
    // Where nobody sees the progress and nothing is saved, nobody wants the training.
    const auto stop_if_unseen = [&] {
      if (progress.reader_gone() && !flags_.saves() && signals.signal() == 0) signals.stop(SIGPIPE);
    };
    stop_if_unseen();
    keel::TrainOptions options{.steps = total_steps_ - session.step(),
                               .steps_per_epoch = steps_per_epoch_,
                               .loop_tuner = flags_.loop_tuner,
                               .check_numerics = flags_.check_numerics,
                               .dump = flags_.dump,
                               .group = group_};
    options.dump.overflow = skipped_;
    options.dump.on_failure = [&](const keel::Error& error) { notices_.report(error); };
    options.on_step = [&](int64_t step, std::span<const double> values, uint32_t float_status) {
      const StepScale* scale = nullptr;
      if (values.size() > 1) scale = &note_scale(values[1], values[2] != 0);
      const bool fast = flags_.accelerate && !trainer.running_report()->switched_at;
      metrics.write(step, (step - 1) / steps_per_epoch_ + 1, values[0], float_status, scale,
                    fast ? outcome_.fast_precision : "");
      progress.step(step, values[0], scale);
      outcome_.loss = values[0];
      if (!std::isfinite(values[0])) note_non_finite(step, values[0]);
      stop_if_unseen();
    };
    options.validation = judge.validation_options(trainer, steps_per_epoch_);
    options.checkpoint = checkpoints(trainer, metrics);
    options.on_epoch_end = [&](int64_t epoch) {
      if (judge.history().empty() || judge.history().back().step != session.step()) {
        progress.line(fmt::format("epoch {}  mean loss {:.4f}", epoch,
                                  trainer.running_report()->epoch_means.back().means.at(0)));
      }
      stop_if_unseen();
    };
    try {
      outcome_.report = in_dump_flags([&] { return trainer.fit(options); });
      if (flags_.update.fail_on_nan && outcome_.report.stop_step)
        fail_on_nan(*outcome_.report.stop_step);
    } catch (const std::exception& error) {
      outcome_.report = trainer.failed_report();
      if (outcome_.report.steps == 0 || group_) throw;
      notices_.report(error);
    }
  }

  std::optional<keel::CheckpointOptions> checkpoints(keel::Trainer& trainer, MetricsFile& metrics) {
    if (flags_.checkpoint.folder.empty()) return std::nullopt;
    keel::CheckpointOptions options = checkpoint_options(flags_.checkpoint, steps_per_epoch_);
    options.keep_best = flags_.judging.keep_best;
    options.allow_non_finite = flags_.allow_non_finite;
    options.metadata = [&] { return metadata(trainer.running_report()->best); };
    // A resumed training goes on behind the line of its step.
    options.before_write = [&](int64_t) { metrics.sync(); };
    // A disk stays full for a while: the first error of a row is told, all are counted.
    options.on_failure = [&, told_at = int64_t{-1}](const keel::Error& error) mutable {
      const int64_t saved = trainer.running_report()->checkpoint.saved;
      if (std::exchange(told_at, saved) != saved) notices_.report(error);
    };
    return options;
  }

  void fail_on_nan(int64_t step) {
    const keel::TrainReport& report = outcome_.report;
    const std::string kept =
        report.kept_best ? fmt::format("best, step {}", report.best->step) : "step before";
    notices_.report(keel::Error(
        {.op = "--fail-on-nan",
         .message = fmt::format("step {}: the loss or a gradient is infinite or NaN, and the "
                                "weights are those of the {}",
                                step, kept),
         .fix = flags_.own_update()
                    ? "look at the step's data, or train by --optimizer NAME --lr RATE"
                    : "take a smaller --lr, or look at the step's data"}));
  }

  const StepScale& note_scale(double scale, bool skipped) {
    if (!outcome_.scale) outcome_.scale.emplace();
    outcome_.scale->scale = scale;
    outcome_.scale->skipped = skipped;
    outcome_.scale->skipped_steps += skipped ? 1 : 0;
    return *outcome_.scale;
  }

  void note_non_finite(int64_t step, double loss) {
    if (outcome_.first_non_finite_step) return;
    outcome_.first_non_finite_step = step;
    const char* help = flags_.own_update() ? "a smaller rate in the graph" : "a smaller --lr";
    notices_.keep(
        fmt::format("step {}: the loss is {}; {} may help", step, name_of_non_finite(loss), help));
  }

  void tell(const Judgement& judgement, const Judge& judge, Progress& progress) const {
    const bool whole = judgement.step % steps_per_epoch_ == 0;
    std::string text =
        whole ? fmt::format("epoch {}", judgement.epoch) : fmt::format("step {}", judgement.step);
    if (judgement.epoch_loss) text += fmt::format("  mean loss {:.4f}", *judgement.epoch_loss);
    text += "  " + judge.describe(judgement.scores);
    if (flags_.judging.decides() && judgement.best) text += "  best so far";
    progress.line(text);
  }

  // A file of finite states is not replaced by others.
  void save_best(keel::Trainer& trainer) {
    const std::string& path = flags_.judging.save_best;
    if (path.empty()) return;
    if (group_) keel::require_equal_states(trainer.session(), *group_);
    if (!flags_.is_first_rank()) return;
    notices_.attempt([&] {
      if (const auto problem = non_finite_state(trainer.session());
          problem && !flags_.allow_non_finite)
        require_no_finite_file("--save-best", path, *problem);
      trainer.save(path, metadata(trainer.running_report()->best));
    });
  }

  void conclude(keel::Trainer& trainer, Judge& judge, Progress& progress) {
    keel::Session& session = trainer.session();
    notices_.attempt([&] { outcome_.non_finite_state = non_finite_state(session); });
    if (outcome_.non_finite_state && !outcome_.first_non_finite_step)
      notices_.warn(fmt::format("step {}: {}", session.step(), *outcome_.non_finite_state));
    warn_if_all_were_skipped(flags_, outcome_, notices_);
    warn_of_a_best_elsewhere();
    if (group_) {
      keel::require_equal_states(session, *group_);
      outcome_.ranks = gather_rank_reports(*group_, outcome_.report, flags_.threads);
    }
    if (!flags_.save.empty() && flags_.is_first_rank()) notices_.attempt([&] { save(trainer); });
    profile_->finish(trainer, outcome_.report, notices_);
    // The test set may take longer than the training: whoever stops it does not want to wait.
    if (!on_any_rank(group_.get(), outcome_.report.cancelled)) {
      const auto test = [&] { outcome_.test = judge.test_scores(); };
      group_ ? test() : static_cast<void>(notices_.attempt(test));
    }
    outcome_.top_k = judge.top_k();
    outcome_.history = judge.history();
    print_result(flags_, outcome_, *task_, progress);
    if (model_.made.valid() && !flags_.quiet && !outcome_.report.cancelled) {
      notices_.attempt([&] { progress.lines(task_->picture(session.run({model_.made})[0])); });
    }
    if (!flags_.summary.empty() && flags_.is_first_rank()) {
      outcome_.errors = notices_.errors();
      outcome_.warnings = notices_.warnings();
      notices_.attempt([&] { write_summary(flags_, outcome_, trainer); });
    }
  }

  // A resumed training whose best lies before its file has those states nowhere but, with
  // --checkpoint, in the folder; then report.kept_best says so.
  void warn_of_a_best_elsewhere() {
    const keel::TrainReport& report = outcome_.report;
    if (!flags_.resume || !flags_.judging.keep_best || !report.best) return;
    if (report.best->step >= flags_.resume->step() || report.kept_best) return;
    notices_.warn(fmt::format(
        "--keep-best: the best was step {}, and {} is of step {}: its states are those of another "
        "file, and the last ones stay",
        report.best->step, flags_.resume->path(), flags_.resume->step()));
  }

  void save(keel::Trainer& trainer) const {
    if (outcome_.non_finite_state && !flags_.allow_non_finite)
      require_no_finite_file("--save", flags_.save, *outcome_.non_finite_state);
    std::optional<keel::ValidationBest> best = outcome_.report.best;
    if (best && outcome_.report.kept_best)
      best = keel::ValidationBest{.value = best->value, .step = best->step, .last = best->value};
    trainer.save(flags_.save, metadata(best));
  }

  std::map<std::string, std::string> metadata(
      const std::optional<keel::ValidationBest>& best) const {
    auto metadata = saved_form(flags_.update, total_steps_);
    metadata["run"] = keel::write_json(run_configuration(flags_, graph_, total_steps_));
    metadata.merge(saved_form(flags_.augmentation));
    metadata.merge(saved_form(flags_.precision, flags_.precision_mode));
    metadata.merge(saved_acceleration(flags_));
    metadata.merge(
        std::map<std::string, std::string>{{"model", flags_.task->name},
                                           {"optimizer", flags_.optimizer},
                                           {"batch", std::to_string(flags_.global_batch())},
                                           {"data", saved_data_},
                                           {"data_sha256", data_sha256_}});
    metadata.merge(saved_passes(flags_));
    if (!flags_.own_update()) metadata["lr"] = fmt::format("{}", flags_.rate);
    if (flags_.micro_shards > 1) metadata["micro-shards"] = std::to_string(flags_.micro_shards);
    if (flags_.judging.validation > 0)
      metadata["validation"] = std::to_string(flags_.judging.validation);
    if (!flags_.label.empty()) metadata["label"] = flags_.label;
    if (flags_.placement != keel::PlacementPolicy::kFull)
      metadata["placement"] = keel::name_of(flags_.placement);
    if (const auto& model = flags_.task->model; model && !model->model_sha256.empty())
      metadata["model_sha256"] = model->model_sha256;
    task_->add_metadata(metadata);
    add_f16_overflow({graph_, keel::device(flags_.device, {}), flags_.precision.value,
                      device_options_.get(), flags_.accelerate},
                     metadata);
    Judge::add_best(flags_.judging, best, metadata);
    return metadata;
  }

  const TrainFlags& flags_;
  const std::shared_ptr<keel::Group> group_;  // null: it trains alone
  const keel::ComputeThreads threads_;
  std::shared_ptr<const keel::DeviceOptions> device_options_;
  std::optional<SavedModel> init_;
  std::unique_ptr<TrainTask> task_;
  std::optional<keel::ImageAugmentation> augmentation_;
  std::string saved_data_;   // what saved files say about where the data is
  std::string data_sha256_;  // of all training items, where a file is saved or resumed
  int64_t items_ = 0;        // that are trained on
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  keel::Graph graph_;
  TrainedModel model_;
  keel::Values states_before_update_;  // also those that are no weights, as running statistics
  keel::Values states_of_model_;       // that a model out of a file has weights for
  keel::Value skipped_;  // not 0 in steps that the loss scaling skips; invalid: there is none
  std::optional<TrainingProfile> profile_;
  Notices notices_;
  TrainOutcome outcome_;
};

}  // namespace

int run_train(const std::vector<std::string>& words) {
  CommandLine line("train", "trains a model and prints what it is worth on the test set");
  declare_train_flags(line);
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::shared_ptr<keel::Group> group = join_ranks();
  std::optional<TrainFlags> flags;
  std::optional<TrainRun> training;
  try {
    flags = read_train_flags(line, *group);
    // The log of the others would say the same once more.
    if (!flags->is_first_rank())
      keel::set_log_level(std::max(keel::log_level(), keel::LogLevel::kError));
    training.emplace(*flags, group);
  } catch (...) {
    group->fail(text_of_thrown());
    throw;
  }
  try {
    return training->run();
  } catch (...) {
    // Where another rank went first, that is the reason, whatever ended here because of it.
    if (const std::string loss = group->loss(); !loss.empty()) throw group->ended_by(loss);
    group->fail(text_of_thrown());
    throw;
  }
}

}  // namespace keel_cli
