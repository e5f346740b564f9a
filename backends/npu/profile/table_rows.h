// TableRows: the rows of a table of a profile, one after the other, so that a reader of its first
// step does not pay for all the others. Cells are found by the names in the first row. One thread.
#ifndef KEEL_BACKENDS_NPU_PROFILE_TABLE_ROWS_H
#define KEEL_BACKENDS_NPU_PROFILE_TABLE_ROWS_H

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "keel/core/base/csv.h"

namespace keel::npu {

class TableRows {
 public:
  // Reads the file. Throws Error where it takes more than the read budget, or has no row but that
  // of the names.
  explicit TableRows(const std::string& path);

  // Goes on to the next row; false where there is none. Throws Error for a row that is damaged.
  bool next();
  // Goes on to the last row of all, which may be the one at hand.
  void last();
  // The rows up to the one at hand.
  size_t count() const { return count_; }

  bool has(const std::string& column) const { return columns_.contains(column); }
  // Returns the cell of the row at hand. Throws Error where there is no such column.
  const std::string& text(const std::string& column) const;
  // The same as a number; Error where it is none, or negative.
  double number(const std::string& column) const;

 private:
  // Takes the next line of the table, whose quotes may hold the ends of others.
  std::string_view take_line();
  CsvRow cells_of(std::string_view line) const;

  std::string path_;
  std::string text_;
  size_t at_ = 0;
  size_t count_ = 0;
  CsvRow row_;
  std::map<std::string, size_t> columns_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PROFILE_TABLE_ROWS_H
