#include "bench/contest.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace keel_bench {
namespace {

using Clock = std::chrono::steady_clock;

// A window is long against the clock and short against what disturbs the machine.
constexpr double kWindowSeconds = 0.02;

double seconds_of(const std::function<void()>& run, long turns) {
  const auto start = Clock::now();
  for (long i = 0; i < turns; ++i) run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

long turns_of_a_window(const std::function<void()>& run) {
  run();
  const double once = std::max(1e-9, seconds_of(run, 1));
  return std::max(1L, static_cast<long>(kWindowSeconds / once));
}

double quantile(const std::vector<double>& sorted, size_t quarters) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * quarters / 4)];
}

}  // namespace

std::vector<Result> run_contest(const std::vector<Contestant>& contestants, double work,
                                int rounds) {
  std::vector<long> turns;
  for (const Contestant& c : contestants) turns.push_back(turns_of_a_window(c.run));
  std::vector<std::vector<double>> rates(contestants.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      const double done = contestants[i].work != 0 ? contestants[i].work : work;
      rates[i].push_back(done * static_cast<double>(turns[i]) /
                         seconds_of(contestants[i].run, turns[i]));
    }
  }
  std::vector<Result> results;
  for (size_t i = 0; i < contestants.size(); ++i) {
    std::sort(rates[i].begin(), rates[i].end());
    const double median = quantile(rates[i], 2);
    const double spread = (quantile(rates[i], 3) - quantile(rates[i], 1)) / 2 / median;
    results.push_back({contestants[i].name, median, spread});
  }
  return results;
}

void print_row(const std::string& title, const std::vector<Result>& results, double scale,
               const char* unit) {
  std::printf("%-26s", title.c_str());
  for (const Result& r : results) {
    std::printf("  %s %.1f %s (%.2f, +-%.0f %%)", r.name.c_str(), r.rate * scale, unit,
                r.rate / results.front().rate, r.spread * 100);
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace keel_bench
