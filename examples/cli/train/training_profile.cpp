#include "cli/train/training_profile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>
#include <keel/core/base/file.h>

#include "cli/base/flag_errors.h"
#include "cli/base/output_files.h"
#include "cli/train/summary.h"

namespace keel_cli {
namespace {

constexpr const char* kTimeline = "/timeline.json";
// Votes in the time of one step: before it, behind it, and between launches.
constexpr size_t kMostVotesOfAStep = 4;
constexpr const char* kCollectivesLane = "COLLECTIVES (wall)";

bool exists(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

std::string folder_of_rank(const std::string& folder, int64_t rank) {
  return folder + "/rank_" + std::to_string(rank);
}

void refuse_old(const std::string& path, const char* of) {
  if (!exists(path)) return;
  throw keel::Error({.op = "profile",
                     .argument = path,
                     .message = std::string("is of a profile of ") + of,
                     .fix = "remove it, or choose another folder"});
}

// Returns how many sums over ranks a step of the program has.
size_t sums_of_a_step(const keel::Program& program, keel::npu::ProfileOptions options) {
  options.last_step = options.first_step;
  const std::vector<keel::npu::ProfiledSpan> spans = keel::npu::profiled_spans(program, options);
  return static_cast<size_t>(std::count_if(spans.begin(), spans.end(),
                                           [](const auto& span) { return span.lane == "HCCL"; }));
}

int64_t ns_of(std::chrono::steady_clock::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

}  // namespace

TrainingProfile::TrainingProfile(const TrainFlags& flags, keel::Group* group, int64_t total_steps)
    : flags_(flags),
      group_(group),
      total_steps_(total_steps),
      before_(flags.resume ? flags.resume->step() : 0),
      steps_(total_steps - before_) {
  if (!wanted() || flags.profile.first_step <= steps_) return;
  const std::string resumed = before_ == 0 ? ""
                                           : ", as they count from the first one behind the " +
                                                 std::to_string(before_) + " of --resume";
  throw keel::Error({.op = "--profile-steps",
                     .expected = "steps up to " + std::to_string(steps_) + resumed,
                     .got = std::to_string(flags.profile.first_step),
                     .kind = keel::ErrorKind::kInvalidArgument});
}

void TrainingProfile::begin(keel::Trainer& trainer) {
  if (!wanted()) return;
  refuse_other_profiles();
  device_ = trainer.session().device().index();
  keel::npu::ProfileOptions files = options({});
  const keel::Program& profiled = program(trainer, {}, files);
  write(profiled, files);
  if (group_ == nullptr) return;
  if (group_->rank() == 0) require_writable("--profile", flags_.profile.folder + kTimeline);
  const auto steps = static_cast<size_t>(files.last_step - files.first_step + 1);
  group_->times().record(before_ + files.first_step, before_ + files.last_step,
                         steps * (sums_of_a_step(profiled, files) + kMostVotesOfAStep));
  align_clocks();
}

void TrainingProfile::finish(const keel::Trainer& trainer, const keel::TrainReport& report,
                             Notices& notices) {
  const bool first_rank = group_ == nullptr || group_->rank() == 0;
  if (steps_ == 0 && first_rank && !flags_.profile.folder.empty())
    notices.warn("no profile is written: this run has no steps");
  if (!wanted()) return;
  keel::npu::ProfileOptions files = options(report);
  files.wall = wall(report);
  const keel::Program& profiled = program(trainer, report, files);
  notices.attempt([&] { write(profiled, files); });
  if (group_ == nullptr || flags_.profile.options.task_trace == keel::npu::TaskTrace::kOff) return;
  // A rank that has none says so: the others wait for its part.
  std::string own;
  notices.attempt([&] {
    own = keel::npu::write_rank_timeline({.spans = keel::npu::profiled_spans(profiled, files),
                                          .wall = files.wall,
                                          .wall_error_ns = wall_error_ns_,
                                          .complete = group_->times().dropped() == 0},
                                         static_cast<size_t>(group_->size()));
  });
  const std::vector<std::string> all = group_->all_gather(own);
  if (group_->rank() == 0) notices.attempt([&] { write_merged(all); });
}

std::string TrainingProfile::own_folder() const {
  const std::string& folder = flags_.profile.folder;
  return group_ == nullptr ? folder : folder_of_rank(folder, group_->rank());
}

void TrainingProfile::refuse_other_profiles() const {
  const std::string& folder = flags_.profile.folder;
  if (group_ != nullptr && group_->rank() != 0) return;
  const int ranks = group_ == nullptr ? 0 : group_->size();
  for (const int64_t rank : keel::npu::profiled_ranks(folder)) {
    if (rank >= ranks)
      refuse_old(folder_of_rank(folder, rank), ranks == 0 ? "several ranks" : "more ranks");
  }
  if (group_ == nullptr) return;
  for (const std::string& path :
       keel::npu::profile_files(folder, {.aicpu = true, .runtime_api = true})) {
    // The timeline of all ranks takes the place of another one.
    if (path != folder + kTimeline) refuse_old(path, "one rank");
  }
}

// No rank leaves the second gather before all have come to it. So what it took a rank bounds how
// much later than another one that rank left it.
void TrainingProfile::align_clocks() {
  using Clock = keel::CollectiveTimes::Clock;
  group_->all_gather("");
  const Clock::time_point begin = Clock::now();
  group_->all_gather("");
  zero_ = Clock::now();
  wall_error_ns_ = ns_of(zero_ - begin);
}

keel::npu::ProfileOptions TrainingProfile::options(const keel::TrainReport& report) const {
  return {.directory = own_folder(),
          .device = device_,
          .first_step = flags_.profile.first_step,
          .last_step = std::min(flags_.profile.last_step, steps_),
          .steps_per_launch = loop_size_of(flags_, report),
          .profiling = flags_.profile.options};
}

// A profile of an accelerated training is of one phase, that of its first step.
const keel::Program& TrainingProfile::program(const keel::Trainer& trainer,
                                              const keel::TrainReport& report,
                                              keel::npu::ProfileOptions& options) const {
  if (trainer.fast_loop() == nullptr) return trainer.program();
  // The states that are kept in the end may be of before the change.
  const int64_t last_fast =
      report.switched_at.value_or(trainer.end_of_fast_phase(total_steps_)) - before_;
  if (options.first_step > last_fast) return trainer.program();
  options.last_step = std::min(options.last_step, last_fast);
  return trainer.fast_loop()->program();
}

void TrainingProfile::write(const keel::Program& program,
                            const keel::npu::ProfileOptions& options) const {
  const bool by_options = !flags_.profile.options.output.empty();
  in_flag(
      by_options ? "output of the profiling options" : "--profile",
      [&] { keel::npu::write_profile(program, options); }, "profile");
}

// The training, and where there are ranks the collectives of the profiled steps.
std::vector<keel::npu::WallSpan> TrainingProfile::wall(const keel::TrainReport& report) const {
  std::vector<keel::npu::WallSpan> spans;
  if (report.steps > 0) {
    const auto ns = static_cast<int64_t>(report.seconds * 1e9);
    spans.push_back({fmt::format("training, {} steps", report.steps), 0, ns});
  }
  if (group_ == nullptr) return spans;
  for (const keel::CollectiveSpan& span : group_->times().recorded()) {
    const auto add = [&](const char* what, auto begin, auto end) {
      // Steps of a profile count from this run's first one.
      const int64_t step = span.step - before_;
      spans.push_back({fmt::format("{}: {} of step {}", what, span.name.data(), step),
                       ns_of(begin - zero_), ns_of(end - zero_), kCollectivesLane});
    };
    add("wait for ranks", span.begin, span.met);
    add("sum", span.met, span.end);
  }
  return spans;
}

void TrainingProfile::write_merged(const std::vector<std::string>& by_rank) const {
  std::vector<keel::npu::RankTimeline> ranks;
  for (const std::string& text : by_rank)
    ranks.push_back(
        keel::npu::read_rank_timeline(text, fmt::format("timeline of rank {}", ranks.size())));
  keel::write_file_atomically(flags_.profile.folder + kTimeline, keel::npu::merged_timeline(ranks));
}

}  // namespace keel_cli
