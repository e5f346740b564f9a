#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include <doctest/doctest.h>

#include "keel/data/formats/csv.h"
#include "keel/data/pipeline/dataset.h"

TEST_SUITE_BEGIN("unit");

namespace {

using keel::CsvField;
using keel::CsvOptions;
using keel::Error;
using keel::Tensor;

class CsvFile {
 public:
  explicit CsvFile(const std::string& text)
      : path_((std::filesystem::temp_directory_path() /
               ("keel_csv_" + std::to_string(std::random_device()()) + ".csv"))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~CsvFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void check_fails(const std::string& text, const std::vector<CsvField>& fields,
                 const std::string& message) {
  const CsvFile file(text);
  CHECK_THROWS_WITH_AS(keel::read_csv(file.path(), fields), doctest::Contains(message.c_str()),
                       Error);
}

}  // namespace

TEST_CASE("csv: columns become tensors by name") {
  const CsvFile file("a,b,\"the, label\",c\r\n1,2.5,3,true\r\n-4,5e-1,\"250\",0\r\n\r\n");
  const auto fields = keel::read_csv(file.path(), {{"y", keel::u8, {"the, label"}},
                                                   {"x", keel::f32, {"b", "a"}},
                                                   {"ok", keel::boolean, {"c"}}});
  REQUIRE(fields.size() == 3);
  CHECK(fields[0].first == "y");
  CHECK(keel::bit_equal(fields[0].second, Tensor::of<uint8_t>({2}, {3, 250})));
  CHECK(keel::bit_equal(fields[1].second, Tensor::of<float>({2, 2}, {2.5f, 1.0f, 0.5f, -4.0f})));
  CHECK(fields[2].second.data<bool>()[0]);
  CHECK_FALSE(fields[2].second.data<bool>()[1]);
}

TEST_CASE("csv: a field without columns takes the rest") {
  const CsvFile file(
      "\xef\xbb\xbf"
      "1;2;9007199254740993\n+3; nan ;-5");
  const CsvOptions options{.separator = ';', .header = false};
  const auto fields =
      keel::read_csv(file.path(), {{"rest", keel::f64, {}}, {"big", keel::i64, {"2"}}}, options);
  CHECK(fields[0].second.shape() == keel::Shape{2, 2});
  CHECK(fields[0].second.at(2) == 3.0);
  CHECK(std::isnan(fields[0].second.at(3)));
  CHECK(fields[1].second.data<int64_t>()[0] == 9007199254740993);
  const auto dataset = keel::Dataset::from_csv(file.path(), {{"big", keel::i64, {"2"}}}, options);
  CHECK(dataset.size() == 2);
  CHECK(to_string(dataset.spec()) == "(big: i64[])");
}

TEST_CASE("csv: columns are named by the header or by their numbers") {
  const CsvFile file("a, b ,\"c,d\"\n1,2,3\n");
  CHECK(keel::csv_columns(file.path()) == std::vector<std::string>{"a", "b", "c,d"});
  CHECK(keel::csv_columns(file.path(), {.header = false}) ==
        std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("csv: a header alone gives no rows") {
  const CsvFile file("a,b\n");
  CHECK(keel::read_csv(file.path(), {{"x", keel::f32, {}}})[0].second.shape() == keel::Shape{0, 2});
}

TEST_CASE("csv: errors name line and column") {
  check_fails("a,b\n1,2\n3,x\n", {{"x", keel::f32, {}}},
              "line 3: column 'b': expected f32, got 'x'");
  check_fails("a\n1\n\n300\n", {{"x", keel::u8, {"a"}}},
              "line 4: column 'a': expected u8, got '300'");
  check_fails("a\n1.5\n", {{"x", keel::i32, {"a"}}}, "expected i32, got '1.5'");
  check_fails("a\n-1\n", {{"x", keel::u8, {"a"}}}, "expected u8, got '-1'");
  check_fails("a\nyes\n", {{"x", keel::boolean, {"a"}}}, "expected bool");
  check_fails("a,b\n1,\n", {{"x", keel::f32, {}}}, "column 'b': expected f32, got ''");
  check_fails("a,b\n1,2,3\n", {{"x", keel::f32, {}}}, "line 2: expected 2 columns, got 3");
  check_fails("a,b\n1\n", {{"x", keel::f32, {}}}, "line 2: expected 2 columns, got 1");
  check_fails("a\n\"1\n2\n", {{"x", keel::f32, {}}}, "line 2: a quote is not closed");
  check_fails("a\n\"1\"2\n", {{"x", keel::f32, {}}}, "text behind a closing quote");
  check_fails("alpha,b\n1,2\n", {{"x", keel::f32, {"alhpa"}}},
              "there is no column 'alhpa', the file has 'alpha', 'b'; did you mean 'alpha'?");
  std::string many = "c0";
  for (int i = 1; i < 20; ++i) many += ",c" + std::to_string(i);
  check_fails(many + "\n", {{"x", keel::f32, {"zzzzzz"}}}, "'c14', 'c15' and 4 more");
  check_fails("a\n1\n", {{"x", keel::f32, {"a"}}, {"y", keel::f32, {}}}, "no column is left");
  check_fails("", {{"x", keel::f32, {}}}, "the file is empty");
  check_fails("a\n1e39\n", {{"x", keel::f32, {}}},
              "line 2: column 'a': expected f32, got '1e39', which is too large for it");
  check_fails("a\n-65520\n", {{"x", keel::f16, {}}}, "got '-65520', which is too large for it");
  check_fails("a,b\n1,nan\n", {{"x", keel::f64, {}, true}},
              "line 2: column 'b': expected a finite f64, got 'nan'");
  check_fails("a\n1\n", {}, "at least one");
  CHECK_THROWS_AS(keel::read_csv("/nowhere/there/is.csv", {{"x", keel::f32, {}}}), Error);
}

TEST_CASE("csv: line ends quotes and cells at the end of a file") {
  const auto numbers = [](const std::string& text) {
    const CsvFile file(text);
    const auto fields = keel::read_csv(file.path(), {{"x", keel::f64, {"a"}}});
    std::vector<double> values;
    for (int64_t i = 0; i < fields[0].second.num_elements(); ++i)
      values.push_back(fields[0].second.at(i));
    return values;
  };
  const std::vector<double> both = {1, 3};
  CHECK(numbers("a,b\r1,2\r3,4\r") == both);
  CHECK(numbers("a,b\r1,2\r3,4") == both);
  CHECK(numbers("b,a\n2,\"1\"\n4,\"3\"") == both);
  CHECK(numbers("a\n\t1 \t\n 3\t") == both);
  CHECK(numbers("\"a\"\n\"1\"\r\"3\"\r") == both);
  const CsvFile quoted("a,\"the \"\"best\"\"\nof all\"\n1,2\n");
  CHECK(keel::csv_columns(quoted.path()) == std::vector<std::string>{"a", "the \"best\"\nof all"});
  check_fails("a,b\n1,", {{"x", keel::f32, {"b"}}}, "line 2");
  check_fails("a\n\"1\"2\n", {{"x", keel::f32, {"a"}}}, "text behind a closing quote");
  check_fails("a\n\"1", {{"x", keel::f32, {"a"}}}, "a quote is not closed");
}

TEST_CASE("csv: numbers that no dtype holds") {
  const auto refused = [](keel::DType dtype, const std::string& cell) {
    INFO(std::string(keel::name_of(dtype)), " ", cell);
    check_fails("a\n" + cell + "\n", {{"x", dtype, {"a"}}}, "line 2: column 'a'");
  };
  for (const char* cell : {"300", "-1", "+", "1x", "\"\"", "1.5"}) refused(keel::u8, cell);
  for (const char* cell : {"3000000000", "\"\"", "+-1", "0x1"}) refused(keel::i32, cell);
  for (const char* cell : {"9223372036854775808", "1e3"}) refused(keel::i64, cell);
  for (const char* cell : {"2", "True", "\"\""}) refused(keel::boolean, cell);
  for (const keel::DType dtype : {keel::f16, keel::bf16, keel::f32, keel::f64}) {
    for (const char* cell : {"one", "1e400", "1 2", "+"}) refused(dtype, cell);
  }
  refused(keel::f16, "70000");
  refused(keel::f32, "1e39");
  refused(keel::bf16, "1e39");
  const CsvFile file("a,b\n+7,true\n-8,false\n");
  const auto fields = keel::read_csv(
      file.path(), {{"x", keel::i32, {"a"}}, {"y", keel::f16, {"a"}}, {"z", keel::boolean, {"b"}}});
  CHECK(keel::bit_equal(fields[0].second, Tensor::of<int32_t>({2}, {7, -8})));
  CHECK(fields[1].second.at(1) == -8);
  CHECK(fields[2].second.at(0) == 1);
  CHECK(fields[2].second.at(1) == 0);
}

TEST_CASE("csv: a record that never ends is given up") {
  // Each cell is short enough.
  std::string text = "a\n";
  for (int i = 0; i < 600; ++i) text += std::string(65000, '1') + ",";
  check_fails(text, {{"x", keel::f32, {"a"}}}, "or a record of more than");
}

TEST_SUITE_END();
