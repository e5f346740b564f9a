// RankReport: what a rank of a training came to. SlowestRank: the rank that the others wait for,
// which is the one that waits least itself. One thread of each rank.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_RANK_REPORTS_H
#define KEEL_EXAMPLES_CLI_TRAIN_RANK_REPORTS_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <keel/core/base/json.h>
#include <keel/core/group/group.h>
#include <keel/graph/runtime/trainer.h>

namespace keel_cli {

// A rank makes one of itself at the end.
struct RankReport {
  std::string host;
  int threads = 1;
  int64_t steps = 0;
  double seconds = 0;          // wall time of its launches
  double queue_wait = 0;       // of those, seconds without a batch
  double collective_wait = 0;  // seconds for which it waited for other ranks
  double collective = 0;       // seconds of sums, once all ranks were there
  int64_t peak_rss_bytes = 0;

  // The seconds that are left, in which it computed.
  double compute() const;
};
using RankReports = std::vector<RankReport>;

// Returns what all ranks say, in their order. All ranks call it.
RankReports gather_rank_reports(keel::Group& group, const keel::TrainReport& report, int threads);

// `rank`: waits least; `seconds`: how much longer the rank waits that waits most, which is how long
// the slowest holds others up.
struct SlowestRank {
  int rank = 0;
  double seconds = 0;
};
SlowestRank slowest_of(const std::vector<double>& waits);
SlowestRank slowest_of(const RankReports& ranks);

// For a line that tells how a training goes: which rank was the slowest between the last vote of
// the ranks before this line and that before the line before.
class SlowestRankNote {
 public:
  explicit SlowestRankNote(std::shared_ptr<keel::Group> group);
  // "slowest rank 1 (34 % of the time waited for)". The note before, or nothing, where the ranks
  // have not voted since: then nobody knows what the others have waited meanwhile.
  std::string next();

 private:
  std::shared_ptr<keel::Group> group_;
  keel::VotedWaits before_;
  std::string note_;
};

// The fields `rank_metrics` and `slowest_rank` of a summary. `batch` is each rank's.
void add_rank_reports(const RankReports& ranks, int64_t batch, keel::Json& summary);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_RANK_REPORTS_H
