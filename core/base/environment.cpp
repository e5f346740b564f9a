#include "keel/core/base/environment.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <system_error>
#include <utility>

namespace keel {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& expected,
                         std::string_view text, const std::string& fix = "") {
  throw Error({.op = what,
               .expected = expected,
               .got = "'" + std::string(text) + "'",
               .fix = fix,
               .kind = ErrorKind::kInvalidArgument});
}

std::string decimal(double value) {
  char buffer[32];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  return {std::begin(buffer), end};
}
std::string decimal(int64_t value) { return std::to_string(value); }

// "an integer from 1 to 100"; open ends are left out.
template <class T>
std::string range(const std::string& noun, T min, T max) {
  const bool below = min > std::numeric_limits<T>::lowest();
  const bool above = max < std::numeric_limits<T>::max();
  if (below && above) return noun + " from " + decimal(min) + " to " + decimal(max);
  if (below) return noun + " >= " + decimal(min);
  if (above) return noun + " <= " + decimal(max);
  return noun;
}

template <class T>
T parse(std::string_view text, const std::string& what, const std::string& noun, T min, T max) {
  T value{};
  // from_chars knows no leading plus, but people type one.
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  const char* first = text.data() + (plus ? 1 : 0);
  const char* last = text.data() + text.size();
  const auto [end, status] = std::from_chars(first, last, value);
  const bool finite = std::isfinite(static_cast<double>(value));
  if (status != std::errc{} || end != last || !finite || value < min || value > max) {
    refuse(what, range(noun, min, max), text);
  }
  return value;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

int64_t parse_integer(std::string_view text, const std::string& what, int64_t min, int64_t max) {
  return parse<int64_t>(text, what, "an integer", min, max);
}

double parse_number(std::string_view text, const std::string& what, double min, double max) {
  return parse<double>(text, what, "a number", min, max);
}

std::string parse_choice(std::string_view text, const std::string& what,
                         const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found == choices.end())
    refuse(what, "one of " + join(choices), text, did_you_mean(text, choices));
  return *found;
}

std::optional<std::string> environment_text(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int64_t> environment_integer(const std::string& name, int64_t min, int64_t max) {
  const auto text = environment_text(name);
  if (!text) return std::nullopt;
  return parse_integer(*text, name, min, max);
}

std::optional<std::string> environment_choice(const std::string& name,
                                              const std::vector<std::string>& choices) {
  const auto text = environment_text(name);
  if (!text) return std::nullopt;
  return parse_choice(*text, name, choices);
}

std::string nearest(std::string_view name, const std::vector<std::string>& choices) {
  constexpr size_t kLongest =
      64;  // longer names are no typing mistakes, and the distance costs their product
  if (name.empty() || name.size() > kLongest) return "";
  const size_t most = name.size() / 3 + 1;  // a third of the letters may be wrong, and one
  std::string best;
  std::pair<size_t, bool> least{most + 1, false};
  for (const auto& choice : choices) {
    if (choice.empty() || choice.size() > kLongest) continue;
    const size_t edits = edit_distance(name, choice);
    // Something must be left of the name.
    if (edits > most || edits >= std::max(name.size(), choice.size())) continue;
    // Among choices that are equally near it prefers the one with the same first letter, which few
    // mistype.
    const std::pair<size_t, bool> distance{edits, choice[0] != name[0]};
    if (distance < least) {
      least = distance;
      best = choice;
    } else if (distance == least && choice != best && distance.second) {
      best.clear();  // to guess among equals would mislead
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& choices) {
  const std::string choice = nearest(name, choices);
  return choice.empty() ? "" : "did you mean '" + choice + "'?";
}

size_t place_among(std::string_view name, const std::vector<std::string>& choices,
                   ErrorInfo refusal) {
  const auto found = std::find(choices.begin(), choices.end(), name);
  if (found == choices.end()) {
    refusal.fix = did_you_mean(name, choices);
    throw Error(std::move(refusal));
  }
  return static_cast<size_t>(found - choices.begin());
}

}  // namespace keel
