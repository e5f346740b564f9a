#include <utility>

#include <nlohmann/json.hpp>

#include "keel/core/base/csv.h"
#include "keel/ops/exchange/migration/report.h"
#include "keel/version.h"

namespace keel::migration {
namespace {

Json levels_json(const Report& report) {
  Json levels = Json::array();
  const auto counts = report.levels();
  for (const Level level : kLevels) {
    const LevelCount& count = counts.at(static_cast<size_t>(level));
    levels.push_back(
        {{"level", name_of(level)}, {"apis", count.apis}, {"occurrences", count.occurrences}});
  }
  return levels;
}

Json files_json(const Report& report) {
  Json files;
  for (const char* outcome : {"success", "needs_work", "failed"}) files[outcome] = Json::array();
  for (const FileReport& file : report.files) {
    if (!file.failure.empty())
      files["failed"].push_back({{"file", file.name}, {"reason", file.failure}});
    else
      files[file.needs_work(report.findings) ? "needs_work" : "success"].push_back(file.name);
  }
  files["skipped"] = report.skipped;
  files["links"] = report.links;
  return files;
}

// A cell that begins so is a formula to spreadsheets.
std::string cell(const std::string& text) {
  return text.empty() || std::string("=+-@\t\r").find(text[0]) == std::string::npos ? text
                                                                                    : "'" + text;
}

std::string place_of(const Row& row) { return row.line == 0 ? row.node : std::to_string(row.line); }

}  // namespace

Json to_json(const Report& report) {
  Json json;
  json["about"] = "report of keel migrate";
  json["keel_version"] = KEEL_VERSION;
  json["paths"] = report.paths;
  json["files"] = files_json(report);
  json["levels"] = levels_json(report);
  json["apis"] = Json::array();
  for (const ApiCount& api : report.apis()) {
    const Finding& finding = report.findings[api.finding];
    json["apis"].push_back({{"module", finding.module},
                            {"name", finding.name},
                            {"level", name_of(finding.level)},
                            {"advice", finding.advice},
                            {"occurrences", api.occurrences},
                            {"files", api.files}});
  }
  json["rows"] = Json::array();
  for (const FileReport& file : report.files) {
    for (const Row& row : file.rows) {
      const Finding& finding = report.findings[row.finding];
      Json entry = {{"file", file.name},
                    {"module", finding.module},
                    {"name", finding.name},
                    {"level", name_of(finding.level)},
                    {"advice", finding.advice}};
      if (row.line == 0)
        entry["node"] = row.node;
      else
        entry["line"] = row.line;
      json["rows"].push_back(std::move(entry));
    }
  }
  return json;
}

std::string to_csv(const Report& report) {
  std::string text =
      write_csv_row({"index", "file", "line or node", "module", "name", "level", "advice"});
  int64_t index = 0;
  for (const FileReport& file : report.files) {
    for (const Row& row : file.rows) {
      const Finding& finding = report.findings[row.finding];
      text += write_csv_row({std::to_string(++index), cell(file.name), cell(place_of(row)),
                             cell(finding.module), cell(finding.name), name_of(finding.level),
                             cell(finding.advice)});
    }
  }
  return text;
}

}  // namespace keel::migration
