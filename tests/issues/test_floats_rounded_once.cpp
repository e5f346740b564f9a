// Floats of CSV files were rounded to f64 first, so that a number beside the middle of two f32
// became the wrong one of them, which f16 and bf16 must not be by way of f32; and a separator that
// ends a line gave columns that nobody wrote.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/formats/csv.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("data");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::TempFolder;

}  // namespace

TEST_CASE("csv: an f32 is the nearest one to the text") {
  // The first ones lie beside the middle of two neighbours, normal or subnormal, by less than half
  // a unit of f64; strtof of the C library says which neighbour is nearer.
  const std::vector<std::string> texts = {"1.00000005960464477539062501",
                                          "1.00000005960464477539062499",
                                          "-1.00000005960464477539062501",
                                          "16777217.000000000001",
                                          "2.1019476964872256063e-45",
                                          "2.1019476964872256064e-45",
                                          "3.4028235677973365e38",
                                          "1e-60",
                                          "-1e-400",
                                          "0.1",
                                          "255"};
  std::string table = "x\n";
  for (const std::string& text : texts) table += text + "\n";
  const TempFolder folder;
  const auto fields = read_csv(folder.write("t.csv", table), {{.name = "x", .columns = {"x"}}});
  const auto values = fields[0].second.data<float>();
  REQUIRE(values.size() == texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i]);
    CHECK(values[i] == std::strtof(texts[i].c_str(), nullptr));
  }
  CHECK(values[0] == 1.00000012f);
  CHECK(std::signbit(values[8]));
}

TEST_CASE("csv: an f16 or bf16 is the nearest one to the text") {
  // Each lies beside the middle of two neighbours by less than half a unit of f32: the f16 above 1
  // is 1 + 2^-10, all below 65520 belongs to the largest, 65504, and the bf16 above 1 is 1 + 2^-7.
  const TempFolder folder;
  const auto cell = [&]<class T>(T, DType dtype, const std::string& text) {
    const auto fields = read_csv(folder.write("t.csv", "x\n" + text + "\n"),
                                 {{.name = "x", .dtype = dtype, .columns = {"x"}}});
    return static_cast<float>(fields[0].second.data<T>()[0]);
  };
  CHECK(cell(Half(), f16, "1.00048828126") == 1.0009765625f);
  CHECK(cell(Half(), f16, "65519.999") == 65504.0f);
  CHECK(cell(BFloat16(), bf16, "1.003906251") == 1.0078125f);
  CHECK(contains(error_of([&] { cell(Half(), f16, "65520"); }), "which is too large for it"));
}

TEST_CASE("csv: separators that end a line or are quotes are refused") {
  const TempFolder folder;
  const std::string path = folder.write("t.csv", "a,b\n1,2\n");
  for (const char separator : {'\n', '\r', '"'}) {
    const CsvOptions options{.separator = separator};
    for (const std::string& error : {error_of([&] { read_csv(path, {{.name = "x"}}, options); }),
                                     error_of([&] { csv_columns(path, options); })})
      CHECK(contains(error, "separator: expected a character that is no line break and no quote"));
  }
  CHECK(csv_columns(path, {.separator = ';'}).size() == 1);
}

TEST_SUITE_END();
