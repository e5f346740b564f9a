#include "keel/graph/runtime/summary_file.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <fcntl.h>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "keel/core/base/csv.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/json.h"
#include "keel/core/base/printable.h"
#include "keel/core/base/read_budget.h"

namespace keel {
namespace {

constexpr std::string_view kObjectStart = "{\"step\": ";
constexpr std::string_view kObjectsEnd = "\n]\n";
constexpr std::string_view kNoObjects = "[\n]\n";

std::string cell(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return format_double(value);
}

std::string reason(int code) { return std::generic_category().message(code); }

// Returns the step that a line of the file is about; nothing for one that is no row.
std::optional<int64_t> step_of_line(std::string_view line) {
  if (line.starts_with(kObjectStart)) line.remove_prefix(kObjectStart.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',') return std::nullopt;
  return step;
}

}  // namespace

SummaryFile::SummaryFile(const std::string& path, std::vector<std::string> columns, int64_t start)
    : path_(path), columns_(std::move(columns)) {
  if (path.ends_with(".json")) {
    form_ = Form::kObjects;
  } else if (!path.ends_with(".csv")) {
    refuse("a name that ends in .csv or .json", "'" + path + "'");
  }
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw Error({.op = path_, .message = "cannot be written: " + reason(errno)});
  try {
    end_ = kept_bytes(read_file(path_, read_budget()), start);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SummaryFile::~SummaryFile() { ::close(descriptor_); }

std::string SummaryFile::head() const {
  if (form_ == Form::kObjects) return "[";
  CsvRow names = {"step"};
  names.insert(names.end(), columns_.begin(), columns_.end());
  return write_csv_row(names);
}

std::string SummaryFile::row(int64_t step, std::span<const double> values) const {
  if (form_ == Form::kTable) {
    CsvRow cells = {std::to_string(step)};
    for (const double value : values) cells.push_back(cell(value));
    return write_csv_row(cells);
  }
  std::string text = std::string(kObjectStart) + std::to_string(step);
  for (size_t i = 0; i < values.size(); ++i)
    text += ", " + quote_json(columns_[i]) + ": " + format_double(values[i]);
  return text + "}";
}

// A row that is cut short at the end of the file, and all behind it, does not stay.
int64_t SummaryFile::kept_bytes(std::string_view text, int64_t start) const {
  const std::string wanted = head();
  if (text.empty() || (form_ == Form::kObjects && text == kNoObjects)) return 0;
  if (!text.starts_with(form_ == Form::kTable ? "step," : "[\n{\"step\": ")) {
    refuse("a new file, or a summary of an earlier run",
           "'" + printable(std::string(text.substr(0, text.find('\n'))), 100) + "'");
  }
  if (start == 0) return 0;
  if (!text.starts_with(wanted)) {
    refuse("a summary with the columns " + wanted.substr(0, wanted.find('\n')),
           "'" + std::string(text.substr(0, text.find('\n'))) + "'");
  }
  size_t end = wanted.size(), at = end;
  if (form_ == Form::kObjects) at = std::min(at + 1, text.size());
  while (at < text.size()) {
    const size_t newline = text.find('\n', at);
    if (newline == std::string_view::npos) break;
    std::string_view line = text.substr(at, newline - at);
    if (form_ == Form::kObjects && line.ends_with(',')) line.remove_suffix(1);
    const std::optional<int64_t> step = step_of_line(line);
    if (!step || *step > start) break;
    if (form_ == Form::kObjects) {
      const Json object = parse_json(line, path_);
      for (const std::string& column : columns_)
        if (!object.contains(column)) refuse("rows with '" + column + "'", std::string(line));
      if (object.size() != columns_.size() + 1)
        refuse("rows of " + std::to_string(columns_.size()) + " values", std::string(line));
    }
    end = at + line.size() + (form_ == Form::kTable ? 1 : 0);
    at = newline + 1;
  }
  return static_cast<int64_t>(end);
}

void SummaryFile::add(int64_t step, std::span<const double> values) {
  std::string bytes = begin();
  if (form_ == Form::kObjects) bytes += empty_ ? "\n" : ",\n";
  bytes += row(step, values);
  append(std::move(bytes));
  empty_ = false;
}

void SummaryFile::finish() {
  if (!cut_) append(begin());
}

// Cuts what stands behind the rows that stay, once. Returns the head that is to be written then.
std::string SummaryFile::begin() {
  if (cut_) return "";
  empty_ = end_ <= static_cast<int64_t>(head().size());
  if (::ftruncate(descriptor_, end_) != 0)
    throw Error({.op = path_, .message = "cannot be written: " + reason(errno)});
  cut_ = true;
  return end_ == 0 ? head() : "";
}

void SummaryFile::append(std::string bytes) {
  const auto rows = static_cast<int64_t>(bytes.size());
  if (form_ == Form::kObjects) bytes += kObjectsEnd;
  write(bytes);
  end_ += rows;
}

void SummaryFile::write(std::string_view bytes) {
  int64_t at = end_;
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw Error({.op = path_, .message = "cannot be written: " + reason(errno)});
    at += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void SummaryFile::refuse(const std::string& expected, const std::string& got) const {
  throw Error({.op = "SummaryHook",
               .argument = path_,
               .expected = expected,
               .got = got,
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace keel
