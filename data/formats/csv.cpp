#include "keel/data/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "keel/core/base/checked.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/file.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"
#include "keel/core/tensor/convert.h"
#include "keel/data/formats/lazy_tensor.h"

namespace keel {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Bounds what one record may hold. A file of numbers stays far below; a quote that is not closed,
// or a file that is no CSV, goes beyond.
constexpr size_t kMostOfCell = size_t{1} << 16;
constexpr size_t kMostOfRecord = size_t{1} << 25;
constexpr size_t kMostColumns = size_t{1} << 20;

// A file's bytes in order, read in pieces.
class FileBytes {
 public:
  FileBytes(const InputFile& file, uint64_t start) : file_(file), next_(start) { fill(); }

  bool ended() const { return at_ == piece_.size(); }
  // REQUIRES !ended().
  char peek() const { return piece_[at_]; }
  char take() {
    const char c = piece_[at_++];
    if (at_ == piece_.size()) fill();
    return c;
  }

 private:
  void fill() {
    constexpr uint64_t kPiece = uint64_t{1} << 18;
    piece_.resize(static_cast<size_t>(std::min(kPiece, file_.size() - next_)));
    file_.read_at(next_, piece_.data(), piece_.size());
    next_ += piece_.size();
    at_ = 0;
  }

  const InputFile& file_;
  uint64_t next_;
  std::string piece_;
  size_t at_ = 0;
};

// The cells of one record, one behind another.
class Record {
 public:
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t cell) const {
    const size_t begin = cell == 0 ? 0 : ends_[cell - 1];
    return std::string_view(text_).substr(begin, ends_[cell] - begin);
  }
  void clear() {
    text_.clear();
    ends_.clear();
  }
  // False where the record has become too long.
  bool add(char c) {
    text_ += c;
    return text_.size() - (ends_.empty() ? 0 : ends_.back()) <= kMostOfCell &&
           text_.size() <= kMostOfRecord;
  }
  bool end_cell() {
    ends_.push_back(text_.size());
    return ends_.size() <= kMostColumns;
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

uint64_t start_of_text(const InputFile& file) {
  std::string begin(static_cast<size_t>(std::min<uint64_t>(file.size(), kByteOrderMark.size())), 0);
  file.read_at(0, begin.data(), begin.size());
  return begin == kByteOrderMark ? kByteOrderMark.size() : 0;
}

// Splits a file into records; knows the line it is at.
class CsvScanner {
 public:
  CsvScanner(const InputFile& file, char separator)
      : bytes_(file, start_of_text(file)), path_(file.path()), separator_(separator) {}

  // The next record; false at the end. Empty lines are passed over.
  bool next(Record& record) {
    while (!bytes_.ended() && at_line_end()) end_line();
    if (bytes_.ended()) return false;
    first_line_ = line_;
    record.clear();
    while (true) {
      if (!bytes_.ended() && bytes_.peek() == '"')
        quoted(record);
      else
        plain(record);
      if (!record.end_cell()) throw error("more than " + std::to_string(kMostColumns) + " columns");
      if (!bytes_.ended() && bytes_.peek() == separator_) {
        bytes_.take();
        continue;
      }
      if (!bytes_.ended()) end_line();
      return true;
    }
  }
  Error error(const std::string& message) const {
    return Error(
        {.op = path_, .argument = "line " + std::to_string(first_line_), .message = message});
  }

 private:
  bool at_line_end() const { return bytes_.peek() == '\n' || bytes_.peek() == '\r'; }
  void end_line() {
    if (bytes_.take() == '\r' && !bytes_.ended() && bytes_.peek() == '\n') bytes_.take();
    ++line_;
  }
  void plain(Record& record) {
    while (!bytes_.ended() && bytes_.peek() != separator_ && !at_line_end()) add(record);
  }
  void quoted(Record& record) {
    bytes_.take();
    while (!bytes_.ended()) {
      if (bytes_.peek() == '\n') ++line_;
      if (bytes_.peek() != '"') {
        add(record);
        continue;
      }
      bytes_.take();
      if (!bytes_.ended() && bytes_.peek() == '"') {
        add(record);
        continue;
      }
      if (!bytes_.ended() && bytes_.peek() != separator_ && !at_line_end())
        throw error("text behind a closing quote");
      return;
    }
    throw error("a quote is not closed");
  }
  void add(Record& record) {
    if (record.add(bytes_.take())) return;
    throw error("a field of more than " + std::to_string(kMostOfCell) +
                " bytes, or a record of more than " + std::to_string(kMostOfRecord));
  }

  FileBytes bytes_;
  const std::string& path_;
  char separator_;
  int64_t line_ = 1;
  int64_t first_line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size())
    return std::nullopt;
  return value;
}

template <class T>
std::optional<T> parse_cell(std::string_view text) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "1" || text == "true") return true;
    if (text == "0" || text == "false") return false;
    return std::nullopt;
  } else if constexpr (std::is_integral_v<T>) {
    return parse_whole<T>(text);
  } else {
    const auto value = parse_whole<double>(text);
    if (!value) return std::nullopt;
    const T converted = convert_element<T>(*value);
    // A number is never taken for infinity because it is too large.
    if (std::isfinite(*value) && !std::isfinite(convert_element<double>(converted)))
      return std::nullopt;
    return converted;
  }
}

template <class T>
bool is_finite(T value) {
  if constexpr (std::is_integral_v<T>)
    return true;
  else
    return std::isfinite(convert_element<double>(value));
}

// The numbers of one field, row by row.
struct Column {
  const CsvField& field;
  std::vector<size_t> places;
  Tensor tensor = {};
  std::byte* next = nullptr;

  Shape shape(int64_t rows) const {
    Shape shape{rows};
    if (field.columns.size() != 1) shape.push_back(static_cast<int64_t>(places.size()));
    return shape;
  }
  void allocate(int64_t rows) {
    tensor = tensor_filled_later(field.dtype, shape(rows));
    next = static_cast<std::byte*>(tensor.raw());
  }
  void append(const Record& cells, const std::vector<std::string>& names,
              const CsvScanner& scanner) {
    visit_dtype(field.dtype, [&]<class T>() {
      for (const size_t place : places) {
        const auto value = parse_cell<T>(trimmed(cells[place]));
        if (!value || (field.finite && !is_finite(*value)))
          throw scanner.error("column '" + names[place] + "': " + refusal(cells[place]));
        std::memcpy(next, &*value, sizeof(T));
        next += sizeof(T);
      }
    });
  }
  std::string refusal(std::string_view cell) const {
    const auto number = parse_whole<double>(trimmed(cell));
    const bool too_large = is_float(field.dtype) && number && std::isfinite(*number);
    return std::string("expected ") + (field.finite ? "a finite " : "") + name_of(field.dtype) +
           ", got '" + printable(cell, 40) + (too_large ? "', which is too large for it" : "'");
  }
};

// Names the columns by the first record, which `cells` then hold.
std::vector<std::string> read_names(CsvScanner& scanner, Record& cells, const std::string& path,
                                    const CsvOptions& options) {
  if (!scanner.next(cells)) throw Error({.op = path, .message = "the file is empty"});
  std::vector<std::string> names;
  for (size_t place = 0; place < cells.size(); ++place) {
    names.push_back(options.header ? std::string(trimmed(cells[place])) : std::to_string(place));
  }
  std::map<std::string_view, size_t> places;
  for (size_t place = 0; place < names.size(); ++place) {
    const auto [first, is_new] = places.emplace(names[place], place);
    if (is_new) continue;
    throw Error({.op = path,
                 .argument = "header",
                 .message = "columns " + std::to_string(first->second + 1) + " and " +
                            std::to_string(place + 1) + " are both named '" +
                            printable(names[place], 40) + "'",
                 .fix = "give every column a name of its own"});
  }
  return names;
}

std::vector<Column> assign_columns(const std::vector<CsvField>& fields,
                                   const std::vector<std::string>& names, const std::string& path) {
  std::vector<bool> claimed(names.size(), false);
  std::vector<Column> columns;
  for (const CsvField& field : fields) {
    Column column{field, {}};
    for (const std::string& name : field.columns) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end()) {
        throw Error({.op = path,
                     .argument = "field '" + field.name + "'",
                     .message = "there is no column '" + name + "'",
                     .fix = did_you_mean(name, names)});
      }
      column.places.push_back(static_cast<size_t>(found - names.begin()));
      claimed[column.places.back()] = true;
    }
    columns.push_back(std::move(column));
  }
  for (Column& column : columns) {
    if (!column.field.columns.empty()) continue;
    for (size_t place = 0; place < names.size(); ++place) {
      if (!claimed[place]) column.places.push_back(place);
    }
    if (column.places.empty()) {
      throw Error({.op = path,
                   .argument = "field '" + column.field.name + "'",
                   .message = "no column is left for it"});
    }
  }
  return columns;
}

// How many records there are, up to one that cannot be read: reading it again says what is wrong.
int64_t count_records(const InputFile& file, const CsvOptions& options) {
  CsvScanner scanner(file, options.separator);
  Record cells;
  int64_t count = 0;
  try {
    while (scanner.next(cells)) ++count;
  } catch (const Error&) {
    return count;
  }
  return count;
}

void allocate(std::vector<Column>& columns, int64_t rows, const InputFile& file,
              const CsvOptions& options) {
  const int64_t budget = read_limit(file.size(), options.max_bytes);
  int64_t bytes = 0;
  for (const Column& column : columns) {
    const auto more = static_cast<int64_t>(column.shape(rows).num_bytes(column.field.dtype));
    bytes = checked_add(bytes, more, "csv");
  }
  if (bytes > budget) {
    throw Error({.op = file.path(),
                 .message = std::to_string(rows) + " records need " + std::to_string(bytes) +
                            " bytes, the limit is " + std::to_string(budget),
                 .fix = raise_read_limit()});
  }
  for (Column& column : columns) column.allocate(rows);
}

}  // namespace

std::vector<std::string> csv_columns(const std::string& path, const CsvOptions& options) {
  const InputFile file(path);
  CsvScanner scanner(file, options.separator);
  Record cells;
  return read_names(scanner, cells, path, options);
}

// The file is read twice, so that the tensors are made once, at their size.
std::vector<std::pair<std::string, Tensor>> read_csv(const std::string& path,
                                                     const std::vector<CsvField>& fields,
                                                     const CsvOptions& options) {
  if (fields.empty())
    throw Error({.op = path, .argument = "fields", .expected = "at least one", .got = "none"});
  const InputFile file(path);
  CsvScanner scanner(file, options.separator);
  Record cells;
  const std::vector<std::string> names = read_names(scanner, cells, path, options);
  bool there = !options.header || scanner.next(cells);
  std::vector<Column> columns = assign_columns(fields, names, path);
  const int64_t rows = count_records(file, options) - (options.header ? 1 : 0);
  allocate(columns, rows, file, options);
  int64_t row = 0;
  for (; there; there = scanner.next(cells), ++row) {
    if (cells.size() != names.size()) {
      throw scanner.error("expected " + std::to_string(names.size()) + " columns, got " +
                          std::to_string(cells.size()));
    }
    if (row == rows) break;
    for (Column& column : columns) column.append(cells, names, scanner);
  }
  if (row != rows || there)
    throw Error({.op = path, .message = "the file changed while it was read"});
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Column& column : columns) tensors.emplace_back(column.field.name, column.tensor);
  return tensors;
}

}  // namespace keel
