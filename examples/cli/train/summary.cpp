#include "cli/train/summary.h"

#include <set>
#include <utility>

#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <nlohmann/json.hpp>

#include "cli/base/machine.h"
#include "cli/train/feeding_doctor.h"

namespace keel_cli {
namespace {

std::string property_of(const keel::Device& device, const std::string& wanted) {
  const std::vector<keel::DeviceInfo> devices = device.backend().devices();
  for (const auto& [name, value] : devices[0].properties) {
    if (name == wanted) return value;
  }
  return "";
}

// Adds the flags that shape an update: schedule, accumulation, clipping and averaging. The
// optimizer and its rate are in add_flags.
void add_update(const UpdateFlags& update, int64_t total_steps, keel::Json& summary) {
  summary["schedule"] = update.schedule;
  summary["warmup"] = warmup_of(update, total_steps);
  if (const auto steps = schedule_steps_of(update, total_steps)) summary["schedule_steps"] = *steps;
  summary["accumulate"] = update.accumulate;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) summary[name] = *value;
  };
  if (update.loss_scale != kNoLossScale) summary["loss_scale_rule"] = update.loss_scale;
  add("clip_norm", update.clip_norm);
  add("clip_value", update.clip_value);
  add("average", update.average);
  if (!update.freeze.empty()) summary["freeze"] = update.freeze;
}

void add_flags(const TrainFlags& flags, keel::Json& summary) {
  summary["backend"] = flags.backend;
  summary["model"] = flags.task->name;
  summary["precision"] = flags.precision_mode;
  if (!flags.disabled_passes.empty()) summary["disabled_passes"] = flags.disabled_passes;
  summary["placement"] = keel::name_of(flags.placement);
  summary["optimizer"] = flags.optimizer;
  summary["own_update"] = flags.own_update();
  if (!flags.own_update()) summary["lr"] = flags.rate;
  summary["seed"] = flags.seed;
  summary["batch"] = flags.batch;
  summary["ranks"] = flags.share.count;
  summary["micro_shards"] = flags.micro_shards;
  summary["shift"] = flags.augmentation.shift;
  summary["flip"] = flags.augmentation.flip;
  summary["cutout"] = flags.augmentation.cutout;
}

// Returns the dtypes of the states that are trained, each once: "f32".
std::string dtypes_of(const keel::Graph& graph) {
  std::string names;
  std::set<keel::DType> seen;
  for (const keel::Value& state : graph.states()) {
    if (!state.node().as<keel::StateAttributes>().trainable) continue;
    if (seen.insert(state.dtype()).second)
      names += (names.empty() ? "" : ", ") + std::string(keel::name_of(state.dtype()));
  }
  return names;
}

keel::Json phase(const std::string& precision, int64_t steps, double seconds,
                 const std::optional<int64_t>& device_ns) {
  keel::Json entry;
  entry["precision"] = precision;
  entry["steps"] = steps;
  entry["seconds"] = seconds;
  if (steps > 0) entry["step_us"] = seconds * 1e6 / static_cast<double>(steps);
  if (device_ns) entry["step_device_us"] = static_cast<double>(*device_ns) * 1e-3;
  return entry;
}

// The two phases of an accelerated training.
void add_acceleration(const TrainFlags& flags, const TrainOutcome& outcome, keel::Json& summary) {
  if (!flags.accelerate) return;
  const keel::TrainReport& report = outcome.report;
  summary["accelerate_train_mode"] = keel::to_string(*flags.accelerate);
  if (report.switched_at) summary["switched_at_step"] = *report.switched_at;
  summary["phases"] = {phase(outcome.fast_precision, report.fast_steps, report.fast_seconds,
                             outcome.fast_step_device_ns),
                       phase(flags.precision_mode, report.steps - report.fast_steps,
                             report.seconds - report.fast_seconds, outcome.step_device_ns)};
}

// Where the steps looped, what the compiler put around them, and what that came to.
void add_loop(const keel::Loop& loop, const keel::TrainReport& report, keel::Json& summary) {
  summary["loop_kind"] = keel::name_of(loop.kind());
  const keel::PlacementReport& placement = loop.compile_report().placement;
  if (placement.policy == keel::PlacementPolicy::kMixed)
    summary["host_tasks"] = placement.host_tasks;
  if (loop.kind() != keel::LoopKind::kDevice) summary["loop_reason"] = loop.placement().reason;
  keel::Json inserted = keel::Json::array();
  for (const keel::InsertedOp& op : loop.compile_report().inserted_ops) {
    keel::Json entry;
    entry["name"] = op.name;
    entry["type"] = op.type;
    inserted.push_back(std::move(entry));
  }
  summary["inserted_ops"] = std::move(inserted);
  summary["epochs"] = report.epochs;
  summary["steps"] = report.steps;
  summary["updates_applied"] = report.updates_applied;
  summary["float_status"] = keel::describe_float_status(report.float_status);
  if (report.float_status_step) summary["float_status_step"] = *report.float_status_step;
  if (!report.float_status_by.empty()) summary["float_status_by"] = report.float_status_by;
  for (const keel::NumericsFinding& finding : report.numerics) {
    keel::Json entry;
    entry["step"] = finding.step;
    entry["name"] = finding.name;
    entry["op"] = finding.op;
    if (finding.site.known()) entry["line"] = keel::to_string(finding.site);
    entry["text"] = keel::to_string(finding);
    summary["numerics"].push_back(std::move(entry));
  }
  if (report.dumped_steps > 0) {
    summary["dumped_steps"] = report.dumped_steps;
    summary["dump_folder"] = report.dump_folder;
  }
  summary["launches"] = report.launches;
  summary["host_syncs"] = report.host_syncs;
  add_transfers(report.transfers, summary);
}

void add_result(const TrainOutcome& outcome, keel::Json& summary) {
  if (!outcome.rank_transport.empty()) summary["rank_transport"] = outcome.rank_transport;
  summary["bit_equal_across_ranks"] = outcome.why_not_bit_equal.empty() ? "yes" : "no";
  summary["data"] = outcome.data;
  summary["feed"] = outcome.feed;
  summary["train_loss"] = outcome.loss;
  if (outcome.scale) {
    summary["loss_scale"] = outcome.scale->scale;
    summary["skipped_steps"] = outcome.scale->skipped_steps;
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  summary["test_accuracy"] = outcome.test ? outcome.test->accuracy : kNone;
  summary["test_top_k_accuracy"] = outcome.test ? outcome.test->top_k : kNone;
  summary["test_loss"] = outcome.test ? outcome.test->loss : kNone;
  summary["top_k"] = outcome.top_k;
  const auto& epochs = outcome.report.epoch_means;
  summary["epoch_loss"] = epochs.empty() ? kNone : epochs.back().means.at(0);
  if (outcome.first_non_finite_step)
    summary["first_non_finite_step"] = *outcome.first_non_finite_step;
  if (outcome.non_finite_state) summary["non_finite_state"] = *outcome.non_finite_state;
  if (!outcome.warnings.empty()) summary["warnings"] = outcome.warnings;
  if (!outcome.errors.empty()) summary["errors"] = outcome.errors;
}

// By what it was judged, all that came of it, and what followed.
void add_judging(const TrainFlags& flags, const TrainOutcome& outcome, keel::Json& summary) {
  const JudgingFlags& judging = flags.judging;
  summary["judged_on"] = judging.validation > 0 ? "validation" : "test";
  summary["validation_images"] = judging.validation;
  summary["metric"] = judging.metric;
  keel::Json history = keel::Json::array();
  for (const Judgement& judgement : outcome.history) {
    keel::Json entry;
    entry["step"] = judgement.step;
    entry["epoch"] = judgement.epoch;
    if (judgement.epoch_loss) entry["epoch_loss"] = *judgement.epoch_loss;
    entry["epoch_steps"] = judgement.epoch_steps;
    entry["accuracy"] = judgement.scores.accuracy;
    entry["top_k_accuracy"] = judgement.scores.top_k;
    entry["loss"] = judgement.scores.loss;
    entry["best"] = judgement.best;
    history.push_back(std::move(entry));
  }
  summary["history"] = std::move(history);
  const keel::TrainReport& report = outcome.report;
  if (report.best) {
    summary["best_value"] = report.best->value;
    summary["best_step"] = report.best->step;
  }
  summary["kept_best"] = report.kept_best;
  if (report.stopped_early && report.target_reached) summary["stopped_by"] = "stop-at";
  if (report.stopped_early && report.out_of_patience) summary["stopped_by"] = "patience";
}

void add_init(const TrainFlags& flags, const TrainOutcome& outcome, keel::Json& summary) {
  if (!outcome.init) return;
  keel::Json init;
  init["file"] = flags.init;
  const keel::WeightsMatch& match = outcome.init->match;
  init["matched"] = match.matched;
  init["averaged"] = outcome.init->averaged;
  init["missing"] = match.missing;
  init["left_aside"] = match.left_aside;
  init["mismatched"] = keel::Json::array();
  for (const auto& [name, wanted, saved] : match.mismatched) {
    init["mismatched"].push_back(
        {{"name", name}, {"wanted", to_string(wanted)}, {"saved", to_string(saved)}});
  }
  summary["init"] = std::move(init);
}

void add_times(const TrainFlags& flags, const TrainOutcome& outcome, keel::Json& summary) {
  const keel::TrainReport& report = outcome.report;
  summary["train_seconds"] = report.seconds;
  summary["step_us"] = outcome.step_us();
  summary["images_per_second"] = outcome.images_per_second(flags.global_batch());
  summary["elements_ahead"] = report.elements_ahead;
  summary["queue_wait_seconds"] = static_cast<double>(report.queue_wait_ns) * 1e-9;
  summary["metrics_wait_seconds"] = static_cast<double>(report.metrics_wait_ns) * 1e-9;
  summary["peak_rss_bytes"] = peak_rss_bytes();
  if (report.steps > 0) summary["feeding"] = outcome.feeding();
  if (!outcome.ranks.empty()) add_rank_reports(outcome.ranks, flags.batch, summary);
}

// The job that it is a part of, and where its flags are from but for the command line.
void add_origin(const TrainFlags& flags, keel::Json& summary) {
  if (!flags.config.file.empty())
    summary["config"] = {{"file", flags.config.file}, {"flags", flags.config.flags}};
  const std::string job = keel::read_job_environment().job_id;
  if (!job.empty()) summary["job_id"] = job;
}

void add_device(const TrainFlags& flags, const TrainOutcome& outcome, const keel::Device& device,
                keel::Json& summary) {
  summary["device"] = device.name();
  if (const std::string isa = isa_of(device); !isa.empty()) summary["isa"] = isa;
  if (flags.backend == "npu") {
    summary["npu_strict"] = property_of(device, "strict").starts_with("on");
  }
  if (outcome.step_device_ns) {
    summary["npu_preset"] = outcome.modelled_device;
    summary["step_device_us"] =
        static_cast<double>(*outcome.step_device_ns) * 1e-3;  // device clock
  }
}

void add_checkpoint(const TrainFlags& flags, const TrainOutcome& outcome, keel::Json& summary) {
  if (flags.checkpoint.folder.empty()) return;
  const keel::CheckpointReport& report = outcome.report.checkpoint;
  keel::Json entry;
  entry["folder"] = flags.checkpoint.folder;
  entry["saved"] = report.saved;
  entry["failed"] = report.failed;
  if (report.last_step) {
    entry["last_step"] = *report.last_step;
    entry["last_file"] = report.last_file;
  }
  if (!report.best_file.empty()) entry["best_file"] = report.best_file;
  entry["copy_seconds"] = report.copy_seconds;
  entry["wait_seconds"] = report.wait_seconds;
  summary["checkpoint"] = std::move(entry);
}

keel::Json summarise(const TrainFlags& flags, const TrainOutcome& outcome, keel::Trainer& trainer) {
  const keel::Session& session = trainer.session();
  keel::Json summary;
  summary["keel_version"] = KEEL_VERSION;
  summary["loop_size"] = loop_size_of(flags, outcome.report);
  summary["data_sink"] = flags.data_sink;
  summary["compiles"] = session.compiles();
  summary["threads"] = flags.threads;
  if (flags.resume) summary["resumed_at_step"] = flags.resume->step();
  summary.update(run_configuration(flags, session.graph(), outcome.total_steps));
  add_origin(flags, summary);
  add_loop(trainer.loop(), outcome.report, summary);
  add_acceleration(flags, outcome, summary);
  add_result(outcome, summary);
  add_judging(flags, outcome, summary);
  add_init(flags, outcome, summary);
  add_checkpoint(flags, outcome, summary);
  add_times(flags, outcome, summary);
  add_device(flags, outcome, session.device(), summary);
  try {
    summary["state_sha256"] = session.state_sha256();
  } catch (const keel::Error&) {
    // A step that failed half-way lost them; `errors` says so.
    summary["state_sha256"] = nullptr;
  }
  return summary;
}

}  // namespace

keel::Json run_configuration(const TrainFlags& flags, const keel::Graph& graph,
                             int64_t total_steps) {
  keel::Json configuration;
  add_flags(flags, configuration);
  if (const std::string dtypes = dtypes_of(graph); !dtypes.empty()) configuration["dtype"] = dtypes;
  if (!flags.own_update()) add_update(flags.update, total_steps, configuration);
  return configuration;
}

double TrainOutcome::step_us() const {
  return report.steps == 0 ? 0 : report.seconds * 1e6 / static_cast<double>(report.steps);
}

double TrainOutcome::images_per_second(int64_t batch) const {
  return report.seconds == 0 ? 0 : static_cast<double>(report.steps * batch) / report.seconds;
}

std::string TrainOutcome::feeding() const {
  return feeding_verdict({.step_us = report.seconds * 1e6,
                          .queue_wait_us = static_cast<double>(report.queue_wait_ns) * 1e-3,
                          .stages = {},
                          .data_sink = data_sink});
}

void write_summary(const TrainFlags& flags, const TrainOutcome& outcome, keel::Trainer& trainer) {
  keel::write_file_atomically(flags.summary,
                              keel::write_json(summarise(flags, outcome, trainer), 2) + "\n");
}

void add_transfers(const keel::Transfers& transfers, keel::Json& entry) {
  entry["copies_to_device"] = transfers.to_device;
  entry["bytes_to_device"] = transfers.to_device_bytes;
  entry["copies_to_host"] = transfers.to_host;
  entry["bytes_to_host"] = transfers.to_host_bytes;
}

int64_t loop_size_of(const TrainFlags& flags, const keel::TrainReport& report) {
  return report.loop_size > 0 ? report.loop_size : flags.loop_size.value();
}

std::string isa_of(const keel::Device& device) { return property_of(device, "isa"); }

}  // namespace keel_cli
