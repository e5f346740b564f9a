#include "keel/graph/runtime/epoch_sums.h"

#include <span>

namespace keel {

void EpochSums::add(const LoopReport& loop, const Values& metrics, int64_t steps_per_epoch,
                    std::vector<EpochMeans>& epochs) {
  if (metrics.empty()) return;
  std::vector<std::span<const double>> series;
  for (const Value& metric : metrics) series.push_back(loop[metric]);
  for (int64_t i = 0; i < loop.steps; ++i) {
    const int64_t epoch = (loop.first_step + i - 1) / steps_per_epoch + 1;
    if (epochs.empty() || epochs.back().epoch != epoch) {
      sums_.assign(series.size(), 0.0);
      epochs.push_back({.epoch = epoch});
    }
    ++epochs.back().steps;
    for (size_t m = 0; m < series.size(); ++m) sums_[m] += series[m][static_cast<size_t>(i)];
    if (i + 1 < loop.steps && (loop.first_step + i) % steps_per_epoch != 0) continue;
    EpochMeans& done = epochs.back();
    done.means.clear();
    for (const double sum : sums_) done.means.push_back(sum / static_cast<double>(done.steps));
  }
}

}  // namespace keel
