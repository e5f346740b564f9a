#include "cli/train/first_lines.h"

#include <algorithm>
#include <string>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "cli/model/f16_overflow.h"
#include "cli/train/training_update.h"

namespace keel_cli {
namespace {

class FirstLines {
 public:
  FirstLines(const StartOfTraining& start, Progress& progress, Notices& notices)
      : start_(start), flags_(start.flags), progress_(progress), notices_(notices) {}

  void print() {
    if (const TrainFlags::Config& config = flags_.config; !config.flags.empty())
      progress_.line(fmt::format("config: {} says {}", config.file, fmt::join(config.flags, ", ")));
    progress_.line("data: " + start_.outcome.data);
    if (flags_.resume) {
      say_what_is_resumed(*flags_.resume);
      warn_of_other_overflow(*flags_.resume);
    }
    if (const std::string other = other_passes(flags_); !other.empty()) notices_.warn(other);
    say_what_is_trained();
    if (start_.ranks > 1) say_who_trains();
    if (flags_.task->has_own_update())
      progress_.line(describe_update(flags_.optimizer, start_.own_update));
    if (const auto& init = start_.outcome.init)
      progress_.line("init: " + flags_.init + ": " + describe(*init));
    if (const auto& augmentation = start_.augmentation) {
      progress_.line(fmt::format("training images of {}x{} are changed anew in each epoch: {}",
                                 augmentation->image[0], augmentation->image[1],
                                 flags_.augmentation.describe()));
    }
    say_what_judges();
    say_what_is_left_out();
    warn_of_the_end_of_a_schedule();
  }

 private:
  void warn_of_other_overflow(const SavedRun& saved) {
    const keel::Session& session = start_.session;
    const std::string other =
        other_f16_overflow(saved.metadata(),
                           {session.graph(), session.device(), flags_.precision.value,
                            device_options(flags_).get(), flags_.accelerate},
                           saved.path());
    if (!other.empty()) notices_.warn(other);
  }

  void say_what_is_resumed(const SavedRun& saved) {
    progress_.line(fmt::format("resuming {} at step {}", saved.path(), saved.step()));
    if (saved.at("backend") == flags_.backend && saved.at("isa") == isa_of(start_.session.device()))
      return;
    notices_.keep(fmt::format("{} was trained on {} ({}): the last bits may differ", saved.path(),
                              saved.at("backend"), saved.at("isa")));
  }

  void say_what_is_trained() {
    progress_.line(
        fmt::format("training {} on {} in {}, {} steps of {} {}, loop size {}, {} thread{}",
                    flags_.task->name, start_.session.device().name(), flags_.precision_mode,
                    start_.steps, flags_.global_batch(), start_.task.items(),
                    flags_.loop_tuner ? "to be found" : std::to_string(flags_.loop_size.value()),
                    flags_.threads, flags_.threads == 1 ? "" : "s"));
  }

  void say_who_trains() {
    progress_.line(fmt::format("ranks: {}, each with {} of the {} {} of a step, sums over {}",
                               start_.ranks, flags_.batch, flags_.global_batch(),
                               start_.task.items(), start_.outcome.rank_transport));
    if (const std::string& why = start_.outcome.why_not_bit_equal; !why.empty())
      notices_.warn("another number of ranks would give other bits: " + why);
  }

  void say_what_judges() {
    const JudgingFlags& judging = flags_.judging;
    if (judging.validation > 0) {
      progress_.line(fmt::format("judged on the last {} training {}; {} are trained on",
                                 judging.validation, start_.task.items(), start_.items));
    } else if (judging.decides()) {
      progress_.line(fmt::format(
          "judged on the test {0}: --validation N keeps training {0} aside for it, so that the "
          "test stays one",
          start_.task.items()));
    }
  }

  void say_what_is_left_out() {
    if (const int64_t left_out = start_.items % flags_.global_batch(); left_out != 0) {
      progress_.line(
          fmt::format("the last {} {} of each epoch's order do not fill a batch and are left out",
                      left_out, start_.task.items()));
    }
    if (const int64_t rest = start_.steps % flags_.update.accumulate; rest != 0) {
      progress_.line(fmt::format(
          "the last {} steps do not fill an update of --accumulate {} and change no weights", rest,
          flags_.update.accumulate));
    }
  }

  // Behind its end most schedules have a rate of 0, and the steps change no weights.
  void warn_of_the_end_of_a_schedule() {
    const auto scheduled = schedule_updates_of(flags_.update, start_.steps);
    const int64_t batches = flags_.update.accumulate, done = start_.session.step() / batches;
    if (!scheduled || std::max(*scheduled, done) >= start_.steps / batches) return;
    const std::string of = flags_.resume ? " of " + flags_.resume->path() : "";
    const int64_t last = *scheduled * batches;
    const std::string end = done < *scheduled
                                ? fmt::format("ends at step {} of {}", last, start_.steps)
                                : fmt::format("ended at step {}", last);
    notices_.warn(fmt::format(
        "the schedule{} {}, and the rate stays at its end, which is 0 for cosine, linear and "
        "polynomial: {}",
        of, end,
        flags_.resume ? "--init in place of --resume begins a new schedule"
                      : "leave out --schedule-steps to spread it over all steps"));
  }

  const StartOfTraining& start_;
  const TrainFlags& flags_;
  Progress& progress_;
  Notices& notices_;
};

}  // namespace

void print_first_lines(const StartOfTraining& start, Progress& progress, Notices& notices) {
  FirstLines(start, progress, notices).print();
}

}  // namespace keel_cli
