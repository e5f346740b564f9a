#include "keel/backends/npu/profile/table_rows.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/read_budget.h"

namespace keel::npu {

TableRows::TableRows(const std::string& path) : path_(path) {
  std::error_code unknown;  // then reading it says why
  const uint64_t bytes = std::filesystem::file_size(path, unknown), budget = read_budget();
  if (!unknown && bytes > budget) throw over_read_budget(path, "table", budget);
  text_ = read_file(path, budget);
  if (text_.empty()) throw Error({.op = path, .message = "is empty"});
  const CsvRow names = cells_of(take_line());
  for (size_t i = 0; i < names.size(); ++i) columns_[names[i]] = i;
  row_.resize(names.size());
  if (at_ < text_.size()) return;
  throw Error({.op = path,
               .message = "has no line behind that of the names: it was cut short",
               .fix = "write the profile anew"});
}

bool TableRows::next() {
  if (at_ == text_.size()) return false;
  CsvRow row = cells_of(take_line());
  if (row.size() != row_.size()) {
    throw Error({.op = path_,
                 .argument = "row " + std::to_string(count_ + 2),
                 .expected = std::to_string(row_.size()) + " fields",
                 .got = std::to_string(row.size())});
  }
  row_ = std::move(row);
  ++count_;
  return true;
}

void TableRows::last() {
  size_t before = at_;
  size_t skipped = 0;
  for (; at_ < text_.size(); ++skipped) {
    before = at_;
    take_line();
  }
  if (skipped == 0) return;
  at_ = before;
  count_ += skipped - 1;
  next();
}

const std::string& TableRows::text(const std::string& column) const {
  const auto it = columns_.find(column);
  if (it == columns_.end())
    throw Error({.op = path_, .argument = column, .message = "there is no such column"});
  return row_[it->second];
}

double TableRows::number(const std::string& column) const {
  const std::string& cell = text(column);
  const std::string where = "row " + std::to_string(count_ + 1) + ", column " + column;
  const double value = parse_in_file(path_, [&] { return parse_number(cell, where); });
  if (value >= 0) return value;
  throw Error(
      {.op = path_, .argument = where, .expected = "a number that is not negative", .got = cell});
}

std::string_view TableRows::take_line() {
  const size_t begin = at_;
  for (bool quoted = false; at_ < text_.size(); ++at_) {
    if (text_[at_] == '"') quoted = !quoted;
    if (text_[at_] != '\n' || quoted) continue;
    ++at_;
    break;
  }
  return std::string_view(text_).substr(begin, at_ - begin);
}

CsvRow TableRows::cells_of(std::string_view line) const {
  const auto fail = [&](ErrorInfo info) {
    info.argument = "row " + std::to_string(count_ + (columns_.empty() ? 1 : 2));
    return Error(std::move(info));
  };
  std::vector<CsvRow> rows;
  try {
    rows = parse_csv(line, path_);
  } catch (const Error& error) {
    throw fail(error.info());
  }
  if (rows.size() == 1) return std::move(rows.front());
  throw fail({.op = path_, .expected = "quotes around a field that has one", .got = "none"});
}

}  // namespace keel::npu
