#include "cli/train/result_lines.h"

#include <algorithm>
#include <string>

#include <fmt/core.h>

namespace keel_cli {
namespace {

void print_judgement(const TrainFlags& flags, const TrainOutcome& outcome, Progress& progress) {
  const JudgingFlags& judging = flags.judging;
  const keel::TrainReport& report = outcome.report;
  if (!judging.decides()) return;
  if (report.stopped_early && report.target_reached) {
    progress.line(fmt::format("stopped by --stop-at: {} {:.4f}", judging.metric,
                              report.best->last.value_or(report.best->value)));
  } else if (report.stopped_early && report.out_of_patience) {
    progress.line(report.best ? fmt::format("stopped by --patience: {} judgements since the best",
                                            report.best->since)
                              : fmt::format("stopped by --patience: {} judgements, and no {} "
                                            "among them is a number",
                                            report.validations.size(), judging.metric));
  }
  if (!report.best) return;
  progress.line(fmt::format("best: step {}, {} {:.4f}{}", report.best->step, judging.metric,
                            report.best->value,
                            report.kept_best ? "; its states are the ones at the end" : ""));
}

// Returns advice for where no gradient was finite; empty where the scale is as small as it can be.
std::string how_to_begin_smaller(const TrainFlags& flags, const StepScale& scale) {
  if (scale.scale <= 1) return "";
  if (flags.resume) return "; --init in place of --resume takes another --loss-scale";
  const bool moves = flags.update.loss_scale.starts_with(kExponentialLossScale);
  return moves ? "; a --loss-scale that begins smaller may help"
               : "; a smaller --loss-scale may help";
}

}  // namespace

void print_result(const TrainFlags& flags, const TrainOutcome& outcome, const TrainTask& task,
                  Progress& progress) {
  const keel::TrainReport& report = outcome.report;
  progress.line(fmt::format(
      "{}: {} steps in {:.3f} s wall time ({:.1f} us a step, {:.0f} {}/s), {}",
      report.cancelled ? "interrupted" : "done", report.steps, report.seconds, outcome.step_us(),
      outcome.images_per_second(flags.global_batch()), task.items(), task.result(outcome.test)));
  print_judgement(flags, outcome, progress);
  if (outcome.scale) {
    progress.line(fmt::format("loss scale: {:g}, {} of {} steps skipped", outcome.scale->scale,
                              outcome.scale->skipped_steps, report.steps));
  }
  if (flags.accelerate) {
    progress.line(fmt::format(
        "accelerated: {} of {} steps in {}, {}", report.fast_steps, report.steps,
        outcome.fast_precision,
        report.switched_at
            ? fmt::format("in {} behind step {}{}", flags.precision_mode, *report.switched_at,
                          report.fast_steps > 0 && *report.switched_at % report.loop_size != 0
                              ? ", for which a launch was cut short"
                              : "")
            : "never in " + flags.precision_mode));
  }
  if (report.steps > 0) progress.line("feeding: " + outcome.feeding());
  if (report.steps > 0 && !outcome.ranks.empty()) {
    const SlowestRank slowest = slowest_of(outcome.ranks);
    progress.line(fmt::format("ranks: {} is the slowest, waited for {:.3f} s ({:.0f} %)",
                              slowest.rank, slowest.seconds,
                              100 * slowest.seconds / std::max(report.seconds, 1e-9)));
  }
  if (report.dumped_steps > 0)
    progress.line(fmt::format("dump: {} steps in {}", report.dumped_steps, report.dump_folder));
  if (const keel::CheckpointReport& saved = report.checkpoint; saved.saved + saved.failed > 0) {
    progress.line(
        fmt::format("checkpoints: {} written, {} failed{}. The training waited {:.3f} s for "
                    "copies and {:.3f} s for the disk",
                    saved.saved, saved.failed,
                    saved.last_step ? "; the last is " + saved.last_file : std::string(),
                    saved.copy_seconds, saved.wait_seconds));
  }
  if (flags.loop_tuner) {
    progress.line(fmt::format("loop size: {} (found by --loop-size)", loop_size_of(flags, report)));
  }
  if (outcome.step_device_ns) {
    progress.line(fmt::format("modelled {}: {:.1f} us a step (device clock)",
                              outcome.modelled_device,
                              static_cast<double>(*outcome.step_device_ns) * 1e-3));
  } else if (flags.backend == "npu") {
    progress.line("modelled time: none, the step's control flow depends on data");
  }
  if (report.float_status_step) {
    progress.line(fmt::format("float status: {}, first in step {}",
                              keel::describe_float_status(report.float_status),
                              *report.float_status_step));
  }
}

void warn_if_all_were_skipped(const TrainFlags& flags, const TrainOutcome& outcome,
                              Notices& notices) {
  if (!outcome.scale || outcome.report.updates_applied > 0 || outcome.scale->skipped_steps == 0)
    return;
  // With --accumulate there are fewer updates than steps.
  const int64_t updates = outcome.scale->skipped_steps;
  const std::string skipped = updates == 1 ? "the only one was skipped, as its"
                                           : fmt::format("all {} were skipped, as their", updates);
  notices.warn(
      fmt::format("no update was applied: {} gradients were not finite, and the loss scale is {:g} "
                  "at the end{}",
                  skipped, outcome.scale->scale, how_to_begin_smaller(flags, *outcome.scale)));
}

}  // namespace keel_cli
