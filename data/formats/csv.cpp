#include "keel/data/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "keel/core/base/environment.h"
#include "keel/core/base/file.h"
#include "keel/core/tensor/convert.h"

namespace keel {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Splits text into records; knows the line it is at.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, const std::string& path, char separator)
      : text_(text), path_(path), separator_(separator) {
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) at_ = kByteOrderMark.size();
  }

  // The cells of the next record; false at the end. Empty lines are passed over.
  bool next(std::vector<std::string>& cells) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) end_line();
    if (at_ >= text_.size()) return false;
    first_line_ = line_;
    cells.clear();
    while (true) {
      const bool quote = at_ < text_.size() && text_[at_] == '"';
      cells.push_back(quote ? quoted() : plain());
      if (at_ < text_.size() && text_[at_] == separator_) {
        ++at_;
        continue;
      }
      if (at_ < text_.size()) end_line();
      return true;
    }
  }
  Error error(const std::string& message) const {
    return Error(
        {.op = path_, .argument = "line " + std::to_string(first_line_), .message = message});
  }

 private:
  void end_line() {
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    ++at_;
    ++line_;
  }
  std::string plain() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' &&
           text_[at_] != '\r')
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted() {
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        cell += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell += text_[at_++];
      } else {
        ++at_;
        if (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' &&
            text_[at_] != '\r') {
          throw error("text behind a closing quote");
        }
        return cell;
      }
    }
    throw error("a quote is not closed");
  }

  std::string_view text_;
  const std::string& path_;
  char separator_;
  size_t at_ = 0;
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
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
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
    return convert_element<T>(*value);
  }
}

// The numbers of one field, row by row.
struct Column {
  const CsvField& field;
  std::vector<size_t> places;
  std::vector<std::byte> bytes;

  void append(const std::vector<std::string>& cells, const std::vector<std::string>& names,
              const CsvScanner& scanner) {
    visit_dtype(field.dtype, [&]<class T>() {
      for (const size_t place : places) {
        const auto value = parse_cell<T>(trimmed(cells[place]));
        if (!value) {
          throw scanner.error("column '" + names[place] + "': expected " + name_of(field.dtype) +
                              ", got '" + cells[place].substr(0, 40) + "'");
        }
        const auto* from = reinterpret_cast<const std::byte*>(&*value);
        bytes.insert(bytes.end(), from, from + sizeof(T));
      }
    });
  }
};

std::vector<Column> assign_columns(const std::vector<CsvField>& fields,
                                   const std::vector<std::string>& names, const std::string& path) {
  std::vector<bool> claimed(names.size(), false);
  std::vector<Column> columns;
  for (const CsvField& field : fields) {
    Column column{field, {}, {}};
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

Tensor tensor_of(const Column& column, int64_t rows) {
  Shape shape{rows};
  if (column.field.columns.size() != 1) shape.push_back(static_cast<int64_t>(column.places.size()));
  Tensor tensor(column.field.dtype, shape);
  if (!column.bytes.empty()) std::memcpy(tensor.raw(), column.bytes.data(), column.bytes.size());
  return tensor;
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> read_csv(const std::string& path,
                                                     const std::vector<CsvField>& fields,
                                                     const CsvOptions& options) {
  if (fields.empty())
    throw Error({.op = path, .argument = "fields", .expected = "at least one", .got = "none"});
  const std::string text = read_file(path, options.max_bytes);
  CsvScanner scanner(text, path, options.separator);
  std::vector<std::string> cells;
  bool there = scanner.next(cells);
  if (!there) throw Error({.op = path, .message = "the file is empty"});
  std::vector<std::string> names;
  for (size_t place = 0; place < cells.size(); ++place) {
    names.push_back(options.header ? std::string(trimmed(cells[place])) : std::to_string(place));
  }
  if (options.header) there = scanner.next(cells);
  std::vector<Column> columns = assign_columns(fields, names, path);
  int64_t rows = 0;
  for (; there; there = scanner.next(cells), ++rows) {
    if (cells.size() != names.size()) {
      throw scanner.error("expected " + std::to_string(names.size()) + " columns, got " +
                          std::to_string(cells.size()));
    }
    for (Column& column : columns) column.append(cells, names, scanner);
  }
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Column& column : columns)
    tensors.emplace_back(column.field.name, tensor_of(column, rows));
  return tensors;
}

}  // namespace keel
