// TrainingProfile: the profile of a training, as its flags ask for it. Each of several ranks writes
// its own files, into the folder rank_N of that of the flags, and rank 0 writes one timeline of all
// ranks beside these folders. One thread of each rank.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_TRAINING_PROFILE_H
#define KEEL_EXAMPLES_CLI_TRAIN_TRAINING_PROFILE_H

#include <cstdint>
#include <string>
#include <vector>

#include <keel/backends/npu/profile/profile.h>
#include <keel/core/group/group.h>
#include <keel/graph/runtime/trainer.h>

#include "cli/train/notices.h"
#include "cli/train/train_options.h"

namespace keel_cli {

class TrainingProfile {
 public:
  // `group`: null: it trains alone. Both have to outlive it. Throws keel::Error where the steps
  // that are to be profiled, which count from this run's first one, lie behind its last one.
  TrainingProfile(const TrainFlags& flags, keel::Group* group, int64_t total_steps);

  // Right before the first step: writes the files without wall times, so that a wrong folder is
  // known early. All ranks call it.
  void begin(keel::Trainer& trainer);
  // Behind the last step: writes them again, and rank 0 the timeline of all. All ranks call it.
  void finish(const keel::Trainer& trainer, const keel::TrainReport& report, Notices& notices);

 private:
  // A run without steps has no profile.
  bool wanted() const { return steps_ > 0 && !flags_.profile.folder.empty(); }
  std::string own_folder() const;
  void refuse_other_profiles() const;
  void align_clocks();
  keel::npu::ProfileOptions options(const keel::TrainReport& report) const;
  const keel::Program& program(const keel::Trainer& trainer, const keel::TrainReport& report,
                               keel::npu::ProfileOptions& options) const;
  void write(const keel::Program& program, const keel::npu::ProfileOptions& options) const;
  std::vector<keel::npu::WallSpan> wall(const keel::TrainReport& report) const;
  void write_merged(const std::vector<std::string>& by_rank) const;

  const TrainFlags& flags_;
  keel::Group* group_;
  int64_t total_steps_;  // with those before this run
  int64_t before_;
  int64_t steps_;
  int device_ = 0;                                 // number of the device
  keel::CollectiveTimes::Clock::time_point zero_;  // of the wall clock
  int64_t wall_error_ns_ = 0;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_TRAINING_PROFILE_H
