// The tool's own table of API names: what its advice names is there. Read from the sources.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"
#include "keel/ops/exchange/migration/builtin_tables.h"
#include "keel/ops/exchange/migration/level.h"

namespace keel::migration {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The words of all sources of some rooms that end so.
std::set<std::string> words_of(const std::vector<std::string>& rooms, const std::string& ending) {
  static const std::regex word("[A-Za-z_][A-Za-z0-9_]*");
  std::set<std::string> words;
  for (const std::string& room : rooms) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(KEEL_SOURCE_DIR) / room)) {
      if (!entry.path().string().ends_with(ending)) continue;
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), word); at != std::sregex_iterator();
           ++at)
        words.insert(at->str());
    }
  }
  return words;
}

std::string sources_of(const std::string& folder) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(KEEL_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ".cpp") text += text_of(entry.path());
  }
  return text;
}

std::vector<std::string> advice_of_all_rows() {
  std::vector<std::string> all;
  for (const BuiltinTable& table : builtin_tables()) {
    const Json json = parse_json(table.json, table.name);
    for (const Json& row : json["apis"]) all.push_back(row["advice"]);
    for (const Json& row : json["options"]["rows"]) all.push_back(row["advice"]);
  }
  return all;
}

template <class Check>
void for_each_match(const std::string& pattern, Check check) {
  const std::regex regex(pattern);
  size_t matches = 0;
  for (const std::string& advice : advice_of_all_rows()) {
    for (std::sregex_iterator at(advice.begin(), advice.end(), regex); at != std::sregex_iterator();
         ++at, ++matches) {
      CAPTURE(advice);
      check((*at)[1].str());
    }
  }
  CHECK(matches > 0);
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("migration: every name in the table's advice is in a header") {
  const std::set<std::string> words = words_of({"core", "graph", "ops", "data", "backends"}, ".h");
  for_each_match("keel::([A-Za-z_:0-9]*[A-Za-z_0-9])", [&](std::string name) {
    std::replace(name.begin(), name.end(), ':', ' ');
    std::istringstream parts(name);
    for (std::string part; parts >> part;) CHECK_MESSAGE(words.count(part) == 1, part);
  });
}

TEST_CASE("migration: every flag and command in the table's advice is one of the tool's") {
  const std::string sources = sources_of("examples/cli");
  for_each_match("--([a-z][a-z0-9-]*)", [&](const std::string& flag) {
    CHECK_MESSAGE(sources.find("\"" + flag + "\"") != std::string::npos, flag);
  });
  const std::string commands = text_of(fs::path(KEEL_SOURCE_DIR) / "examples/cli/main.cpp");
  for_each_match("\\bkeel ([a-z]+)\\b", [&](const std::string& command) {
    CHECK_MESSAGE(commands.find("{\"" + command + "\"") != std::string::npos, command);
  });
}

TEST_CASE("migration: the table covers what training scripts call") {
  size_t rows = 0;
  for (const BuiltinTable& table : builtin_tables()) {
    const Json json = parse_json(table.json, table.name);
    rows += json["apis"].size();
    // Rows that say so have no level of what is there.
    for (const Json& row : json["apis"]) {
      const std::string advice = row["advice"];
      if (advice.find("ot in Keel yet") == std::string::npos) continue;
      CAPTURE(row.dump());
      CHECK(row["level"] != name_of(Level::kSupported));
    }
  }
  CHECK(rows > 500);
}

}  // namespace keel::migration
