#include "cli/train/same_training.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <keel/core/base/json.h>
#include <keel/core/group/fingerprint.h>
#include <keel/graph/runtime/rank_states.h>
#include <keel/version.h>
#include <nlohmann/json.hpp>

#include "cli/train/summary.h"

namespace keel_cli {
namespace {

constexpr size_t kShownDigits = 16;  // of digests

std::string shown(const std::string& sha256) { return sha256.substr(0, kShownDigits); }

// The gradients that are summed are those of the states, in their order.
std::string described_states(const keel::Graph& graph) {
  std::string states;
  for (const keel::Value& state : graph.states())
    states += keel::name_of(state.node()) + " " + to_string(state.type()) + "\n";
  return states;
}

std::string on_or_off(bool on) { return on ? "on" : "off"; }

std::string how_often_saved(const CheckpointFlags& flags) {
  if (flags.steps > 0) return std::to_string(flags.steps);
  return flags.seconds > 0 ? fmt::format("{}s", flags.seconds) : "epoch";
}

// Where tasks are traced, ranks gather their timelines behind the last step.
std::string profiled_steps(const ProfileFlags& flags) {
  if (flags.folder.empty()) return "off";
  const bool traced = flags.options.task_trace != keel::npu::TaskTrace::kOff;
  return fmt::format("{}-{}{}", flags.first_step, flags.last_step,
                     traced ? "" : " without task_trace");
}

// Returns the flags that decide between which steps ranks save, judge and stop, and so which
// collectives they run: one that does other things than the rest would wait for them, or they for
// it.
keel::Fingerprint between_steps(const TrainFlags& flags) {
  const JudgingFlags& judging = flags.judging;
  const CheckpointFlags& checkpoint = flags.checkpoint;
  return {{"checkpoint", on_or_off(!checkpoint.folder.empty())},
          {"save_every", how_often_saved(checkpoint)},
          {"save_best", on_or_off(!judging.save_best.empty())},
          {"keep_best", on_or_off(judging.keep_best)},
          {"validation", std::to_string(judging.validation)},
          {"eval_every", std::to_string(judging.every_n_steps)},
          {"metric", judging.metric},
          {"top_k", std::to_string(judging.top_k)},
          {"patience", std::to_string(judging.patience)},
          {"min_gain", fmt::format("{}", judging.min_gain)},
          {"stop_at", judging.target ? fmt::format("{}", *judging.target) : "none"},
          {"profile", profiled_steps(flags.profile)},
          {"fail_on_nan", on_or_off(flags.update.fail_on_nan)},
          {"loop_size", std::to_string(flags.loop_size.value())},
          {"data_sink", on_or_off(flags.data_sink)},
          // The best before, to be beaten.
          {"resume", flags.resume ? shown(keel::sha256_hex(
                                        keel::write_json(keel::Json(flags.resume->metadata()))))
                                  : "none"}};
}

// Returns which files the ranks ask for. Rank 0 writes them and may be asked alone; what another
// rank alone asks for would be dropped without a word.
keel::Fingerprint written_files(keel::Group& group, const TrainFlags& flags) {
  const std::pair<const char*, bool> files[] = {{"save", !flags.save.empty()},
                                                {"metrics", !flags.metrics.empty()},
                                                {"summary", !flags.summary.empty()}};
  std::string own;
  for (const auto& [name, asked] : files) own += asked ? '1' : '0';
  const std::string of_first = group.all_gather(own).at(0);
  keel::Fingerprint written;
  for (size_t i = 0; i < own.size(); ++i)
    written[files[i].first] = on_or_off(files[i].second || of_first.at(i) == '1');
  return written;
}

}  // namespace

void require_same_training(keel::Group& group, const TrainFlags& flags,
                           const PlannedTraining& plan) {
  const keel::RankPlace place = keel::read_job_environment().place;
  const std::string update = keel::write_json(run_configuration(flags, plan.graph, plan.steps));
  keel::Fingerprint own = {
      {"version", KEEL_VERSION},
      {"backend", flags.backend},
      {"isa", isa_of(plan.device)},
      {"precision", flags.precision_mode},
      {"world_size", std::to_string(group.size())},
      {"rank_table", place.table ? shown(place.table->sha256) : "none"},
      {"graph", shown(keel::sha256_hex(print_graph(plan.graph, {.sites = false})))},
      {"update", shown(keel::sha256_hex(update))},
      {"buckets", shown(keel::sha256_hex(described_states(plan.graph)))},
      {"micro_shards", std::to_string(flags.micro_shards)},
      {"seed", std::to_string(flags.seed)},
      {"data_size", std::to_string(plan.items)},
      {"data", shown(plan.data_sha256)},
      {"test_data", shown(plan.test_sha256)},
      {"batch", std::to_string(flags.batch)},
      {"steps", std::to_string(plan.steps)},
      {"start_step", std::to_string(flags.resume ? flags.resume->step() : 0)}};
  own.merge(between_steps(flags));
  keel::require_equal_fingerprints(group, own);
  keel::require_equal_fingerprints(group, written_files(group, flags));
}

void take_states_of_first_rank(keel::Group& group, keel::Session& session) {
  keel::broadcast_states(session, group);
  keel::require_equal_states(session, group);
}

bool on_any_rank(keel::Group* group, bool own) {
  if (group == nullptr) return own;
  const std::vector<std::string> all = group->all_gather(own ? "yes" : "no");
  return std::find(all.begin(), all.end(), "yes") != all.end();
}

}  // namespace keel_cli
