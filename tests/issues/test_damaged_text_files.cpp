// Text files that a user hands over, cut anywhere or with a byte changed: each is read, or refused
// by an error that names the file. Under the sanitizers this also shows reads beyond the text.
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/npu/presets/preset.h"
#include "keel/backends/npu/presets/preset_files.h"
#include "keel/core/base/csv.h"
#include "keel/core/base/error.h"
#include "keel/data/formats/csv.h"
#include "keel/data/formats/labelled_csv.h"

#include "support/temp_folder.h"

namespace keel {
namespace {

using TextReader = std::function<void(const std::string& text)>;

// Returns how many damaged texts were read all the same.
int64_t read_all_the_same(const TextReader& read, const std::string& text,
                          const std::string& name) {
  try {
    read(text);
    return 1;
  } catch (const Error& error) {
    CHECK_MESSAGE(std::string(error.what()).find(name) != std::string::npos, error.what());
  } catch (const std::exception& error) {
    FAIL_CHECK("a foreign exception: " << error.what());
  }
  return 0;
}

// `step`: between the places that are tried in a long text.
void check_damage(const std::string& good, const std::string& name, size_t step,
                  const TextReader& read) {
  CAPTURE(name);
  REQUIRE(read_all_the_same(read, good, name) == 1);
  int64_t refused = 0;
  for (size_t at = 0; at < good.size(); at += step) {
    CAPTURE(at);
    refused += 1 - read_all_the_same(read, good.substr(0, at), name);
    for (const int bit : {0, 2, 4, 5, 7}) {
      std::string changed = good;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      refused += 1 - read_all_the_same(read, changed, name);
    }
    std::string doubled = good;
    doubled.insert(at, 1, good[at]);
    refused += 1 - read_all_the_same(read, doubled, name);
    refused += 1 - read_all_the_same(read, good.substr(0, at) + good.substr(at + 1), name);
  }
  CHECK(refused > 0);
}

TEST_SUITE_BEGIN("issues");

TEST_CASE("a damaged table is read or refused with its name") {
  const keel_test::TempFolder files;
  const std::string path = files.file("damaged.csv");
  const auto write = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return path;
  };
  const std::string table =
      "a,\"b, c\",kind\n1,2.5,0\n-3,4e1,1\n\"5\",nan,2\n6,7,0\n8,9,1\n1,1,2\n";
  check_damage(table, "damaged.csv", 1, [&](const std::string& text) {
    read_csv(write(text), {{"x", f32, {"a", "b, c"}}, {"y", u8, {"kind"}}});
  });
  const std::string numbers = "p,q,kind\n1,2,0\n3,4,1\n5,6,2\n6,7,0\n8,9,1\n1,1,2\n";
  check_damage(numbers, "damaged.csv", 1,
               [&](const std::string& text) { load_labelled_csv(write(text), "kind"); });
}

TEST_CASE("a damaged profile table is read or refused with its name") {
  const std::string table = write_csv_row({"name", "time, us", "a \"quoted\" one"}) +
                            write_csv_row({"x", "1.5", "two\nlines"}) +
                            write_csv_row({"", "2", "3"});
  check_damage(table, "damaged.csv", 1,
               [](const std::string& text) { parse_csv(text, "damaged.csv"); });
}

TEST_CASE("empty lines at the end of a table are none of its rows") {
  const std::vector<CsvRow> rows = {{"a", "b"}, {"1", "2"}};
  for (const char* end : {"", "\n", "\n\n", "\r\n\r\n", "\n\n\r\n"}) {
    CAPTURE(end);
    CHECK(parse_csv("a,b\n1,2" + std::string(end), "t.csv") == rows);
  }
  // One that has a row behind it is damage, and in a table of one column it is a field.
  CHECK_THROWS_WITH_AS(parse_csv("a,b\n\n1,2\n", "t.csv"),
                       doctest::Contains("t.csv: row 2: expected 2 fields, got 1"), Error);
  CHECK(parse_csv("a\n1\n\n", "t.csv") == std::vector<CsvRow>{{"a"}, {"1"}, {""}});
}

TEST_CASE("a damaged preset is read or refused with its name") {
  check_damage(
      npu::builtin_presets().back().text, "damaged preset", 7,
      [](const std::string& text) { npu::parse_preset(text, "damaged preset", "damaged preset"); });
}

TEST_SUITE_END();

}  // namespace
}  // namespace keel
