#include "cli/migrate/page.h"

#include <utility>
#include <vector>

#include <keel/keel.h>
#include <nlohmann/json.hpp>

#include "cli/base/html.h"

namespace keel_cli {
namespace {

using Cells = std::vector<std::string>;

std::string text_of(const keel::Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A table with a column for each key of the objects in a list.
std::string table_of(const keel::Json& list,
                     const std::vector<std::pair<const char*, const char*>>& columns) {
  if (list.empty()) return html_element("p", "None.");
  Cells head;
  for (const auto& column : columns) head.emplace_back(column.second);
  std::vector<Cells> rows;
  for (const keel::Json& entry : list) {
    Cells row;
    for (const auto& column : columns) row.push_back(text_of(entry.at(column.first)));
    rows.push_back(std::move(row));
  }
  return html_table(head, rows, "text") + "\n";
}

std::string list_of(const keel::Json& names) {
  if (names.empty()) return html_element("p", "None.");
  std::vector<Cells> rows;
  for (const keel::Json& name : names) rows.push_back({text_of(name)});
  return html_table({"file"}, rows, "text") + "\n";
}

std::string card(const std::string& title, const std::string& content) {
  return "<figure>\n" + html_element("h3", title) + content + "</figure>\n";
}

std::string rows_of(const keel::Json& rows) {
  if (rows.empty()) return html_element("p", "None.");
  std::vector<Cells> cells;
  for (const keel::Json& row : rows) {
    cells.push_back({text_of(row.at("file")),
                     text_of(row.contains("line") ? row["line"] : row["node"]),
                     text_of(row.at("module")), text_of(row.at("name")), text_of(row.at("level")),
                     text_of(row.at("advice"))});
  }
  return html_table({"file", "line or node", "module", "name", "level", "advice"}, cells, "text") +
         "\n";
}

std::string facts_of(const keel::Json& report) {
  const keel::Json& files = report["files"];
  std::string paths;
  for (const keel::Json& path : report["paths"])
    paths += (paths.empty() ? "" : " ") + text_of(path);
  return html_facts({{"scanned", paths},
                     {"success", std::to_string(files["success"].size())},
                     {"needs work", std::to_string(files["needs_work"].size())},
                     {"failed", std::to_string(files["failed"].size())},
                     {"of other kinds", text_of(files["skipped"])},
                     {"links not followed", text_of(files["links"])},
                     {"keel", text_of(report["keel_version"])}});
}

}  // namespace

std::string migration_page(const keel::Json& report) {
  const keel::Json& files = report["files"];
  return html_page(
      kMigrationTitle,
      facts_of(report) + html_element("h2", "Levels") +
          card("How many APIs, each once, and how often they occur",
               table_of(report["levels"],
                        {{"level", "level"}, {"apis", "APIs"}, {"occurrences", "occurrences"}})) +
          html_element("h2", "Files") + card("Success", list_of(files["success"])) +
          card("Needs work", list_of(files["needs_work"])) +
          card("Failed", table_of(files["failed"], {{"file", "file"}, {"reason", "reason"}})) +
          html_element("h2", "APIs") +
          card("Each once", table_of(report["apis"], {{"module", "module"},
                                                      {"name", "name"},
                                                      {"level", "level"},
                                                      {"occurrences", "occurrences"},
                                                      {"files", "files"},
                                                      {"advice", "advice"}})) +
          html_element("h2", "Rows") + card("Each use", rows_of(report["rows"])));
}

}  // namespace keel_cli
