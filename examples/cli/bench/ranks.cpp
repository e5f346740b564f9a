#include "cli/bench/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/json.h>
#include <keel/core/group/join_group.h>
#include <keel/version.h>
#include <nlohmann/json.hpp>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/output_files.h"
#include "cli/base/ranks.h"
#include "cli/base/run_flags.h"
#include "cli/bench/bench.h"
#include "cli/bench/page.h"
#include "cli/bench/ranks_scaling.h"
#include "cli/bench/ranks_training.h"

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
  std::cout << "all-reduce of f32 among " << group.size() << " ranks over " << group.transport()
            << ", wall time in us\n"
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

keel::Json measure_sums(keel::Group& group, double seconds) {
  const bool first = group.rank() == 0;
  if (first) print_head(group);
  keel::Json rows = keel::Json::array();
  for (const size_t elements : kElements) {
    rows.push_back(measure_size(group, elements, seconds));
    if (first) print_row(rows.back());
  }
  return rows;
}

struct RanksFlags {
  RankTrainingFlags trainings;
  std::string json, html;
  bool endless = false;
};

RanksFlags read_flags(const CommandLine& line) {
  RanksFlags flags;
  flags.trainings.seconds = read_seconds(line, 0.3);
  flags.trainings.data = read_data(line);
  flags.trainings.backend = read_backend(line);
  require_numbered_device(flags.trainings.backend);
  for (const std::string& name : line.choices("models", names_of_models(), {"softmax", "mlp"}))
    flags.trainings.models.push_back(&keel_examples::find_model(name));
  flags.json = line.text("json").value_or("");
  flags.html = line.text("html").value_or("");
  require_distinct({{"--json", flags.json}, {"--html", flags.html}},
                   data_files(flags.trainings.data));
  require_writable("--json", flags.json);
  require_writable("--html", flags.html);
  flags.endless = line.has("endless");
  for (const char* output : {"json", "html"}) {
    if (flags.endless && line.has(output))
      throw keel::Error({.op = "--endless",
                         .message = std::string("has no last table for --") + output,
                         .fix = "give one of the two",
                         .kind = keel::ErrorKind::kInvalidArgument});
  }
  return flags;
}

// Ranks wait while rank 0 trains alone, and no longer than they wait for any other thing.
void require_short_turns(const keel::Group& group, double seconds) {
  const auto patience = static_cast<double>(keel::read_rank_patience().execute.count());
  const double most = patience * kRounds / 2;
  if (group.size() == 1 || seconds <= most) return;
  throw keel::Error(
      {.op = "--seconds",
       .expected = fmt::format("at most {}, since ranks wait for each other's turns, and for {} s "
                               "at most (HCCL_EXEC_TIMEOUT)",
                               most, patience),
       .got = fmt::format("{}", seconds),
       .fix = "take less, or raise HCCL_EXEC_TIMEOUT",
       .kind = keel::ErrorKind::kInvalidArgument});
}

keel::Json measure_all(const std::shared_ptr<keel::Group>& group, const RankTrainingFlags& flags) {
  keel::Json result = {{"keel_version", KEEL_VERSION},
                       {"suite", "ranks"},
                       {"rounds", kRounds},
                       {"ranks", group->size()},
                       {"rank_transport", group->transport()}};
  result["all_reduce"] = measure_sums(*group, flags.seconds);
  const bool first = group->rank() == 0;
  keel::Json trainings = keel::Json::array();
  result["steps"] = measure_rank_trainings(group, flags, trainings);
  result.update(model_scaling(trainings));
  if (first) print_scaling(result);
  return result;
}

}  // namespace

int run_bench_ranks(const std::vector<std::string>& words) {
  CommandLine line("bench ranks", kBenchRanksSummary);
  declare_seconds(line, "each row", "0.3");
  line.add("models", "NAME,NAME,...",
           "whose steps are measured, of " + alternatives(names_of_models()) + " (softmax,mlp)");
  declare_data_flag(line);
  declare_backend_flag(line, "what trains them");
  line.add("json", "FILE", "the tables as one JSON object, written by rank 0");
  line.add("html", "FILE", "the tables and their plots as one page without outer resources");
  line.add("endless", "", "measure sums again and again until it is stopped");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const RanksFlags flags = read_flags(line);
  const auto group = join_ranks();
  require_short_turns(*group, flags.trainings.seconds);
  while (flags.endless) measure_sums(*group, flags.trainings.seconds);
  const keel::Json result = measure_all(group, flags.trainings);
  if (group->rank() == 0) {
    if (!flags.json.empty())
      keel::write_file_atomically(flags.json, keel::write_json(result, 2) + "\n");
    if (!flags.html.empty()) {
      std::vector<std::string> command = {"keel", "launch", "-n",    std::to_string(group->size()),
                                          "--",   "keel",   "bench", "ranks"};
      command.insert(command.end(), words.begin(), words.end());
      keel::write_file_atomically(flags.html, bench_page("ranks", result, command));
    }
  }
  group->leave();
  return kExitDone;
}

}  // namespace keel_cli
