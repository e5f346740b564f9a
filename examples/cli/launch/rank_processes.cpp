#include "cli/launch/rank_processes.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <keel/core/base/error.h>
#include <keel/core/group/join_group.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cli/base/commands.h"
#include "cli/train/stop_signals.h"

namespace keel_cli {
namespace {

using std::chrono::steady_clock;

// Survivors of a lost rank get so long to end by themselves.
constexpr std::chrono::seconds kGrace{5};
// And so long where they were asked to end before, and may save.
constexpr std::chrono::seconds kGraceToSave{60};
constexpr int kExitNotStarted = 127;

[[noreturn]] void fail(const std::string& what) {
  throw keel::Error(
      {.op = "launch", .message = what + ": " + std::generic_category().message(errno)});
}

void keep_open(int descriptor) { fcntl(descriptor, F_SETFD, 0); }

// In the new process; does not return.
[[noreturn]] void become_rank(const RankCommand& command, int rank, int socket, int page,
                              pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(kExitNotStarted);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  keep_open(socket);
  keep_open(page);
  setenv("RANK_ID", std::to_string(rank).c_str(), 1);
  setenv("RANK_SIZE", std::to_string(command.size).c_str(), 1);
  if (!command.rank_table.empty()) setenv("RANK_TABLE_FILE", command.rank_table.c_str(), 1);
  setenv(keel::kRankSocketVariable, std::to_string(socket).c_str(), 1);
  setenv(keel::kRankPageVariable, std::to_string(page).c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // `keel` is this program, wherever it lies.
  if (command.words[0] == "keel") execv("/proc/self/exe", words.data());
  execvp(words[0], words.data());
  const std::string text = "keel: error: " + command.words[0] +
                           ": cannot be started: " + std::generic_category().message(errno) + "\n";
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  _exit(kExitNotStarted);
}

// Ends the processes and waits for them.
void kill_all(std::vector<RankProcess>& ranks) {
  for (RankProcess& rank : ranks) {
    if (rank.process == 0) continue;
    kill(rank.process, SIGKILL);
    while (waitpid(rank.process, nullptr, 0) == -1 && errno == EINTR) {
    }
    rank.process = 0;
  }
}

std::string name_of_signal(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

// Job control of a terminal stops the launcher, too, and goes on with all of them.
bool by_terminal(int signal) { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

// Says how a rank was lost; nothing where it ended well, or was stopped by the terminal.
std::optional<RankEnd> read_status(int rank, int status, const keel::RankProgress& progress) {
  const std::string who = "rank " + std::to_string(rank);
  const auto lost = [&](const char* how, int signal) {
    return RankEnd{rank, who + how + name_of_signal(signal) + " " + to_string(progress),
                   kExitRankLost, /*cause=*/true};
  };
  if (WIFSIGNALED(status)) return lost(" was killed by ", WTERMSIG(status));
  if (WIFSTOPPED(status)) {
    if (by_terminal(WSTOPSIG(status))) return std::nullopt;
    return lost(" was stopped by ", WSTOPSIG(status));
  }
  const int code = WEXITSTATUS(status);
  if (code == 0) return std::nullopt;
  return RankEnd{rank, who + " ended with exit code " + std::to_string(code), code,
                 code != kExitRankLost};
}

class Watch {
 public:
  Watch(std::vector<RankProcess>& ranks, const SharedProgress& progress,
        const LossListener& listener)
      : ranks_(ranks), progress_(progress), listener_(listener) {}

  RankEnd run() {
    while (reap()) {
      if (lost() && !first_told_) {
        first_told_ = true;
        limit_those_left(end_);
        listener_.first(end_);
      }
      const bool late = deadline_ && steady_clock::now() >= *deadline_;
      if (late && !told_ && !end_.cause) blame_those_left();
      if (end_.cause || late) tell_cause();
      if (late) kill_all(ranks_);
      wait_for_signal();
    }
    tell_cause();
    // A rank that failed by itself, as in its last save, has a code that tells more.
    const bool has_own_code = end_.exit_code != kExitDone && end_.exit_code != kExitRankLost;
    if (interrupted_ != 0 && (lost() || ended_as_asked_) && !has_own_code)
      end_.exit_code = kExitSignalled + interrupted_;
    return end_;
  }

 private:
  bool lost() const { return end_.rank >= 0; }

  // From then on no other end counts.
  void tell_cause() {
    if (!lost() || told_) return;
    told_ = true;
    listener_.cause(end_);
  }

  // Ranks that still run have no longer than this after one that was lost, or that told of a loss.
  void limit_those_left(const RankEnd& since) {
    if (deadline_) return;
    grace_ = interrupted_ == 0 ? kGrace : kGraceToSave;
    deadline_ = steady_clock::now() + grace_;
    limited_since_ = since.how;
  }

  // Where every rank that ended did so because of another one, the cause is among those that did
  // not. REQUIRES one of them.
  void blame_those_left() {
    const auto runs = [](const RankProcess& rank) { return rank.process != 0; };
    const auto first = std::find_if(ranks_.begin(), ranks_.end(), runs);
    const auto others = std::count_if(first, ranks_.end(), runs) - 1;
    const auto rank = static_cast<int>(first - ranks_.begin());
    end_ = {rank,
            "rank " + std::to_string(rank) + " did not end within " +
                std::to_string(grace_.count()) + " s after " + limited_since_ +
                ", and was killed " + to_string(progress_.of(rank)) +
                (others == 0 ? "" : ", and " + std::to_string(others) + " more with it"),
            kExitRankLost, /*cause=*/true};
  }

  bool is_end_signal(int signal) const {
    return std::find(end_signals_.begin(), end_signals_.end(), signal) != end_signals_.end();
  }

  // Says whether a rank that was asked to end has done so: by the signal, with the code that stands
  // for one, or because another rank had.
  bool is_as_asked(int status) const {
    if (interrupted_ == 0 || WIFSTOPPED(status)) return false;
    if (WIFSIGNALED(status)) return is_end_signal(WTERMSIG(status));
    const int code = WEXITSTATUS(status);
    return code == kExitDone || code == kExitRankLost || is_end_signal(code - kExitSignalled);
  }

  // Takes note of what has become of them; false once all have ended.
  bool reap() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      RankProcess& rank = ranks_[i];
      int status = 0;
      if (rank.process == 0 || waitpid(rank.process, &status, WNOHANG | WUNTRACED) <= 0) continue;
      const bool as_asked = is_as_asked(status);
      const auto read = read_status(static_cast<int>(i), status, progress_.of(static_cast<int>(i)));
      if (!read && WIFEXITED(status)) listener_.well(static_cast<int>(i));
      if (read && as_asked) {
        ended_as_asked_ = true;
        listener_.as_asked(*read);
        if (!read->cause) limit_those_left(*read);
      }
      if (read && !as_asked && !told_ && (!lost() || (read->cause && !end_.cause))) end_ = *read;
      if (!WIFSTOPPED(status)) rank.process = 0;
    }
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const RankProcess& rank) { return rank.process != 0; });
  }

  void wait_for_signal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (const int signal : end_signals_) sigaddset(&set, signal);
    const timespec slice = {0, 100'000'000};
    siginfo_t info = {};
    const int signal = sigtimedwait(&set, &info, &slice);
    if (!is_end_signal(signal)) return;
    const bool is_first = interrupted_ == 0;
    interrupted_ = signal;
    // A terminal has sent it to the ranks, too; but a hangup only to the leader of the session.
    if (info.si_code == SI_KERNEL && signal != SIGHUP) return;
    // timeout(1) asks twice at once. A rank may get what is handed on later, and take the second
    // for another request.
    const auto now = steady_clock::now();
    if (is_first) asked_ = now;
    if (!is_first && now - asked_ < kOneRequest) return;
    for (const RankProcess& rank : ranks_) {
      if (rank.process != 0) kill(rank.process, signal);
    }
  }

  std::vector<RankProcess>& ranks_;
  const SharedProgress& progress_;
  const LossListener& listener_;
  const std::vector<int> end_signals_ = end_signals();
  RankEnd end_;  // the first one that is a cause, or else the first one
  bool first_told_ = false;
  bool told_ = false;
  bool ended_as_asked_ = false;
  int interrupted_ = 0;                  // the signal that asked the launcher to end
  steady_clock::time_point asked_ = {};  // when the first one came that was handed on
  // By when those that are left have to end, how long that is, and after what.
  std::optional<steady_clock::time_point> deadline_;
  std::chrono::seconds grace_{0};
  std::string limited_since_;
};

}  // namespace

SharedProgress::SharedProgress(int size)
    : bytes_(static_cast<size_t>(size) * sizeof(keel::RankProgress)),
      descriptor_(memfd_create("keel ranks", MFD_CLOEXEC)),
      page_(nullptr) {
  if (descriptor_ == -1 || ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0)
    fail("memory that ranks share");
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) fail("memory that ranks share");
  page_ = static_cast<keel::RankProgress*>(mapped);
}

SharedProgress::~SharedProgress() {
  munmap(page_, bytes_);
  close(descriptor_);
}

std::vector<int> end_signals() {
  std::vector<int> signals = {SIGINT, SIGTERM};
  struct sigaction action {};
  // A signal that is blocked stays pending even if it is ignored, so it must not be blocked.
  if (sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
    signals.push_back(SIGHUP);
  return signals;
}

std::vector<RankProcess> start_ranks(const RankCommand& command, const SharedProgress& progress) {
  std::vector<RankProcess> ranks;
  const pid_t launcher = getpid();
  for (int rank = 0; rank < command.size; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      const int reason = errno;
      kill_all(ranks);
      errno = reason;
      fail("a socket to rank " + std::to_string(rank));
    }
    const pid_t process = fork();
    if (process == 0) become_rank(command, rank, pair[1], progress.descriptor(), launcher);
    const int reason = errno;
    close(pair[1]);
    if (process == -1) {
      close(pair[0]);
      kill_all(ranks);
      errno = reason;
      fail("the process of rank " + std::to_string(rank));
    }
    ranks.push_back({process, pair[0]});
  }
  return ranks;
}

RankEnd wait_for_ranks(std::vector<RankProcess>& ranks, const SharedProgress& progress,
                       const LossListener& listener) {
  return Watch(ranks, progress, listener).run();
}

}  // namespace keel_cli
