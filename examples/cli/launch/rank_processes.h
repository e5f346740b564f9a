// The processes of a job on this machine: started, watched and ended together. One thread.
#ifndef KEEL_EXAMPLES_CLI_LAUNCH_RANK_PROCESSES_H
#define KEEL_EXAMPLES_CLI_LAUNCH_RANK_PROCESSES_H

#include <functional>
#include <string>
#include <vector>

#include <keel/core/group/rank_progress.h>
#include <sys/types.h>

namespace keel_cli {

// Memory that ranks share with their launcher: how far each of them is.
class SharedProgress {
 public:
  // Throws keel::Error where the system gives none.
  explicit SharedProgress(int size);
  ~SharedProgress();
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;

  int descriptor() const noexcept { return descriptor_; }
  const keel::RankProgress& of(int rank) const { return page_[rank]; }

 private:
  size_t bytes_;
  int descriptor_;
  keel::RankProgress* page_;
};

struct RankCommand {
  std::vector<std::string> words;
  std::string rank_table = {};  // empty: none
  int size = 1;
};

struct RankProcess {
  pid_t process = 0;  // 0: it has ended
  int socket = -1;    // the launcher's end
};

// Describes the loss of a rank, and has the exit code that the launcher ends with because of it.
struct RankEnd {
  int rank = -1;  // -1: every rank ended well, or as it was asked to
  std::string how = {};
  int exit_code = 0;
  bool cause = false;  // it did not end because of another rank
};

// Returns the signals that ask the launcher and its ranks to end: SIGINT, SIGTERM and SIGHUP, the
// last not where the process was started with it ignored (nohup).
std::vector<int> end_signals();

// Starts them all; throws keel::Error where one cannot be, after it has ended the others. SIGCHLD
// and `end_signals` have to be blocked; the processes start with no signal blocked.
std::vector<RankProcess> start_ranks(const RankCommand& command, const SharedProgress& progress);

// Is told by wait_for_ranks of ranks that have ended; `first` and `cause` at most once.
struct LossListener {
  // With each one that ended with exit code 0, whether it had left the others or not.
  std::function<void(int rank)> well;
  // With each one that ended as it was asked to, whether the others know of that or not.
  std::function<void(const RankEnd&)> as_asked;
  // At once, with the first one. It may have ended because of another one, of which is not known
  // yet.
  std::function<void(const RankEnd&)> first;
  // With the cause. Where none of those that ended is one, that is who did not end in time; the
  // first one where all have ended.
  std::function<void(const RankEnd&)> cause;
};

// Waits until all have ended; returns what was told as the cause. `end_signals` are handed on to
// them, and a rank that ends by one then, or with the exit code 0, kExitRankLost or that of such a
// signal, is not lost. A rank that still runs some seconds after another one was lost, or ended
// with kExitRankLost, is killed, a minute after it where one of those signals had come before, for
// ranks may save then.
RankEnd wait_for_ranks(std::vector<RankProcess>& ranks, const SharedProgress& progress,
                       const LossListener& listener);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_LAUNCH_RANK_PROCESSES_H
