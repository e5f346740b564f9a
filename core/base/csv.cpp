#include "keel/core/base/csv.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/error.h"

namespace keel {
namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + "\"";
}

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

// A cell takes memory of its own, even an empty one.
constexpr size_t kMostCells = size_t{1} << 21;

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::vector<CsvRow> run() {
    while (at_ < text_.size()) {
      if (is_line_end(text_[at_]) && at_empty_end()) break;
      if (++cells_ > kMostCells) {
        fail("at most " + std::to_string(kMostCells) + " cells", "more");
      }
      row_.push_back(text_[at_] == '"' ? quoted_field() : plain_field());
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        if (at_ == text_.size()) row_.emplace_back();
        continue;
      }
      end_row();
    }
    if (!row_.empty()) finish_row();
    return std::move(rows_);
  }

 private:
  // Editors leave empty lines at the end. In a table of one column they are fields.
  bool at_empty_end() const {
    return row_.empty() && !rows_.empty() && rows_.front().size() > 1 &&
           text_.find_first_not_of("\r\n", at_) == std::string_view::npos;
  }

  std::string plain_field() {
    const size_t end = std::min(text_.size(), text_.find_first_of(",\r\n", at_));
    std::string field(text_.substr(at_, end - at_));
    at_ = end;
    return field;
  }

  std::string quoted_field() {
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] != '"') {
        field += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field += text_[at_++];
      } else {
        ++at_;
        return field;
      }
    }
    fail("a closing quote", "the end of the file");
  }

  void end_row() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size()) {
      if (text_[at_] != '\n') fail("a comma or the end of the line", "more text behind a quote");
      ++at_;
    }
    finish_row();
  }

  void finish_row() {
    if (!rows_.empty() && row_.size() != rows_.front().size()) {
      fail(std::to_string(rows_.front().size()) + " fields", std::to_string(row_.size()));
    }
    rows_.push_back(std::exchange(row_, {}));
  }

  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    throw Error({.op = source_,
                 .argument = "row " + std::to_string(rows_.size() + 1),
                 .expected = expected,
                 .got = got});
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  size_t cells_ = 0;
  CsvRow row_;
  std::vector<CsvRow> rows_;
};

}  // namespace

std::string write_csv_row(const CsvRow& row) {
  std::string text;
  for (size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + quoted(row[i]);
  return text + "\n";
}

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source) {
  return Parser(text, source).run();
}

}  // namespace keel
