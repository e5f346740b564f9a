// Comma-separated values as RFC 4180 has them: what tables are written in and read back from.
// Pure; any thread.
#ifndef KEEL_CORE_BASE_CSV_H
#define KEEL_CORE_BASE_CSV_H

#include <string>
#include <string_view>
#include <vector>

namespace keel {

using CsvRow = std::vector<std::string>;

// Writes one line, fields quoted where they need it.
std::string write_csv_row(const CsvRow& row);
// Throws Error naming source and line for quotes that do not close and rows of another width than
// the first.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source);

}  // namespace keel

#endif  // KEEL_CORE_BASE_CSV_H
