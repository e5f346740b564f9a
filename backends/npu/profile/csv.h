// Comma-separated values as RFC 4180 has them: what the profile's tables are written in and read
// back from. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_CSV_H
#define KEEL_BACKENDS_NPU_PROFILE_CSV_H

#include <string>
#include <string_view>
#include <vector>

namespace keel::npu {

using CsvRow = std::vector<std::string>;

// Writes one line, fields quoted where they need it.
std::string write_csv_row(const CsvRow& row);
// Throws Error naming source and line for quotes that do not close and rows of another width than
// the first.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_CSV_H
