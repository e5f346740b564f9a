#include "cli/train/stop_signals.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

#include <keel/core/group/join_group.h>

#include "cli/base/commands.h"

namespace keel_cli {
namespace {

using std::chrono::nanoseconds;

// A launcher hands on what it was asked no later than this, and its ranks may have been asked the
// same by the same sender.
constexpr std::chrono::seconds kOtherWay{1};

// The handler reads these, since a signal carries no pointer of ours.
std::atomic<keel::Trainer*> watched_trainer{nullptr};
std::atomic<int> first_signal{0};
std::atomic<bool> has_launcher{false};
// When the launcher asked first, and when anybody else did; 0: not yet.
std::atomic<int64_t> asked_by_launcher{0}, asked_by_others{0};
static_assert(std::atomic<int64_t>::is_always_lock_free);

void note(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (keel::Trainer* trainer = watched_trainer.load()) trainer->cancel();
}

// Says whether who asks has asked before, or somebody else has who meant another request.
bool asks_again(std::atomic<int64_t>& first_asked, const std::atomic<int64_t>& asked_by_other) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  int64_t first = 0;
  const int64_t other = asked_by_other.load();
  const bool asked = !first_asked.compare_exchange_strong(first, now);
  return (asked && now - first > nanoseconds(kOneRequest).count()) ||
         (other != 0 && now - other > nanoseconds(kOtherWay).count());
}

extern "C" void on_stop_signal(int signal, siginfo_t* info, void* /*context*/) {
  const int saved_errno = errno;
  const bool by_launcher =
      has_launcher.load() && info->si_code == SI_USER && info->si_pid == getppid();
  const bool again = by_launcher ? asks_again(asked_by_launcher, asked_by_others)
                                 : asks_again(asked_by_others, asked_by_launcher);
  // Shells send a hangup to each process of a job, however often, so that a second one shows no
  // haste.
  if (again && signal != SIGHUP) _exit(kExitSignalled + signal);
  if (first_signal.load() == 0) note(signal);
  errno = saved_errno;
}

}  // namespace

SignalActions::~SignalActions() {
  for (const auto& [signal, action] : previous_) sigaction(signal, &action, nullptr);
}

void SignalActions::replace(int signal, struct sigaction action) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (signal == SIGHUP && before.sa_handler == SIG_IGN) return;
  action.sa_flags |= SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  previous_.emplace_back(signal, before);
}

StopSignals::StopSignals() {
  first_signal = 0;
  asked_by_launcher = asked_by_others = 0;
  has_launcher = std::getenv(keel::kRankSocketVariable) != nullptr;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  actions_.replace(SIGPIPE, ignore);
}

StopSignals::Watch::Watch(StopSignals& signals, keel::Trainer& trainer) {
  watched_trainer = &trainer;
  if (signals.signal() != 0) trainer.cancel();
  struct sigaction stop {};
  stop.sa_sigaction = on_stop_signal;
  stop.sa_flags = SA_SIGINFO;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) actions_.replace(signal, stop);
}

StopSignals::Watch::~Watch() { watched_trainer = nullptr; }

void StopSignals::stop(int signal) { note(signal); }
int StopSignals::signal() const { return first_signal.load(); }

}  // namespace keel_cli
