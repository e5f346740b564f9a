#include "keel/core/resource/table_file.h"

#include <limits>
#include <string_view>
#include <unordered_map>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"
#include "keel/core/base/read_budget.h"

namespace keel {
namespace {

// Memory of an entry, in the table and while it is read, beside its characters.
constexpr uint64_t kBytesOfAnEntry = 160;

[[noreturn]] void refuse(const std::string& path, size_t line, const std::string& expected,
                         const std::string& got) {
  throw Error(
      {.op = path, .argument = "line " + std::to_string(line), .expected = expected, .got = got});
}

class Lines {
 public:
  Lines(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  std::vector<TableLine> read() {
    std::vector<TableLine> lines;
    const uint64_t budget = read_budget();
    while (!rest_.empty()) {
      if ((lines.size() + 1) * kBytesOfAnEntry > budget)
        throw over_read_budget(path_, "table", budget);
      lines.push_back(entry(next(), lines.size()));
    }
    require_different(lines);
    return lines;
  }

 private:
  std::string_view next() {
    const size_t end = rest_.find('\n');
    std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  TableLine entry(std::string_view line, size_t before) {
    const size_t tab = line.find('\t');
    const bool has_value = tab != std::string_view::npos;
    if (before == 0) has_values_ = has_value;
    const std::string_view key = line.substr(0, tab);
    if (key.empty()) refuse(path_, before + 1, "a key", "none");
    if (has_value != has_values_) {
      refuse(path_, before + 1,
             has_values_ ? "a key, a tab and a value, like line 1" : "a key alone, like line 1",
             "'" + std::string(line) + "'");
    }
    if (!has_value) return {std::string(key), static_cast<int64_t>(before)};
    return {std::string(key), integer(line.substr(tab + 1), before + 1)};
  }

  int64_t integer(std::string_view text, size_t line) const {
    return parse_in_file(path_, [&] {
      return parse_integer(text, "line " + std::to_string(line) + ": value",
                           std::numeric_limits<int64_t>::min(),
                           std::numeric_limits<int64_t>::max());
    });
  }

  void require_different(const std::vector<TableLine>& lines) const {
    std::unordered_map<std::string_view, size_t> seen;
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto [at, fresh] = seen.emplace(lines[i].key, i + 1);
      if (fresh) continue;
      refuse_key_twice(path_, lines[i].key, i + 1, at->second);
    }
  }

  const std::string& path_;
  std::string_view rest_;
  bool has_values_ = false;
};

}  // namespace

void refuse_key_twice(const std::string& path, const std::string& key, size_t line, size_t first) {
  refuse(path, line, "a key that is not there yet",
         "'" + key + "', which line " + std::to_string(first) + " has");
}

std::vector<TableLine> read_table_file(const std::string& path) {
  const std::string text = read_file(path, read_budget());
  return Lines(path, text).read();
}

}  // namespace keel
