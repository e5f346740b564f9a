#include <algorithm>
#include <iostream>
#include <set>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <keel/ops/exchange/migration/scan.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/errors.h"
#include "cli/migrate/report_files.h"

namespace keel_cli {
namespace {

using keel::migration::ApiCount;
using keel::migration::ApiTable;
using keel::migration::FileReport;
using keel::migration::Finding;
using keel::migration::Level;
using keel::migration::LevelCount;
using keel::migration::Report;

constexpr const char* kFolder = "keel-migration";
// The rest of what is unsupported or failed is in the report.
constexpr size_t kMostShown = 10;

ApiTable table_of(const CommandLine& line) {
  ApiTable table = ApiTable::builtin();
  if (const auto path = line.text("table"))
    table.add(keel::read_file(*path, keel::read_budget()), *path);
  return table;
}

std::string plural(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string files_text(const Report& report) {
  int64_t failed = 0, needs_work = 0;
  for (const FileReport& file : report.files) {
    failed += file.failure.empty() ? 0 : 1;
    needs_work += file.needs_work(report.findings) ? 1 : 0;
  }
  const auto files = static_cast<int64_t>(report.files.size());
  return fmt::format(
      "{}: {} success, {} needs work, {} failed; {} of other kinds, {} not followed\n",
      plural(files, "file", "files"), files - failed - needs_work, needs_work, failed,
      report.skipped, plural(report.links, "link", "links"));
}

std::string levels_text(const Report& report) {
  std::string text = fmt::format("{:<26}  {:>5}  {:>11}\n", "level", "APIs", "occurrences");
  const auto counts = report.levels();
  for (const Level level : keel::migration::kLevels) {
    const LevelCount& count = counts.at(static_cast<size_t>(level));
    text += fmt::format("{:<26}  {:>5}  {:>11}\n", name_of(level), count.apis, count.occurrences);
  }
  return text;
}

// Names what Keel has nothing for, and how often it occurs.
std::string obstacles_text(const Report& report) {
  std::string text;
  size_t shown = 0, more = 0;
  for (const ApiCount& api : report.apis()) {
    const Finding& finding = report.findings[api.finding];
    if (!is_obstacle(finding.level)) continue;
    if (++shown > kMostShown)
      ++more;
    else
      text += fmt::format("  {} x {} of {}\n", api.occurrences, finding.name, finding.module);
  }
  if (text.empty()) return "";
  if (more > 0) text += fmt::format("  and {} more\n", more);
  return "unsupported:\n" + text;
}

void warn_of_failures(const Report& report) {
  size_t shown = 0;
  for (const FileReport& file : report.files) {
    if (file.failure.empty()) continue;
    if (++shown > kMostShown)
      return print_warning("and other files could not be read; see the report");
    print_warning(file.name + " is not in the report's rows: " + file.failure);
  }
}

}  // namespace

int run_migrate(const std::vector<std::string>& words) {
  CommandLine line(
      "migrate",
      "PATH...: reports what scripts (.py) and models (.onnx, .pb, .pbtxt, .meta) need to come to "
      "Keel; "
      "exit code 3 where something is unsupported, else 1 where a file could not be read");
  line.add("out", "DIR",
           std::string("where report.json, report.csv and report.html go (") + kFolder + ")");
  line.add("table", "FILE", "JSON: levels and advice of APIs, before those that Keel has");
  line.add_subjects("file or folder", "keel migrate PATH...");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::string folder = line.text("out").value_or(kFolder);
  require_report_folder(folder, line.subjects());
  const keel::migration::ScanPlan plan = keel::migration::plan_scan(line.subjects(), folder);
  std::vector<NamedFile> inputs = {{"--table", line.text("table").value_or("")}};
  for (const auto& file : plan.files) inputs.push_back({"keel migrate", file.path});
  require_distinct(report_files(folder), inputs);
  const ApiTable table = table_of(line);
  keel::make_folder(folder);
  for (const NamedFile& file : report_files(folder)) require_writable(file.flag, file.path);

  const Report report = keel::migration::scan(plan, table);
  write_report_files(folder, report);
  warn_of_failures(report);
  std::cout << files_text(report) << levels_text(report) << obstacles_text(report)
            << "the reports are " << keel::printable(folder) << "/report.json, .csv and .html\n";
  // Nobody knows what a file needs that could not be read, so scripts that ask get no success.
  const bool failed = std::any_of(report.files.begin(), report.files.end(),
                                  [](const FileReport& file) { return !file.failure.empty(); });
  return report.has_obstacles() ? kExitUnsupported : failed ? kExitFailed : kExitDone;
}

}  // namespace keel_cli
