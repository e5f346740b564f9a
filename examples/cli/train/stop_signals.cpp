#include "cli/train/stop_signals.h"

#include <atomic>
#include <cerrno>
#include <unistd.h>

#include "cli/base/commands.h"

namespace keel_cli {
namespace {

// The handler reads these, since a signal carries no pointer of ours.
std::atomic<keel::Trainer*> watched_trainer{nullptr};
std::atomic<int> first_signal{0};

void note(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (keel::Trainer* trainer = watched_trainer.load()) trainer->cancel();
}

extern "C" void on_stop_signal(int signal) {
  const int saved_errno = errno;
  const bool first = first_signal.load() == 0;
  // Shells send a hangup to each process of a job, and `keel launch` hands its own on to its ranks,
  // so that a second one shows no haste.
  if (!first && signal != SIGHUP) _exit(kExitSignalled + signal);
  if (first) note(signal);
  errno = saved_errno;
}

}  // namespace

SignalActions::~SignalActions() {
  for (const auto& [signal, action] : previous_) sigaction(signal, &action, nullptr);
}

void SignalActions::replace(int signal, void (*handler)(int)) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (signal == SIGHUP && before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  previous_.emplace_back(signal, before);
}

StopSignals::StopSignals() {
  first_signal = 0;
  actions_.replace(SIGPIPE, SIG_IGN);
}

StopSignals::Watch::Watch(StopSignals& signals, keel::Trainer& trainer) {
  watched_trainer = &trainer;
  if (signals.signal() != 0) trainer.cancel();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) actions_.replace(signal, on_stop_signal);
}

StopSignals::Watch::~Watch() { watched_trainer = nullptr; }

void StopSignals::stop(int signal) { note(signal); }
int StopSignals::signal() const { return first_signal.load(); }

}  // namespace keel_cli
