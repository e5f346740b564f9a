#include "keel/backends/npu/measured/measured_table.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "keel/backends/npu/profile/real_dtypes.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/csv.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/read_budget.h"

namespace keel::npu {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // of a tensor: more than any device holds
constexpr size_t kMostTensors = 256;                 // of a row
constexpr size_t kMostDims = 64;
constexpr int64_t kMostBlocks = 1 << 16;
// us; no clock of a device counts shorter ones
constexpr double kShortest = 1e-3, kLongest = 1e12;

// Without blanks and tabs around it, which the real tool puts behind some numbers, and without the
// quotes that it writes around lists besides those of the format.
std::string_view bare(std::string_view text) {
  const auto is_outer = [](char c) { return c == ' ' || c == '\t' || c == '"'; };
  while (!text.empty() && is_outer(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_outer(text.back())) text.remove_suffix(1);
  return text;
}

bool is_missing(std::string_view text) { return text.empty() || text == "N/A"; }

// Parts between separators; of an empty text there is none, or one where a caller knows better.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.size(), text.find(separator, from));
    parts.push_back(bare(text.substr(from, to - from)));
    from = to + 1;
  }
  return parts;
}

class TableReader {
 public:
  TableReader(std::vector<CsvRow> cells, const std::string& source, const RowChoice& choice)
      : cells_(std::move(cells)), source_(source), choice_(choice) {}

  MeasuredTable run() {
    find_columns();
    MeasuredTable table;
    for (at_ = 1; at_ < cells_.size(); ++at_) {
      MeasuredRow row;
      row.line = table.last_line = static_cast<int64_t>(at_ + 1);
      row.device = cell(device_);
      table.devices.insert(row.device);
      // The others may be damaged: a choice of lines leaves them out.
      if (!is_chosen(row)) continue;
      if (!read(row)) {
        ++table.without_duration;
        continue;
      }
      require_group(row);
      keep(std::move(row), table);
    }
    for (size_t i = 0; i < table.rows.size(); ++i) sum_up(table.rows[i], durations_[i]);
    if (group_ >= 0) table.group_column = bare(cells_[0][static_cast<size_t>(group_)]);
    for (const NamedNet& net : choice_.nets) {
      const auto is_its = [&](const MeasuredRow& row) { return row.group == net.name; };
      if (std::none_of(table.rows.begin(), table.rows.end(), is_its))
        table.nets_without_rows.push_back(net.name);
    }
    return table;
  }

 private:
  // The first of the names that the header has; where there is none, -1, or an Error.
  int find(std::initializer_list<const char*> names, bool required = false) {
    for (const char* name : names) {
      const auto is_it = [&](const std::string& cell) { return bare(cell) == name; };
      const auto it = std::find_if(cells_[0].begin(), cells_[0].end(), is_it);
      if (it != cells_[0].end()) return static_cast<int>(it - cells_[0].begin());
    }
    if (!required) return -1;
    std::string expected;
    for (const char* name : names) {
      expected += (expected.empty() ? "a column \"" : " or \"") + std::string(name) + "\"";
    }
    throw Error(
        {.op = source_,
         .argument = "row 1",
         .expected = expected,
         .got = "none of that name",
         .fix = "it takes op_summary_*.csv of msprof and kernel_details.csv of the profiler"});
  }

  void find_columns() {
    if (cells_.empty()) {
      throw Error({.op = source_, .expected = "a header and rows", .got = "an empty file"});
    }
    std::string& first = cells_[0][0];
    if (first.starts_with("\xEF\xBB\xBF")) first.erase(0, 3);
    type_ = find({"OP Type", "Op Type", "Type"}, true);
    us_ = find({"Task Duration(us)", "Duration(us)"}, true);
    block_dim_ = find({"Block Dim", "Block Num"});
    device_ = find({"Device"});
    group_ = find({"Net", "Model Name", "Step ID", "Step Id"});
    in_ = {find({"Input Shapes"}, true), find({"Input Data Types"}, true), find({"Input Formats"})};
    out_ = {find({"Output Shapes"}), find({"Output Data Types"}), find({"Output Formats"})};
    op_ = find({"Op"});
    op_in_ = {find({"Op Shapes"}), find({"Op Data Types"}), -1};
    attributes_ = find({"Attributes"});
  }

  struct TensorColumns {
    int shapes = -1, dtypes = -1, formats = -1;
  };

  std::string_view cell(int column) const {
    return column < 0 ? std::string_view() : bare(cells_[at_][static_cast<size_t>(column)]);
  }

  // "row 7, column "Block Dim"", of the row at hand.
  std::string place_of(int column) const {
    return "row " + std::to_string(at_ + 1) + ", column \"" +
           std::string(bare(cells_[0][static_cast<size_t>(column)])) + "\"";
  }

  [[noreturn]] void fail(int column, const std::string& expected, std::string_view got) const {
    throw Error({.op = source_,
                 .argument = place_of(column),
                 .expected = expected,
                 .got = "\"" + std::string(got.substr(0, 60)) + "\""});
  }

  bool is_chosen(const MeasuredRow& row) const {
    return choice_.lines.has(row.line) && (!choice_.device || row.device == *choice_.device);
  }

  // Returns whether the row has a duration.
  bool read(MeasuredRow& row) {
    row.type = cell(type_);
    if (row.type.empty()) fail(type_, "an OP type", "");
    const std::string_view us = cell(us_);
    if (is_missing(us)) return false;
    row.us = number(us_, us);
    if (row.us == 0) return false;
    const std::string_view blocks = cell(block_dim_);
    if (!is_missing(blocks)) {
      row.block_dim = integer(block_dim_, blocks, 0, kMostBlocks);
      if (*row.block_dim == 0) row.block_dim.reset();
    }
    row.group = group_of(row.line);
    row.inputs = tensors(in_);
    row.outputs = tensors(out_);
    row.op = cell(op_);
    row.attributes = cell(attributes_);
    if (!row.op.empty()) row.op_inputs = tensors(op_in_);
    return true;
  }

  // The net whose lines have the row, or else what the row's column says.
  std::string group_of(int64_t line) const {
    for (const NamedNet& net : choice_.nets) {
      if (net.lines && net.lines->has(line)) return net.name;
    }
    return std::string(cell(group_));
  }

  // Throws Error where a row's column says the name of a net that the choice gives other lines: its
  // ops would be added to those of another net.
  void require_group(const MeasuredRow& row) const {
    for (const NamedNet& net : choice_.nets) {
      const bool by_column = group_ >= 0 && row.group == net.name;
      if (!net.lines || net.lines->has(row.line) || !by_column) continue;
      throw Error({.op = source_,
                   .argument = place_of(group_),
                   .expected = "another net than " + net.name + ", which lines " +
                               std::to_string(net.lines->first) + " to " +
                               std::to_string(net.lines->last) + " are to be",
                   .got = "\"" + row.group + "\"",
                   .fix = "choose another name for these lines, or name the net without lines",
                   .kind = ErrorKind::kInvalidArgument});
    }
  }

  double number(int column, std::string_view text) const {
    try {
      const double value = parse_number(text, "", 0, kLongest);
      if (value == 0 || value >= kShortest) return value;
    } catch (const Error&) {
    }
    fail(column, "a duration of 0.001 to 1e12 us, or 0 for none", text);
  }

  int64_t integer(int column, std::string_view text, int64_t least, int64_t most) const {
    try {
      return parse_integer(text, "", least, most);
    } catch (const Error&) {
      fail(column, "an integer from " + std::to_string(least) + " to " + std::to_string(most),
           text);
    }
  }

  // An empty shape is a scalar's, so dtypes say how many operands there are, or else the shapes.
  std::vector<MeasuredTensor> tensors(const TensorColumns& columns) const {
    const std::string_view shapes = cell(columns.shapes), dtypes = cell(columns.dtypes);
    if (is_missing(shapes) && is_missing(dtypes)) return {};
    const std::vector<std::string_view> dims = parts_of(shapes == "N/A" ? "" : shapes, ';');
    const std::vector<std::string_view> types = parts_of(dtypes == "N/A" ? "" : dtypes, ';');
    const std::vector<std::string_view> formats = parts_of(cell(columns.formats), ';');
    const size_t count = std::max(dims.size(), types.size());
    if (count > kMostTensors) {
      const bool by_shapes = dims.size() > kMostTensors;
      fail(by_shapes ? columns.shapes : columns.dtypes,
           "at most " + std::to_string(kMostTensors) + " operands", by_shapes ? shapes : dtypes);
    }
    std::vector<MeasuredTensor> list(count);
    for (size_t i = 0; i < count; ++i) {
      if (i < dims.size()) list[i].dims = dims_of(columns.shapes, dims[i]);
      if (i < types.size()) list[i].dtype_text = types[i];
      list[i].dtype = dtype_of_real_name(list[i].dtype_text);
      if (i < formats.size()) list[i].format = formats[i];
      if (list[i].format.starts_with("FORMAT_")) list[i].format.erase(0, 7);
    }
    return list;
  }

  std::vector<int64_t> dims_of(int column, std::string_view text) const {
    std::vector<int64_t> dims;
    if (text.empty()) return dims;
    int64_t elements = 1;
    for (const std::string_view part : parts_of(text, ',')) {
      if (dims.size() == kMostDims) {
        fail(column, "at most " + std::to_string(kMostDims) + " dimensions", text);
      }
      dims.push_back(integer(column, part, 0, kMostElements));
      // Dimensions of 0 are left out, so that it does not matter where they stand.
      const int64_t dim = std::max<int64_t>(1, dims.back());
      if (elements > kMostElements / dim) fail(column, "at most 2^40 elements", text);
      elements *= dim;
    }
    return dims;
  }

  // Text that is the same for rows that differ in their duration alone.
  std::string key_of(const MeasuredRow& row) const {
    std::string key = row.group + '\n';
    for (const int column :
         {device_, type_, block_dim_, in_.shapes, in_.dtypes, in_.formats, out_.shapes, out_.dtypes,
          out_.formats, op_, op_in_.shapes, op_in_.dtypes, attributes_}) {
      key += cell(column);
      key += '\n';
    }
    if (choice_.apart) key += choice_.apart->has(row.line) ? '1' : '0';
    return key;
  }

  // Cells of separators alone become many times their size.
  void charge(const MeasuredRow& row) {
    bytes_ += sizeof(MeasuredRow);
    for (const auto* list : {&row.inputs, &row.outputs, &row.op_inputs}) {
      for (const MeasuredTensor& tensor : *list)
        bytes_ += sizeof(MeasuredTensor) + tensor.dims.size() * sizeof(int64_t);
    }
    const uint64_t budget = read_budget();
    if (bytes_ > budget) throw over_read_budget(source_, "the operands of its rows", budget);
  }

  void keep(MeasuredRow row, MeasuredTable& table) {
    const auto [it, is_new] = places_.emplace(key_of(row), table.rows.size());
    if (is_new) {
      charge(row);
      durations_.emplace_back();
    }
    durations_[it->second].push_back(row.us);
    if (is_new)
      table.rows.push_back(std::move(row));
    else
      ++table.rows[it->second].count;
  }

  static void sum_up(MeasuredRow& row, std::vector<double>& durations) {
    row.total_us = std::accumulate(durations.begin(), durations.end(), 0.0);
    std::sort(durations.begin(), durations.end());
    const size_t n = durations.size();
    row.us = (durations[(n - 1) / 2] + durations[n / 2]) / 2;
  }

  std::vector<CsvRow> cells_;
  const std::string& source_;
  const RowChoice& choice_;
  size_t at_ = 0;
  uint64_t bytes_ = 0;  // of the rows that are kept
  int type_ = -1, us_ = -1, block_dim_ = -1, device_ = -1, group_ = -1, op_ = -1, attributes_ = -1;
  TensorColumns in_, out_, op_in_;
  std::map<std::string, size_t> places_;
  std::vector<std::vector<double>> durations_;
};

}  // namespace

int64_t MeasuredTensor::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

MeasuredTable parse_measured(const std::string& text, const std::string& source,
                             const RowChoice& choice) {
  return TableReader(parse_csv(text, source), source, choice).run();
}

MeasuredTable read_measured(const std::string& path, const RowChoice& choice) {
  return parse_measured(read_file(path, read_budget()), path, choice);
}

}  // namespace keel::npu
