// MeasuredRow: one op with its measured duration, from a table with a row for each: one of msprof's
// op_summary_*.csv, of the profiler's kernel_details.csv, or one with the columns of either and the
// op as Keel has it beside them. Plain values; any thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_MEASURED_TABLE_H
#define KEEL_BACKENDS_NPU_MEASURED_MEASURED_TABLE_H

#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "keel/core/base/dtype.h"
#include "keel/core/base/export.h"

namespace keel::npu {

struct MeasuredTensor {
  std::vector<int64_t> dims;
  std::string dtype_text;      // as the table has it
  std::optional<DType> dtype;  // nothing where Keel has none like it
  std::string format;          // "ND", "FRACTAL_NZ", ...; may be empty

  int64_t elements() const;  // REQUIRES that the reader made it: the product was checked
};

struct MeasuredRow {
  int64_t line = 0;    // of the file, its header being 1; the first of equal ones
  int64_t count = 1;   // of rows with the same op, operands and blocks; `us` is their median
  std::string device;  // empty where the table has no such column
  std::string group;   // the net or step that it belongs to; empty where no column says so
  std::string type;    // the OP type
  std::optional<int64_t> block_dim;
  double us = 0;
  double total_us = 0;  // of all `count` rows, as they were measured
  std::vector<MeasuredTensor> inputs, outputs;
  // The op as Keel has it, where the table says so.
  std::string op, attributes;
  std::vector<MeasuredTensor> op_inputs;
};

struct MeasuredTable {
  std::vector<MeasuredRow> rows;               // by their first line
  std::string group_column;                    // the name of that column; empty where there is none
  std::vector<std::string> nets_without_rows;  // that the choice names
  int64_t without_duration = 0;  // rows that have no figure, or 0, where the duration stands
  // The file has these, chosen or not.
  std::set<std::string> devices;
  int64_t last_line = 1;

  // Returns how many rows of the file these are: equal ones are one of `rows`.
  int64_t rows_in_file() const {
    return std::accumulate(rows.begin(), rows.end(), int64_t{0},
                           [](int64_t sum, const MeasuredRow& row) { return sum + row.count; });
  }
};

// Lines of a table's file, its header being 1.
struct TableLines {
  int64_t first = 1, last = std::numeric_limits<int64_t>::max();
  bool has(int64_t line) const { return line >= first && line <= last; }
};

// A net that is looked at apart: the rows in its lines, or those whose column says its name. With
// lines, no other row that is chosen may have that name.
struct NamedNet {
  std::string name;
  std::optional<TableLines> lines;
};

// The rows that a reader takes. Equal rows are one with the median and the sum of their durations,
// so that rows have to be chosen before: a row of these lines would else have durations of others.
struct RowChoice {
  std::optional<std::string> device;
  TableLines lines;
  std::optional<TableLines> apart;  // a row in these lines is never one with a row in others
  std::vector<NamedNet> nets;       // none of their lines are another's
};

// Throws Error naming source, row and column for what a table of measurements cannot be.
KEEL_API MeasuredTable parse_measured(const std::string& text, const std::string& source,
                                      const RowChoice& choice = {});
// The same of a file, of at most the read budget; what its rows take is at most as much again.
KEEL_API MeasuredTable read_measured(const std::string& path, const RowChoice& choice = {});

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_MEASURED_TABLE_H
