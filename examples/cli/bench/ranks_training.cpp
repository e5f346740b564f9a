#include "cli/bench/ranks_training.h"

#include <algorithm>
#include <iostream>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/base/run_flags.h"
#include "cli/bench/bench.h"
#include "cli/bench/trainee.h"

namespace keel_cli {
namespace {

constexpr int64_t kLoopSize = 20;

// One training's rows: alone where there is one rank only.
class Contest {
 public:
  Contest(const std::shared_ptr<keel::Group>& group, const RankTrainingFlags& flags,
          const keel_examples::Model& model, const keel::LabelledImages& images)
      : group_(group),
        flags_(flags),
        model_(model),
        waited_before_ns_(group->times().waited_ns(group->rank())) {
    // Both have the same global batch.
    const int ranks = group->size();
    const int64_t batch = std::max<int64_t>(1, usual_batch(model) / ranks);
    if (group->rank() == 0)
      alone_.emplace(Workload{.model = &model,
                              .backend = flags.backend,
                              .precision = keel::kDefaultPrecision,
                              .threads = ranks,
                              .batch = batch * ranks},
                     images);
    if (ranks == 1) return;
    together_.emplace(Workload{.model = &model,
                               .backend = flags.backend,
                               .precision = keel::kDefaultPrecision,
                               .threads = 1,
                               .batch = batch,
                               .group = group},
                      images);
  }

  keel::Json measure() {
    std::vector<Turn> turns = {[this](double seconds) {
      const double us = alone_ ? alone_->train(seconds, kLoopSize) : 0;
      group_->all_gather("");  // the others wait until it has had its turn
      return us;
    }};
    if (together_)
      turns.push_back([this](double seconds) { return together_->train(seconds, kLoopSize); });
    const auto us = take_turns(turns, flags_.seconds);
    keel::Json rows = keel::Json::array();
    if (!alone_) return rows;
    rows.push_back(row(*alone_, 1, us[0], 0));
    if (together_) {
      std::vector<double> ratios;
      for (size_t i = 0; i < us[0].size(); ++i) ratios.push_back(us[0][i] / us[1][i]);
      rows.push_back(row(*together_, group_->size(), us[1], waited_share()));
      rows.back()["speed_up"] = spread_of(ratios).median;
    }
    return rows;
  }

  // Where the backend has a device clock.
  std::optional<keel::Json> modelled() const {
    if (!alone_ || !alone_->program().step_device_ns) return std::nullopt;
    return keel::Json{
        {"name", model_.name},
        {"npu_preset", alone_->program().modelled_device},
        {"gradient_bytes", alone_->gradient_bytes()},
        {"step_device_us", static_cast<double>(*alone_->program().step_device_ns) * 1e-3}};
  }

 private:
  // Returns for how much of the training together this rank waited for others.
  double waited_share() const {
    return static_cast<double>(group_->times().waited_ns(0) - waited_before_ns_) * 1e-9 /
           together_->seconds();
  }

  keel::Json row(const Trainee& trainee, int ranks, const std::vector<double>& us,
                 double waited) const {
    const Workload& work = trainee.work();
    const Spread step = spread_of(us);
    const auto images = static_cast<double>(work.batch * ranks);
    keel::Json row = {{"model", model_.name},
                      {"backend", work.backend},
                      {"ranks", ranks},
                      {"threads", work.threads},
                      {"batch", work.batch},
                      {"step_us", step.median},
                      {"step_spread", step.share},
                      {"images_per_second", images * 1e6 / step.median},
                      {"collective_wait_share", waited}};
    if (const auto ns = trainee.program().step_device_ns)
      row["step_device_us"] = static_cast<double>(*ns) * 1e-3;
    return row;
  }

  std::shared_ptr<keel::Group> group_;
  const RankTrainingFlags& flags_;
  const keel_examples::Model& model_;
  int64_t waited_before_ns_;
  std::optional<Trainee> alone_, together_;
};

void print(const keel::Json& row) {
  std::cout << fmt::format(
                   "{:<11} {:<8} {:>5} {:>7} {:>6} {:>11.2f} {:>6.1f} {:>11.0f} {:>8} {:>8}\n",
                   row["model"].get<std::string>(), row["backend"].get<std::string>(),
                   row["ranks"].get<int>(), row["threads"].get<int>(), row["batch"].get<int64_t>(),
                   row["step_us"].get<double>(), row["step_spread"].get<double>() * 100,
                   row["images_per_second"].get<double>(),
                   row.contains("speed_up") ? fmt::format("{:.2f}", row["speed_up"].get<double>())
                                            : "-",
                   row["ranks"] == 1
                       ? "-"
                       : fmt::format("{:.1f}", row["collective_wait_share"].get<double>() * 100))
            << std::flush;
}

}  // namespace

keel::Json measure_rank_trainings(const std::shared_ptr<keel::Group>& group,
                                  const RankTrainingFlags& flags, keel::Json& trainings) {
  const keel::LabelledSplits data = load_data(flags.data);
  const bool first = group->rank() == 0;
  if (first)
    std::cout << fmt::format(
        "\ntraining steps, wall time; medians of {} rounds in turns; batch is each rank's\n"
        "{:<11} {:<8} {:>5} {:>7} {:>6} {:>11} {:>6} {:>11} {:>8} {:>8}\n",
        kRounds, "model", "backend", "ranks", "threads", "batch", "step us", "+-%", "images/s",
        "speed-up", "wait %");
  keel::Json rows = keel::Json::array();
  for (const keel_examples::Model* model : flags.models) {
    Contest contest(group, flags, *model, data.train);
    for (keel::Json& row : contest.measure()) {
      if (first) print(row);
      rows.push_back(std::move(row));
    }
    if (const auto modelled = contest.modelled()) trainings.push_back(*modelled);
  }
  return rows;
}

}  // namespace keel_cli
