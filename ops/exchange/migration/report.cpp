#include "keel/ops/exchange/migration/report.h"

#include <algorithm>
#include <set>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"

namespace keel::migration {
namespace {

// Longer names are shortened; no API has one.
constexpr size_t kMostOfName = 300;
// A row is written three times, as JSON, CSV and HTML, each a text in memory.
constexpr uint64_t kRowBytes = 2048;
constexpr uint64_t kCopies = 6;

Finding printable_finding(const Finding& finding) {
  return {printable(finding.module, kMostOfName), printable(finding.name, kMostOfName),
          finding.level, printable(finding.advice)};
}

}  // namespace

bool FileReport::needs_work(const std::vector<Finding>& findings) const {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return !is_settled(findings[row.finding].level); });
}

std::vector<ApiCount> Report::apis() const {
  std::vector<ApiCount> counts(findings.size());
  for (const FileReport& file : files) {
    std::set<uint32_t> seen;
    for (const Row& row : file.rows) {
      ApiCount& count = counts[row.finding];
      count.finding = row.finding;
      ++count.occurrences;
      count.files += seen.insert(row.finding).second ? 1 : 0;
    }
  }
  std::erase_if(counts, [](const ApiCount& count) { return count.occurrences == 0; });
  std::sort(counts.begin(), counts.end(), [&](const ApiCount& a, const ApiCount& b) {
    return findings[a.finding] < findings[b.finding];
  });
  return counts;
}

std::array<LevelCount, kLevels.size()> Report::levels() const {
  std::array<LevelCount, kLevels.size()> levels{};
  std::set<std::pair<std::string, Level>> seen;
  for (const ApiCount& api : apis()) {
    const Finding& finding = findings[api.finding];
    LevelCount& level = levels.at(static_cast<size_t>(finding.level));
    level.apis += seen.emplace(finding.name, finding.level).second ? 1 : 0;
    level.occurrences += api.occurrences;
  }
  return levels;
}

bool Report::has_obstacles() const {
  return std::any_of(files.begin(), files.end(), [&](const FileReport& file) {
    return std::any_of(file.rows.begin(), file.rows.end(),
                       [&](const Row& row) { return is_obstacle(findings[row.finding].level); });
  });
}

ReportBuilder::ReportBuilder(const std::vector<std::string>& paths, int64_t skipped, int64_t links)
    : budget_(read_budget()), left_(budget_), left_before_file_(budget_) {
  report_.skipped = skipped;
  report_.links = links;
  for (const std::string& path : paths) report_.paths.push_back(printable(path));
}

void ReportBuilder::charge(uint64_t bytes) {
  if (bytes > left_) throw over_read_budget(report_.files.back().name, "report", budget_);
  left_ -= bytes;
}

void ReportBuilder::begin_file(const std::string& name) {
  left_before_file_ = left_;
  report_.files.push_back({printable(name), {}, {}});
}

void ReportBuilder::add(uint32_t line, std::string_view node, const Finding& finding) {
  FileReport& file = report_.files.back();
  const Finding shown = printable_finding(finding);
  Row row{line, printable(node, kMostOfName), 0};
  charge(kRowBytes + kCopies * (file.name.size() + row.node.size() + shown.module.size() +
                                shown.name.size() + shown.advice.size()));
  const auto place = places_.emplace(shown, static_cast<uint32_t>(report_.findings.size()));
  if (place.second) report_.findings.push_back(shown);
  row.finding = place.first->second;
  file.rows.push_back(std::move(row));
}

void ReportBuilder::fail(const std::string& reason) {
  FileReport& file = report_.files.back();
  file.rows = {};
  file.failure = printable(reason);
  left_ = left_before_file_;
}

Report ReportBuilder::finish() {
  std::sort(report_.files.begin(), report_.files.end(),
            [](const FileReport& a, const FileReport& b) { return a.name < b.name; });
  return std::move(report_);
}

}  // namespace keel::migration
