#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/measured/measured_table.h"
#include "keel/backends/npu/profile/real_dtypes.h"
#include "keel/core/base/read_budget.h"

#include "measured_rows_for_tests.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using keel_test::contains;
using keel_test::error_of;
using npu_model_test::kMeasuredHeader;

std::string error_in(const std::string& rows) {
  return error_of([&] { parse_measured(kMeasuredHeader + rows, "t.csv"); });
}

}  // namespace

TEST_CASE("npu measured: columns of op_summary with quotes in quotes and a mark at the beginning") {
  const std::string text =
      "\xEF\xBB\xBF"
      "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait "
      "Time(us),Block Dim,Mix Block Dim,Input Shapes,Input Data Types,Input Formats,Output "
      "Shapes,Output Data Types,Output Formats\n"
      "0,Add_1,Add,AI_VECTOR_CORE,1712.5\t,10.5,0.1,48,0,\"\"\"1024,512;512\"\"\",FLOAT16;FLOAT16,"
      "ND;ND,\"\"\"1024,512\"\"\",FLOAT16,ND\n"
      "0,x,AllReduce,N/A,1,N/A,0,N/A,0,N/A,N/A,N/A,N/A,N/A,N/A\n";
  const MeasuredTable table = parse_measured(text, "t.csv");
  REQUIRE(table.rows.size() == 1);
  CHECK(table.without_duration == 1);
  const MeasuredRow& row = table.rows[0];
  CHECK(row.line == 2);
  CHECK(row.type == "Add");
  CHECK(row.us == 10.5);
  CHECK(row.block_dim == 48);
  REQUIRE(row.inputs.size() == 2);
  CHECK(row.inputs[0].dims == std::vector<int64_t>{1024, 512});
  CHECK(row.inputs[1].dims == std::vector<int64_t>{512});
  CHECK((row.inputs[1].dtype == f16));
  CHECK(row.inputs[1].format == "ND");
  CHECK(row.inputs[0].elements() == 1024 * 512);
  CHECK(row.device.empty());
}

TEST_CASE("npu measured: columns of kernel_details and rows that repeat") {
  const std::string text =
      "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block "
      "Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output "
      "Formats\n"
      "1,a,Cast,AI_VECTOR_CORE,1,4.0,0,8,\"64\",DT_BF16,ND,\"64\",FLOAT,ND\n"
      "1,b,Cast,AI_VECTOR_CORE,9,8.0,0,8,\"64\",DT_BF16,ND,\"64\",FLOAT,ND\n"
      "1,c,Cast,AI_VECTOR_CORE,20,5.0,0,8,\"64\",DT_BF16,ND,\"64\",FLOAT,ND\n"
      "1,d,Cast,AI_VECTOR_CORE,30,5.0,0,4,\"64\",DT_BF16,ND,\"64\",FLOAT,ND\n";
  const MeasuredTable table = parse_measured(text, "t.csv");
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].count == 3);
  CHECK(table.rows[0].us == 5.0);  // the median of 4, 5 and 8
  CHECK(table.rows[1].block_dim == 4);
  CHECK((table.rows[0].inputs[0].dtype == bf16));
}

TEST_CASE("npu measured: an empty shape is a scalar and dtypes say how many there are") {
  const MeasuredTable table = parse_measured(
      kMeasuredHeader +
          "Sqrt,1,1.5,,f32,ND,,f32\nAdd,1,1.5,;,i32;i32,ND;ND,,i32\nQ,,2,4,INT8,ND,,\n",
      "t.csv");
  REQUIRE(table.rows.size() == 3);
  REQUIRE(table.rows[0].inputs.size() == 1);
  CHECK(table.rows[0].inputs[0].dims.empty());
  CHECK(table.rows[0].inputs[0].elements() == 1);
  CHECK(table.rows[1].inputs.size() == 2);
  CHECK(!table.rows[2].block_dim);
  CHECK(!table.rows[2].inputs[0].dtype);
  CHECK(table.rows[2].inputs[0].dtype_text == "INT8");
}

TEST_CASE("npu measured: what no table can be is an error with file row and column") {
  struct Case {
    std::string rows, part;
  };
  const std::vector<Case> cases = {
      {"Add,1,-2,4,f32,ND,4,f32\n", "column \"Task Duration(us)\""},
      {"Add,1,nan,4,f32,ND,4,f32\n", "a duration"},
      {"Add,1,1e13,4,f32,ND,4,f32\n", "a duration"},
      {"Add,1,5e-324,4,f32,ND,4,f32\n", "column \"Task Duration(us)\""},
      {"Add,1,9e-4,4,f32,ND,4,f32\n", "0.001 to 1e12 us"},
      {"Add,1,1,\"0,1099511627776,1099511627776\",f32,ND,4,f32\n", "at most 2^40 elements"},
      {"Add,1,1,\"1099511627776,1099511627776,0\",f32,ND,4,f32\n", "at most 2^40 elements"},
      {"Add,x,1,4,f32,ND,4,f32\n", "column \"Block Dim\""},
      {"Add,70000,1,4,f32,ND,4,f32\n", "column \"Block Dim\""},
      {"Add,1,1,\"4,x\",f32,ND,4,f32\n", "column \"Input Shapes\""},
      {"Add,1,1,-4,f32,ND,4,f32\n", "column \"Input Shapes\""},
      {"Add,1,1,\"1099511627776,1099511627776\",f32,ND,4,f32\n", "at most 2^40 elements"},
      {",1,1,4,f32,ND,4,f32\n", "an OP type"},
      {"Add,1,1,4,f32,ND,4\n", "fields"},
      {"Add,1,1,\"4,f32,ND,4,f32\n", "closing quote"}};
  for (const Case& c : cases) {
    CAPTURE(c.rows);
    const std::string error = error_in(c.rows);
    CHECK(contains(error, "t.csv"));
    CHECK(contains(error, "row 2"));
    CHECK(contains(error, c.part));
  }
  CHECK(contains(error_of([] { parse_measured("", "t.csv"); }), "empty file"));
  CHECK(contains(error_of([] { parse_measured("a,b\n1,2\n", "t.csv"); }), "\"OP Type\""));
  std::string many = "Add,1,1,", dims = "1";
  for (int i = 0; i < 100; ++i) dims += ",1";
  CHECK(contains(error_in(many + "\"" + dims + "\",f32,ND,4,f32\n"), "64 dimensions"));
  std::string shapes;
  for (int i = 0; i < 2000; ++i) shapes += ";";
  CHECK(contains(error_in(many + shapes + ",f32,ND,4,f32\n"), "256 operands"));
  CHECK(contains(error_of([] { read_measured("/no/such/file.csv"); }), "/no/such/file.csv"));
}

TEST_CASE("npu measured: dtypes without a column of shapes are counted as well") {
  std::string dtypes = "f32";
  for (int i = 0; i < 1024; ++i) dtypes += ";f32";
  const std::string error = error_of([&] {
    parse_measured(
        "OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Data Types\nAdd,1,4,f32," +
            dtypes + "\n",
        "t.csv");
  });
  CHECK(contains(error, "row 2, column \"Output Data Types\""));
  CHECK(contains(error, "256 operands"));
}

TEST_CASE("npu measured: the operands of all rows fit into the read budget") {
  std::string rows;
  for (int i = 0; i < 2000; ++i) {
    rows += "Add,,1," + std::string(200, ';') + ",,,";
    rows += std::to_string(i) + ",f32\n";
  }
  const uint64_t before = read_budget();
  set_read_budget(uint64_t{4} << 20);
  const std::string error = error_in(rows);
  set_read_budget(before);
  CHECK(contains(error, "t.csv"));
  CHECK(contains(error, "more than 4 MiB"));
  CHECK(parse_measured(kMeasuredHeader + rows, "t.csv").rows.size() == 2000);
}

TEST_CASE("npu measured: equal rows are one among those that are chosen alone") {
  const std::string header =
      "Device,OP Type,Task Duration(us),Input Shapes,Input Data Types,Output Shapes,Output Data "
      "Types\n";
  const std::string text = header +
                           "a,Add,1,4;4,f32;f32,4,f32\na,Add,3,4;4,f32;f32,4,f32\n"
                           "b,Add,5,4;4,f32;f32,4,f32\na,Add,8,4;4,f32;f32,4,f32\n";
  const MeasuredTable all = parse_measured(text, "t.csv");
  REQUIRE(all.rows.size() == 2);
  CHECK(all.rows[0].us == 3);
  CHECK(all.last_line == 5);
  const MeasuredTable early = parse_measured(text, "t.csv", {.device = {}, .lines = {2, 3}});
  REQUIRE(early.rows.size() == 1);
  CHECK(early.rows[0].us == 2);
  CHECK(early.devices == std::set<std::string>{"a", "b"});
  CHECK(early.last_line == 5);
  const MeasuredTable late =
      parse_measured(text, "t.csv", {.device = "a", .lines = {3, 5}, .apart = {}});
  REQUIRE(late.rows.size() == 1);
  CHECK(late.rows[0].us == 5.5);
  const MeasuredTable apart =
      parse_measured(text, "t.csv", {.device = "a", .lines = {}, .apart = TableLines{2, 3}});
  REQUIRE(apart.rows.size() == 2);
  CHECK(apart.rows[0].us == 2);
  CHECK(apart.rows[1].us == 8);
  CHECK(apart.rows[1].line == 5);
}

TEST_CASE("npu measured: names of dtypes go both ways") {
  for (const DType dtype : kDTypes) {
    CHECK((dtype_of_real_name(real_name_of(dtype)) == dtype));
    CHECK((dtype_of_real_name(name_of(dtype)) == dtype));
  }
  CHECK((dtype_of_real_name("DT_FLOAT16") == f16));
  CHECK(!dtype_of_real_name("INT8"));
  CHECK(!dtype_of_real_name(""));
}

TEST_SUITE_END();
