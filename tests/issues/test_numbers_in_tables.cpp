// Tables: numbers near 0 were no numbers, too large ones were not called so, what is whole was
// judged behind rounding, and errors counted rows, or some ends of lines only, where files have
// lines.
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "keel/data/formats/csv.h"
#include "keel/data/formats/labelled_csv.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("data");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::TempFolder;

}  // namespace

TEST_CASE("numbers too small for a dtype are the nearest that it has") {
  const TempFolder folder;
  const std::string zeros(400, '0');
  const auto read = [&](const std::string& cell, DType dtype) {
    const std::string path = folder.write("t.csv", "x\n" + cell + "\n");
    return read_csv(path, {{.name = "x", .dtype = dtype, .finite = true}}).at(0).second.at(0);
  };
  for (const DType dtype : {f16, bf16, f32, f64}) {
    for (const std::string& cell :
         {std::string("1e-400"), std::string("123.5E-400"), "0." + zeros + "1",
          "1" + zeros + "e-800", std::string("1e-99999999999999999999"), "0." + zeros + "9e-1"}) {
      INFO(cell);
      CHECK(read(cell, dtype) == 0);
      CHECK_FALSE(std::signbit(read(cell, dtype)));
      CHECK(read("-" + cell, dtype) == 0);
      CHECK(std::signbit(read("-" + cell, dtype)));
    }
    CHECK(read("0e999", dtype) == 0);
  }
  CHECK(read("4.94e-324", f64) == std::numeric_limits<double>::denorm_min());
  CHECK(read("0." + zeros + "1e401", f64) == 1);
}

TEST_CASE("numbers too large for a dtype are called so") {
  const TempFolder folder;
  const std::string zeros(400, '0');
  for (const DType dtype : {f16, bf16, f32, f64}) {
    for (const std::string& cell :
         {std::string("1e400"), std::string("-1e+400"), "1" + zeros, "-12" + zeros + ".5",
          "0." + zeros + "1e800", std::string("1e99999999999999999999")}) {
      INFO(cell);
      const std::string path = folder.write("t.csv", "x\n" + cell + "\n");
      const std::string error = error_of([&] { read_csv(path, {{.name = "x", .dtype = dtype}}); });
      CHECK(contains(error, "line 2: column 'x'"));
      CHECK(contains(error, "which is too large for it"));
    }
  }
  const std::string path = folder.write("t.csv", "x\n1e400x\n");
  CHECK(!contains(error_of([&] { read_csv(path, {{.name = "x"}}); }), "too large"));
}

TEST_CASE("a table's numbers are judged as they are written") {
  const TempFolder folder;
  // The nearest f32 is 255.
  const LabelledSplits almost =
      load_labelled_csv(folder.write("t.csv", "y,x\n0,1\n1,254.999999999\n"), "y");
  CHECK(almost.train.images.dtype() == f32);
  CHECK(almost.test.images.dtype() == f32);
  // A number that is too small for an f64 is none of a byte.
  const LabelledSplits small =
      load_labelled_csv(folder.write("s.csv", "y,x\n0,1\n1,1e-400\n"), "y");
  CHECK(small.train.images.dtype() == f32);
  const LabelledSplits whole = load_labelled_csv(folder.write("w.csv", "y,x\n0,1\n1,255.0\n"), "y");
  CHECK(whole.train.images.dtype() == u8);
  // A class beyond what f32 counts is named as it is written.
  const std::string path = folder.write("c.csv", "y,x\n0,1\n16777217,2\n");
  CHECK(contains(error_of([&] { load_labelled_csv(path, "y"); }), "got 16777217"));
}

TEST_CASE("classes beyond a byte are refused with the line of the file") {
  const TempFolder folder;
  const auto refused = [&](const std::string& text, const char* line) {
    const std::string path = folder.write("t.csv", text);
    CHECK(contains(error_of([&] { load_labelled_csv(path, "y"); }),
                   std::string(line) + ": column 'y': expected a class from 0 to 255, got 256"));
  };
  refused("y,x\n256,3\n1,2\n", "line 2");
  refused("y,x\n1,2\n256,3\n", "line 3");
  refused("\n\ny,x\r\n1,2\r\n\r\n256,3\r\n", "line 6");
  refused("y,\"x\nof two lines\"\n1,2\n256,3", "line 4");
}

TEST_CASE("lines inside of a quoted cell count whatever ends them") {
  const TempFolder folder;
  // Two lines of a header, one row, one row that is wrong: line 4, or 5 with an empty line inside.
  for (const std::string& end : {std::string("\n"), std::string("\r"), std::string("\r\n")}) {
    CAPTURE(end.size());
    const auto refused = [&](const std::string& header, const char* line) {
      const std::string path =
          folder.write("t.csv", header + end + "1,2,0" + end + "3,bad,1" + end);
      CHECK(contains(error_of([&] { load_labelled_csv(path, "y"); }),
                     std::string(line) + ": column 'b'"));
    };
    refused("\"x" + end + "z\",b,y", "line 4");
    refused("\"x" + end + end + "\",b,y", "line 5");
    // Line ends inside are part of the cell.
    const std::string path = folder.write("t.csv", "\"x" + end + "z\",b" + end + "1,2" + end);
    CHECK(csv_columns(path) == std::vector<std::string>{"x" + end + "z", "b"});
  }
}

TEST_SUITE_END();
