#include "keel/data/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/environment.h"
#include "keel/core/base/file.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"
#include "keel/core/tensor/convert.h"
#include "keel/data/formats/csv_table.h"
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
class CsvRecord {
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
      : bytes_(file, start_of_text(file)), path_(file.path()), separator_(separator) {
    if (std::string_view("\n\r\"").find(separator) == std::string_view::npos) return;
    throw Error({.op = path_,
                 .argument = "separator",
                 .expected = "a character that is no line break and no quote",
                 .got = "'" + printable(std::string_view(&separator, 1)) + "'",
                 .kind = ErrorKind::kInvalidArgument});
  }

  // The next record; false at the end. Empty lines are passed over.
  bool next(CsvRecord& record) {
    const auto pass_over = [&] { bytes_.take(); };
    while (!bytes_.ended() && at_line_end()) end_line(pass_over);
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
      if (!bytes_.ended()) end_line(pass_over);
      return true;
    }
  }
  // The line that the last record began at.
  int64_t line() const { return first_line_; }
  Error error(const std::string& message) const {
    return Error({.op = path_, .argument = "line " + std::to_string(line()), .message = message});
  }

 private:
  bool at_line_end() const { return bytes_.peek() == '\n' || bytes_.peek() == '\r'; }
  // A line ends with \n, \r or the two in this order; `take` takes each of these bytes.
  template <class Take>
  void end_line(Take take) {
    const bool may_be_two = bytes_.peek() == '\r';
    take();
    if (may_be_two && !bytes_.ended() && bytes_.peek() == '\n') take();
    ++line_;
  }
  void plain(CsvRecord& record) {
    while (!bytes_.ended() && bytes_.peek() != separator_ && !at_line_end()) add(record);
  }
  void quoted(CsvRecord& record) {
    bytes_.take();
    while (!bytes_.ended()) {
      if (at_line_end()) {
        end_line([&] { add(record); });
        continue;
      }
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
  void add(CsvRecord& record) {
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

// Holds what a text says: a number, or nothing where it is none or its dtype does not hold it.
template <class Number>
struct Parsed {
  std::optional<Number> value;
  bool too_large = false;   // a float that is finite in the text, and infinite in the dtype
  bool is_byte = false;     // the number, a float as f64, is whole and from 0 to 255
  bool underflows = false;  // a float that is not 0 in the text, and is in the dtype
};

// Says of a decimal number outside of a float's or double's range on which side that is: it is far
// below 1 or far above. REQUIRES a number that from_chars has read to its end.
bool is_below_one(std::string_view text) {
  const size_t mark = std::min(text.size(), text.find_first_of("eE"));
  const std::string_view digits = text.substr(0, mark);
  const std::string_view exponent = text.substr(std::min(text.size(), mark + 1));
  const auto point = static_cast<int64_t>(std::min(digits.size(), digits.find('.')));
  const auto first = static_cast<int64_t>(digits.find_first_of("123456789"));
  // How many digits the number has in front of its point, without an exponent.
  const int64_t whole = first < point ? point - first : point - first + 1;
  int64_t power = 0;
  const bool plus = exponent.starts_with('+');
  const auto read =
      std::from_chars(exponent.data() + (plus ? 1 : 0), exponent.data() + exponent.size(), power);
  if (read.ec == std::errc::result_out_of_range) return exponent.starts_with('-');
  return power < -whole;
}

template <class Number>
Parsed<Number> parse_whole(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return {};
  }
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ptr != text.data() + text.size()) return {};
  if (result.ec == std::errc()) return {value};
  if constexpr (std::is_floating_point_v<Number>) {
    if (!is_below_one(text)) return {.value = {}, .too_large = true};
    return {.value = text.starts_with('-') ? -Number{0} : Number{0}, .underflows = true};
  }
  return {};
}

bool is_byte(double number) { return number >= 0 && number <= 255 && number == std::floor(number); }

// Returns whether a number that is_byte is one in the text as well, and was not rounded to it.
bool says_byte(std::string_view text) {
  if (text.find_first_not_of("0123456789") == std::string_view::npos) return true;
  const Parsed<double> exact = parse_whole<double>(text);
  return exact.value && is_byte(*exact.value) && !exact.underflows;
}

template <class T>
Parsed<T> parse_cell(std::string_view text) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "1" || text == "true") return {true};
    if (text == "0" || text == "false") return {false};
    return {};
  } else if constexpr (std::is_integral_v<T>) {
    Parsed<T> parsed = parse_whole<T>(text);
    parsed.is_byte = parsed.value && std::in_range<uint8_t>(*parsed.value);
    return parsed;
  } else {
    // An f32 by way of f64 would be rounded twice; from f64 to f16 and bf16 it is rounded to odd
    // first, so that it is the nearest one.
    using Source = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const Parsed<Source> parsed = parse_whole<Source>(text);
    if (!parsed.value) return {.value = {}, .too_large = parsed.too_large};
    const T converted = convert_element<T>(*parsed.value);
    // A number is never taken for infinity because it is too large.
    if (std::isfinite(*parsed.value) && !std::isfinite(convert_element<double>(converted)))
      return {.value = {}, .too_large = true};
    return {.value = converted, .is_byte = is_byte(*parsed.value) && says_byte(text)};
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
  std::string words;  // what its numbers are
  Tensor tensor = {};
  std::byte* next = nullptr;
  bool are_bytes = true;

  Shape shape(int64_t rows) const {
    Shape shape{rows};
    if (field.columns.size() != 1) shape.push_back(static_cast<int64_t>(places.size()));
    return shape;
  }
  void allocate(int64_t rows, const std::string& path) {
    tensor = tensor_filled_later(field.dtype, shape(rows), path);
    next = static_cast<std::byte*>(tensor.raw());
  }
  void append(const CsvRecord& cells, const std::vector<std::string>& names,
              const CsvScanner& scanner) {
    visit_dtype(field.dtype, [&]<class T>() {
      for (const size_t place : places) {
        const Parsed<T> parsed = parse_cell<T>(trimmed(cells[place]));
        if (!parsed.value || (field.finite && !is_finite(*parsed.value))) {
          throw scanner.error("column '" + names[place] +
                              "': " + refusal(cells[place], parsed.too_large));
        }
        are_bytes = are_bytes && parsed.is_byte;
        std::memcpy(next, &*parsed.value, sizeof(T));
        next += sizeof(T);
      }
    });
  }
  std::string refusal(std::string_view cell, bool too_large) const {
    return "expected " + words + ", got '" + printable(cell, 40) +
           (too_large ? "', which is too large for it" : "'");
  }
};

// Names the columns by the first record, which `cells` then hold.
std::vector<std::string> read_names(CsvScanner& scanner, CsvRecord& cells, const std::string& path,
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

// An error names so many columns, and says how many more there are.
constexpr size_t kNamedColumns = 16;

std::string list_of_columns(const std::vector<std::string>& names) {
  std::string list;
  for (size_t place = 0; place < std::min(names.size(), kNamedColumns); ++place)
    list += (place == 0 ? "'" : ", '") + printable(names[place], 40) + "'";
  if (names.size() > kNamedColumns)
    list += " and " + std::to_string(names.size() - kNamedColumns) + " more";
  return list;
}

std::vector<Column> assign_columns(const std::vector<CsvField>& fields,
                                   const std::vector<std::string>& names,
                                   const std::map<std::string, std::string>& words,
                                   const std::string& path) {
  std::vector<bool> claimed(names.size(), false);
  std::vector<Column> columns;
  for (const CsvField& field : fields) {
    const auto own = words.find(field.name);
    Column column{field,
                  {},
                  own != words.end()
                      ? own->second
                      : std::string(field.finite ? "a finite " : "") + name_of(field.dtype)};
    for (const std::string& name : field.columns) {
      column.places.push_back(place_among(
          name, names,
          {.op = path,
           .argument = "field '" + field.name + "'",
           .message =
               "there is no column '" + name + "', the file has " + list_of_columns(names)}));
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
  CsvRecord cells;
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
  for (Column& column : columns) column.allocate(rows, file.path());
}

}  // namespace

std::vector<std::string> csv_columns(const std::string& path, const CsvOptions& options) {
  const InputFile file(path);
  CsvScanner scanner(file, options.separator);
  CsvRecord cells;
  return read_names(scanner, cells, path, options);
}

int64_t line_of_record(const std::string& path, int64_t record) {
  const InputFile file(path);
  CsvScanner scanner(file, CsvOptions().separator);
  CsvRecord cells;
  while (record >= 0 && scanner.next(cells)) --record;
  return scanner.line();
}

// The file is read twice, so that the tensors are made once, at their size.
CsvTable read_csv_table(const std::string& path, const std::vector<CsvField>& fields,
                        const CsvOptions& options,
                        const std::map<std::string, std::string>& words) {
  if (fields.empty())
    throw Error({.op = path, .argument = "fields", .expected = "at least one", .got = "none"});
  const InputFile file(path);
  CsvScanner scanner(file, options.separator);
  CsvRecord cells;
  const std::vector<std::string> names = read_names(scanner, cells, path, options);
  bool there = !options.header || scanner.next(cells);
  std::vector<Column> columns = assign_columns(fields, names, words, path);
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
  CsvTable table;
  for (const Column& column : columns) {
    table.fields.emplace_back(column.field.name, column.tensor);
    table.are_bytes.push_back(column.are_bytes);
  }
  return table;
}

std::vector<std::pair<std::string, Tensor>> read_csv(const std::string& path,
                                                     const std::vector<CsvField>& fields,
                                                     const CsvOptions& options) {
  return read_csv_table(path, fields, options).fields;
}

}  // namespace keel
