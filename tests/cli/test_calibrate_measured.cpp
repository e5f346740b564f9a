#include <filesystem>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

// A folder with a small table, gone at the end.
class Table {
 public:
  explicit Table(const std::string& rows) {
    folder_.write("op_summary_0.csv",
                  "Device,Op Name,OP Type,Block Dim,Task Duration(us),Input Shapes,Input Data "
                  "Types,Input Formats,Output Shapes,Output Data Types,Output Formats\n" +
                      rows);
  }
  std::string path(const std::string& name) const { return folder_.file(name); }

 private:
  TempFolder folder_;
};

const std::string kMeasuredRows =
    "910-30c,a,Add,30,10.5,\"\"\"1024,512;1024,512\"\"\",FLOAT;FLOAT,ND;ND,\"1024,512\",FLOAT,ND\n"
    "910-30c,b,MatMul,30,50.0,\"1024,1024;1024,1024\",FLOAT16;FLOAT16,ND;ND,\"1024,1024\",FLOAT16,"
    "ND\n"
    "910-30c,c,Mystery,30,50.0,\"4\",FLOAT16,ND,\"4\",FLOAT16,ND\n"
    "910-30c,d,Cast,1,N/A,\"4\",FLOAT16,ND,\"4\",FLOAT,ND\n";

}  // namespace

TEST_CASE("calibrate: a table of measurements is compared by class as text JSON and a page") {
  const Table table(kMeasuredRows);
  const ToolResult result =
      run_tool({"calibrate", "--measured", table.path("op_summary_0.csv"), "--json",
                table.path("out.json"), "--html", table.path("out.html")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  for (const char* part : {"3 rows, 2 of them mapped", "ascend910-30c", "products", "element-wise",
                           "Mystery", "1 rows without a duration"}) {
    CAPTURE(part);
    CHECK(contains(result.out, part));
  }
  const auto json = read_json(table.path("out.json"));
  CHECK(json.at("mapped") == 2);
  CHECK(json.at("unmapped").at("Mystery").at("rows") == 1);
  REQUIRE(json.at("rows").size() == 2);
  CHECK(json.at("rows")[0].at("class") == "element-wise");
  CHECK(json.at("rows")[0].at("measured_us") == 10.5);
  CHECK(json.at("rows")[0].at("measured_blocks") == 30);
  CHECK(json.at("rows")[0].at("modelled_us") > 0);
  CHECK(json.at("rows")[0].at("cold_us") >= json.at("rows")[0].at("modelled_us"));
  CHECK(json.at("classes").back().at("rows") == 2);
  CHECK(json.at("sums").at("910-30c").at("one_sided") == 0);
  const std::string page = read_text(table.path("out.html"));
  for (const char* part : {"<svg", "measured us", "Mystery", "MatMul 1024,1024"}) {
    CAPTURE(part);
    CHECK(contains(page, part));
  }
}

TEST_CASE("calibrate: the share of two-sided rows stands beside all and nothing has no quartiles") {
  // An addition of 16 KB that takes a second is a bad kernel: what it says is one-sided.
  const Table table(
      "910-30c,a,Add,1,1000000,\"4096;4096\",FLOAT;FLOAT,ND;ND,4096,FLOAT,ND\n"
      "910-30c,b,Cast,1,1000000,\"64\",FLOAT,ND,64,FLOAT16,ND\n"
      "\x1b[31m,c,Cast,1,1000000,\"64\",FLOAT,ND,64,FLOAT16,ND\n");
  const ToolResult result =
      run_tool({"calibrate", "--measured", table.path("op_summary_0.csv"), "--preset",
                "ascend910-30c", "--html", table.path("out.html")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(contains(result.out, "two-sided met"));
  CHECK(contains(result.out, "100.0 %             -    0.0 %"));
  CHECK_FALSE(contains(result.out, "0.00     0.00"));
  CHECK_FALSE(contains(result.out, "\x1b"));
  CHECK(contains(read_text(table.path("out.html")), "two-sided met"));
}

TEST_CASE("calibrate: ops of nets are added up by class and a net without rows is said to be one") {
  const Table table(
      "910-30c,a,Add,1,3,\"64;64\",FLOAT;FLOAT,ND;ND,64,FLOAT,ND\n"
      "910-30c,b,Add,1,1000000,\"4096;4096\",FLOAT;FLOAT,ND;ND,4096,FLOAT,ND\n"
      "910-30c,c,Mystery,30,500000,\"4\",FLOAT16,ND,\"4\",FLOAT16,ND\n"
      "910-30c,d,Mystery,30,50,\"4\",FLOAT16,ND,\"4\",FLOAT16,ND\n");
  const std::string path = table.path("op_summary_0.csv");
  const ToolResult result =
      run_tool({"calibrate", "--measured", path, "--net", "BERT=2-4", "--net", "other=5-5", "--net",
                "ResNet-50", "--json", table.path("out.json"), "--html", table.path("out.html")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const std::string page = read_text(table.path("out.html"));
  for (const char* part : {"910-30c, BERT", "910-30c, BERT: element-wise", "1 of 1000000.0 us",
                           "1 not mapped, 500000.0 us, 33.3 % of the time",
                           "910-30c, BERT: Mystery", "no rows in the table", "none is mapped"}) {
    CAPTURE(part);
    CHECK(contains(result.out, part));
    CHECK(contains(page, part));
  }
  CHECK(contains(result.out, "missing in 910-30c, BERT"));
  const auto sums = read_json(table.path("out.json")).at("sums");
  CHECK(sums.at("ResNet-50").at("rows") == 0);
  CHECK(sums.at("ResNet-50").at("coverage") == "no rows in the table");
  const auto bert = sums.at("910-30c, BERT");
  CHECK(bert.at("classes").at("element-wise").at("measured_us") == 1000003);
  CHECK(bert.at("classes").at("element-wise").at("one_sided_measured_us") == 1000000);
  CHECK(bert.at("unmapped_types").at("Mystery").at("measured_us") == 500000);
  CHECK(bert.at("missing_lines")[0] == 3);
  for (const Words& nets : {Words{"BERT=2-4", "BERT=5-5"}, Words{"BERT=2-4", "other=4-5"},
                            Words{"=2-3"}, Words{"BERT=7-9"}, Words{"BERT=3"}}) {
    Words words = {"calibrate", "--measured", path};
    for (const std::string& net : nets) words.insert(words.end(), {"--net", net});
    CAPTURE(join(words));
    const ToolResult refused = run_tool(words);
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "--net"));
  }
}

TEST_CASE("calibrate: lines of a net do not take the name of a net that the table has elsewhere") {
  TempFolder folder;
  std::string rows;
  for (const char* net : {"warm-up", "BERT", "BERT", "N/A"})
    rows += std::string(net) + ",Add,1,3,\"64;64\",FLOAT;FLOAT,ND;ND\n";
  folder.write("table.csv",
               "Model Name,OP Type,Block Dim,Task Duration(us),Input Shapes,Input Data Types,Input "
               "Formats\n" +
                   rows);
  const auto with_net = [&](const std::string& net) {
    return run_tool({"calibrate", "--measured", folder.file("table.csv"), "--net", net});
  };
  for (const char* net : {"BERT=2-2", "BERT=2-3", "BERT=5-5"}) {
    CAPTURE(net);
    const ToolResult refused = with_net(net);
    CHECK(refused.exit_code == 2);
    for (const char* part : {"column \"Model Name\"", "another net than BERT", "without lines"}) {
      CAPTURE(part);
      CHECK(contains(refused.err, part));
    }
  }
  CHECK(contains(with_net("BERT=5-5").err, "row 3"));
  for (const char* net : {"BERT=3-4", "BERT=2-5", "BERT", "other=2-3"}) {
    CAPTURE(net);
    CHECK(with_net(net).exit_code == 0);
  }
}

TEST_CASE("calibrate: --preset prices all rows and --device takes some") {
  const Table table(kMeasuredRows + "x9,e,Add,1,2,\"4;4\",FLOAT;FLOAT,ND;ND,4,FLOAT,ND\n");
  const std::string path = table.path("op_summary_0.csv");
  const ToolResult unknown = run_tool({"calibrate", "--measured", path});
  CHECK(unknown.exit_code == 1);
  CHECK(contains(unknown.err, "x9"));
  CHECK(contains(unknown.err, "--preset"));
  const ToolResult all = run_tool({"calibrate", "--measured", path, "--preset", "ascend910b2"});
  CHECK(all.exit_code == 0);
  CHECK(contains(all.out, "presets: ascend910b2"));
  const ToolResult some = run_tool({"calibrate", "--measured", path, "--device", "910-30c"});
  CHECK(some.exit_code == 0);
  CHECK(contains(some.out, "3 rows, 2 of them"));
}

TEST_CASE("calibrate: a fit writes a preset that the next comparison takes") {
  std::string rows;
  for (int i = 1; i <= 40; ++i) {
    const std::string n = std::to_string(512 * i);
    rows += "910-30c,a,Add,30," + std::to_string(2 + 0.05 * i) + ",\"" + n + ";" + n +
            "\",FLOAT;FLOAT,ND;ND," + n + ",FLOAT,ND\n";
  }
  const Table table(rows);
  const std::string path = table.path("op_summary_0.csv"), fit = table.path("fit.json");
  const ToolResult fitted = run_tool({"calibrate", "--measured", path, "--fit", fit});
  REQUIRE_MESSAGE(fitted.exit_code == 0, fitted.err);
  for (const char* part : {"held out", "kernel_prologue_ns", "rows that it rests on"}) {
    CAPTURE(part);
    CHECK(contains(fitted.out, part));
  }
  CHECK(contains(read_text(fit), "op_summary_0.csv"));
  const ToolResult halves = run_tool(
      {"calibrate", "--measured", path, "--lines", "2-41", "--cross-validate", "odd-even"});
  CHECK_MESSAGE(halves.exit_code == 1, halves.out);
  CHECK(contains(halves.err, "at least 20 rows"));
  const ToolResult used = run_tool({"calibrate", "--measured", path, "--preset", fit});
  CHECK_MESSAGE(used.exit_code == 0, used.err);
  CHECK(contains(used.out, "presets: fit"));
}

TEST_CASE("calibrate: a cross-validation names what is overfitted as text and JSON") {
  // Kernels of the second half start ten times as slowly.
  std::string rows;
  for (int i = 0; i < 80; ++i) {
    const std::string n = std::to_string(64 + 8 * i);
    rows += "910-30c,a,Add,1," + std::to_string(i < 40 ? 2 : 20) + ",\"" + n + ";" + n +
            "\",FLOAT;FLOAT,ND;ND," + n + ",FLOAT,ND\n";
  }
  const Table table(rows);
  const std::string path = table.path("op_summary_0.csv"), out = table.path("out.json");
  const ToolResult halves =
      run_tool({"calibrate", "--measured", path, "--cross-validate", "2-41", "--json", out});
  REQUIRE_MESSAGE(halves.exit_code == 0, halves.err);
  CHECK(contains(halves.out, "overfitted: kernel_prologue_ns, which rests on "));
  const auto validations = read_json(out).at("cross_validations");
  REQUIRE(validations.size() == 2);
  for (const auto& v : validations) {
    CHECK(v.at("loss") > read_json(out).at("most_loss"));
    CHECK(v.at("overfitted") == "kernel_prologue_ns");
    CHECK(v.at("parameters")[0].at("rests_on_rows") >= 0);
  }
  const ToolResult same = run_tool(
      {"calibrate", "--measured", path, "--lines", "2-81", "--cross-validate", "odd-even"});
  REQUIRE_MESSAGE(same.exit_code == 0, same.err);
  CHECK_FALSE(contains(same.out, "overfitted"));
}

// It was called overfitted, resting on 0 rows.
TEST_CASE("calibrate: a parameter that no rows of the part that predicts tell is said to be one") {
  // Products in the first half, and sums that start slowly in the second.
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    const std::string m = std::to_string(256 + 16 * i);
    rows += "910-30c,a,MatMul,30," + std::to_string(20 + i) + ",\"" + m +
            ",1024;1024,1024\",FLOAT16;FLOAT16,ND;ND,\"" + m + ",1024\",FLOAT16,ND\n";
  }
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(64 + 8 * i);
    rows += "910-30c,a,Add,1,20,\"" + n + ";" + n + "\",FLOAT;FLOAT,ND;ND," + n + ",FLOAT,ND\n";
  }
  const Table table(rows);
  const ToolResult halves = run_tool(
      {"calibrate", "--measured", table.path("op_summary_0.csv"), "--cross-validate", "2-41"});
  REQUIRE_MESSAGE(halves.exit_code == 0, halves.err);
  CHECK_FALSE(contains(halves.out, "rests on 0 of"));
  CHECK_MESSAGE(contains(halves.out,
                         "no rows of the part that predicts tell kernel_prologue_ns, which moved"),
                halves.out);
}

TEST_CASE("calibrate: a page has printable names and a look of its own for each class") {
  const std::string rest = ",30,50.0,\"4\",FLOAT16,ND,\"4\",FLOAT16,ND\n";
  const Table table(kMeasuredRows + "910-30c,e,Odd\x1b[31m" + rest + "9\xff" + "10,f,Odd" + rest +
                    "910-30c,g,Conv2D,30,50,\"4,2,8,8,16;18,3,16,16\",FLOAT16;FLOAT16,NC1HWC0;"
                    "NC1HWC0,\"4,3,8,8,16\",FLOAT16,NC1HWC0\n\n");
  const ToolResult result =
      run_tool({"calibrate", "--measured", table.path("op_summary_0.csv"), "--preset",
                "ascend910-30c", "--html", table.path("out.html")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const std::string page = read_text(table.path("out.html"));
  CHECK_FALSE(contains(page, "\x1b"));
  CHECK_FALSE(contains(page, "\xff"));
  CHECK(contains(page, "Odd\\x1b[31m"));
  // There are nine classes and eight colours: the first and the last class differ by their shapes.
  for (const char* part : {">products<", ">convolutions<"}) CHECK(contains(page, part));
  std::set<std::string> keys;
  int count = 0;
  for (const std::string& line : lines_of(page)) {
    if (!contains(line, "class=\"key ")) continue;
    ++count;
    const size_t colour = line.find("class=\"key ");
    // The element; of paths what tells a diamond from a triangle; and the colour.
    keys.insert(line.substr(0, line.find(' ')) + (contains(line, "l6 6") ? "" : "z") +
                line.substr(colour, 13));
  }
  CHECK(count >= 3);
  CHECK(keys.size() == static_cast<size_t>(count));
}

TEST_CASE("calibrate: wrong flags and wrong tables are refused and nothing is written") {
  const Table table("910-30c,a,Add,30,oops,\"4;4\",FLOAT;FLOAT,ND;ND,4,FLOAT,ND\n");
  const std::string path = table.path("op_summary_0.csv"), out = table.path("out.json");
  const ToolResult wrong = run_tool({"calibrate", "--measured", path, "--json", out});
  CHECK(wrong.exit_code == 1);
  CHECK(contains(wrong.err, "row 2"));
  CHECK(contains(wrong.err, "Task Duration(us)"));
  CHECK_FALSE(std::filesystem::exists(out));
  struct Row {
    Words words;
    const char* part;
  };
  const Row rows[] = {
      {{"calibrate", "--json", out}, "--measured"},
      {{"calibrate", "--preset", "ascend910"}, "--measured"},
      {{"calibrate", "--measured", path, "--preset", "ascend911"}, "ascend910b1"},
      {{"calibrate", "--measured", path, "--json", path}, "--json"},
      {{"calibrate", "--measured", path, "--lines", "7"}, "--lines"},
      {{"calibrate", "--measured", path, "--lines", "a-b"}, "--lines"},
      {{"calibrate", "--measured", path, "--lines", "100-2"}, "--lines"},
      {{"calibrate", "--measured", path, "--cross-validate", "100-2"}, "--cross-validate"},
      {{"calibrate", "--measured", path, "--cross-validate", "half"},
       "--cross-validate: expected lines of the table, as 2-100, or odd-even, got half"},
      {{"calibrate", "--measured", path, "--fit", out, "--json", out + "2"}, "--json"},
      {{"calibrate", "--measured", path, "--fit", out, "--cross-validate", "odd-even"},
       "--cross-validate"},
      {{"calibrate", "--measured", path, "--net", "a=2-2", "--cross-validate", "odd-even"},
       "--net"},
      {{"calibrate", "--lines", "2-3"}, "--measured"},
      {{"calibrate", "--measured", path, "--json", out, "--html", out}, "--html"},
  };
  for (const Row& row : rows) {
    CAPTURE(join(row.words));
    const ToolResult result = run_tool(row.words);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, row.part));
  }
  const Table two(
      "910-30c,a,Add,1,2,\"4;4\",FLOAT;FLOAT,ND;ND,4,FLOAT,ND\n"
      "310,a,Add,1,2,\"4;4\",FLOAT;FLOAT,ND;ND,4,FLOAT,ND\n");
  const ToolResult devices = run_tool(
      {"calibrate", "--measured", two.path("op_summary_0.csv"), "--fit", two.path("fit.json")});
  CHECK(devices.exit_code == 2);
  CHECK_MESSAGE(contains(devices.err, "--fit: expected rows of one device"), devices.err);
  CHECK(contains(devices.err, "--device"));
  const ToolResult parts = run_tool(
      {"calibrate", "--measured", two.path("op_summary_0.csv"), "--cross-validate", "odd-even"});
  CHECK(parts.exit_code == 2);
  CHECK_MESSAGE(contains(parts.err, "--cross-validate: expected rows of one device"), parts.err);
  CHECK(run_tool({"calibrate", "--measured", "/no/such.csv"}).exit_code == 1);
  for (const char* flag : {"--lines", "--cross-validate"}) {
    CAPTURE(flag);
    for (const char* lines : {"4-9", "1-1"}) {
      const ToolResult none = run_tool({"calibrate", "--measured", two.path("op_summary_0.csv"),
                                        "--device", "310", flag, lines});
      CHECK(none.exit_code == 2);
      CHECK(contains(none.err, "lines 2 to 3"));
    }
  }
}

// It ended with exit code 0, and a list of presets that was empty.
TEST_CASE("calibrate: a table without a row that is mapped is an error that lists OP types") {
  const std::string rest = ",30,50.0,\"4\",FLOAT16,ND,\"4\",FLOAT16,ND\n";
  const Table table("910-30c,a,Mystery" + rest + "910-30c,b,Riddle" + rest);
  const ToolResult result = run_tool({"calibrate", "--measured", table.path("op_summary_0.csv"),
                                      "--json", table.path("out.json")});
  CHECK(result.exit_code == 1);
  CHECK(result.out == "");
  for (const char* part : {"op_summary_0.csv", "OP types that are mapped: Add, Sub, Mul", "MatMul",
                           "got none but of Mystery, Riddle"}) {
    CHECK_MESSAGE(contains(result.err, part), result.err);
  }
  CHECK_FALSE(std::filesystem::exists(table.path("out.json")));
  const Table unmeasured("910-30c,d,Cast,1,N/A,\"4\",FLOAT16,ND,\"4\",FLOAT,ND\n");
  const ToolResult none =
      run_tool({"calibrate", "--measured", unmeasured.path("op_summary_0.csv")});
  CHECK(none.exit_code == 1);
  CHECK_MESSAGE(contains(none.err, "got none with a duration"), none.err);
}

TEST_CASE("calibrate: a device has several names") {
  for (const char* const device : {"910b1", "Ascend910B1", "ascend910b1"}) {
    const std::string name = device;
    CAPTURE(name);
    const Table table(name +
                      ",a,Add,30,10.5,\"\"\"1024,512;1024,512\"\"\",FLOAT;FLOAT,ND;ND,\"1024,"
                      "512\",FLOAT,ND\n");
    const ToolResult result = run_tool({"calibrate", "--measured", table.path("op_summary_0.csv")});
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    CHECK(contains(result.out, "ascend910b1"));
  }
  const Table other("920x,a,Add,30,10.5,\"4;4\",FLOAT;FLOAT,ND;ND,\"4\",FLOAT,ND\n");
  const ToolResult refused = run_tool({"calibrate", "--measured", other.path("op_summary_0.csv")});
  CHECK(refused.exit_code == 1);
  CHECK(contains(refused.err, "ascend910b1"));
}

TEST_CASE("calibrate: equal rows are one and their sum is that of the file") {
  const std::string end = ",\"1024,512;1024,512\",FLOAT;FLOAT,ND;ND,\"1024,512\",FLOAT,ND\n";
  const Table table("910-30c,a,Add,30,2" + end + "910-30c,b,Add,30,2" + end +
                    "910-30c,c,Add,30,1000" + end);
  const ToolResult result =
      run_tool({"calibrate", "--measured", table.path("op_summary_0.csv"), "--json",
                table.path("out.json"), "--html", table.path("out.html")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  for (const std::string& text : {result.out, read_text(table.path("out.html"))})
    CHECK_MESSAGE(contains(text, "3 rows, 1 where equal ones are one"), text);
  const auto json = read_json(table.path("out.json"));
  CHECK(json.at("file_rows") == 3);
  CHECK(json.at("table_rows") == 1);
  CHECK(json.at("rows")[0].at("count") == 3);
  CHECK(json.at("rows")[0].at("measured_us") == 2);
  CHECK(json.at("sums").at("910-30c").at("rows") == 3);
  CHECK(json.at("sums").at("910-30c").at("measured_us") == 1004);
}

// Types were listed, with Add among them, and the answer was "none but of Add".
TEST_CASE("calibrate: the reason of a table without a mapped row is that of its rows") {
  const Table table("910-30c,a,Add,30,2,4;4,float32;float32,ND;ND,4,float32,ND\n");
  const ToolResult result = run_tool({"calibrate", "--measured", table.path("op_summary_0.csv")});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(contains(result.err, "none but of Add (no dtype like float32)"), result.err);
  CHECK_FALSE_MESSAGE(contains(result.err, "MatMul"), result.err);
}

TEST_SUITE_END();
