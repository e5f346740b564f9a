#include "keel/graph/runtime/dump_options.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <sys/stat.h>

#include "keel/core/base/environment.h"
#include "keel/graph/runtime/most_steps.h"

namespace keel {
namespace {

constexpr std::array<const char*, 3> kModes = {"input", "output", "all"};
constexpr std::array<const char*, 2> kData = {"tensor", "stats"};
constexpr std::array<const char*, 3> kDebugModes = {"aicore_overflow", "atomic_overflow", "all"};

// Returns the enumerator whose place in the list the text has.
template <class Enum, size_t n>
Enum choice_of(const std::array<const char*, n>& names, const std::string& text,
               const std::string& from) {
  const std::string name = parse_choice(text, from, {names.begin(), names.end()});
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

DumpSteps::Range range_in(std::string_view set, const std::string& from) {
  const auto step = [&](std::string_view text) { return parse_integer(text, from, 0, kMostSteps); };
  const size_t dash = set.find('-', 1);
  if (dash == std::string_view::npos) {
    const int64_t only = step(set);
    return {only, only};
  }
  const DumpSteps::Range range{step(set.substr(0, dash)), step(set.substr(dash + 1))};
  if (range.first < range.last) return range;
  throw Error({.op = from,
               .expected = "ranges whose first step comes before their last, as 10-20",
               .got = std::string(set),
               .kind = ErrorKind::kInvalidArgument});
}

[[noreturn]] void refuse(const char* argument, const std::string& expected, const std::string& got,
                         ErrorKind kind) {
  throw Error({.op = "dump", .argument = argument, .expected = expected, .got = got, .kind = kind});
}

// Returns the folder, or the nearest around it that is there, in which the missing ones are to be.
std::string standing_folder(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code unknown;
  while (!std::filesystem::exists(at, unknown) && !unknown) {
    if (!at.has_parent_path()) return ".";
    at = at.parent_path();
  }
  return at.string();
}

void require_folder(const std::string& path) {
  const std::string expected = "a folder that may be read and written";
  if (path.empty()) refuse("dump_path", expected, "none", ErrorKind::kInvalidArgument);
  const std::string there = standing_folder(path);
  struct stat status {};
  int problem = ::stat(there.c_str(), &status) != 0 ? errno : 0;
  if (problem == 0 && !S_ISDIR(status.st_mode)) problem = ENOTDIR;
  if (problem == 0 && ::access(there.c_str(), R_OK | W_OK | X_OK) != 0) problem = errno;
  if (problem == 0) return;
  refuse("dump_path", expected, path + " (" + std::generic_category().message(problem) + ")",
         ErrorKind::kFailed);
}

}  // namespace

bool DumpSteps::contains(int64_t step) const {
  return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) {
           return r.first <= step && step <= r.last;
         });
}

int64_t DumpSteps::next_behind(int64_t step) const {
  if (ranges.empty()) return step + 1;
  int64_t next = kNoDumpedStep;
  for (const Range& r : ranges) {
    if (r.last > step) next = std::min(next, std::max(r.first, step + 1));
  }
  return next;
}

DumpSteps parse_dump_step(const std::string& text, const std::string& from) {
  const std::vector<std::string_view> sets = split(text, '|');
  if (sets.size() > kMostDumpSets) {
    throw Error({.op = from,
                 .expected = "at most " + std::to_string(kMostDumpSets) + " steps and ranges",
                 .got = std::to_string(sets.size()),
                 .kind = ErrorKind::kInvalidArgument});
  }
  DumpSteps steps;
  for (const std::string_view set : sets) steps.ranges.push_back(range_in(set, from));
  return steps;
}

DumpMode parse_dump_mode(const std::string& text, const std::string& from) {
  return choice_of<DumpMode>(kModes, text, from);
}

std::vector<std::string> parse_dump_layer(const std::string& text, const std::string& from) {
  std::vector<std::string> names;
  for (const std::string_view name : split(text, ' ')) {
    if (!name.empty()) names.emplace_back(name);
  }
  if (!names.empty()) return names;
  throw Error({.op = from,
               .expected = "names of nodes with spaces between them",
               .got = "'" + text + "'",
               .kind = ErrorKind::kInvalidArgument});
}

DumpData parse_dump_data(const std::string& text, const std::string& from) {
  return choice_of<DumpData>(kData, text, from);
}

DumpDebugMode parse_dump_debug_mode(const std::string& text, const std::string& from) {
  return choice_of<DumpDebugMode>(kDebugModes, text, from);
}

void require_dump(const DumpOptions& dump, const Backend& backend, const DeviceOptions* options) {
  if (!dump.on()) return;
  if (dump.enable_dump && dump.enable_dump_debug) {
    refuse("enable_dump, enable_dump_debug", "one of the two", "both", ErrorKind::kInvalidArgument);
  }
  require_folder(dump.path);
  const char* mode = kDebugModes[static_cast<size_t>(dump.debug_mode)];
  const Support support = backend.finds_overflow(mode, options);
  if (support.supported) return;
  throw Error({.op = "dump",
               .argument = std::string("dump_debug_mode ") + mode,
               .message = support.reason,
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace keel
