#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/common/kernel.h"
#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/npu/profile/table_rows.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/printable.h"

namespace keel::npu {
namespace {

constexpr uint64_t kMostAdviceBytes = uint64_t{1} << 20;
constexpr size_t kMostRows = 40;
constexpr size_t kMostSteps = 5;
constexpr std::string_view kRank = "rank_";
constexpr const char* kSteps = "step_trace.csv";
constexpr const char* kLaunches = "op_summary.csv";
constexpr const char* kStatistics = "op_statistic.csv";
constexpr const char* kAdvice = "advice.txt";
constexpr const char* kUnknown = "N/A";

// A launch, and what it is bound by: its busiest unit, its own start where that takes longer, the
// links where it is a collective, the host where that computes it, and the link to the host where
// it is a copy over that. A table without the units' figures does not say.
struct Launched {
  std::string name, op, on, blocks;
  double us = 0, cube = 0, vector = 0, memory = 0;
  bool has_figures = false;  // of the units
  bool beside = false;       // the other launches, on a stream of its own
  std::string bound = kUnknown;
};

void add_figures(const TableRows& row, Launched& launch) {
  double core_us = 0;
  if (row.has("mac_ratio")) {
    launch.cube = row.number("mac_ratio");
    launch.vector = row.number("vec_ratio");
    launch.memory = std::max(row.number("mte2_ratio"), row.number("mte3_ratio"));
    core_us = row.number("aicore_time(us)");
  } else if (row.has("aic_mac_ratio")) {
    launch.cube = row.number("aic_mac_ratio");
    launch.vector = row.number("aiv_vec_ratio");
    for (const char* column :
         {"aic_mte2_ratio", "aic_fixpipe_ratio", "aiv_mte2_ratio", "aiv_mte3_ratio"}) {
      launch.memory = std::max(launch.memory, row.number(column));
    }
    core_us = std::max(row.number("aicore_time(us)"), row.number("aiv_time(us)"));
  } else {
    return;
  }
  launch.has_figures = true;
  if (launch.beside)
    launch.bound = "links";
  else if (launch.on == name_of(TaskKind::kAiCpu))
    launch.bound = "host";
  else if (launch.on == name_of(TaskKind::kMemcpy) && core_us == 0)
    launch.bound = "link";
  else if (core_us < launch.us / 2)
    launch.bound = "start";
  else if (launch.memory >= std::max(launch.cube, launch.vector))
    launch.bound = "memory";
  else
    launch.bound = launch.cube >= launch.vector ? "cube" : "vector";
}

Launched launched(const TableRows& row) {
  Launched launch{.name = row.text("Op Name"),
                  .op = row.text("OP Type"),
                  .on = row.text("Task Type"),
                  .blocks = row.text("Block Dim"),
                  .us = row.number("Task Duration(us)"),
                  .beside = row.text("Stream ID") != "0"};
  // A table of names alone has 0 there, which no launch has.
  if (launch.op == kUnknown) launch.blocks = kUnknown;
  add_figures(row, launch);
  return launch;
}

// Says how many collectives a step has, and what they take together; "" where it has none.
std::string reduces_text(const TableRows& step) {
  size_t count = 0;
  double us = 0;
  const auto column = [&] { return fmt::format("Reduce {} Duration(us)", count + 1); };
  for (; step.has(column()); ++count) us += step.number(column());
  if (count == 0) return "";
  return fmt::format("; {} collective{} {:.3f}", count, count == 1 ? "" : "s", us);
}

// The steps of a profile, and when the first, the last and the one before that end.
struct Steps {
  std::string text = "steps (device clock):\n";
  double first_end_us = 0, before_last_us = 0, last_end_us = 0;
};

Steps read_steps(const std::string& path) {
  Steps steps;
  for (TableRows step(path); step.next();) {
    const double end_us = step.number("Iteration End(us)");
    steps.before_last_us = std::exchange(steps.last_end_us, end_us);
    if (step.count() == 1) steps.first_end_us = end_us;
    if (step.count() > kMostSteps) continue;
    steps.text += fmt::format(
        "  step {:<8} {:>10.3f} us: forward to backward {:.3f}, update {:.3f}; before it, launch "
        "{:.3f}, wait for data {:.3f}{}\n",
        step.text("Iteration ID"), step.number("Iteration Time(us)"),
        step.number("FP to BP Time(us)"), step.number("Iteration Refresh(us)"),
        step.number("Launch(us)"), step.number("Data Aug Bound(us)"), reduces_text(step));
  }
  return steps;
}

[[noreturn]] void cut_short(const std::string& path, const std::string& expected,
                            const std::string& got) {
  throw Error({.op = path,
               .expected = expected,
               .got = got,
               .message = "one of the tables was cut short",
               .fix = "write the profile anew"});
}

// Throws Error where the table does not reach to the end of the steps, or has not as many launches
// as the statistics, where these are there, count.
void require_whole(const std::string& directory, const std::optional<Steps>& steps,
                   TableRows& rows) {
  const std::string path = directory + "/" + kLaunches;
  rows.last();
  const double start_us = rows.number("Task Start Time");
  if (steps && (start_us < steps->before_last_us || start_us > steps->last_end_us)) {
    cut_short(path,
              fmt::format("a last launch within the last step of {}, {:.3f} to {:.3f} us", kSteps,
                          steps->before_last_us, steps->last_end_us),
              fmt::format("one at {:.3f} us", start_us));
  }
  const std::string statistics = directory + "/" + kStatistics;
  std::error_code unknown;
  if (!std::filesystem::exists(statistics, unknown)) return;
  double count = 0;
  for (TableRows row(statistics); row.next();) count += row.number("Count");
  if (count == static_cast<double>(rows.count())) return;
  cut_short(path, fmt::format("{:.0f} launches, as {} counts them", count, kStatistics),
            std::to_string(rows.count()));
}

// The launches of the first step in the table, the longest first.
std::vector<Launched> launches_of_first_step(TableRows& rows, const std::optional<Steps>& steps) {
  std::vector<Launched> list;
  std::string first;
  while (rows.next()) {
    const std::string& task = rows.text("Task ID");
    // Without a table of steps, the next one begins where the first task comes again.
    const bool is_next = steps ? rows.number("Task Start Time") >= steps->first_end_us
                               : rows.count() > 1 && task == first;
    if (is_next) break;
    if (rows.count() == 1) first = task;
    list.push_back(launched(rows));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Launched& x, const Launched& y) { return x.us > y.us; });
  return list;
}

// Names may be those of a dozen ops.
std::string shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string sums_text(const std::vector<Launched>& list, double total) {
  size_t beside = 0;
  double beside_us = 0;
  for (const Launched& launch : list) {
    beside += launch.beside ? 1 : 0;
    beside_us += launch.beside ? launch.us : 0;
  }
  std::string text = fmt::format("{:.3f} us in {}", total, list.size() - beside);
  if (beside > 0)
    text += fmt::format("; collectives beside them {:.3f} us in {}", beside_us, beside);
  return text;
}

std::string launches_text(const std::string& directory, const std::optional<Steps>& steps) {
  TableRows rows(directory + "/" + kLaunches);
  const std::vector<Launched> list = launches_of_first_step(rows, steps);
  require_whole(directory, steps, rows);
  double total = 0;
  for (const Launched& launch : list) total += launch.beside ? 0 : launch.us;
  std::string text = fmt::format(
      "\nlaunches of a step ({}):\n  {:<48} {:<14} {:<14} {:>10} "
      "{:>6} {:>6} {:>6} {:>6} {:>6}  {}\n",
      sums_text(list, total), "name", "op", "on", "us", "%", "blocks", "cube", "vector", "memory",
      "bound by");
  for (size_t i = 0; i < std::min(list.size(), kMostRows); ++i) {
    const Launched& l = list[i];
    const std::string share =
        l.beside ? "-" : fmt::format("{:.1f}", total == 0 ? 0 : 100 * l.us / total);
    const auto figure = [&](double busy) {
      return l.has_figures ? fmt::format("{:.2f}", busy) : std::string(kUnknown);
    };
    text += fmt::format("  {:<48} {:<14} {:<14} {:>10.3f} {:>6} {:>6} {:>6} {:>6} {:>6}  {}\n",
                        shortened(l.name, 48), shortened(l.op, 14), l.on, l.us, share, l.blocks,
                        figure(l.cube), figure(l.vector), figure(l.memory), l.bound);
  }
  if (list.size() > kMostRows) text += fmt::format("  ... {} more\n", list.size() - kMostRows);
  return text;
}

// The files of a profile that are there, as "a.csv, b.csv".
std::string files_in(const std::string& directory) {
  std::string names;
  for (const std::string& path : profile_files(directory, {.aicpu = true, .runtime_api = true})) {
    std::error_code unknown;
    if (!std::filesystem::exists(path, unknown)) continue;
    names += (names.empty() ? "" : ", ") + path.substr(directory.size() + 1);
  }
  return names;
}

std::string table_of(const std::string& directory) {
  const auto path = [&](const char* name) { return directory + "/" + name; };
  const auto is_there = [&](const char* name) {
    std::error_code unknown;
    return std::filesystem::exists(path(name), unknown);
  };
  const bool steps = is_there(kSteps), launches = is_there(kLaunches);
  if (!steps && !launches) {
    std::error_code failure;
    std::filesystem::directory_iterator(directory, failure);
    if (failure && failure != std::errc::no_such_file_or_directory)
      throw Error({.op = directory, .message = "cannot be listed: " + failure.message()});
    const std::string neither =
        "neither " + std::string(kSteps) + " nor " + kLaunches + " is there";
    const std::string others = files_in(directory);
    if (!others.empty())
      throw Error({.op = directory,
                   .message = "the table cannot be made: " + neither + ", but only " + others,
                   .fix = "profile with training_trace or task_trace on (--profiling-options), "
                          "which write them"});
    throw Error({.op = directory,
                 .message = "holds no profile: " + neither,
                 .fix = "keel train --profile DIR writes them"});
  }
  std::string text;
  std::optional<Steps> read;
  if (steps) read = read_steps(path(kSteps));
  text += read ? read->text
               : std::string(kSteps) + ": not written, as where training_trace is off, or lost\n";
  if (launches)
    text += launches_text(directory, read);
  else
    text += "\n" + std::string(kLaunches) + ": not written, as where task_trace is off, or lost\n";
  if (is_there(kAdvice)) text += "\n" + read_file(path(kAdvice), kMostAdviceBytes);
  return text;
}

std::string rank_folder(int64_t rank) { return std::string(kRank) + std::to_string(rank); }

// Says which ranks below the highest have no folder; "" where all have one.
std::string missing_text(const std::vector<int64_t>& ranks) {
  std::string missing;
  int64_t next = 0;
  for (const int64_t rank : ranks) {
    if (rank > next) missing += " " + rank_folder(next);
    if (rank > next + 1) missing += " to " + rank_folder(rank - 1);
    next = rank + 1;
  }
  return missing.empty() ? "" : "folders that are missing:" + missing + "\n\n";
}

}  // namespace

std::vector<int64_t> profiled_ranks(const std::string& directory) {
  std::set<int64_t> ranks;
  std::error_code unknown;  // then there is none, and a folder that cannot be listed says why
  for (std::filesystem::directory_iterator it(directory, unknown), end; !unknown && it != end;
       it.increment(unknown)) {
    const std::string name = it->path().filename().string();
    std::error_code no_folder;
    if (!name.starts_with(kRank) || !it->is_directory(no_folder)) continue;
    try {
      const int64_t rank = parse_integer(std::string_view(name).substr(kRank.size()), "rank", 0);
      if (name == rank_folder(rank)) ranks.insert(rank);
    } catch (const Error&) {
      continue;  // a folder of another name
    }
  }
  return {ranks.begin(), ranks.end()};
}

std::string profile_table(const std::string& directory) {
  const std::vector<int64_t> ranks = profiled_ranks(directory);
  if (ranks.empty()) return printable_lines(table_of(directory));
  std::string text = missing_text(ranks);
  for (const int64_t rank : ranks) {
    text += fmt::format("{}== rank {}\n", rank == ranks.front() ? "" : "\n", rank) +
            table_of(directory + "/" + rank_folder(rank));
  }
  return printable_lines(text);
}

}  // namespace keel::npu
