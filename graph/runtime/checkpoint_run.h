// CheckpointRun: the checkpoints of one Trainer::fit(): when one is due, the copy, the thread that
// writes it and removes old files, and what its errors lead to. Owned by that fit, on the session's
// thread. Internal to graph/runtime.
#ifndef KEEL_GRAPH_RUNTIME_CHECKPOINT_RUN_H
#define KEEL_GRAPH_RUNTIME_CHECKPOINT_RUN_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/file.h"
#include "keel/core/group/group.h"
#include "keel/graph/runtime/checkpoint.h"
#include "keel/graph/runtime/checkpoint_options.h"

namespace keel {

// Throws Error (kInvalidArgument) for wrong options. `validates`: the training measures itself.
void check_checkpoint_options(const CheckpointOptions& options, bool validates, CallSite site);

class CheckpointRun {
 public:
  using Copy = std::function<SavedStates()>;

  // No options: it never saves. `copy` makes what is to be saved of the states as they are.
  // `group`: the ranks that train together, or null; rank 0 alone decides and writes, and the
  // copies of the others, which all have to make the same calls, are dropped. Throws Error
  // (kInvalidArgument) for wrong options. The report and the group must outlive it.
  CheckpointRun(const std::optional<CheckpointOptions>& options, bool validates, Copy copy,
                Group* group, CheckpointReport& report, CallSite site);
  // Waits for the writing thread.
  ~CheckpointRun();
  CheckpointRun(const CheckpointRun&) = delete;
  CheckpointRun& operator=(const CheckpointRun&) = delete;

  // Before the first step: makes and locks the folder, sees that it can be written to and holds no
  // other training's files, and starts the thread. `resumed_from`: the file that the training goes
  // on from, or nothing. `best`: the step of the best before.
  void begin(int64_t step, const std::string& resumed_from, std::optional<int64_t> best);
  // Returns, behind begin(), the file of the best before, where rank 0 has it; else nothing.
  const std::string& file_of_best() const noexcept { return file_of_best_; }

  // The first step behind `step` after which one is due; `target` where there is none before.
  int64_t next(int64_t step, int64_t target) const;
  // Says whether the launch that runs is to end for it. Between a step and the next.
  bool ends_launch() const;
  // Between launches, behind `step`. Throws the Error of a save where that stops the training.
  void after(int64_t step, bool is_best);
  // Behind the last step: saves it, and waits until it is written. Throws likewise.
  void finish(int64_t step);
  // The same for a fit that failed, but for throwing. Where the failure was one of saving it saves
  // no more.
  void finish_failed(int64_t step) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    int64_t step = 0;
    bool is_best = false;
    SavedStates states;
  };
  struct Done {
    Job job;  // without its states
    std::optional<Error> error;
  };

  bool on() const noexcept { return options_ != nullptr; }
  bool follows() const noexcept { return group_ != nullptr && group_->rank() != 0; }
  // Returns what rank 0 says.
  bool decided(bool own) const;
  void find_best();
  bool is_due(int64_t step, bool wanted);
  bool time_is_up() const;
  void save(bool is_best);
  bool busy() const;
  void wait_for_writer();
  // Takes what the thread has done into the report.
  void collect();
  void run_writer();
  std::optional<Error> write(const Job& job);
  void remove_left_behind();
  void remove_old_files(const Job& job);

  const CheckpointOptions* options_ = nullptr;
  Copy copy_;
  Group* group_;
  CheckpointReport& report_;
  CallSite site_;
  std::optional<FolderLock> lock_;
  bool due_ = false;  // one was put off
  Clock::time_point last_copy_;
  std::optional<int64_t> newest_;  // the step that was saved last, or is being saved
  std::string file_of_best_;
  std::optional<int64_t> best_to_retry_;  // the step of a best that could not be written
  bool threw_ = false;

  // The writing thread alone uses these from begin() on.
  std::set<int64_t> left_behind_;  // steps of files that the training left when it was resumed
  std::optional<int64_t> best_;    // the step of the best's file

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;  // until it is written
  std::vector<Done> done_;  // that collect() has not seen
  bool closing_ = false;
  std::thread writer_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_CHECKPOINT_RUN_H
