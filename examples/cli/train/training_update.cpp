#include "cli/train/training_update.h"

#include <algorithm>
#include <fnmatch.h>
#include <utility>

#include <fmt/core.h>

#include "cli/train/flag_reader.h"

namespace keel_cli {
namespace {

constexpr double kMostNorm = 1e30;
const std::vector<std::string> kSchedules = {"constant",   "cosine",    "linear",
                                             "polynomial", "one-cycle", "plateau"};
const std::vector<std::string> kWithWarmup = {"cosine", "linear", "polynomial"};
const std::vector<std::string> kWithSteps = {"cosine", "linear", "polynomial", "one-cycle"};

// Flags that say something of an update of ours; --loss-scale none says that there is nothing.
constexpr const char* kOfOurUpdate[] = {"lr",         "schedule",  "warmup",     "schedule-steps",
                                        "accumulate", "clip-norm", "clip-value", "freeze",
                                        "average"};

bool is_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void require_for(bool given, const std::string& flag, const std::string& schedule,
                 const std::vector<std::string>& schedules) {
  if (!given || is_one_of(schedule, schedules)) return;
  std::string names;
  for (const std::string& name : schedules) names += (names.empty() ? "" : ", ") + name;
  throw keel::Error({.op = flag,
                     .message = "is about the schedules " + names + ", and this one is " + schedule,
                     .fix = "drop it, or give --schedule",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

int64_t divided_up(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

keel::Schedule make_schedule(double rate, const UpdateFlags& flags, const TrainingLength& length) {
  const int64_t steps = flags.schedule_steps > 0 ? flags.schedule_steps : length.steps;
  if (flags.warmup && *flags.warmup > 0 && *flags.warmup >= steps) {
    throw keel::Error({.op = "--warmup",
                       .expected = fmt::format("fewer than the {} steps of the schedule", steps),
                       .got = std::to_string(*flags.warmup),
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  // Schedules count updates.
  const int64_t updates = divided_up(steps, flags.accumulate);
  const int64_t warmup =
      std::min(divided_up(warmup_of(flags, length.steps), flags.accumulate), updates - 1);
  if (flags.schedule == "cosine")
    return keel::cosine_decay(rate, updates, {.warmup_steps = warmup});
  if (flags.schedule == "linear")
    return keel::polynomial_decay(rate, updates, {.warmup_steps = warmup});
  if (flags.schedule == "polynomial")
    return keel::polynomial_decay(rate, updates, {.warmup_steps = warmup, .power = 2});
  if (flags.schedule == "one-cycle") {
    constexpr int64_t kFewest = 4;  // the rise is 0.3 of them and has to hold more than one
    if (updates >= kFewest) return keel::one_cycle(rate, updates);
    throw keel::Error({.op = "--schedule",
                       .expected = fmt::format("at least {} updates for one-cycle", kFewest),
                       .got = std::to_string(updates),
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (flags.schedule == "plateau") {
    const int64_t epoch = divided_up(length.steps_per_epoch, flags.accumulate);
    // Five looks are about half an epoch; an epoch of fewer than 20 updates needs another number of
    // them, and a single one would halve the rate for each loss that is not smaller than the last.
    const int64_t every = std::max<int64_t>(epoch / 10, 1);
    const int64_t looks = std::max<int64_t>((epoch + every) / (2 * every), 2);
    return keel::reduce_on_plateau(rate, {.factor = 0.5, .patience = looks - 1, .every = every});
  }
  return rate;
}

keel::Values clipped(keel::Values gradients, const UpdateFlags& flags) {
  if (flags.clip_value) gradients = keel::clip_by_value(gradients, *flags.clip_value);
  if (flags.clip_norm) gradients = keel::clip_by_global_norm(gradients, *flags.clip_norm);
  return gradients;
}

}  // namespace

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"sgd",     "momentum", "adam",    "adamw",
                                                 "rmsprop", "lion",     "adagrad", "lamb"};
  return names;
}

double usual_rate(const std::string& optimizer, double sgd_rate, double adam_rate) {
  if (optimizer == "sgd" || optimizer == "momentum") return sgd_rate;
  if (optimizer == "lion") return 0.0002;
  if (optimizer == "adagrad") return 0.01;
  if (optimizer == "lamb") return 0.005;
  return adam_rate;  // adam, adamw, rmsprop
}

keel::Optimizer make_optimizer(const std::string& name, const keel::Schedule& rate) {
  if (name == "momentum") return keel::sgd(rate, {.momentum = 0.9});
  if (name == "adam") return keel::adam(rate);
  if (name == "adamw") return keel::adamw(rate);
  if (name == "rmsprop") return keel::rmsprop(rate);
  if (name == "lion") return keel::lion(rate);
  if (name == "adagrad") return keel::adagrad(rate);
  if (name == "lamb") return keel::lamb(rate);
  return keel::sgd(rate);
}

void declare_update_flags(CommandLine& line) {
  line.add("schedule", "NAME",
           "of the learning rate: constant, cosine, linear, polynomial (power 2), one-cycle, "
           "plateau (half after half an epoch without a better loss) (constant; transformer "
           "cosine)");
  line.add("warmup", "N",
           "steps in which the rate first rises: cosine, linear, polynomial (0; a tenth of the "
           "steps where the schedule is the model's own)");
  line.add("schedule-steps", "N", "steps that the schedule is spread over (those of the training)");
  line.add("accumulate", "K", "batches whose mean gradient makes one update (1)");
  line.add("clip-norm", "NORM", "most global norm of the gradients");
  line.add("clip-value", "LIMIT", "gradients are moved into -LIMIT to LIMIT");
  declare_loss_scale_flag(line);
  line.add(
      "fail-on-nan", "",
      "end with an error behind the first step whose loss or gradients are infinite or NaN (its "
      "loss alone where the loss is scaled: such gradients skip a step), with the states of the "
      "step before, or beside --keep-best with those of the best");
  line.add("freeze", "PATTERN",
           "weights that stay as they are, by name: 'conv*', '@(conv|norm)*', '!(head*)'");
  line.add("average", "DECAY", "evaluate exponentially averaged weights: 0.99, 0.999 ...");
}

void require_no_update_flags(const CommandLine& line, const std::string& model,
                             const std::string& fix) {
  std::string names;
  const auto add = [&](const std::string& flag) {
    names += (names.empty() ? "--" : ", --") + flag;
  };
  for (const char* flag : kOfOurUpdate)
    if (line.has(flag)) add(flag);
  if (line.text("loss-scale").value_or(kNoLossScale) != kNoLossScale) add("loss-scale");
  if (names.empty()) return;
  throw keel::Error({.op = names,
                     .message = "goes with an optimizer of ours, and " + model +
                                " trains by its own update, which has its gradients and rates in "
                                "the graph",
                     .fix = fix,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

UpdateFlags read_update_flags(const CommandLine& line, const std::optional<SavedRun>& resume,
                              const UsualUpdate& usual) {
  const FlagReader reader(line, resume);
  UpdateFlags flags;
  // saved_form leaves "constant" out, so that is what a resumed file without a schedule means.
  flags.schedule = reader.choice("schedule", kSchedules, resume ? flags.schedule : usual.schedule);
  flags.warmup = reader.integer("warmup", 0, 0);
  if (!resume && !line.has("schedule") && !line.has("warmup") &&
      is_one_of(flags.schedule, kWithWarmup))
    flags.warmup.reset();
  flags.schedule_steps = reader.integer("schedule-steps", 1, 0);
  flags.accumulate = reader.integer("accumulate", 1, 1);
  flags.clip_norm = reader.number("clip-norm", 1e-30, kMostNorm);
  flags.clip_value = reader.number("clip-value", 1e-30, kMostNorm);
  flags.average = reader.number("average", 0, 1 - 1e-9);
  flags.loss_scale = reader.text("loss-scale", plain_loss_scale,
                                 resume ? std::string(kNoLossScale) : usual.loss_scale);
  flags.freeze = reader.text(
      "freeze", [](const std::string& text, const std::string&) { return text; }, "");
  flags.fail_on_nan = reader.on("fail-on-nan");
  if (flags.fail_on_nan && flags.accumulate > 1) {
    throw keel::Error({.op = "--fail-on-nan",
                       .message = "does not go with --accumulate: a sum of gradients shows later "
                                  "which batch it was",
                       .fix = "drop one of the two",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  require_for(flags.warmup.value_or(0) > 0, "--warmup", flags.schedule, kWithWarmup);
  require_for(flags.schedule_steps > 0, "--schedule-steps", flags.schedule, kWithSteps);
  return flags;
}

std::optional<int64_t> schedule_steps_of(const UpdateFlags& flags, int64_t steps) {
  if (!is_one_of(flags.schedule, kWithSteps)) return std::nullopt;
  return flags.schedule_steps > 0 ? flags.schedule_steps : steps;
}

std::optional<int64_t> schedule_updates_of(const UpdateFlags& flags, int64_t steps) {
  const std::optional<int64_t> scheduled = schedule_steps_of(flags, steps);
  return scheduled ? std::optional(divided_up(*scheduled, flags.accumulate)) : std::nullopt;
}

int64_t warmup_of(const UpdateFlags& flags, int64_t steps) {
  return flags.warmup.value_or(schedule_steps_of(flags, steps).value_or(0) / 10);
}

std::map<std::string, std::string> saved_form(const UpdateFlags& flags, int64_t steps) {
  const UpdateFlags usual;
  std::map<std::string, std::string> saved;
  if (flags.schedule != usual.schedule) saved["schedule"] = flags.schedule;
  if (const int64_t warmup = warmup_of(flags, steps); warmup != usual.warmup)
    saved["warmup"] = std::to_string(warmup);
  if (const auto own = schedule_steps_of(flags, steps))
    saved["schedule-steps"] = std::to_string(*own);
  if (flags.accumulate != usual.accumulate) saved["accumulate"] = std::to_string(flags.accumulate);
  if (flags.loss_scale != usual.loss_scale) saved["loss-scale"] = flags.loss_scale;
  if (flags.fail_on_nan) saved["fail-on-nan"] = "1";
  if (!flags.freeze.empty()) saved["freeze"] = flags.freeze;
  if (flags.clip_norm) saved["clip-norm"] = fmt::format("{}", *flags.clip_norm);
  if (flags.clip_value) saved["clip-value"] = fmt::format("{}", *flags.clip_value);
  if (flags.average) saved["average"] = fmt::format("{}", *flags.average);
  return saved;
}

namespace {

// The pattern is one of bash, with its lists: fnmatch(3) with FNM_EXTMATCH.
bool is_frozen(const keel::Value& state, const std::string& freeze) {
  const std::string& name = keel::name_of(state.node());
  return !freeze.empty() && fnmatch(freeze.c_str(), name.c_str(), FNM_EXTMATCH) == 0;
}

// Running statistics of frozen layers stay, too.
keel::Update not_frozen(keel::Update update, const std::string& freeze) {
  std::erase_if(update.assignments,
                [&](const keel::Assignment& a) { return is_frozen(a.state, freeze); });
  return update;
}

// The states under the loss that the pattern leaves to be trained.
keel::Values trained_states(const keel::Value& loss, const std::string& freeze) {
  keel::Values states = keel::trainable_states(loss);
  if (freeze.empty()) return states;
  keel::Values trained;
  std::string names;
  for (const keel::Value& state : states) {
    names += (names.empty() ? "" : ", ") + keel::name_of(state.node());
    if (!is_frozen(state, freeze)) trained.push_back(state);
  }
  if (!trained.empty() && trained.size() < states.size()) return trained;
  throw keel::Error({.op = "--freeze",
                     .argument = freeze,
                     .expected = "a pattern of some of the weights: " + names,
                     .got = trained.empty() ? "one of all" : "one of none",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// The parts that a step's update is made of: the gradients of the loss, and which steps apply it.
class UpdateParts {
 public:
  UpdateParts(keel::Value loss, const keel::DataParallel& ranks, const UpdateFlags& flags)
      : loss_(loss), ranks_(ranks), flags_(flags), states_(trained_states(loss, flags.freeze)) {
    if (const auto rule = parse_loss_scale(flags.loss_scale, "--loss-scale"))
      scaler_.emplace(loss.graph(), *rule);
  }

  TrainingUpdate with(const keel::Optimizer& optimizer) {
    TrainingUpdate result;
    const bool alone = ranks_.ranks() == 1 && ranks_.micro_shards() == 1;
    if (alone) statistics_ = keel::attached_updates(loss_);
    keel::Values gradients = alone ? unscaled_gradients() : global_gradients();
    result.loss = loss_;
    const auto averaged = [&](const keel::Update& update) {
      return flags_.average ? keel::average_weights(update, *flags_.average) : update;
    };
    if (flags_.accumulate == 1) {
      result.update = averaged(optimizer.apply(states_, clipped(gradients, flags_), loss_));
    } else {
      const auto gathered = keel::accumulate_gradients(states_, gradients, loss_, flags_.accumulate,
                                                       {.sound = finite_});
      complete_ = gathered.complete;
      if (scaler_) {
        keep_statistics_where(finite_);
        finite_ = keel::logical_and(gathered.sound, keel::all_finite(gathered.means));
      }
      result.update =
          averaged(optimizer.apply(states_, clipped(gathered.means, flags_), gathered.loss));
      result.update = keel::apply_if(applied(), result.update);
      result.update += gathered.update;
    }
    // Running statistics of a step that overflowed are worth as little as its gradients.
    result.update += not_frozen(statistics_, flags_.freeze);
    if (flags_.accumulate == 1) guard(gradients, result);
    if (!scaler_) return result;
    result.update += scaler_->update(finite_, complete_.valid() ? complete_ : sound_);
    const keel::Value bad = keel::logical_not(finite_);
    const keel::Value skipped = complete_.valid() ? keel::logical_and(complete_, bad) : bad;
    result.scaling = {scaler_->scale(), keel::cast(skipped, keel::f32)};
    return result;
  }

 private:
  keel::Values unscaled_gradients() {
    if (!scaler_) return keel::gradients(loss_, states_);
    keel::Values gradients = scaler_->unscaled(keel::gradients(scaler_->scaled(loss_), states_));
    finite_ = scaler_->finite(gradients);
    return gradients;
  }

  // The same of all ranks, with the loss: so all of them skip a step or none.
  keel::Values global_gradients() {
    const keel::GlobalGradients global =
        ranks_.gradients(loss_, states_, {.scaler = scaler_ ? &*scaler_ : nullptr});
    loss_ = global.loss;
    finite_ = global.finite;
    statistics_ = global.statistics;
    return global.gradients;
  }

  // Every micro-batch moves the running statistics, which apply_if would count as updates.
  void keep_statistics_where(const keel::Value& finite) {
    for (keel::Assignment& a : statistics_.assignments)
      a.next = keel::select(finite, a.next, a.state);
  }

  // Has the update applied where it is sound.
  void guard(const keel::Values& gradients, TrainingUpdate& result) {
    if (flags_.fail_on_nan) {
      // A scaled loss may overflow in its gradients: such steps are skipped.
      keel::Values watched = scaler_ ? keel::Values() : gradients;
      watched.push_back(loss_);
      sound_ = keel::all_finite(watched);
      result.stop_when = keel::logical_not(sound_);
    }
    const keel::Value& one = finite_.valid() ? finite_ : sound_;
    if (!one.valid()) return;
    const bool both = finite_.valid() && sound_.valid();
    result.update = keel::apply_if(both ? keel::logical_and(finite_, sound_) : one, result.update);
  }
  keel::Value applied() const {
    return scaler_ ? keel::logical_and(complete_, finite_) : complete_;
  }

  keel::Value loss_;
  const keel::DataParallel& ranks_;
  const UpdateFlags& flags_;
  keel::Values states_;
  std::optional<keel::LossScaler> scaler_;
  keel::Value finite_, complete_, sound_;
  keel::Update statistics_;
};

}  // namespace

std::string describe_update(const std::string& optimizer, const keel::Update& own) {
  if (optimizer != kOwnUpdate)
    return fmt::format("update: {}, in the place of the graph's own, which is dropped", optimizer);
  return fmt::format(
      "update: the graph's own, of {} states (--optimizer NAME puts one of ours in its place)",
      own.assignments.size());
}

TrainingUpdate guard_own_update(keel::Update update, keel::Value loss, const UpdateFlags& flags) {
  TrainingUpdate result;
  result.loss = loss;
  result.update = std::move(update);
  result.update += keel::attached_updates(loss);
  if (!flags.fail_on_nan) return result;
  keel::Values watched = {loss};
  for (const keel::Assignment& a : result.update.assignments)
    if (keel::is_float(a.next.dtype())) watched.push_back(a.next);
  const keel::Value sound = keel::all_finite(watched);
  result.update = keel::apply_if(sound, result.update);
  result.stop_when = keel::logical_not(sound);
  return result;
}

TrainingUpdate make_update(keel::Value loss, const keel::DataParallel& ranks,
                           const std::string& optimizer, double rate, const UpdateFlags& flags,
                           const TrainingLength& length) {
  if (flags.accumulate > length.steps) {
    throw keel::Error({.op = "--accumulate",
                       .expected = fmt::format("at most the {} steps of the training: with more "
                                               "there is no update",
                                               length.steps),
                       .got = std::to_string(flags.accumulate),
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  return UpdateParts(loss, ranks, flags)
      .with(make_optimizer(optimizer, make_schedule(rate, flags, length)));
}

}  // namespace keel_cli
