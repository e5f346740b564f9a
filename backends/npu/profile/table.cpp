#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "keel/backends/npu/profile/profile.h"
#include "keel/core/base/csv.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"

namespace keel::npu {
namespace {

constexpr uint64_t kMostAdviceBytes = uint64_t{1} << 20;
constexpr size_t kMostRows = 40;
constexpr const char* kSteps = "step_trace.csv";
constexpr const char* kLaunches = "op_summary.csv";
constexpr const char* kAdvice = "advice.txt";

// A table whose cells are found by the names in its first row.
class CsvTable {
 public:
  explicit CsvTable(const std::string& path) : path_(path) {
    std::error_code unknown;  // then reading it says why
    const uint64_t bytes = std::filesystem::file_size(path, unknown), budget = read_budget();
    if (!unknown && bytes > budget) throw over_read_budget(path, "table", budget);
    rows_ = parse_csv(read_file(path, budget), path);
    if (rows_.empty()) throw Error({.op = path, .message = "is empty"});
    if (rows_.size() == 1)
      throw Error({.op = path,
                   .message = "has no line behind that of the names: it was cut short",
                   .fix = "write the profile anew"});
    for (size_t i = 0; i < rows_[0].size(); ++i) columns_[rows_[0][i]] = i;
  }

  size_t size() const { return rows_.size() - 1; }
  bool has(const std::string& column) const { return columns_.contains(column); }
  const std::string& text(size_t row, const std::string& column) const {
    const auto it = columns_.find(column);
    if (it == columns_.end()) {
      throw Error({.op = path_, .argument = column, .message = "there is no such column"});
    }
    return rows_[row + 1][it->second];
  }
  double number(size_t row, const std::string& column) const {
    const std::string& cell = text(row, column);
    return parse_in_file(path_, [&] { return parse_number(cell, column); });
  }

 private:
  std::string path_;
  std::vector<CsvRow> rows_;
  std::map<std::string, size_t> columns_;
};

// Says what a launch is bound by: its busiest unit, or its own start where that takes longer. A
// table without the units' figures does not say.
struct Shares {
  double cube = 0, vector = 0, memory = 0;
  std::string bound;
};

Shares shares_of(const CsvTable& table, size_t row) {
  Shares s;
  double core_us = 0;
  if (table.has("mac_ratio")) {
    s.cube = table.number(row, "mac_ratio");
    s.vector = table.number(row, "vec_ratio");
    s.memory = std::max(table.number(row, "mte2_ratio"), table.number(row, "mte3_ratio"));
    core_us = table.number(row, "aicore_time(us)");
  } else if (table.has("aic_mac_ratio")) {
    s.cube = table.number(row, "aic_mac_ratio");
    s.vector = table.number(row, "aiv_vec_ratio");
    for (const char* column :
         {"aic_mte2_ratio", "aic_fixpipe_ratio", "aiv_mte2_ratio", "aiv_mte3_ratio"}) {
      s.memory = std::max(s.memory, table.number(row, column));
    }
    core_us = std::max(table.number(row, "aicore_time(us)"), table.number(row, "aiv_time(us)"));
  } else {
    s.bound = "N/A";
    return s;
  }
  if (core_us < table.number(row, "Task Duration(us)") / 2)
    s.bound = "start";
  else if (s.memory >= std::max(s.cube, s.vector))
    s.bound = "memory";
  else
    s.bound = s.cube >= s.vector ? "cube" : "vector";
  return s;
}

// Says how many collectives a step has, and what they take together; "" where it has none.
std::string reduces_text(const CsvTable& steps, size_t row) {
  size_t count = 0;
  double us = 0;
  const auto column = [&] { return fmt::format("Reduce {} Duration(us)", count + 1); };
  for (; steps.has(column()); ++count) us += steps.number(row, column());
  if (count == 0) return "";
  return fmt::format("; {} collective{} {:.3f}", count, count == 1 ? "" : "s", us);
}

std::string steps_text(const CsvTable& steps) {
  std::string text = "steps (device clock):\n";
  for (size_t i = 0; i < std::min<size_t>(steps.size(), 5); ++i) {
    text += fmt::format(
        "  step {:<8} {:>10.3f} us: forward to backward {:.3f}, update {:.3f}; before it, launch "
        "{:.3f}, wait for data {:.3f}{}\n",
        steps.text(i, "Iteration ID"), steps.number(i, "Iteration Time(us)"),
        steps.number(i, "FP to BP Time(us)"), steps.number(i, "Iteration Refresh(us)"),
        steps.number(i, "Launch(us)"), steps.number(i, "Data Aug Bound(us)"),
        reduces_text(steps, i));
  }
  return text;
}

// Names may be those of a dozen ops.
std::string shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

// Returns the launches of the first step in the table, the longest first.
std::string launches_text(const CsvTable& summary) {
  std::vector<size_t> rows;
  std::string first;
  for (size_t i = 0; i < summary.size(); ++i) {
    const std::string& task = summary.text(i, "Task ID");
    if (i == 0)
      first = task;
    else if (task == first)
      break;
    rows.push_back(i);
  }
  double total = 0;
  for (const size_t row : rows) total += summary.number(row, "Task Duration(us)");
  std::stable_sort(rows.begin(), rows.end(), [&](size_t x, size_t y) {
    return summary.number(x, "Task Duration(us)") > summary.number(y, "Task Duration(us)");
  });
  std::string text = fmt::format(
      "\nlaunches of a step ({:.3f} us in {}):\n  {:<48} {:<14} {:<14} {:>10} "
      "{:>6} {:>6} {:>6} {:>6} {:>6}  {}\n",
      total, rows.size(), "name", "op", "on", "us", "%", "blocks", "cube", "vector", "memory",
      "bound by");
  for (size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) {
    const size_t row = rows[i];
    const Shares s = shares_of(summary, row);
    const double us = summary.number(row, "Task Duration(us)");
    text += fmt::format(
        "  {:<48} {:<14} {:<14} {:>10.3f} {:>6.1f} {:>6} {:>6.2f} {:>6.2f} "
        "{:>6.2f}  {}\n",
        shortened(summary.text(row, "Op Name"), 48), shortened(summary.text(row, "OP Type"), 14),
        summary.text(row, "Task Type"), us, total == 0 ? 0 : 100 * us / total,
        summary.text(row, "Block Dim"), s.cube, s.vector, s.memory, s.bound);
  }
  if (rows.size() > kMostRows) text += fmt::format("  ... {} more\n", rows.size() - kMostRows);
  return text;
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
    throw Error({.op = directory,
                 .message = "holds no profile: neither " + std::string(kSteps) + " nor " +
                            kLaunches + " is there",
                 .fix = "keel train --profile DIR writes them"});
  }
  std::string text;
  if (steps)
    text += steps_text(CsvTable(path(kSteps)));
  else
    text += std::string(kSteps) + ": not written, as where training_trace is off, or lost\n";
  if (launches)
    text += launches_text(CsvTable(path(kLaunches)));
  else
    text += "\n" + std::string(kLaunches) + ": not written, as where task_trace is off, or lost\n";
  if (is_there(kAdvice)) text += "\n" + read_file(path(kAdvice), kMostAdviceBytes);
  return text;
}

bool is_folder(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

}  // namespace

std::string profile_table(const std::string& directory) {
  const auto of_rank = [&](size_t rank) { return directory + "/rank_" + std::to_string(rank); };
  if (!is_folder(of_rank(0))) return printable_lines(table_of(directory));
  std::string text;
  for (size_t rank = 0; is_folder(of_rank(rank)); ++rank)
    text += fmt::format("{}== rank {}\n", rank == 0 ? "" : "\n", rank) + table_of(of_rank(rank));
  return printable_lines(text);
}

}  // namespace keel::npu
