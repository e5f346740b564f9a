#include "cli/onnx/graph_inputs.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <keel/keel.h>

namespace keel_cli {
namespace {

using keel::graphdef::GivenInput;

[[noreturn]] void fail(const std::string& flag, const std::string& got) {
  throw keel::Error({.op = flag,
                     .expected = "NAME:SHAPE,... with shapes as [-1,784] or -1x784",
                     .got = got,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// The parts of a text between commas that no brackets hold.
std::vector<std::string> parts_of(const std::string& flag, const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) fail(flag, text);
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (depth != 0) fail(flag, text);
  return parts;
}

// The numbers between these separators; nothing where one is none, or is below -1.
std::optional<std::vector<int64_t>> numbers(std::string_view text, char separator) {
  std::vector<int64_t> values;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + end, value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || value < -1)
      return std::nullopt;
    values.push_back(value);
    if (end + 1 == text.size()) return std::nullopt;  // a separator at the end
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return values;
}

// "[-1,784]" or "-1x784".
std::optional<std::vector<int64_t>> shape_of(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']') && text.size() >= 2)
    return numbers(text.substr(1, text.size() - 2), ',');
  return text.empty() ? std::nullopt : numbers(text, 'x');
}

// The number behind the last ':' may be that of a node's result, as in "IteratorGetNext:1": it is
// where nothing else follows the name, and one shape of one dimension is written "[1]".
GivenInput input_of(const std::string& flag, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (text.empty() || colon == 0) fail(flag, text);
  if (colon == std::string::npos) return {.value = text};
  const std::string_view behind = std::string_view(text).substr(colon + 1);
  const bool digits = !behind.empty() && std::all_of(behind.begin(), behind.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
  if (digits) return {.value = text};
  const std::optional<std::vector<int64_t>> shape = shape_of(behind);
  if (!shape) fail(flag, text);
  return {.value = text.substr(0, colon), .shape = shape};
}

}  // namespace

std::vector<GivenInput> graph_inputs(const std::string& flag, const std::string& text) {
  std::vector<GivenInput> inputs;
  if (text.empty()) return inputs;
  for (const std::string& part : parts_of(flag, text)) inputs.push_back(input_of(flag, part));
  return inputs;
}

}  // namespace keel_cli
