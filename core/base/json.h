// JSON: the one reader and writer of the project, over nlohmann. parse_json is strict; JsonView
// reads a document with errors that name source and path ("presets/x.json: cube.m: expected an
// integer >= 1, got "a""). Files that build or walk Json values themselves include
// <nlohmann/json.hpp> in their .cpp. Plain values; any thread.
#ifndef KEEL_CORE_BASE_JSON_H
#define KEEL_CORE_BASE_JSON_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "keel/core/base/error.h"
#include "keel/core/base/export.h"

namespace keel {

using Json = nlohmann::json;

inline constexpr size_t kMaxJsonDepth = 64;

// A document that takes more memory than its reader allows.
class KEEL_API JsonTooLarge : public Error {
 public:
  using Error::Error;
  ~JsonTooLarge() override;
};

// Parses the whole of `text` as one JSON value (RFC 8259: no comments, no trailing commas, no
// second value). Duplicate keys, nesting deeper than kMaxJsonDepth, numbers beyond double and bad
// UTF-8 are refused. Throws Error naming source_name, line and column (both from 1, columns in
// bytes). Throws JsonTooLarge where the document would take more than about `most_memory` bytes
// (without it: the read budget, core/base/read_budget.h), before it takes them.
KEEL_API Json parse_json(std::string_view text, const std::string& source_name);
KEEL_API Json parse_json(std::string_view text, const std::string& source_name,
                         uint64_t most_memory);

// Writes it as text: one line, or indented by `indent` spaces where >= 0. Keys are sorted; numbers
// round-trip; NaN and infinities become null; bad UTF-8 becomes U+FFFD.
KEEL_API std::string write_json(const Json& value, int indent = -1);

// Returns the shortest decimal that reads back as the same value, as a JSON number; "null" for NaN
// and infinities.
KEEL_API std::string format_double(double value);
KEEL_API std::string format_float(float value);
// Returns a JSON string literal, quotes included.
KEEL_API std::string quote_json(std::string_view text);

// A place in a document. Refers to the document, which must outlive it.
class KEEL_API JsonView {
 public:
  JsonView(const Json& document, std::string source_name);

  const Json& json() const noexcept { return *value_; }
  // "presets/x.json: cube.m"; the document itself is just its source name.
  std::string where() const;

  // A member that must be there, one that may be missing, all in key order. Throw where this is no
  // object.
  JsonView operator[](std::string_view key) const;
  std::optional<JsonView> find(std::string_view key) const;
  std::vector<std::string> keys() const;
  // Throws for a member that is not listed, naming the nearest of those that are.
  void require_only(std::initializer_list<std::string_view> keys) const;

  // Elements of an array; throw where this is none or the index is beyond its end.
  size_t size() const;
  JsonView operator[](size_t index) const;

  // Returns the value, checked for type and range.
  int64_t integer(int64_t min = std::numeric_limits<int64_t>::min(),
                  int64_t max = std::numeric_limits<int64_t>::max()) const;
  double number(double min = std::numeric_limits<double>::lowest(),
                double max = std::numeric_limits<double>::max()) const;
  bool boolean() const;
  const std::string& text() const;

  // "<where>: expected <expected>, got <the value, shortened>", for checks of the caller's own.
  Error error(const std::string& expected) const;

 private:
  JsonView(const Json* value, const JsonView& parent, const std::string& step);

  const Json* value_;
  std::string source_;
  std::string path_;
};

}  // namespace keel

#endif  // KEEL_CORE_BASE_JSON_H
