// One name, one type, read from the sources: where two files define different types of one name in
// one namespace, what their inline members do depends on which of them the linker keeps.
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

using FilesByType = std::map<std::string, std::set<std::string>>;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "::";
  return text;
}

// Adds the types that a source defines outside of anonymous namespaces. As everywhere in Keel,
// namespaces open and close at the beginning of a line.
void add_types(const fs::path& file, FilesByType& types) {
  static const std::regex opens(R"(^(?:inline )?namespace ([\w:]*) ?\{)");
  static const std::regex defines(
      R"(^(?:template <.*> ?)?(?:struct|class|enum class) (?:KEEL_API )?(\w+)(?: final)?(?: : .*)? ?\{)");
  std::ifstream in(file);
  std::vector<std::string> namespaces;
  int anonymous = 0;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_search(line, match, opens)) {
      namespaces.push_back(match[1]);
      anonymous += match[1].length() == 0 ? 1 : 0;
    } else if (line.starts_with("}  // namespace") && !namespaces.empty()) {
      anonymous -= namespaces.back().empty() ? 1 : 0;
      namespaces.pop_back();
    } else if (anonymous == 0 && std::regex_search(line, match, defines)) {
      types[joined(namespaces) + match[1].str()].insert(file.string());
    }
  }
}

FilesByType types_of_the_library() {
  FilesByType types;
  for (const char* room : {"core", "graph", "ops", "backends", "data"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(KEEL_SOURCE_DIR) / room)) {
      const std::string extension = entry.path().extension().string();
      if (entry.is_regular_file() && (extension == ".h" || extension == ".cpp"))
        add_types(entry.path(), types);
    }
  }
  return types;
}

}  // namespace

TEST_CASE("no two files of the library define types of one name in one namespace") {
  const FilesByType types = types_of_the_library();
  CHECK(types.contains("keel::Graph"));
  CHECK(types.contains("keel::DataPass"));
  for (const auto& entry : types) {
    CAPTURE(entry.first);
    CAPTURE(*entry.second.begin());
    CHECK(entry.second.size() == 1);
  }
}

TEST_SUITE_END();
