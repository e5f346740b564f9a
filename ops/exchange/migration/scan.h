// Scan of files and folders: finds scripts and models and reports what bringing them to Keel takes
// (README.md of ops). A plain function; any thread.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_SCAN_H
#define KEEL_OPS_EXCHANGE_MIGRATION_SCAN_H

#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/ops/exchange/migration/report.h"

namespace keel::migration {

// A file to be read, as it is opened and as the report names it.
struct ScanFile {
  std::string path, name;
};

// The files below some paths, collected before any is read.
struct ScanPlan {
  std::vector<std::string> paths;
  std::vector<ScanFile> files;       // of kinds that are read, each once
  std::vector<ScanFile> unreadable;  // folders; `name` is said of them in the report
  std::vector<std::string> reasons;  // why, one for each of these
  std::vector<std::string> modules;  // Python modules among them, sorted
  int64_t skipped = 0, links = 0;
};

// Walks through folders in the order of names. Symbolic links in them are not followed; `left_out`
// is a folder that is passed over, or empty. Throws Error for a path that is not there, and where
// the names of files take more memory than the read budget.
KEEL_API ScanPlan plan_scan(const std::vector<std::string>& paths, const std::string& left_out);

// Reads the files. One that cannot be read is in the report with the reason.
KEEL_API Report scan(const ScanPlan& plan, const ApiTable& table);

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_SCAN_H
