#include "cli/train/feeding_doctor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

namespace keel_cli {
namespace {

// A device that waits less than this share of the time is not held up by its feed.
constexpr double kNoticed = 0.05;
// A rate that rounds to 1.0 times as fast is no faster.
constexpr double kFaster = 1.05;
// Nothing is divided by a step of no time.
constexpr double kShortestStepUs = 1e-3;

}  // namespace

std::string feeding_verdict(const FeedSigns& signs) {
  const double step_us = std::max(signs.step_us, kShortestStepUs);
  const double wait_us = std::clamp(signs.queue_wait_us, 0.0, step_us);
  const double idle = wait_us / step_us;
  double feed_us = 0;
  for (const FeedStage& stage : signs.stages) feed_us += stage.own_us;
  if (idle < kNoticed) {
    const std::string waits = fmt::format("it waits for data {:.0f} % of wall", idle * 100);
    if (feed_us == 0) return "bound by the device: " + waits;
    const double faster = step_us / feed_us;
    if (faster < 1 / kFaster) {
      return fmt::format(
          "bound by the device: {}, though the feed by itself takes {:.1f} times as long", waits,
          1 / faster);
    }
    if (faster < kFaster)
      return "bound by the device, just: " + waits + "; the feed by itself takes as long";
    return fmt::format("bound by the device: {}; the feed by itself is {:.1f} times as fast", waits,
                       faster);
  }
  if (!signs.data_sink) {
    return fmt::format(
        "bound by the host, which feeds each step: device idle {:.0f} %; try --data-sink on",
        idle * 100);
  }
  if (signs.stages.empty()) {
    return fmt::format("bound by the feed: device idle {:.0f} %; `keel bench feed` names the stage",
                       idle * 100);
  }
  if (feed_us < step_us - wait_us / 2) {
    return fmt::format(
        "bound by the processor: device idle {:.0f} %, though the feed by itself takes {:.0f} % of "
        "wall; try fewer --threads",
        idle * 100, feed_us / step_us * 100);
  }
  const auto slowest =
      std::max_element(signs.stages.begin(), signs.stages.end(),
                       [](const auto& a, const auto& b) { return a.own_us < b.own_us; });
  std::string text =
      fmt::format("bound by {}: {:.0f} % of wall; device idle {:.0f} %", slowest->name,
                  std::min(1.0, slowest->own_us / step_us) * 100, idle * 100);
  if (!slowest->advice.empty()) text += "; try " + slowest->advice;
  return text;
}

std::string occupancy_histogram(const std::vector<int64_t>& occupancy) {
  if (occupancy.size() < 2) return "";
  const size_t depth = occupancy.size() - 1;
  struct Bucket {
    const char* name;
    int64_t count = 0;
  };
  std::array<Bucket, 6> buckets = {
      {{"empty"}, {"to 25 %"}, {"to 50 %"}, {"to 75 %"}, {"below full"}, {"full"}}};
  for (size_t waiting = 0; waiting <= depth; ++waiting) {
    size_t bucket = waiting == 0 ? 0 : 1 + (waiting * 4 - 1) / depth;
    if (waiting == depth) bucket = 5;
    buckets[bucket].count += occupancy[waiting];
  }
  const int64_t all = std::accumulate(occupancy.begin(), occupancy.end(), int64_t{0});
  std::string text;
  for (const Bucket& bucket : buckets) {
    const double share =
        all == 0 ? 0 : static_cast<double>(bucket.count) / static_cast<double>(all);
    text += fmt::format("  {:<10} {:>5.1f} %  {}\n", bucket.name, share * 100,
                        std::string(static_cast<size_t>(std::lround(share * 50)), '#'));
  }
  return text;
}

}  // namespace keel_cli
