#include "cli/bench/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/version.h>
#include <nlohmann/json.hpp>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/output_files.h"
#include "cli/base/ranks.h"

namespace keel_cli {
namespace {

using std::chrono::steady_clock;

// 1 KB up to the gradients of large models; 31,400 and 2,678,824 bytes are those of softmax and
// mlp.
constexpr size_t kElements[] = {256, 7850, 65536, 669706, 4194304};
constexpr int kTurnsToWarmUp = 5;

struct Times {
  double median_us = 0;
  double p95_us = 0;
};

Times measure(int64_t turns, const std::function<void()>& work) {
  std::vector<double> times;
  for (int64_t i = -kTurnsToWarmUp; i < turns; ++i) {
    const auto start = steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> taken = steady_clock::now() - start;
    if (i >= 0) times.push_back(taken.count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 95 / 100]};
}

// All ranks have to sum equally often, so rank 0 says how often, by what one sum took.
int64_t choose_turns(keel::Group& group, keel::Reduction& reduction, double seconds) {
  const Times one = measure(1, [&] { reduction.sum(); });
  int64_t turns =
      std::clamp<int64_t>(static_cast<int64_t>(seconds * 1e6 / one.median_us), 10, 100000);
  group.broadcast(&turns, sizeof turns, 0);
  return turns;
}

keel::Json measure_size(keel::Group& group, size_t elements, double seconds) {
  const auto reduction = group.make_reduction("bench of " + std::to_string(elements), elements);
  std::fill_n(reduction->data(), elements, 0.0f);
  const int64_t turns = choose_turns(group, *reduction, seconds);
  const Times sum = measure(turns, [&] { reduction->sum(); });
  std::vector<float> copy(elements);
  const Times memcpy_times = measure(
      turns, [&] { std::memcpy(copy.data(), reduction->data(), elements * sizeof(float)); });
  return {{"bytes", elements * sizeof(float)},
          {"turns", turns},
          {"all_reduce_us", sum.median_us},
          {"all_reduce_p95_us", sum.p95_us},
          {"memcpy_us", memcpy_times.median_us},
          {"memcpys", sum.median_us / std::max(memcpy_times.median_us, 1e-3)}};
}

void print_head(const keel::Group& group) {
  std::cout << "all-reduce of f32 among " << group.size() << " ranks, wall time in us\n"
            << "       bytes    turns     all-reduce          p95      memcpy   memcpys\n";
}

void print_row(const keel::Json& row) {
  std::cout << fmt::format("  {:>10} {:>8} {:>14.1f} {:>12.1f} {:>11.1f} {:>9.1f}\n",
                           row["bytes"].get<size_t>(), row["turns"].get<int64_t>(),
                           row["all_reduce_us"].get<double>(),
                           row["all_reduce_p95_us"].get<double>(), row["memcpy_us"].get<double>(),
                           row["memcpys"].get<double>())
            << std::flush;
}

keel::Json measure_all(keel::Group& group, double seconds) {
  const bool first = group.rank() == 0;
  if (first) print_head(group);
  keel::Json rows = keel::Json::array();
  for (const size_t elements : kElements) {
    rows.push_back(measure_size(group, elements, seconds));
    if (first) print_row(rows.back());
  }
  return {{"keel_version", KEEL_VERSION},
          {"suite", "ranks"},
          {"ranks", group.size()},
          {"all_reduce", rows}};
}

}  // namespace

int run_bench_ranks(const std::vector<std::string>& words) {
  CommandLine line("bench ranks", kBenchRanksSummary);
  line.add("seconds", "S", "wall time spent on each row (0.3)");
  line.add("json", "FILE", "the table as JSON, written by rank 0");
  line.add("endless", "", "measure again and again until it is stopped");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const double seconds = line.number("seconds", 1e-3, 1e6).value_or(0.3);
  const std::string json = line.text("json").value_or("");
  require_writable("--json", json);
  if (line.has("endless") && !json.empty())
    throw keel::Error({.op = "--endless",
                       .message = "has no last table for --json",
                       .fix = "give one of the two",
                       .kind = keel::ErrorKind::kInvalidArgument});
  const auto group = join_ranks();
  while (line.has("endless")) measure_all(*group, seconds);
  const keel::Json result = measure_all(*group, seconds);
  if (group->rank() == 0 && !json.empty())
    keel::write_file_atomically(json, keel::write_json(result, 2) + "\n");
  group->leave();
  return kExitDone;
}

}  // namespace keel_cli
