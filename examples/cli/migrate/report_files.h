// The three files of `keel migrate`, in a folder of their own: which folder may be theirs, and how
// they are written. Plain functions; one thread.
#ifndef KEEL_EXAMPLES_CLI_MIGRATE_REPORT_FILES_H
#define KEEL_EXAMPLES_CLI_MIGRATE_REPORT_FILES_H

#include <string>
#include <vector>

#include <keel/ops/exchange/migration/report.h>

#include "cli/base/output_files.h"

namespace keel_cli {

// report.json, report.csv and report.html of the folder, as files of --out.
std::vector<NamedFile> report_files(const std::string& folder);

// Throws keel::Error (kInvalidArgument) where the folder has files of these names that are no
// reports, and where it lies in a folder that is scanned and holds anything but reports.
void require_report_folder(const std::string& folder, const std::vector<std::string>& scanned);

// Replaces all three files, or none where one cannot be written, which throws keel::Error.
void write_report_files(const std::string& folder, const keel::migration::Report& report);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MIGRATE_REPORT_FILES_H
