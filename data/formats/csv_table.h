// csv_table: what is asked of a CSV file beside its tensors: what its numbers are as they are
// written, and where its records lie. Internal to data; pure functions; any thread.
#ifndef KEEL_DATA_FORMATS_CSV_TABLE_H
#define KEEL_DATA_FORMATS_CSV_TABLE_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "keel/data/formats/csv.h"

namespace keel {

struct CsvTable {
  std::vector<std::pair<std::string, Tensor>> fields;
  // Says for each field whether all its numbers are whole and from 0 to 255, floats as f64, before
  // they are rounded to their dtype.
  std::vector<bool> are_bytes;
};

// Reads as read_csv does, and throws as that does. `words` says by a field's name what its numbers
// are, for errors about one that is none; the others are told by their dtype.
CsvTable read_csv_table(const std::string& path, const std::vector<CsvField>& fields,
                        const CsvOptions& options,
                        const std::map<std::string, std::string>& words = {});

// Returns the line, counted from 1, that a record begins at; record 0 is the header. Empty lines
// are no records, and a quoted cell may go over several lines. For errors that are found behind
// read_csv_table: users look up lines of the file, not rows of a tensor. Reads the file up to the
// record, and throws Error where it cannot be read.
int64_t line_of_record(const std::string& path, int64_t record);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_CSV_TABLE_H
