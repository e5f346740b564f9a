#include "cli/train/same_training.h"

#include <algorithm>
#include <vector>

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

}  // namespace

void require_same_training(keel::Group& group, const TrainFlags& flags,
                           const PlannedTraining& plan) {
  const keel::RankPlace place = keel::read_job_environment().place;
  const std::string update = keel::write_json(run_configuration(flags, plan.steps));
  keel::require_equal_fingerprints(
      group, {{"version", KEEL_VERSION},
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
              {"batch", std::to_string(flags.batch)},
              {"steps", std::to_string(plan.steps)},
              {"start_step", std::to_string(flags.resume ? flags.resume->step() : 0)}});
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
