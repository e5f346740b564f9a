// CSV: tables of numbers as text (RFC 4180: one record a line, quotes where wanted, LF or CRLF).
// Pure functions; any thread.
#ifndef KEEL_DATA_FORMATS_CSV_H
#define KEEL_DATA_FORMATS_CSV_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

// Which columns become a tensor: one gives [rows], several give [rows, columns]. None are named:
// all those that no other field names, in order, as [rows, columns].
struct CsvField {
  std::string name;
  DType dtype = f32;
  std::vector<std::string> columns;
  bool finite = false;  // NaN and infinities are refused
};

struct CsvOptions {
  char separator = ',';  // no line break and no quote
  bool header = true;    // the first record names the columns; without one they are "0", "1", ...
  // Bounds the tensors together; 0: 256 MiB, or 16 times the file's size where that is more.
  int64_t max_bytes = 0;
};

// The columns' names, in order. Throws Error for an empty file and for a header that names a column
// twice.
KEEL_API std::vector<std::string> csv_columns(const std::string& path,
                                              const CsvOptions& options = {});

// One tensor a field. Floats are decimal numbers, nan and inf; a number becomes the nearest f64 or
// f32, and an f16 or bf16 what that f64 rounds to. Numbers must fit their dtype; bool is 0, 1, true
// or false. Throws what csv_columns throws, and Error naming file, line and column:
// what is no such number, records of another length, columns that are not there, a field of more
// than 64 KiB.
KEEL_API std::vector<std::pair<std::string, Tensor>> read_csv(const std::string& path,
                                                              const std::vector<CsvField>& fields,
                                                              const CsvOptions& options = {});

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_CSV_H
