#include "cli/train/rank_reports.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/base/machine.h"

namespace keel_cli {
namespace {

std::string host_name() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

double in_seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

keel::Json described(const RankReport& report) {
  return {{"host", report.host},
          {"threads", report.threads},
          {"steps", report.steps},
          {"train_seconds", report.seconds},
          {"queue_wait_seconds", report.queue_wait},
          {"collective_wait_seconds", report.collective_wait},
          {"collective_seconds", report.collective},
          {"peak_rss_bytes", report.peak_rss_bytes}};
}

RankReport read_report(const std::string& text, size_t rank) {
  const keel::Json json = keel::parse_json(text, fmt::format("rank {}", rank));
  const keel::JsonView view(json, fmt::format("rank {}", rank));
  return {.host = view["host"].text(),
          .threads = static_cast<int>(view["threads"].integer()),
          .steps = view["steps"].integer(),
          .seconds = view["train_seconds"].number(),
          .queue_wait = view["queue_wait_seconds"].number(),
          .collective_wait = view["collective_wait_seconds"].number(),
          .collective = view["collective_seconds"].number(),
          .peak_rss_bytes = view["peak_rss_bytes"].integer()};
}

}  // namespace

double RankReport::compute() const {
  return std::max(0.0, seconds - queue_wait - collective_wait - collective);
}

RankReports gather_rank_reports(keel::Group& group, const keel::TrainReport& report, int threads) {
  const RankReport own{.host = host_name(),
                       .threads = threads,
                       .steps = report.steps,
                       .seconds = report.seconds,
                       .queue_wait = in_seconds(report.queue_wait_ns),
                       .collective_wait = in_seconds(report.collective_wait_ns),
                       .collective = in_seconds(report.collective_ns),
                       .peak_rss_bytes = peak_rss_bytes()};
  RankReports ranks;
  for (const std::string& text : group.all_gather(keel::write_json(described(own))))
    ranks.push_back(read_report(text, ranks.size()));
  return ranks;
}

SlowestRank slowest_of(const std::vector<double>& waits) {
  const auto [least, most] = std::minmax_element(waits.begin(), waits.end());
  return {static_cast<int>(least - waits.begin()), *most - *least};
}

SlowestRank slowest_of(const RankReports& ranks) {
  std::vector<double> waits;
  for (const RankReport& rank : ranks) waits.push_back(rank.collective_wait);
  return slowest_of(waits);
}

SlowestRankNote::SlowestRankNote(std::shared_ptr<keel::Group> group)
    : group_(std::move(group)), before_(group_->times().voted_waits()) {
  if (before_.votes == 0) before_.at = keel::CollectiveTimes::Clock::now();
}

std::string SlowestRankNote::next() {
  keel::VotedWaits now = group_->times().voted_waits();
  if (now.votes == before_.votes) return note_;
  std::vector<double> since;
  for (size_t i = 0; i < now.waited_ns.size(); ++i)
    since.push_back(in_seconds(now.waited_ns[i] - before_.waited_ns[i]));
  const double seconds = std::chrono::duration<double>(now.at - before_.at).count();
  before_ = std::move(now);
  const SlowestRank slowest = slowest_of(since);
  note_ = fmt::format("slowest rank {} ({:.0f} % of the time waited for)", slowest.rank,
                      100 * std::min(1.0, slowest.seconds / std::max(seconds, 1e-9)));
  return note_;
}

void add_rank_reports(const RankReports& ranks, int64_t batch, keel::Json& summary) {
  keel::Json entries = keel::Json::array();
  for (const RankReport& rank : ranks) {
    keel::Json entry = described(rank);
    entry["rank"] = entries.size();
    entry["compute_seconds"] = rank.compute();
    const auto images = static_cast<double>(rank.steps * batch);
    entry["images_per_second"] = rank.seconds > 0 ? images / rank.seconds : 0;
    entries.push_back(std::move(entry));
  }
  summary["rank_metrics"] = std::move(entries);
  const SlowestRank slowest = slowest_of(ranks);
  summary["slowest_rank"] = {{"rank", slowest.rank}, {"waited_for_seconds", slowest.seconds}};
}

}  // namespace keel_cli
