#include "keel/graph/runtime/trainer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "keel/core/base/log.h"
#include "keel/core/base/thrown_text.h"
#include "keel/core/group/group.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/runtime/checkpoint.h"
#include "keel/graph/runtime/checkpoint_files.h"
#include "keel/graph/runtime/checkpoint_run.h"
#include "keel/graph/runtime/due_hooks.h"
#include "keel/graph/runtime/dump_layers.h"
#include "keel/graph/runtime/named_hook_run.h"
#include "keel/graph/runtime/numerics_check.h"
#include "keel/graph/runtime/own_feeder.h"
#include "keel/graph/runtime/rank_states.h"
#include "keel/graph/runtime/session_state.h"
#include "keel/graph/runtime/step_dump.h"
#include "keel/graph/runtime/train_options_check.h"
#include "keel/graph/runtime/trained_on.h"
#include "keel/graph/runtime/validation_run.h"

namespace keel {
namespace {

// Held during fit(): a second one would take the first one's steps, and vote in its place.
class FitGuard {
 public:
  FitGuard(std::atomic<bool>& fitting, CallSite site) : fitting_(fitting) {
    if (!fitting_.exchange(true)) return;
    throw Error({.op = "fit",
                 .message = "a fit() of this trainer is under way",
                 .fix = "return LoopControl::kStop from the hook, and fit again behind it",
                 .site = site});
  }
  ~FitGuard() { fitting_.store(false); }
  FitGuard(const FitGuard&) = delete;
  FitGuard& operator=(const FitGuard&) = delete;

 private:
  std::atomic<bool>& fitting_;
};

// Returns the ops that a dump writes of each step, and throws Error for layers that are none.
// `unfused`: gives the loop of a phase, which is compiled for nothing but a dump.
std::vector<std::string> ops_to_dump(const DumpOptions& dump, const SessionState& session,
                                     bool has_fast, const std::function<Loop&(bool)>& unfused) {
  if (!dump.enable_dump) return {};
  std::vector<const Loop*> steps{&unfused(false)};
  if (has_fast) steps.push_back(&unfused(true));
  return dumped_ops(dump, session, steps);
}

// `fast`: the fast phase, or null.
template <class Phase>
TrainingPlace place_of(const Cursor& cursor, const std::unique_ptr<Phase>& fast) {
  TrainingPlace place{.cursor = cursor};
  if (fast != nullptr) place.switched_at = fast->training.switched_at;
  return place;
}

// Goes on in the phase of a place that was kept. A change that the environment asks for before the
// first step (0) holds all the same.
template <class Phase>
void take_over(const TrainingPlace& kept, const std::unique_ptr<Phase>& fast) {
  if (fast == nullptr) return;
  std::optional<int64_t>& switched_at = fast->training.switched_at;
  if (kept.switched_at || switched_at != 0) switched_at = kept.switched_at;
}

// Every feeder of a trainer is one.
OwnFeeder& own(const std::shared_ptr<Feeder>& feeder) { return static_cast<OwnFeeder&>(*feeder); }

bool is_best(const TrainReport& report, int64_t step) {
  return report.best && report.best->step == step;
}

// Ascend changes where a launch ends, and warns where that is not the step that was meant.
void tell_of_change(int64_t step, int64_t loop_size) {
  log_info("accelerate_train_mode: the fast phase ended behind step " + std::to_string(step) +
           (loop_size == 0 || step % loop_size == 0
                ? ""
                : ", where no launch of " + std::to_string(loop_size) +
                      " steps ends: one was cut short for it"));
}

}  // namespace

Trainer::Trainer(Session& session, SinkOptions step, std::optional<AcceleratedTraining> accelerate,
                 CallSite site)
    : session_(session), agreement_(step.agreement) {
  if (const auto* feeder = std::get_if<std::shared_ptr<Feeder>>(&step.source)) feeder_ = *feeder;
  if (feeder_ == nullptr) {
    const bool queue = std::holds_alternative<std::shared_ptr<DeviceQueue>>(step.source);
    throw Error({.op = "trainer",
                 .argument = "source",
                 .expected = "a feeder",
                 .got = queue ? "a queue, which cannot be opened at a cursor" : "nothing",
                 .fix = "make one with feed(dataset, session.spec(inputs))",
                 .site = site});
  }
  const StepDescription described = step_of(session.graph(), step, "trainer", site);
  if (described.update.empty()) {
    throw Error({.op = "trainer",
                 .argument = "update",
                 .expected = "the update that an optimizer's minimize() returns",
                 .got = "an empty one",
                 .fix = "use Session::sink to evaluate",
                 .site = site});
  }
  feeder_ = std::make_shared<OwnFeeder>(std::move(feeder_));
  if (feeder_->queue() == nullptr) feeder_->open(Cursor{});
  cursor_ = own(feeder_).place();
  loop_ = std::make_unique<Loop>(session.sink(step, site));
  for (const Value& fetch : described.fetches) {
    if (fetch.shape().rank() == 0) metrics_.push_back(fetch);
  }
  step.update = described.update;
  step.fetches = described.fetches;
  step.stop_when = described.stop_when;
  step_ = std::move(step);
  if (accelerate) sink_fast_phase(step_, *accelerate, site);
}

void Trainer::sink_fast_phase(SinkOptions step, AcceleratedTraining training, CallSite site) {
  training = with_environment(training);
  const SessionState& session = session_.state("trainer", site);
  step.precision = fast_precision(training.mode, session.options.precision,
                                  session.device.backend(), session.options.device_options.get());
  if (training.mode.trigger == AccelerateTrigger::kLoss) {
    const Value loss = training.tell.loss;
    if (step.stop_when.valid() || !loss.valid()) {
      throw Error({.op = "accelerate_train_mode",
                   .argument = step.stop_when.valid() ? "stop_when" : "loss",
                   .expected = step.stop_when.valid() ? "none beside the loss trigger"
                                                      : "the loss that is to end the fast phase",
                   .got = step.stop_when.valid() ? "one" : "none",
                   .site = site});
    }
    step.stop_when = emit("less_equal", {loss, loss_bound(training)}, site);
  }
  fast_ =
      std::make_unique<FastPhase>(FastPhase{session_.sink(step, site), std::move(step), training});
}

void Trainer::open(const Cursor& cursor) {
  feeder_->stop();
  feeder_->open(cursor);
  cursor_ = cursor;
}

void Trainer::add_place(std::map<std::string, std::string>& metadata, CallSite site) const {
  keel::add_place(metadata, place_of(cursor_, fast_));
  // A graph that was frozen before it met a session may lack it: then nothing in it is random.
  if (const Value seed = session_.graph().find_state(kSeedState); seed.valid()) {
    const auto value = static_cast<uint64_t>(session_.read(seed, site).item<int64_t>());
    metadata["seed"] = std::to_string(value);
  }
  add_trained_on(session_.device(site), metadata);
}

void Trainer::save(const std::string& path, std::map<std::string, std::string> metadata,
                   CallSite site) const {
  add_place(metadata, site);
  session_.save(path, metadata, site);
}

SavedStates Trainer::copy_of_states(const TrainOptions& options, CallSite site) const {
  if (options.group != nullptr) require_equal_states(session_, *options.group, site);
  std::map<std::string, std::string> metadata;
  if (options.checkpoint->metadata) metadata = options.checkpoint->metadata();
  add_place(metadata, site);
  SessionState& session = session_.state("fit", site);
  const SessionGuard guard(session, "Trainer::fit", site);
  session.store.add_states(*session.graph);
  return states_to_save(session.store, std::move(metadata));
}

std::map<std::string, std::string> Trainer::resume(const std::string& path, CallSite site) {
  const std::string file = checkpoint_to_resume(path);
  const std::map<std::string, std::string> saved = resumable_metadata(file);
  const TrainingPlace there = place_in(saved, file);
  const Cursor here = cursor_;
  try {
    open(there.cursor);
    auto metadata = session_.load(file, site);
    take_over(there, fast_);
    warn_of_other_machine(metadata, session_.device(site), file);
    resumed_from_ = file;
    return metadata;
  } catch (const Error& error) {
    open(here);
    throw error.with_context("resume from " + file).with_site(site);
  }
}

void Trainer::cancel() noexcept {
  cancelled_.store(true);
  if (Loop* loop = runs_.load()) loop->request_stop();
}

// Counts for a fit that failed: 0 where the failure lost the count itself.
int64_t Trainer::applied_since(int64_t before) const {
  try {
    return session_.updates_applied() - before;
  } catch (const Error&) {
    return 0;
  }
}

// But not where a loop of the session is under way as this party: it votes itself.
void Trainer::tell_failure(const TrainOptions& options) noexcept {
  // Collectives of saves and validations follow the last vote.
  if (options.group != nullptr && options.group->size() > 1)
    options.group->fail(text_of_thrown("its training ended with an error"));
  if (others_know_) return;
  if (session_.state_ != nullptr && session_.state_->is_party(agreement_.get())) return;
  LoopParty(agreement_.get()).fail();
}

// A later fit goes on in the folder of its files.
void Trainer::note_checkpoints(const TrainReport& report) {
  if (!report.checkpoint.last_file.empty()) resumed_from_ = report.checkpoint.last_file;
}

TrainReport Trainer::fit(const TrainOptions& given, CallSite site) {
  const FitGuard guard(fitting_, site);
  std::optional<TrainOptions> with_hooks;
  const TrainOptions& options = given.hooks.empty() ? given : with_hooks.emplace();
  std::vector<std::function<void()>> ends;  // of the named hooks
  TrainReport report;
  others_know_ = false;
  steps_of_hooks_ = 0;
  std::optional<int64_t> applied_before;
  running_ = &report;
  std::unique_ptr<CheckpointRun> checkpoints;
  int64_t start = 0;
  try {
    check_train_options(given, {session_.loop_size(), session_.step(), agreement_ != nullptr},
                        site);
    check_dump(given.dump, site);
    if (given.checkpoint)
      check_checkpoint_options(*given.checkpoint, given.validation.has_value(), site);
    ValidationRun validation(
        given.validation, given.steps_per_epoch, [&] { return place_of(cursor_, fast_); }, site);
    // Hooks come behind what looks at the options, as a summary makes its file.
    if (with_hooks) *with_hooks = with_named_hooks(given, metrics_, session_.step(), ends, site);
    checkpoints = std::make_unique<CheckpointRun>(
        options.checkpoint, options.validation.has_value(),
        [&] { return copy_of_states(options, site); }, options.group.get(), report.checkpoint,
        site);
    if (options.loop_size) session_.loop_size().set(*options.loop_size, kLoopSizeOption);
    session_.loop_size().use();
    applied_before = session_.updates_applied();
    // A feeder that was stopped since goes on where this training is.
    if (options.resume_from || feeder_->queue() == nullptr)
      open(options.resume_from.value_or(cursor_));
    report.cursor = cursor_;
    SessionState& session = session_.state("fit", site);
    std::optional<int64_t> best;
    if (options.validation && options.validation->best_before)
      best = options.validation->best_before->step;
    start = session_.step();
    checkpoints->begin(start, resumed_from_, best);
    validation.begin(session, checkpoints->file_of_best(), options.group.get(), report);
    train(options, site, validation, *checkpoints, report);
    checkpoints->finish(start + report.steps + steps_of_hooks_);
    note_checkpoints(report);
    report.updates_applied = session_.updates_applied() - *applied_before;
    if (const auto place = validation.restore_best(session)) {
      open(place->cursor);
      take_over(*place, fast_);
      report.cursor = cursor_;
      report.kept_best = true;
    }
    for (const auto& end : ends) end();
  } catch (...) {
    tell_failure(given);
    if (report.steps > 0) checkpoints->finish_failed(start + report.steps + steps_of_hooks_);
    note_checkpoints(report);
    running_ = nullptr;
    if (applied_before) report.updates_applied = applied_since(*applied_before);
    failed_ = std::move(report);
    throw;
  }
  running_ = nullptr;
  Loop* last = runs_.exchange(nullptr);
  const bool asked = last != nullptr && last->withdraw_stop();
  report.cancelled = cancelled_.exchange(false) || asked || report.cancelled;
  return report;
}

void Trainer::train(const TrainOptions& options, CallSite site, ValidationRun& validation,
                    CheckpointRun& checkpoints, TrainReport& report) {
  const int64_t start = session_.step();
  int64_t step = start;
  const int64_t wanted =
      options.steps ? step + *options.steps : *options.epochs * options.steps_per_epoch;
  const int64_t target = std::min(wanted, std::max(step, options.last_step.value_or(wanted)));
  std::optional<LoopTuner> tuner = options.loop_tuner;
  SessionState& session = session_.state("fit", site);
  // A stop before the end moves no bit of what comes before it.
  const int64_t last_fast = planned_end_of_fast_phase(wanted);
  if (fast_ != nullptr) fast_->ahead = steps_ahead();
  StepDump dump(options.dump,
                ops_to_dump(options.dump, session, fast_ != nullptr,
                            [&](bool fast) -> Loop& { return unfused(fast, site); }),
                session.device);
  if (options.dump.enable_dump && options.dump.steps.next_behind(start) > target)
    log_warn("dump_step names no step of this training, which are " + std::to_string(start + 1) +
             " to " + std::to_string(target));
  NumericsCheck numerics(
      options.dump.enable_dump_debug ? NumericsMode::kEvery : options.check_numerics, session,
      site);
  numerics.begin(cursor_);
  const auto look = [&](bool of_fast, const std::vector<int64_t>& flagged, bool last) {
    if (numerics.on()) look_into(of_fast, flagged, numerics, dump, report, last, site);
    report.dumped_steps = dump.steps();
    report.dump_folder = dump.folder();
  };
  bool was_fast = is_fast_at(step, last_fast);
  while (true) {
    const bool fast = is_fast_at(step, last_fast);
    if (was_fast && !fast) {
      // Steps are done again by the loop that did them.
      look(was_fast, {}, true);
      tell_of_change(step, report.loop_size);
    }
    was_fast = fast;
    if (fast_ != nullptr) report.switched_at = fast_->training.switched_at;
    const bool asked = report.cancelled || report.stopped_early || cancelled_.load();
    const LoopVote own = asked || report.end_of_data ? LoopVote::kStop
                         : step >= target            ? LoopVote::kStepsDone
                                                     : LoopVote::kGoOn;
    if (ends_together(own, report)) break;
    if (tuner) session_.loop_size().require_tunable(kLoopTunerOption);  // a hook may have set it
    report.loop_size = tuner ? tuner->next() : session_.loop_size().use();
    const int64_t most = checkpoints.next(
        step, next_stop(options, step, fast ? std::min(target, last_fast) : target));
    const int64_t stop = validation.next(step, most);
    const int64_t steps = dump.most_steps(step, std::min(stop - step, report.loop_size));
    const bool dumped = dump.wants(step + 1);
    const int64_t before = report.steps;
    const double seconds_before = report.seconds;
    const std::vector<int64_t> flagged =
        launch(fast, dump, checkpoints, options, step, steps, site, report);
    const int64_t done = report.steps - before;
    step += done;
    const bool hooked = done > 0 && has_hooks_at(options, step);
    // Steps that come behind a hook cannot be done again from states that were kept before it.
    look(fast, flagged, hooked || step >= target);
    // The stop value of a fast phase that the loss ends is the loss.
    if (fast && report.stop_step && ends_by_loss())
      fast_->training.switched_at = std::exchange(report.stop_step, std::nullopt);
    dump.settle();
    if (tuner && !dumped)
      tuner->record(done, std::llround((report.seconds - seconds_before) * 1e9));
    if (options.steps_per_epoch > 0)
      report.epochs = step / options.steps_per_epoch - start / options.steps_per_epoch;
    if (done > 0) {
      if (validation.due(step, target) && validation.measure(session, report))
        report.stopped_early = true;
      run_hooks(options, step, report);
      if (hooked && numerics.on()) numerics.begin(cursor_);
      // A hook may have run steps, too: then the states are others than were measured.
      const int64_t by_hooks = session_.step() - step;
      steps_of_hooks_ += by_hooks;
      step += by_hooks;
      if (by_hooks != 0 && step >= target && agreement_ == nullptr &&
          validation.has_not_measured(step))
        validation.measure_last(session, report);
      checkpoints.after(step, is_best(report, step));
    }
    if (others_know_) break;
  }
  // Behind the last step of a training that ends before its target nothing has been looked at.
  if (step < target && report.steps > 0 && !report.cancelled) {
    look(was_fast, {}, true);
    dump.settle();
    if (agreement_ == nullptr && validation.has_not_measured(step)) {
      validation.measure_last(session, report);
      checkpoints.after(step, is_best(report, step));
    }
  }
  // A request to stop that comes with or after the last step cut nothing short, so the training did
  // not stop early.
  if (step >= target) report.stopped_early = target < wanted;
}

LoopReport Trainer::run(Loop& loop, int64_t steps, const LoopCallbacks& callbacks, CallSite site) {
  runs_.store(&loop);
  // A request that came before found another loop, or none. Steps that are done again finish what
  // was going on when it came.
  if (cancelled_.load() && !callbacks.replays) loop.request_stop();
  const struct Note {
    OwnFeeder& feeder;
    ~Note() { feeder.note_launch(); }
  } note{own(feeder_)};
  return loop.run(steps, callbacks, site);
}

Loop& Trainer::unfused(bool fast, CallSite site) {
  std::unique_ptr<Loop>& loop = fast ? unfused_fast_ : unfused_;
  if (loop != nullptr) return *loop;
  // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): a fast phase is there if meant.
  SinkOptions step = fast ? fast_->step : step_;
  // The second follows from the first, which nobody who looks for a number need be told. Values are
  // looked at in the layouts that the graph has.
  step.disabled_passes.insert(step.disabled_passes.end(),
                              {"fuse", "recompute_cheap", "cancel_transposes"});
  loop = std::make_unique<Loop>(session_.sink(step, site));
  return *loop;
}

void Trainer::check_dump(const DumpOptions& dump, CallSite site) {
  if (dump.overflow.valid() &&
      std::find(metrics_.begin(), metrics_.end(), dump.overflow) == metrics_.end())
    complain_of_fit("dump.overflow", "a fetch of rank 0", "another value", site);
  if (!dump.on()) return;
  if (agreement_ != nullptr)
    complain_of_fit("dump", "none in a training with an agreement", "one", site);
  const SessionState& session = session_.state("fit", site);
  try {
    require_dump(dump, session.device.backend(), session.options.device_options.get());
    ops_to_dump(dump, session, fast_ != nullptr,
                [&](bool fast) -> Loop& { return unfused(fast, site); });
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

void Trainer::look_into(bool fast, const std::vector<int64_t>& flagged, NumericsCheck& numerics,
                        StepDump& dump, TrainReport& report, bool last, CallSite site) {
  if (flagged.empty()) {
    if (!last && !numerics.due()) return;
    if (numerics.states_are_finite()) return numerics.keep(cursor_);
  }
  NumericsCheck::Replay replay{phase(fast), [&]() -> Loop& { return unfused(fast, site); },
                               [&](Loop& loop, int64_t steps, const LoopCallbacks& callbacks) {
                                 return run(loop, steps, callbacks, site);
                               },
                               [&](const Cursor& cursor) { open(cursor); }};
  if (dump.finds_overflow())
    replay.found = [&](const NumericsWatch& watch) { dump.write_finding(watch, fast ? 1 : 0); };
  for (NumericsFinding& finding : numerics.locate(replay, flagged, cursor_)) {
    log_warn(to_string(finding));
    report.numerics.push_back(std::move(finding));
  }
  numerics.keep(cursor_);
  report.cancelled = report.cancelled || numerics.cancelled();
}

// Before each launch and at the end: parties have hooks, targets and loop sizes of their own.
bool Trainer::ends_together(LoopVote own, TrainReport& report) {
  LoopParty party(agreement_.get());
  others_know_ = true;
  const bool ends = party.leaves(own);
  others_know_ = ends;
  if (ends) report.left_with_others = party.left_with_others() && own == LoopVote::kGoOn;
  return ends;
}

bool Trainer::ends_by_loss() const {
  return fast_ != nullptr && fast_->training.mode.trigger == AccelerateTrigger::kLoss;
}

// Once it has said no it says so for ever.
bool Trainer::is_fast_at(int64_t step, int64_t last_fast) {
  if (fast_ == nullptr) return false;
  std::optional<int64_t>& switched_at = fast_->training.switched_at;
  if (!switched_at && step >= last_fast) switched_at = step;
  return !switched_at;
}

int64_t Trainer::steps_ahead() const {
  if (fast_->ahead) return *fast_->ahead;
  const std::optional<int64_t>& now = fast_->training.tell.step_now;
  return now ? *now - session_.step() : 0;
}

int64_t Trainer::end_of_fast_phase(int64_t target) const {
  const int64_t planned = planned_end_of_fast_phase(target);
  return fast_ == nullptr ? planned : fast_->training.switched_at.value_or(planned);
}

int64_t Trainer::planned_end_of_fast_phase(int64_t target) const {
  if (fast_ == nullptr) return 0;
  const AcceleratedTraining& training = fast_->training;
  if (ends_by_loss()) return std::numeric_limits<int64_t>::max();
  const int64_t ahead = steps_ahead();
  const int64_t total = training.tell.total_step > 0 ? training.tell.total_step : target + ahead;
  return last_fast_step(training.mode, total) - ahead;
}

std::vector<int64_t> Trainer::launch(bool fast, StepDump& dump, const CheckpointRun& checkpoints,
                                     const TrainOptions& options, int64_t step, int64_t steps,
                                     CallSite site, TrainReport& report) {
  own(feeder_).require_untouched(site);
  std::vector<int64_t> flagged;
  int64_t waited_ns = 0, summed_ns = 0;
  const auto add = [&](const LoopReport& loop) {
    // The loss that ends the fast phase ends no training.
    const bool changes = fast && ends_by_loss() && loop.stop_step.has_value();
    std::span<const double> overflow;
    if (loop.steps > 0 && options.dump.overflow.valid()) overflow = loop[options.dump.overflow];
    for (size_t i = 0; i < loop.float_status.size(); ++i) {
      const int64_t number = loop.first_step + static_cast<int64_t>(i);
      const bool stopped = number == loop.stop_step && !changes;
      const bool dealt_with = i < overflow.size() && overflow[i] != 0;
      if (loop.float_status[i] != 0 || stopped || dealt_with) flagged.push_back(number);
    }
    report.steps += loop.steps;
    report.launches += loop.launches;
    const double seconds = static_cast<double>(loop.wall_ns) * 1e-9;
    report.seconds += seconds;
    if (fast) {
      report.fast_steps += loop.steps;
      report.fast_seconds += seconds;
    }
    report.end_of_data = loop.end_of_data;
    report.elements_ahead = loop.elements_ahead;
    report.cancelled = loop.cancelled;
    // A launch of fewer steps than this one's ends it as well, but not the fit.
    others_know_ = agreement_ != nullptr && loop.verdict != LoopVote::kStepsDone;
    report.left_with_others = others_know_ && loop.left_with_others;
    report.stopped_early = report.stopped_early || (loop.stopped && !changes);
    report.stop_step = loop.stop_step;
    for (const uint32_t status : loop.float_status) report.float_status |= status;
    if (!report.float_status_step) {
      report.float_status_step = loop.float_status_step;
      report.float_status_by = loop.float_status_by;
    }
    report.true_branches += loop.true_branches;
    report.resets += loop.resets;
    report.host_syncs += loop.host_syncs;
    report.transfers += loop.transfers;
    report.busy_ns += loop.busy_ns;
    report.queue_wait_ns += loop.queue_wait_ns;
    if (options.group != nullptr) {
      const CollectiveTimes& times = options.group->times();
      report.collective_wait_ns += times.waited_ns(options.group->rank()) - waited_ns;
      report.collective_ns += times.summed_ns() - summed_ns;
    }
    report.metrics_wait_ns += loop.metrics_wait_ns;
    report.callback_ns += loop.callback_ns;
    if (loop.steps == 0) return;
    report.cursor = loop.cursor;
    cursor_ = loop.cursor;
    report.last_metrics.clear();
    for (const Value& metric : metrics_) report.last_metrics.push_back(loop[metric].back());
    if (options.steps_per_epoch > 0)
      epoch_sums_.add(loop, metrics_, options.steps_per_epoch, report.epoch_means);
  };
  if (options.group != nullptr) {
    waited_ns = options.group->times().waited_ns(options.group->rank());
    summed_ns = options.group->times().summed_ns();
  }
  const bool dumped = dump.wants(step + 1);
  Loop& runs = dumped ? unfused(fast, site) : phase(fast);
  if (dumped) dump.begin(step + 1, fast ? 1 : 0);
  others_know_ = true;
  LoopCallbacks callbacks{.on_step = options.on_step, .observer = dumped ? &dump : nullptr};
  if (!dumped) callbacks.loop_size = report.loop_size;
  // The other parties' launches would end with it, and their trainings, too.
  if (options.checkpoint && agreement_ == nullptr)
    callbacks.ends_launch = [&] { return checkpoints.ends_launch(); };
  try {
    const LoopReport done = run(runs, steps, callbacks, site);
    if (dumped) dump.end(done.steps == steps);
    add(done);
    return flagged;
  } catch (...) {
    if (dumped) dump.end(false);
    // The launch itself tells the other parties of its errors, and a callback that fails makes this
    // party vote for the end. Behind the last step of a launch there is no vote: the parties have
    // left with their steps done, and fit() has to tell the others of the callback's error.
    add(runs.failed_report());
    throw;
  }
}

void Trainer::run_hooks(const TrainOptions& options, int64_t step, TrainReport& report) {
  const auto stop_if = [&](LoopControl control) {
    if (control == LoopControl::kStop) report.stopped_early = true;
  };
  for (const EveryNSteps& every : options.every_n_steps) {
    if (is_due(every, step)) stop_if(every.hook(step));
  }
  if (is_epoch_end_due(options, step))
    stop_if(options.on_epoch_end(step / options.steps_per_epoch));
}

}  // namespace keel
