#include "cli/bench/plot_scale.h"

#include <algorithm>
#include <cmath>

namespace keel_cli {
namespace {

constexpr size_t kMostOwnTicks = 14;
constexpr double kTickGap = 22;  // between two labels, in the plot's units

}  // namespace

PlotScale::PlotScale(const std::vector<double>& values, bool log, double from, double to,
                     bool own_ticks)
    : log_(log), from_(from), to_(to) {
  std::vector<double> usable;
  for (const double v : values) {
    if (std::isfinite(v) && (!log || v > 0)) usable.push_back(v);
  }
  if (usable.empty()) usable.push_back(1);
  std::sort(usable.begin(), usable.end());
  usable.erase(std::unique(usable.begin(), usable.end()), usable.end());
  if (log) {
    choose_log(usable.front(), usable.back(),
               own_ticks && usable.size() <= kMostOwnTicks ? usable : std::vector<double>{});
  } else {
    choose_linear(usable.back());
  }
}

void PlotScale::choose_linear(double most) {
  if (most <= 0) most = 1;
  const double rough = most / 5;
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  const double head = rough / decade;
  const double step = (head <= 1 ? 1 : head <= 2 ? 2 : head <= 5 ? 5 : 10) * decade;
  high_ = most * 1.04;
  for (int i = 0; i * step <= high_; ++i) ticks_.push_back(i * step);
}

void PlotScale::choose_log(double least, double most, const std::vector<double>& own) {
  const double room = std::max(0.06, 0.04 * std::log10(most / least));
  low_ = std::log10(least) - room;
  high_ = std::log10(most) + room;
  std::vector<double> wanted = own;
  if (wanted.empty()) {
    const double decades = high_ - low_;
    const std::vector<double> heads = decades > 2.5 ? std::vector<double>{1}
                                      : decades > 0.9
                                          ? std::vector<double>{1, 2, 5}
                                          : std::vector<double>{1, 1.5, 2, 3, 4, 5, 6, 8};
    for (int decade = static_cast<int>(std::floor(low_)); decade <= high_; ++decade) {
      for (const double head : heads) {
        const double tick = head * std::pow(10.0, decade);
        const double at = std::log10(tick);
        if (at >= low_ && at <= high_) wanted.push_back(tick);
      }
    }
  }
  for (const double tick : wanted) {
    if (ticks_.empty() || std::abs(place(tick) - place(ticks_.back())) >= kTickGap)
      ticks_.push_back(tick);
  }
}

double PlotScale::place(double value) const {
  const double at = log_ ? std::log10(std::max(value, 1e-300)) : value;
  return from_ + (to_ - from_) * (at - low_) / (high_ - low_);
}

}  // namespace keel_cli
