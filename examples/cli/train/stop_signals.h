// StopSignals: what ends a training from outside: Ctrl-C, SIGTERM, SIGHUP, and a pipe whose reader
// went away. The first one ends the training after the step that runs, so that what is asked for is
// still saved and summarised; whoever asks a second time, but for a hangup, ends the process at
// once. A rank may be asked by its launcher and by the one that asked the launcher, too, as where a
// signal goes to the whole process group, so that these two count as one within a second. One
// at a time in a process; stop() and signal() may be called by any thread.
#ifndef KEEL_EXAMPLES_CLI_TRAIN_STOP_SIGNALS_H
#define KEEL_EXAMPLES_CLI_TRAIN_STOP_SIGNALS_H

#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include <keel/keel.h>

namespace keel_cli {

// Signals of one sender that are no further apart are one request: timeout(1) sends its own to the
// process and at once to the process group, which the process is in.
inline constexpr std::chrono::milliseconds kOneRequest{200};

// Changes what signals do, and back in the end. A SIGHUP that the process was started with ignored
// (nohup) stays ignored; SIGINT does not, which shells ignore for what scripts put behind them.
class SignalActions {
 public:
  SignalActions() = default;
  ~SignalActions();
  SignalActions(const SignalActions&) = delete;
  SignalActions& operator=(const SignalActions&) = delete;
  // `action` says what is done; the rest of it is set here.
  void replace(int signal, struct sigaction action);

 private:
  std::vector<std::pair<int, struct sigaction>> previous_;
};

class StopSignals {
 public:
  // From here on a write to a closed pipe fails instead of ending the process.
  StopSignals();

  // While it lives, the signals stop the trainer, which must outlive it. Before that they end the
  // process, which has nothing to save yet.
  class Watch {
   public:
    Watch(StopSignals& signals, keel::Trainer& trainer);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    SignalActions actions_;
  };

  // As if the signal had come: for a pipe whose reader went away.
  void stop(int signal);
  // The first signal that came; 0 for none.
  int signal() const;

 private:
  SignalActions actions_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_TRAIN_STOP_SIGNALS_H
