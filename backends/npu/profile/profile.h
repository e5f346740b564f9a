// The profile of a program compiled for the NPU: where the modelled device's time goes, worked out
// from the prices it was compiled with, so it is the same on every run. All times are on the device
// clock, but for the spans of wall time that the caller hands in, which keep to lanes of their own.
//
//   op_summary.csv     one row for each launch of the chosen steps, in the columns of the real tool
//                      and a last one with the names of the nodes that it computes
//   op_statistic.csv   the same by kind of op
//   step_trace.csv     the steps: iteration, forward to backward, update, wait for data
//   timeline.json      for chrome://tracing or Perfetto: HOST, H2D, QUEUE, CONTROL, the stream,
//                      the units of each core, and HCCL where ranks sum; GETNEXT on the host where
//                      no queue feeds the steps
//   advice.txt         the launches that lose most, with reason, fix and modelled gain
//   aicpu.csv          launches on the AI CPU
//   api_statistic.csv  what the host asks of the device: launches and copies
//
// Launches are those of a training that nothing breaks off: each has as many steps as the loop
// size says. An evaluation, a checkpoint or an end of an epoch in between cuts a launch short and
// begins another one, which neither the tables nor the timeline have.
//
// ProfilingOptions say which of them there are; the first five where nobody says anything.
// Functions may be called from any thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_PROFILE_H
#define KEEL_BACKENDS_NPU_PROFILE_PROFILE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keel/backends/npu/profile/profiling_options.h"
#include "keel/core/base/export.h"
#include "keel/core/device/program.h"

namespace keel::npu {

// Wall time of something on the host, in ns from any beginning.
struct WallSpan {
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::string lane = "HOST (wall)";
};

inline constexpr int64_t kMostProfiledSteps = 1000;

struct ProfileOptions {
  std::string directory = {};  // made where it is missing
  int device = 0;              // the device that the timeline and the tables name, by its number
  int64_t first_step = 1;      // steps count from 1
  int64_t last_step = 3;       // at most kMostProfiledSteps of them
  int64_t steps_per_launch = 1;
  int64_t queue_depth = 2;     // the producer is always ready, and so many batches ahead
  size_t most_events = 50000;  // of the timeline; the cores' lanes are cut first
  std::vector<WallSpan> wall = {};
  ProfilingOptions profiling = {};  // but for its output, which is `directory`
};

// Returns whether a program is one that has a profile: one that was compiled for the NPU.
KEEL_API bool has_profile(const Program& program);

// Writes the files, and none where one of them cannot be made. Throws Error for a program of
// another backend, steps that are out of range, points that no task has, files that take more than
// the storage limit, a folder with a file of another profile that this one would leave there, and
// files that cannot be written.
KEEL_API void write_profile(const Program& program, const ProfileOptions& options);

// Something that the modelled device does, or its host, as the timeline has it.
struct ProfiledSpan {
  std::string lane;  // "HOST", "GETNEXT", "H2D", "QUEUE", "CONTROL", "STREAM 0", "HCCL"
  std::string name;
  int64_t step = 0;
  int64_t begin_ns = 0;  // device clock
  int64_t end_ns = 0;
};
// The timeline but for the cores, step by step; `directory`, `wall` and `profiling` do not matter.
// Throws Error as write_profile does.
KEEL_API std::vector<ProfiledSpan> profiled_spans(const Program& program,
                                                  const ProfileOptions& options);

// The part of one of several ranks in a timeline of all, on its device clock and on the wall clock.
// The wall clock's 0 is the same moment on all ranks, but for at most `wall_error_ns`.
struct RankTimeline {
  std::vector<ProfiledSpan> spans = {};
  std::vector<WallSpan> wall = {};
  int64_t wall_error_ns = 0;
  bool complete = true;  // false where spans were left out
};
// Returns one timeline of all ranks, in their order: for each of them a process with the lanes of
// its device clock, which is 0 where its first launch begins, and one with those of its wall clock.
// `otherData` says how the clocks are aligned, how far apart the wall clocks may be, and how far
// apart the ranks' device clocks have the same collective (null where they do not have the same),
// and whether it is complete: a timeline that would be too large has the first spans of each rank.
KEEL_API std::string merged_timeline(const std::vector<RankTimeline>& ranks);

// Returns spans as text, for one of `ranks` ranks that hands its timeline to another one: at most
// as many as a timeline of all keeps of each.
KEEL_API std::string write_rank_timeline(const RankTimeline& timeline, size_t ranks);
// Reads what a rank of the same training wrote, however large it is. Throws Error, which names
// `source`, for text that is none.
KEEL_API RankTimeline read_rank_timeline(const std::string& text, const std::string& source);

// The paths of the files that such options ask for.
KEEL_API std::vector<std::string> profile_files(const std::string& directory,
                                                const ProfilingOptions& profiling);

// Returns the ranks that have a folder of their own (rank_0 ...) in this one, in their order.
KEEL_API std::vector<int64_t> profiled_ranks(const std::string& directory);

// Returns what the files of a folder say, as a table for people; of a folder with profiles of
// several ranks (rank_0 ...) one table after the other. Throws Error for a folder without a
// step_trace.csv and an op_summary.csv, and for files that are damaged.
KEEL_API std::string profile_table(const std::string& directory);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_PROFILE_H
