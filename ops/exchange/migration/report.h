// Report: what a scan found, file by file, and the builder that makes one. A plain value; a builder
// belongs to one thread.
//
// The same files give the same report, to the byte: it has no dates, files are named as the caller
// named them and sorted by name. Names come from files of others, so they are printable and short.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_REPORT_H
#define KEEL_OPS_EXCHANGE_MIGRATION_REPORT_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/base/json.h"
#include "keel/ops/exchange/migration/api_table.h"

namespace keel::migration {

// One use of a name: on a line of a script, or by a node of a model.
struct Row {
  uint32_t line = 0;  // 0: of a model
  std::string node;
  uint32_t finding = 0;  // its place in Report::findings
};

struct KEEL_API FileReport {
  std::string name;
  std::vector<Row> rows;
  std::string failure;  // why it could not be read; empty: it was

  bool needs_work(const std::vector<Finding>& findings) const;
};

// A name with the level that it got, each once.
struct ApiCount {
  uint32_t finding = 0;
  int64_t occurrences = 0;
  int64_t files = 0;
};
struct LevelCount {
  int64_t apis = 0;  // names, each once however often it occurs
  int64_t occurrences = 0;
};

struct KEEL_API Report {
  std::vector<std::string> paths;  // that were scanned, as given
  std::vector<FileReport> files;   // by name
  std::vector<Finding> findings;
  int64_t skipped = 0;  // files of other kinds
  int64_t links = 0;    // symbolic links in folders, which were not followed

  std::array<LevelCount, kLevels.size()> levels() const;
  std::vector<ApiCount> apis() const;  // by module, name and level
  bool has_obstacles() const;
};

// The report as one JSON object and as a table (RFC 4180), one row for each use. Cells that a
// spreadsheet would take for formulas have an apostrophe in front.
KEEL_API Json to_json(const Report& report);
KEEL_API std::string to_csv(const Report& report);

class ReportBuilder {
 public:
  ReportBuilder(const std::vector<std::string>& paths, int64_t skipped, int64_t links);

  void begin_file(const std::string& name);
  // Adds a row to the file that was begun last. Throws Error where the report would take more
  // memory than the read budget.
  void add(uint32_t line, std::string_view node, const Finding& finding);
  // Takes the rows of that file back and says why it could not be read.
  void fail(const std::string& reason);
  Report finish();

 private:
  void charge(uint64_t bytes);

  Report report_;
  std::map<Finding, uint32_t> places_;
  uint64_t budget_, left_, left_before_file_;
};

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_REPORT_H
