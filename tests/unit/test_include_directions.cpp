// Who may include whom, read from the sources: core <- graph <- ops <- backends/*, data -> core,
// and no cycle between the folders of a room.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace fs = std::filesystem;

TEST_SUITE_BEGIN("unit");

namespace {

struct Include {
  fs::path file;  // relative to the source tree
  int line;
  bool quoted;       // "..." rather than <...>
  std::string path;  // what stands between the quotes or brackets
};

// Calls f(file relative to the source tree, line, text) for each line of the sources there.
template <class F>
void for_each_line(const std::string& folder, F&& f) {
  const fs::path root = KEEL_SOURCE_DIR;
  if (!fs::exists(root / folder)) return;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp")) continue;
    std::ifstream in(entry.path());
    std::string text;
    for (int line = 1; std::getline(in, text); ++line)
      f(fs::relative(entry.path(), root), line, text);
  }
}

std::vector<Include> includes_below(const std::string& folder) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> found;
  for_each_line(folder, [&](const fs::path& file, int line, const std::string& text) {
    std::smatch match;
    if (std::regex_search(text, match, pattern))
      found.push_back({file, line, match[1] == "\"", match[2]});
  });
  return found;
}

std::string where(const Include& include) {
  return include.file.string() + ":" + std::to_string(include.line) + " includes " + include.path;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// "graph" of "keel/graph/ir/node.h"; empty where the include is not one of Keel's.
std::string room_of(const std::string& include) {
  if (!starts_with(include, "keel/")) return "";
  const auto slash = include.find('/', 5);
  return slash == std::string::npos ? "" : include.substr(5, slash - 5);
}

// "npu" of "keel/backends/npu/cost.h" and of "backends/npu/cost.h"; empty for files directly in
// backends/.
std::string backend_of(const std::string& path) {
  const auto begin = path.find("backends/");
  if (begin == std::string::npos) return "";
  const auto slash = path.find('/', begin + 9);
  return slash == std::string::npos ? "" : path.substr(begin + 9, slash - begin - 9);
}

// "examples/" of "examples/cli", nothing of "core".
std::string parent_of(const std::string& room) { return room.substr(0, room.rfind('/') + 1); }

// "graph/ir" of "graph/ir/node.h".
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// What each folder of a room includes of the others, with one include as the witness. `prefix`
// stands before the room's name in its includes. The umbrella header, which is for users, includes
// all of its room.
using Folders = std::map<std::string, std::map<std::string, std::string>>;
Folders folders_of(const std::string& room, const std::string& prefix) {
  Folders folders;
  for (const Include& include : includes_below(room)) {
    if (include.file == fs::path(room) / (room + ".h")) continue;
    const std::string from = folder_of(include.file.generic_string());
    const std::string to = folder_of(
        parent_of(room) + include.path.substr(std::min(prefix.size(), include.path.size())));
    if (!starts_with(include.path, prefix) || !starts_with(to, room)) continue;
    if (from != to) folders[from].emplace(to, where(include));
  }
  return folders;
}

// The includes that lead from the last folder of `path` back to one of its folders; empty if none
// does. `done` are folders from which no cycle can be reached.
std::string find_cycle(const Folders& folders, std::vector<std::string>& path,
                       std::set<std::string>& done) {
  const auto from = folders.find(path.back());
  if (from == folders.end() || done.count(path.back()) == 1) return "";
  for (const auto& [to, witness] : from->second) {
    if (std::find(path.begin(), path.end(), to) != path.end()) return witness;
    path.push_back(to);
    const std::string rest = find_cycle(folders, path, done);
    path.pop_back();
    if (!rest.empty()) return witness + "\n" + rest;
  }
  done.insert(path.back());
  return "";
}

}  // namespace

TEST_CASE("rooms include only the rooms below them") {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"core", {"core"}},
      {"graph", {"core", "graph"}},
      {"ops", {"core", "graph", "ops"}},
      {"backends", {"core", "graph", "ops", "backends"}},
      {"data", {"core", "data"}},
  };
  std::size_t seen = 0;
  for (const auto& [room, below] : allowed) {
    for (const Include& include : includes_below(room)) {
      const std::string target = room_of(include.path);
      if (target.empty()) continue;
      ++seen;
      INFO(where(include));
      CHECK(below.count(target) == 1);
    }
  }
  CHECK(seen > 0);
}

TEST_CASE("backends never include each other except common") {
  for (const Include& include : includes_below("backends")) {
    if (room_of(include.path) != "backends") continue;
    const std::string from = backend_of(include.file.generic_string());
    const std::string to = backend_of(include.path);
    if (from.empty() || to.empty()) continue;
    INFO(where(include));
    CHECK((to == from || to == "common"));
  }
}

TEST_CASE("folders of a room do not include each other in a circle") {
  // The tool includes its own headers from examples/.
  const std::map<std::string, std::string> prefixes = {{"core", "keel/"}, {"graph", "keel/"},
                                                       {"ops", "keel/"},  {"backends", "keel/"},
                                                       {"data", "keel/"}, {"examples/cli", ""}};
  for (const auto& [room, prefix] : prefixes) {
    const Folders folders = folders_of(room, prefix);
    CHECK(!folders.empty());
    std::set<std::string> done;
    for (const auto& [folder, others] : folders) {
      std::vector<std::string> path{folder};
      const std::string cycle = find_cycle(folders, path, done);
      CHECK_MESSAGE(cycle.empty(), cycle);
    }
  }
}

TEST_CASE("the tool includes its own headers by their path from examples") {
  for (const Include& include : includes_below("examples/cli")) {
    if (!include.quoted) continue;
    INFO(where(include));
    CHECK((starts_with(include.path, "cli/") || starts_with(include.path, "models/")));
  }
}

TEST_CASE("graph knows ops by traits and roles and compares no names with words") {
  static const std::regex comparison(
      R"((op_name\(\)|op_->name) *[!=]= *"|"[a-z_0-9]+" *[!=]= *[^;]*(op_name\(\)|op_->name))");
  for_each_line("graph", [&](const fs::path& file, int line, const std::string& text) {
    INFO(file.string() << ":" << line << ": " << text);
    CHECK(!std::regex_search(text, comparison));
  });
}

TEST_CASE("own headers are included by their installed path") {
  for (const char* room : {"core", "graph", "ops", "backends", "data"}) {
    for (const Include& include : includes_below(room)) {
      // Highway's own idiom writes its headers in quotes.
      if (!include.quoted || starts_with(include.path, "hwy/")) continue;
      INFO(where(include));
      CHECK(starts_with(include.path, "keel/"));
    }
  }
}

// The headers that keel.h reaches must compile where only Keel is installed.
TEST_CASE("what keel.h includes needs no other package") {
  std::vector<std::string> queue;
  std::set<std::string> reached;
  std::map<std::string, std::vector<Include>> by_file;
  for (const char* room : {"core", "graph", "ops", "backends", "data"}) {
    for (const Include& include : includes_below(room)) {
      by_file["keel/" + include.file.generic_string()].push_back(include);
    }
    queue.push_back(std::string("keel/") + room + "/" + room + ".h");
  }
  const std::regex package(
      R"(^(Eigen|unsupported|hwy|xtensor|xtl|nlohmann|spdlog|fmt|tbb|oneapi|openssl|cxxopts)/|^zlib\.h)");
  while (!queue.empty()) {
    const std::string header = queue.back();
    queue.pop_back();
    if (!reached.insert(header).second) continue;
    for (const Include& include : by_file[header]) {
      INFO(where(include));
      CHECK_FALSE(std::regex_search(include.path, package));
      if (!room_of(include.path).empty()) queue.push_back(include.path);
    }
  }
  CHECK(reached.size() > 5);
}

TEST_CASE("oneTBB is included in one file") {
  std::vector<std::string> files;
  for (const char* room : {"core", "graph", "ops", "backends", "data", "examples", "tests"}) {
    for (const Include& include : includes_below(room)) {
      if (starts_with(include.path, "tbb/") || starts_with(include.path, "oneapi/")) {
        files.push_back(include.file.generic_string());
      }
    }
  }
  for (const std::string& file : files) CHECK(file == "core/base/parallel_for.cpp");
}

TEST_SUITE_END();
