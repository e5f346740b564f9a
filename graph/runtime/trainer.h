// Trainer: trains a model fed by a Feeder: splits the work into launches that end exactly where
// something is wanted (an epoch's end, every n steps, the total), runs hooks and the validation
// between them, and stops early when asked to. It holds the sunk loop and the feeder; the session
// must outlive it. fit() belongs to the session's thread; cancel() may be called from any thread
// and from a signal handler.
#ifndef KEEL_GRAPH_RUNTIME_TRAINER_H
#define KEEL_GRAPH_RUNTIME_TRAINER_H

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/device/numerics_watch.h"
#include "keel/graph/runtime/accelerate.h"
#include "keel/graph/runtime/checkpoint_options.h"
#include "keel/graph/runtime/dump_options.h"
#include "keel/graph/runtime/epoch_sums.h"
#include "keel/graph/runtime/loop_tuner.h"
#include "keel/graph/runtime/named_hooks.h"
#include "keel/graph/runtime/session.h"
#include "keel/graph/runtime/validation.h"

namespace keel {

class CheckpointRun;
class Group;
class NumericsCheck;
class StepDump;
class ValidationRun;
struct SavedStates;

// Called between launches, with the number of steps done so far (keel/step), or with the number of
// epochs: the session may be used, and LoopControl::kStop ends the training. Steps that a hook runs
// by the session count as any in keel/step: the fit does fewer, and skips what is due behind one.
using TrainHook = Hook<int64_t>;

struct EveryNSteps {
  int64_t n = 1;
  TrainHook hook = {};
};

// Says when a training names the op that made the first number which is infinite, NaN or was
// stopped at the largest f16 (NumericsFinding): never, for the first step with such, or for each.
enum class NumericsMode : uint8_t { kOff, kFirst, kEvery };

struct TrainOptions {
  // How much to train, counted from where the states are: exactly one of the two. epochs: until
  // that many whole epochs lie behind keel/step = 0.
  std::optional<int64_t> steps{};
  std::optional<int64_t> epochs{};
  int64_t steps_per_epoch = 0;  // needed by epochs and on_epoch_end

  // Steps per launch, from now on; else the session's loop size. LOOP_SIZE_MISMATCH where another
  // one was set, be it by an earlier fit(): set_loop_size() changes it.
  std::optional<int64_t> loop_size{};
  // Instead: the size is found while the training goes on. LOOP_SIZE_MISMATCH beside a size that
  // was set.
  std::optional<LoopTuner> loop_tuner{};
  // Opens the feeder behind this cursor first; else one that is open goes on, and one that is not
  // starts at the beginning.
  std::optional<Cursor> resume_from{};

  // Each step's rank-0 fetches, while the device goes on; the session may not be used.
  StepHook on_step = {};
  TrainHook on_epoch_end = {};  // after every steps_per_epoch steps
  std::vector<EveryNSteps> every_n_steps = {};
  // The training ends behind this step (keel/step) at the latest.
  std::optional<int64_t> last_step{};
  // Hooks by the names that TensorFlow 1 has for them; they run behind those above.
  std::vector<NamedHook> hooks = {};

  // Steps that show trouble, in a number that is fetched, the float status, a state, a stop_when
  // that was true or dump.overflow, are done again op by op, from states that are kept now and
  // then, and the training goes on as if nothing had happened. Not with an agreement.
  NumericsMode check_numerics = NumericsMode::kOff;
  // Files for people who look for trouble; no bit of the training depends on them. A step that is
  // dumped is executed op by op, in a launch of its own. enable_dump_debug looks for overflow as
  // NumericsMode::kEvery does. Not for a training with an agreement, either.
  DumpOptions dump{};

  // Measured before the hooks of its step.
  std::optional<ValidationOptions> validation{};

  // Files to go on from, written behind the hooks of their step.
  std::optional<CheckpointOptions> checkpoint{};

  // The ranks that train together, which fit() with the same options but for what is called back;
  // the step needs an agreement of theirs (make_group_agreement). A checkpoint is of states that
  // are equal on all of them, and rank 0 writes it. Null: this one trains alone.
  std::shared_ptr<Group> group{};
};

inline constexpr size_t kMostFindings = 100;

struct TrainReport {
  int64_t steps = 0;            // of this fit
  int64_t updates_applied = 0;  // by them and by steps of hooks: fewer where apply_if skipped some
  int64_t epochs = 0;           // ends of epochs among them
  int64_t launches = 0;
  int64_t loop_size = 0;             // in force at the end; what the tuner chose, or was at
  double seconds = 0;                // wall time of the launches, feeding included, hooks left out
  std::vector<double> last_metrics;  // rank-0 fetches of the last step; empty without a step
  Cursor cursor;                     // of the last element consumed; where the next fit begins
  int64_t elements_ahead = 0;        // made beyond that by the feeder: LoopReport::elements_ahead
  bool end_of_data = false;          // before what was asked for was done
  bool cancelled = false;
  bool left_with_others = false;  // another party of the agreement ended it before its time
  bool stopped_early = false;     // with steps left: a hook, last_step, stop_when, the validation
  std::optional<int64_t> stop_step{};  // the step whose stop_when was true

  // By epoch, where steps_per_epoch is given and something is fetched.
  std::vector<EpochMeans> epoch_means{};

  // These are of the validation: what was measured, the best (that before this fit among them), why
  // it stopped, and whether the states are no longer the last ones but the best.
  std::vector<ValidationResult> validations{};
  std::optional<ValidationBest> best{};
  bool target_reached = false;
  bool out_of_patience = false;
  bool kept_best = false;

  std::vector<NumericsFinding> numerics{};  // at most kMostFindings

  int64_t dumped_steps = 0;
  std::string dump_folder{};  // "path/TIME" of DumpOptions; empty where nothing was written

  CheckpointReport checkpoint{};

  // For an accelerated training: the steps that this fit did in the fast phase, their seconds, and
  // the step (keel/step) behind which the phase ended, of this fit or one before.
  int64_t fast_steps = 0;
  double fast_seconds = 0;
  std::optional<int64_t> switched_at{};

  // All steps' together, and the first step that raised anything; see LoopReport.
  uint32_t float_status = 0;
  std::optional<int64_t> float_status_step{};
  std::string float_status_by;

  // Summed over the launches; see LoopReport.
  int64_t true_branches = 0;
  int64_t resets = 0;
  int64_t host_syncs = 0;
  Transfers transfers;

  // Wall time on the device, in ns, summed over the launches; see LoopReport.
  int64_t busy_ns = 0;
  int64_t queue_wait_ns = 0;
  int64_t metrics_wait_ns = 0;
  int64_t callback_ns = 0;
  // With a group: of the launches, what this rank waited for others in their collectives, and what
  // these took once all ranks were there.
  int64_t collective_wait_ns = 0;
  int64_t collective_ns = 0;
};

class KEEL_API Trainer {
 public:
  // Sinks the step (Session::sink); its source is a feeder, which is opened at the beginning where
  // it is not open. Throws Error for another source and for a step without an update, and what
  // Session::sink throws.
  Trainer(Session& session, SinkOptions step, CallSite site = CallSite::here())
      : Trainer(session, std::move(step), std::nullopt, site) {}
  // The same in two phases, the first in mixed precision (accelerate.h). The loss trigger adds a
  // comparison to the graph. Throws Error, too, for a precision of the session that it does not go
  // with, for the loss trigger beside a stop_when, without a loss or without a final one, and for
  // a graph that is frozen.
  Trainer(Session& session, SinkOptions step, std::optional<AcceleratedTraining> accelerate,
          CallSite site = CallSite::here());
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains. Throws Error (kInvalidArgument) for options that are wrong or contradict each other,
  // and Error where a fit() of this trainer is under way, be it that its hook calls this one: then
  // nothing has changed, but that a wrong hook leaves the files of SummaryHooks before it, and a
  // wrong resume_from the loop size; and what the launches and the hooks throw.
  TrainReport fit(const TrainOptions& options, CallSite site = CallSite::here());

  // All states and the place in the data behind the last step, as one safetensors file: `metadata`,
  // keel_version, step, updates, cursor_epoch, cursor_position, cursor_key, seed (the random key of
  // a step is made of it and of the step), backend and isa (the host instructions that it computed
  // with). Loss scales and the like are states. Atomic. Throws what Session::save throws.
  void save(const std::string& path, std::map<std::string, std::string> metadata = {},
            CallSite site = CallSite::here()) const;
  // Goes on from a file that save() wrote, or from the newest checkpoint in a folder
  // (checkpoint_files.h): takes the states and opens the feeder behind the cursor, so that what
  // follows equals bit for bit what would have followed there; the log warns where it was another
  // backend or computed with other instructions, since then the last bits may differ. Returns the
  // file's metadata. Throws Error for a file that is damaged or does not fit the graph or the data;
  // then the states are as they were and the feeder is open where the training was.
  std::map<std::string, std::string> resume(const std::string& path,
                                            CallSite site = CallSite::here());
  // Returns the cursor of the last element consumed, or where the feeder was opened.
  const Cursor& cursor() const noexcept { return cursor_; }

  // fit() returns after the step that runs; where none runs, the next one returns at once.
  void cancel() noexcept;

  // Steps per launch from the next launch on; throws Error for n < 1, then the old value stays.
  void set_loop_size(int64_t steps, CallSite site = CallSite::here()) {
    session_.set_loop_size(steps, site);
  }

  Session& session() noexcept { return session_; }
  Feeder& feeder() noexcept { return *feeder_; }
  // The compiled step; lives as long as the trainer.
  const Program& program() const noexcept { return loop_->program(); }
  // The sunk step: where it loops and why, what the compiler inserted.
  const Loop& loop() const noexcept { return *loop_; }
  // The sunk step of the fast phase; null where there is none.
  const Loop* fast_loop() const noexcept { return fast_ == nullptr ? nullptr : &fast_->loop; }
  // Returns the last step of the fast phase by keel/step, in a training that ends with step
  // `target`: where it ended, or else where it will; beyond all steps where a loss is to end it,
  // and 0 where there is no such phase. TOTAL_STEP and STEP_NOW count here as in fit().
  int64_t end_of_fast_phase(int64_t target) const;
  // Returns what the last fit() that threw had done until then.
  const TrainReport& failed_report() const noexcept { return failed_; }
  // For hooks: what the fit() that runs has done until now; nothing where none does.
  const TrainReport* running_report() const noexcept { return running_; }

 private:
  // The phase in mixed precision, and where it ends.
  struct FastPhase {
    Loop loop;
    SinkOptions step;
    AcceleratedTraining training;
    // How far the job's own count of steps is ahead of keel/step, from the first fit() on.
    std::optional<int64_t> ahead = {};
  };

  void sink_fast_phase(SinkOptions step, AcceleratedTraining training, CallSite site);
  // Returns how far the job's own count of steps is ahead of keel/step. REQUIRES a fast phase.
  int64_t steps_ahead() const;
  // Does not look at where the phase has ended: a hook may resume a file of before.
  int64_t planned_end_of_fast_phase(int64_t target) const;
  bool ends_by_loss() const;
  bool is_fast_at(int64_t step, int64_t last_fast);
  void open(const Cursor& cursor);
  void train(const TrainOptions& options, CallSite site, ValidationRun& validation,
             CheckpointRun& checkpoints, TrainReport& report);
  void note_checkpoints(const TrainReport& report);
  // Adds the place in the data, and on what it was trained.
  void add_place(std::map<std::string, std::string>& metadata, CallSite site) const;
  // Returns what a checkpoint holds.
  SavedStates copy_of_states(const TrainOptions& options, CallSite site) const;
  void tell_failure(const TrainOptions& options) noexcept;
  bool ends_together(LoopVote own, TrainReport& report);
  int64_t applied_since(int64_t before) const;
  // Returns the sunk step of the phase, or the same with each op a task of its own.
  Loop& phase(bool fast) { return fast ? fast_->loop : *loop_; }
  Loop& unfused(bool fast, CallSite site);
  // Runs one of them, so that cancel() reaches it.
  LoopReport run(Loop& loop, int64_t steps, const LoopCallbacks& callbacks, CallSite site);
  // Throws Error for a dump that the training cannot have.
  void check_dump(const DumpOptions& dump, CallSite site);
  // Looks into what the last launch showed in the steps that are flagged, or in the states.
  // `last`: no further launch will show it.
  void look_into(bool fast, const std::vector<int64_t>& flagged, NumericsCheck& numerics,
                 StepDump& dump, TrainReport& report, bool last, CallSite site);
  // Does the steps behind `step`. Returns those that raised the float status, whose stop value was
  // true, or whose overflow was dealt with.
  std::vector<int64_t> launch(bool fast, StepDump& dump, const CheckpointRun& checkpoints,
                              const TrainOptions& options, int64_t step, int64_t steps,
                              CallSite site, TrainReport& report);
  void run_hooks(const TrainOptions& options, int64_t step, TrainReport& report);

  Session& session_;
  std::shared_ptr<Feeder> feeder_;
  Values metrics_;  // the rank-0 fetches
  EpochSums epoch_sums_;
  std::shared_ptr<LoopAgreement> agreement_;
  // Says whether the agreement's other parties know that this fit has ended.
  bool others_know_ = false;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<FastPhase> fast_;  // null: there is none
  SinkOptions step_;                 // what was sunk
  // The same with each op a task of its own, made when first needed.
  std::unique_ptr<Loop> unfused_, unfused_fast_;
  std::atomic<Loop*> runs_{nullptr};  // the loop that ran last, or runs
  TrainReport failed_;
  const TrainReport* running_ = nullptr;
  Cursor cursor_;
  int64_t steps_of_hooks_ = 0;  // that hooks ran by the session, in the fit that runs or the last
  std::string resumed_from_;    // the file; or the last checkpoint of its own; empty: none
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> fitting_{false};
};

}  // namespace keel

#endif  // KEEL_GRAPH_RUNTIME_TRAINER_H
