#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "keel/backends/npu/npu_program.h"
#include "keel/backends/npu/options.h"
#include "keel/backends/npu/profile/profile.h"
#include "keel/backends/registry.h"
#include "keel/core/base/csv.h"
#include "keel/core/base/file.h"
#include "keel/core/base/json.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "npu_model_for_tests.h"
#include "npu_profile_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::npu;
using namespace npu_model_test;
using namespace npu_profile_test;

// The header lines of the real tool's tables.
const std::string kHeader910 =
    "Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time,Task Duration(us),Task "
    "Wait Time(us),Block Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data "
    "Types,Output Formats,aicore_time(us),total_cycles,vec_time(us),vec_ratio,mac_time(us),"
    "mac_ratio,scalar_time(us),scalar_ratio,mte1_time(us),mte1_ratio,mte2_time(us),mte2_ratio,"
    "mte3_time(us),mte3_ratio,icache_miss_rate,memory_bound";
const std::string kHeader910B =
    "Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time,Task "
    "Duration(us),Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data "
    "Types,Input Formats,Output Shapes,Output Data Types,Output Formats,Context ID,aicore_time(us),"
    "aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aic_scalar_time(us),aic_scalar_ratio,"
    "aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_fixpipe_time(us),"
    "aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),"
    "aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,"
    "aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)";

}  // namespace

TEST_CASE("npu profile: op_summary has the real columns and ratios and durations that add up") {
  for (const char* preset : {"ascend910", "ascend910b1"}) {
    CAPTURE(preset);
    const Training training("npu", true, options(preset));
    const Folder folder("profile");
    write_profile(training.loop->program(),
                  {.directory = folder.path(), .first_step = 2, .last_step = 4});
    const std::string text = folder.read("op_summary.csv");
    CHECK(text.substr(0, text.find('\n')) ==
          (std::string(preset) == "ascend910" ? kHeader910 : kHeader910B) + ",Members");
    const Table table(text);
    CHECK(table.rows.size() > 20);
    double total = 0, end = 0;
    const double begin = table.number(1, "Task Start Time");
    for (size_t row = 1; row < table.rows.size(); ++row) {
      for (size_t c = 0; c < table.rows[0].size(); ++c) {
        if (!table.rows[0][c].ends_with("_ratio")) continue;
        const double ratio = std::atof(table.rows[row][c].c_str());
        CHECK(ratio >= 0);
        CHECK(ratio <= 1);
      }
      // Tasks of an in-order stream do not overlap.
      CHECK(table.number(row, "Task Start Time") >= end - 1e-9);
      CHECK(table.number(row, "Task Wait Time(us)") >= 0);
      CHECK(table.number(row, "Block Dim") >= 1);
      end = table.number(row, "Task Start Time") + table.number(row, "Task Duration(us)");
      total += table.number(row, "Task Duration(us)");
    }
    CHECK(total <= end - begin + 1e-6);
  }
}

TEST_CASE("npu profile: a fused product runs on both kinds of core where they are split") {
  for (const char* preset : {"ascend910", "ascend910b1"}) {
    CAPTURE(preset);
    const bool split = preset == std::string("ascend910b1");
    const Training training("npu", true, options(preset));
    const Folder folder("profile_mix");
    write_profile(training.loop->program(),
                  {.directory = folder.path(), .first_step = 1, .last_step = 1});
    const Table table(folder.read("op_summary.csv"));
    size_t fused = 0, mixed = 0;
    for (size_t row = 1; row < table.rows.size(); ++row) {
      const CsvRow& cells = table.rows[row];
      const std::string type = cells[table.column("OP Type")];
      const std::string members = cells[table.column("Members")];
      CHECK(type != "fused");
      CHECK(type != "elementwise");
      CHECK(members.find(type) != std::string::npos);
      mixed += cells[table.column("Task Type")] == "MIX_AIC" ? 1 : 0;
      if (members != "hidden/matmul;hidden/add;relu" &&
          members != "cast;div;hidden/matmul;hidden/add;relu")
        continue;
      ++fused;
      CHECK(type == "matmul");
      if (!split) {
        CHECK(cells[table.column("Task Type")] == "AI_CORE");
        CHECK(table.number(row, "vec_time(us)") > 0);
        CHECK(table.number(row, "mac_time(us)") > 0);
        continue;
      }
      CHECK(cells[table.column("Task Type")] == "MIX_AIC");
      // Two vector cores for each cube core.
      CHECK(table.number(row, "Mix Block Dim") == 2 * table.number(row, "Block Dim"));
      CHECK(table.number(row, "aicore_time(us)") == table.number(row, "aiv_time(us)"));
      for (const char* column :
           {"aic_mac_time(us)", "aic_mte1_time(us)", "aic_mte2_time(us)", "aic_fixpipe_time(us)",
            "aiv_vec_time(us)", "aiv_mte2_time(us)", "aiv_mte3_time(us)"}) {
        CAPTURE(column);
        CHECK(table.number(row, column) > 0);
      }
    }
    CHECK(fused == 1);
    CHECK((mixed > 0) == split);
    // The statistics go by the same names.
    const Table statistic(folder.read("op_statistic.csv"));
    bool found = false;
    for (size_t row = 1; row < statistic.rows.size(); ++row) {
      const CsvRow& cells = statistic.rows[row];
      found = found || (cells[statistic.column("OP Type")] == "matmul" &&
                        cells[statistic.column("Core Type")] == (split ? "MIX_AIC" : "AI_CORE"));
    }
    CHECK(found);
    // Its vector work is drawn where it runs.
    const Json json = parse_json(folder.read("timeline.json"), "timeline.json");
    std::map<int, std::string> lanes;
    for (const Json& event : json["traceEvents"]) {
      if (event["name"] == "thread_name" && event["pid"] == 2)
        lanes[event["tid"].get<int>()] = event["args"]["name"].get<std::string>();
    }
    bool drawn = false;
    for (const Json& event : json["traceEvents"]) {
      if (event["ph"] != "X" || event["pid"] != 2) continue;
      const bool product = contains(event["name"].get<std::string>(), "hidden/matmul + add + relu");
      drawn = drawn || (product && lanes[event["tid"].get<int>()] == "vector core 1 VECTOR");
    }
    CHECK(drawn == split);
    CHECK(contains(profile_table(folder.path()), split ? "MIX_AIC" : "AI_CORE"));
  }
}

TEST_CASE("npu profile: lists of tasks tell of the vector cores beside the cube's") {
  const Training split("npu", true, options("ascend910b1"));
  CHECK(contains(split.loop->program().describe(), "vector cores beside the cube's]"));
  const Training whole("npu", true, options("ascend910"));
  CHECK_FALSE(contains(whole.loop->program().describe(), "beside the cube's"));
}

TEST_CASE("npu profile: Data Aug Bound is the wait for data and not the launch") {
  // A batch takes longer to copy than the step computes.
  Graph graph;
  const Value image = graph.input("image", u8, {20000, 784});
  const Value total = graph.state("total", zeros({}, f32));
  Session session(graph, device("npu:0"), {.device_options = options("ascend910b1")});
  auto queue =
      std::make_shared<DeviceQueue>(session.device(), ElementSpec{{{"image", {u8, {20000, 784}}}}});
  const Loop loop = session.sink(
      {.update = Update{{{total, mean(cast(image, f32))}}}, .fetches = {}, .source = queue});
  const Folder folder("profile_wait");
  write_profile(
      loop.program(),
      {.directory = folder.path(), .first_step = 1, .last_step = 9, .steps_per_launch = 4});
  const Table table(folder.read("step_trace.csv"));
  REQUIRE(table.rows.size() == 10);
  // 10 us and 24 GB/s of the link, back to back; the launches of steps 5 and 9 hide behind it.
  const double copy = 10 + 20000 * 784 / 24e3;
  for (size_t row = 2; row < table.rows.size(); ++row) {
    CAPTURE(row);
    const double launch = row % 4 == 1 ? 25 : 0;
    CHECK(table.number(row, "Launch(us)") == launch);
    CHECK(table.number(row, "Data Aug Bound(us)") ==
          doctest::Approx(copy - table.number(row, "Iteration Time(us)") - launch).epsilon(1e-4));
    CHECK(table.number(row, "Data Aug Bound(us)") > 100);
    CHECK(table.number(row, "FP Start(us)") - table.number(row - 1, "Iteration End(us)") ==
          doctest::Approx(table.number(row, "Data Aug Bound(us)") + launch).epsilon(1e-4));
  }
}

TEST_CASE("npu profile: steps have the modelled times that reports have") {
  const Training training("npu", true, options("ascend910b1"));
  const Folder folder("profile_steps");
  write_profile(
      training.loop->program(),
      {.directory = folder.path(), .first_step = 1, .last_step = 9, .steps_per_launch = 4});
  const Table table(folder.read("step_trace.csv"));
  REQUIRE(table.rows.size() == 10);
  const auto step_ns = training.loop->program().info().step_device_ns;
  REQUIRE(step_ns.has_value());
  for (size_t row = 1; row < table.rows.size(); ++row) {
    CHECK(table.number(row, "Iteration Time(us)") ==
          doctest::Approx(static_cast<double>(*step_ns) * 1e-3));
    CHECK(table.number(row, "FP to BP Time(us)") + table.number(row, "Iteration Refresh(us)") ==
          doctest::Approx(table.number(row, "Iteration Time(us)")));
    // A launch every four steps; the copy of the first batch hides behind the first one.
    const bool launch = row % 4 == 1;
    CHECK(table.number(row, "Launch(us)") == doctest::Approx(launch ? 25.0 : 0.0));
    CHECK(table.number(row, "Data Aug Bound(us)") == 0);
  }
  CHECK(table.number(1, "Iteration Refresh(us)") > 0);
}

TEST_CASE("npu profile: the timeline is JSON that names its clocks and keeps within its size") {
  const Training training("npu", true, options("ascend910b1"));
  const Folder folder("profile_timeline");
  ProfileOptions options{.directory = folder.path()};
  options.wall = {{"training \"x\"\n", 0, 1000000}};
  write_profile(training.loop->program(), options);
  const Json json = parse_json(folder.read("timeline.json"), "timeline.json");
  std::map<std::string, int> lanes;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "M") ++lanes[event["args"]["name"].get<std::string>()];
    if (event["ph"] == "X") CHECK(event["dur"].get<double>() >= 0);
  }
  for (const char* lane :
       {"HOST", "H2D", "CONTROL", "STREAM 0", "HOST (wall)", "cube core 0 CUBE", "cube core 0 MTE1",
        "cube core 3 MTE2", "cube core 0 FIXP", "vector core 0 VECTOR", "vector core 1 MTE3",
        "vector core 0 SCALAR", "host (wall clock)", "npu:0 (device clock)"}) {
    CAPTURE(lane);
    CHECK(lanes[lane] == 1);
  }
  CHECK(json["otherData"]["complete"] == true);

  options.most_events = 100;
  write_profile(training.loop->program(), options);
  const Json small = parse_json(folder.read("timeline.json"), "timeline.json");
  size_t spans = 0;
  for (const Json& event : small["traceEvents"]) spans += event["ph"] == "X";
  CHECK(spans == 100);
  CHECK(small["otherData"]["complete"] == false);
}

TEST_CASE("npu profile: two profiles of one program are the same bytes") {
  const Training first, second;
  const Folder a("profile_a"), b("profile_b");
  write_profile(first.loop->program(), {.directory = a.path()});
  write_profile(second.loop->program(), {.directory = b.path()});
  for (const char* file :
       {"op_summary.csv", "op_statistic.csv", "step_trace.csv", "timeline.json", "advice.txt"}) {
    CAPTURE(file);
    CHECK(a.read(file) == b.read(file));
    CHECK(!a.read(file).empty());
  }
}

TEST_CASE("npu profile: statistics count every launch once") {
  const Training training;
  const Folder folder("profile_statistic");
  write_profile(training.loop->program(), {.directory = folder.path()});
  const Table summary(folder.read("op_summary.csv")), statistic(folder.read("op_statistic.csv"));
  double count = 0, ratio = 0, total = 0, launches = 0;
  for (size_t row = 1; row < statistic.rows.size(); ++row) {
    count += statistic.number(row, "Count");
    ratio += statistic.number(row, "Ratio(%)");
    total += statistic.number(row, "Total Time(us)");
    CHECK(statistic.number(row, "Min Time(us)") <= statistic.number(row, "Max Time(us)"));
  }
  for (size_t row = 1; row < summary.rows.size(); ++row) {
    launches += summary.number(row, "Task Duration(us)");
  }
  CHECK(count == static_cast<double>(summary.rows.size() - 1));
  CHECK(ratio == doctest::Approx(100).epsilon(0.001));
  CHECK(total == doctest::Approx(launches));
}

TEST_CASE("npu profile: the advice names the fp16 sum of the 910 and its fix") {
  Graph graph;
  const Value x = graph.state("x", zeros({1, 256, 256, 3}, f16));
  const Value total = graph.state("total", zeros({}, f16));
  Session session(graph, device("npu:0"), {.device_options = options("ascend910")});
  const Loop loop = session.sink({.update = Update{{{total, sum(x)}}}});
  const Folder folder("profile_advice");
  write_profile(loop.program(), {.directory = folder.path()});
  const std::string advice = folder.read("advice.txt");
  CAPTURE(advice);
  CHECK(contains(advice, "sum"));
  CHECK(contains(advice, "block_dim 1 of 32"));
  CHECK(contains(advice, "no atomic add for the dtype"));
  CHECK(contains(advice, "cast to f32 first"));
  CHECK(contains(advice, "modelled gain"));
  CHECK(contains(advice, "test_npu_profile.cpp"));
}

TEST_CASE("npu profile: a cond counts as its longer branch") {
  const auto step_ns = [](int first, int second) -> double {
    Graph graph;
    const Value w = graph.state("w", zeros({64, 64}, f32));
    const auto products = [](int count) {
      return [count](const Values& v) {
        Value x = v[0];
        for (int i = 0; i < count; ++i) x = matmul(x, v[0]);
        return Values{x};
      };
    };
    const Value next = cond(greater(sum(w), 1.0f), {w}, products(first), products(second))[0];
    Session session(graph, device("npu:0"));
    const Loop loop = session.sink({.update = Update{{{w, next}}}});
    const auto ns = loop.program().info().step_device_ns;
    REQUIRE(ns.has_value());
    return static_cast<double>(*ns);
  };
  const double one = step_ns(1, 1);
  CHECK(step_ns(4, 1) > one);
  CHECK(step_ns(4, 1) == doctest::Approx(step_ns(1, 4)).epsilon(0.05));  // but for a jump
  CHECK(step_ns(4, 4) == doctest::Approx(step_ns(4, 1)).epsilon(0.05));
}

TEST_CASE("npu profile: a step whose loop turns as data say has no time and says why") {
  Graph graph;
  const Value w = graph.state("w", zeros({4}, f32));
  const Value next = while_loop(
      {w}, [](const Values& v) { return less(sum(v[0]), 9.0f); },
      [](const Values& v) { return Values{v[0] + 1.0f}; })[0];
  Session session(graph, device("npu:0"));
  const Loop loop = session.sink({.update = Update{{{w, next}}}});
  CHECK_FALSE(loop.program().info().step_device_ns.has_value());
  const Folder folder("profile_untimed");
  write_profile(loop.program(), {.directory = folder.path()});
  const std::string advice = folder.read("advice.txt");
  CAPTURE(advice);
  CHECK(contains(advice, "no modelled time before it runs: data decides at task"));
  CHECK(contains(advice, "(while condition, "));
  CHECK(contains(advice, "test_npu_profile.cpp"));
}

TEST_CASE("npu profile: ten pieces of advice at most and what the f32 cube is") {
  const Training training("npu", false, options("ascend910"));  // one task a node: more than ten
  const Folder folder("profile_ten");
  write_profile(training.loop->program(), {.directory = folder.path()});
  const std::string advice = folder.read("advice.txt");
  CHECK(contains(advice, "\n10. "));
  CHECK_FALSE(contains(advice, "\n11. "));
  CHECK(contains(advice, "three f16 passes"));
  const std::string table = profile_table(folder.path());
  CHECK(contains(table, "matmul"));
  CHECK(contains(table, "bound by"));
  CHECK(contains(table, "device clock"));
}

TEST_CASE("npu profile: wrong requests are refused and name what was wrong") {
  const Training training;
  const Program& program = training.loop->program();
  const Folder folder("profile_wrong");
  const auto error = [&](const ProfileOptions& options) {
    return error_of([&] { write_profile(program, options); });
  };
  CHECK(contains(error({.directory = folder.path(), .first_step = 0}), "0-3"));
  CHECK(contains(error({.directory = folder.path(), .first_step = 5, .last_step = 4}), "5-4"));
  CHECK(contains(error({.directory = folder.path(), .first_step = 1, .last_step = 1001}), "1000"));
  CHECK(contains(error({.directory = folder.path(), .steps_per_launch = 0}), "at least 1"));
  CHECK_FALSE(std::filesystem::exists(folder.path()));
  std::ofstream(folder.path()) << "a file";
  CHECK(contains(error({.directory = folder.path()}), folder.path()));
  CHECK(contains(error_of([&] { profile_table(folder.path() + ".none"); }), "step_trace.csv"));
  const Training cpu("cpu");
  CHECK(contains(
      error_of([&] { write_profile(cpu.loop->program(), {.directory = folder.path()}); }), "NPU"));
}

TEST_CASE("npu profile: csv fields come back as they were") {
  const CsvRow row = {"plain", "", "a,b", "say \"x\"", "two\nlines", "end"};
  const auto rows = parse_csv(write_csv_row(row) + write_csv_row(row), "x.csv");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == row);
  CHECK(rows[1] == row);
  CHECK(parse_csv("", "x.csv").empty());
  CHECK(parse_csv("a,b\r\n1,\r\n", "x.csv")[1] == CsvRow{"1", ""});
  CHECK(parse_csv("a,b\n1,", "x.csv")[1] == CsvRow{"1", ""});
  CHECK(parse_csv("a,b\r\n1,2", "x.csv")[1] == CsvRow{"1", "2"});
  CHECK(parse_csv("\"a\",\"\"\"b\"\"\"", "x.csv") == std::vector<CsvRow>{{"a", "\"b\""}});
  CHECK(parse_csv("a\r", "x.csv") == std::vector<CsvRow>{{"a"}});
  CHECK(contains(error_of([] { parse_csv("a\rb", "x.csv"); }), "x.csv"));
  CHECK(contains(error_of([] { parse_csv(std::string(3 << 20, ','), "x.csv"); }), "at most"));
  CHECK(contains(error_of([] { parse_csv("a,b\n1\n", "x.csv"); }), "x.csv"));
  CHECK(contains(error_of([] { parse_csv("\"a", "x.csv"); }), "closing quote"));
  CHECK(contains(error_of([] { parse_csv("\"a\"b\n", "x.csv"); }), "x.csv"));
}

TEST_SUITE_END();
