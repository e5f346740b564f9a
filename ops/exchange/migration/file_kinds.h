// The kinds of files that a migration scan reads, each by one function from a path to rows. A new
// kind is a row in file_kinds.cpp. Plain functions; any thread.
#ifndef KEEL_OPS_EXCHANGE_MIGRATION_FILE_KINDS_H
#define KEEL_OPS_EXCHANGE_MIGRATION_FILE_KINDS_H

#include <string>
#include <string_view>

#include "keel/ops/exchange/migration/python_script.h"
#include "keel/ops/exchange/migration/report.h"

namespace keel::migration {

// Tells a reader what it may need to know beside the file.
struct ScanContext {
  const ApiTable& table;
  IsOwnModule is_own;
};

// Adds the rows of the file to the report, for which begin_file has been called. Throws Error where
// the file cannot be read.
using FileReader = void (*)(const std::string& path, const ScanContext& context,
                            ReportBuilder& report);

// Returns the reader of files whose names end with this extension (".py"), or null.
FileReader reader_of(std::string_view extension);

void read_script(const std::string& path, const ScanContext& context, ReportBuilder& report);
void read_onnx_model(const std::string& path, const ScanContext& context, ReportBuilder& report);
void read_graph_def(const std::string& path, const ScanContext& context, ReportBuilder& report);

}  // namespace keel::migration

#endif  // KEEL_OPS_EXCHANGE_MIGRATION_FILE_KINDS_H
