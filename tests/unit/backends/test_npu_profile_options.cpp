// What a profile holds by its options: points, files, metrics, limits, and what is refused.
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

}  // namespace

TEST_CASE("npu profile: points say where passes begin and end") {
  const Training training("npu", true, options("ascend910b1"));
  const Program& program = training.loop->program();
  const Folder folder("profile_points");
  ProfileOptions options{.directory = folder.path(), .first_step = 2, .last_step = 2};
  options.profiling.fp_point = "hidden/matmul";
  options.profiling.bp_point = "logits/matmul";
  write_profile(program, options);
  const Table steps(folder.read("step_trace.csv")), tasks(folder.read("op_summary.csv"));
  double start = -1, end = -1;
  for (size_t row = 1; row < tasks.rows.size(); ++row) {
    const std::string& members = tasks.rows[row][tasks.column("Members")];
    const double begin = tasks.number(row, "Task Start Time");
    if (contains(members, "hidden/matmul;") && start < 0) start = begin;
    if (contains(";" + members + ";", ";logits/matmul;"))
      end = begin + tasks.number(row, "Task Duration(us)");
  }
  REQUIRE(start > 0);
  CHECK(steps.number(1, "FP Start(us)") == doctest::Approx(start));
  CHECK(steps.number(1, "BP End(us)") == doctest::Approx(end));
  CHECK(steps.number(1, "FP to BP Time(us)") == doctest::Approx(end - start));
  CHECK(steps.number(1, "Iteration Time(us)") ==
        doctest::Approx(steps.number(1, "Iteration End(us)") - start));
  const auto error = [&] { return error_of([&] { write_profile(program, options); }); };
  options.profiling.fp_point = "hidden/matmull";
  CHECK(
      contains(error(), "fp_point: expected the name of a node that a task of the step computes"));
  CHECK(contains(error(), "did you mean 'hidden/matmul'?"));
  options.profiling.fp_point = "gradient/hidden/matmul";
  options.profiling.bp_point = "relu";
  CHECK(contains(error(), "fp_point, bp_point: expected a forward pass that begins before"));
}

TEST_CASE("npu profile: files that are switched off are not made and none is left from before") {
  const Training training;
  const Program& program = training.loop->program();
  const Folder folder("profile_switches");
  ProfileOptions options{.directory = folder.path()};
  options.profiling.task_trace = TaskTrace::kOff;
  write_profile(program, options);
  const auto is_there = [&](const char* name) {
    return std::filesystem::exists(folder.path() + "/" + name);
  };
  CHECK(is_there("step_trace.csv"));
  for (const char* name : {"op_summary.csv", "op_statistic.csv", "timeline.json", "advice.txt",
                           "aicpu.csv", "api_statistic.csv"}) {
    CAPTURE(name);
    CHECK_FALSE(is_there(name));
  }
  CHECK(contains(profile_table(folder.path()), "op_summary.csv: not written"));
  options.profiling.training_trace = false;
  options.profiling.task_trace = TaskTrace::kL1;
  CHECK(contains(error_of([&] { write_profile(program, options); }),
                 "step_trace.csv: is of another"));
  CHECK_FALSE(is_there("op_summary.csv"));
  std::filesystem::remove(folder.path() + "/step_trace.csv");
  write_profile(program, options);
  CHECK(is_there("op_summary.csv"));
  CHECK(contains(profile_table(folder.path()), "step_trace.csv: not written"));
}

TEST_CASE("npu profile: the AI CPU's tasks have a file of their own") {
  Graph graph;
  const Value x = graph.state("x", zeros({1000}, f32));
  Value next;
  {
    const HostScope host(graph);
    next = exp(x);
  }
  Session session(graph, device("npu:0"), {.device_options = options("ascend910b1")});
  const Loop loop = session.sink({.update = Update{{{x, next}}}});
  const Folder folder("profile_aicpu");
  ProfileOptions options{.directory = folder.path(), .first_step = 1, .last_step = 2};
  options.profiling.aicpu = options.profiling.runtime_api = true;
  write_profile(loop.program(), options);
  const Table table(folder.read("aicpu.csv"));
  REQUIRE(table.rows.size() == 3);
  CHECK(contains(table.rows[1][table.column("Node")], "exp"));
  // 20 us to start it, and 8000 bytes at 1 GB/s.
  CHECK(table.number(1, "Dispatch_time(us)") == doctest::Approx(20));
  CHECK(table.number(1, "Compute_time(us)") == doctest::Approx(8));
  CHECK(table.number(1, "Total_time(us)") == doctest::Approx(28));
  // A launch for each step.
  const Table calls(folder.read("api_statistic.csv"));
  REQUIRE(calls.rows.size() == 2);
  CHECK(calls.rows[1][calls.column("API Name")] == "launch");
  CHECK(calls.number(1, "Count") == 2);
  CHECK(calls.number(1, "Time(us)") == doctest::Approx(50));
  CHECK(calls.number(1, "Variance") == 0);
}

TEST_CASE("npu profile: metrics choose the columns of figures") {
  const Training training("npu", true, options("ascend910b1"));
  const Folder folder("profile_metrics");
  ProfileOptions options{.directory = folder.path(), .first_step = 1, .last_step = 1};
  const auto summary = [&](AicMetrics metrics) {
    options.profiling.aic_metrics = metrics;
    write_profile(training.loop->program(), options);
    return Table(folder.read("op_summary.csv"));
  };
  const Table arithmetic = summary(AicMetrics::kArithmeticUtilization);
  bool checked = false;
  for (size_t row = 1; row < arithmetic.rows.size(); ++row) {
    if (!contains(arithmetic.rows[row][arithmetic.column("Members")], "hidden/add;relu")) continue;
    if (arithmetic.rows[row][arithmetic.column("OP Type")] != "matmul") continue;
    if (arithmetic.number(row, "aic_cube_fops") != 2.0 * 100 * 512 * 784) continue;
    // A bias and a relu at least for each result.
    CHECK(arithmetic.number(row, "aiv_vector_fops") >= 2 * 100 * 512);
    checked = true;
  }
  CHECK(checked);
  const Table memory = summary(AicMetrics::kMemory);
  CHECK(memory.number(1, "main_mem_read_bw(GB/s)") > 0);
  CHECK(memory.number(1, "main_mem_read_bw(GB/s)") <= 1800);
  const Table none = summary(AicMetrics::kL2Cache);
  const auto& header = none.rows[0];
  CHECK(std::find(header.begin(), header.end(), "aic_mac_time(us)") == header.end());
  CHECK(std::find(header.begin(), header.end(), "aiv_time(us)") != header.end());
  options.profiling.task_trace = TaskTrace::kL0;
  std::filesystem::remove(folder.path() + "/advice.txt");
  const Table names = summary(AicMetrics::kPipeUtilization);
  CHECK(names.rows[1][names.column("OP Type")] == "N/A");
  CHECK(names.rows[1][names.column("Input Shapes")] == "N/A");
  CHECK(names.number(1, "Block Dim") == 0);
  CHECK(names.number(1, "Task Duration(us)") > 0);
  CHECK(std::find(names.rows[0].begin(), names.rows[0].end(), "aiv_time(us)") ==
        names.rows[0].end());
  CHECK_FALSE(contains(folder.read("timeline.json"), "vector core"));
  CHECK(contains(profile_table(folder.path()), "N/A"));
}

TEST_CASE("npu profile: a storage limit that is too small for the files is told of") {
  // 1000 steps of many tasks.
  const Training training("npu", false);
  const Folder folder("profile_storage");
  ProfileOptions options{.directory = folder.path(), .first_step = 1, .last_step = 1000};
  options.profiling.storage_limit_mb = 1;
  const std::string error = error_of([&] { write_profile(training.loop->program(), options); });
  CHECK(contains(error, "storage_limit: expected files of at most 1MB, got "));
  CHECK_FALSE(std::filesystem::exists(folder.path()));
  options.profiling.storage_limit_mb = 200;
  write_profile(training.loop->program(), options);
  CHECK(std::filesystem::exists(folder.path() + "/op_summary.csv"));
}

TEST_CASE("npu profile: options are parsed strictly and say what the model does not have") {
  const auto parse = [](const std::string& text) { return parse_profiling_options(text, "P"); };
  const ProfilingOptions none = parse("{}");
  CHECK(none.training_trace);
  CHECK(none.task_trace == TaskTrace::kL1);
  CHECK_FALSE(none.aicpu);
  CHECK_FALSE(none.runtime_api);
  CHECK(none.aic_metrics == AicMetrics::kPipeUtilization);
  CHECK(none.warnings.empty());
  const ProfilingOptions all = parse(
      R"({"output": "o", "storage_limit": "200MB", "training_trace": "on", "task_trace": "l0",
          "aicpu": "on", "runtime_api": "on", "hccl": "on", "l2": "on", "fp_point": "a",
          "bp_point": "b", "aic_metrics": "MemoryUB"})");
  CHECK(all.output == "o");
  CHECK(all.storage_limit_mb == 200);
  CHECK(all.task_trace == TaskTrace::kL0);
  CHECK(all.aicpu);
  CHECK(all.runtime_api);
  CHECK(all.fp_point == "a");
  CHECK(all.bp_point == "b");
  REQUIRE(all.warnings.size() == 3);
  CHECK(contains(all.warnings[0], "MemoryUB"));
  CHECK(contains(all.warnings[1], "hccl"));
  CHECK(contains(all.warnings[2], "l2"));
  CHECK(parse(R"({"storage_limit": "4294967295MB"})").storage_limit_mb == 4294967295);
  const ProfilingOptions unknown = parse(R"({"trainning_trace": "on", "zzzz": "1"})");
  REQUIRE(unknown.warnings.size() == 2);
  CHECK(contains(unknown.warnings[0], "P: no such key 'trainning_trace'"));
  CHECK(contains(unknown.warnings[0], "did you mean 'training_trace'?"));
  struct Row {
    const char* text;
    const char* part;
  };
  const Row rows[] = {
      {"{", "P"},
      {"[]", "P: expected an object"},
      {R"({"aicpu": true})", "P: aicpu"},
      {R"({"aicpu": "On"})", "P: aicpu: expected one of on, off, got \"On\""},
      {R"({"task_trace": "l2"})", "P: task_trace: expected one of on, off, l0, l1"},
      {R"({"training_trace": "off"})", "task_trace: expected off"},
      {R"({"training_trace": "off", "task_trace": "l0"})", "got l0"},
      {R"({"training_trace": "off", "task_trace": "off", "fp_point": "x"})", "fp_point"},
      {R"({"storage_limit": "199MB"})", "storage_limit: expected a size from \"200MB\""},
      {R"({"storage_limit": "4294967296MB"})", "storage_limit"},
      {R"({"storage_limit": "200"})", "storage_limit"},
      {R"({"storage_limit": 200})", "storage_limit"},
      {R"({"output": ""})", "output: expected the path of a folder"},
      {R"({"output": "a\nb"})", "output"},
      {R"({"aic_metrics": "Pipe"})", "aic_metrics: expected one of PipeUtilization, Arith"},
      {R"({"aicpu": "on", "aicpu": "on"})", "P"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    try {
      parse(row.text);
      CHECK(false);
    } catch (const Error& error) {
      CHECK_MESSAGE(contains(error.what(), row.part), error.what());
      CHECK(error.info().kind == ErrorKind::kInvalidArgument);
    }
  }
}

TEST_SUITE_END();
