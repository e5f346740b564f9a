// A row that was damaged could not be left out of a table of measurements: all rows were read
// before it was asked which of them are chosen.
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/npu/measured/measured_table.h"

#include "support/error_of.h"

namespace keel::npu {

using keel_test::contains;
using keel_test::error_of;

TEST_SUITE_BEGIN("issues");

TEST_CASE("a choice of lines or of a device leaves out rows that are damaged") {
  const std::string text =
      "Device,OP Type,Task Duration(us),Input Shapes,Input Data Types\n"
      "910b1,Add,10.5,\"1024;1024\",FLOAT;FLOAT\n"
      "910b2,Add,fast,\"1024;1024\",FLOAT;FLOAT\n"
      "910b1,Mul,11.5,\"1024;1024\",FLOAT;FLOAT\n";
  CHECK(contains(error_of([&] { parse_measured(text, "x.csv"); }),
                 "x.csv: row 3, column \"Task Duration(us)\""));
  RowChoice lines;
  lines.lines = {4, 4};
  const MeasuredTable by_lines = parse_measured(text, "x.csv", lines);
  REQUIRE(by_lines.rows.size() == 1);
  CHECK(by_lines.rows[0].type == "Mul");
  CHECK(by_lines.last_line == 4);
  RowChoice device;
  device.device = "910b1";
  const MeasuredTable by_device = parse_measured(text, "x.csv", device);
  CHECK(by_device.rows.size() == 2);
  CHECK(by_device.devices.size() == 2);
}

TEST_SUITE_END();

}  // namespace keel::npu
