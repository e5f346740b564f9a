// `keel train --profiling-options`: each key switches its file, and what is wrong is said.
#include <filesystem>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

const std::vector<std::string> kFiles = {"op_summary.csv",   "op_statistic.csv", "step_trace.csv",
                                         "timeline.json",    "advice.txt",       "aicpu.csv",
                                         "api_statistic.csv"};

ToolResult train_mlp(const Words& words, const Variables& variables = {}) {
  static const DataFolder data(400, 100);
  Words all = {"train",   "--quiet", "--model", "mlp", "--data",    data.path(),
               "--batch", "20",      "--steps", "4",   "--threads", "1"};
  all.insert(all.end(), words.begin(), words.end());
  return run_tool(all, variables);
}

std::string quoted(const std::string& key, const std::string& value) {
  return "\"" + key + "\": \"" + value + "\"";
}

// What a training with these options leaves in the folder that they name.
struct Profile {
  explicit Profile(const std::string& options, const Variables& variables = {}) {
    const std::string output = quoted("output", folder.file("p"));
    const std::string text = "{" + output + (options.empty() ? "" : ", " + options) + "}";
    result = train_mlp({"--profiling-options", text}, variables);
    CHECK_MESSAGE(result.exit_code == 0, result.err);
  }
  bool has(const std::string& name) const {
    return std::filesystem::exists(folder.file("p") + "/" + name);
  }
  std::string read(const std::string& name) const {
    return read_text(folder.file("p") + "/" + name);
  }
  // The files, as a list.
  std::string files() const {
    std::string list;
    for (const std::string& name : kFiles) list += has(name) ? name + " " : "";
    return list;
  }

  TempFolder folder;
  ToolResult result;
};

const std::string kTasks = "op_summary.csv op_statistic.csv ";
const std::string kUsual = kTasks + "step_trace.csv timeline.json advice.txt ";

std::string profiling_refusal(const Words& words, const Variables& variables = {}) {
  const ToolResult result = train_mlp(words, variables);
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(lines_of(result.err).size() == 1, result.err);
  return result.err;
}

}  // namespace

TEST_CASE("profiling options: output is the folder of the files that defaults give") {
  const Profile profile("");
  CHECK(profile.files() == kUsual);
  CHECK(profile.result.err.empty());
  const std::string shown = run_tool({"profile", profile.folder.file("p")}).out;
  CHECK(contains(shown, "MIX_AIC"));
  CHECK(contains(shown, "step 1"));
  const TempFolder other;
  CHECK(contains(profiling_refusal({"--profile", other.file("q"), "--profiling-options",
                                    "{" + quoted("output", other.file("p")) + "}"}),
                 "--profile: the profiling options name a folder, too"));
  CHECK(contains(profiling_refusal({"--profiling-options", R"({"output": ""})"}),
                 "output: expected"));
}

TEST_CASE("profiling options: training_trace switches the steps") {
  const std::string off = quoted("training_trace", "off");
  const Profile profile(off + ", " + quoted("task_trace", "off") + ", " + quoted("aicpu", "on"));
  CHECK(profile.files() == "aicpu.csv ");
  CHECK(contains(profiling_refusal({"--profiling-options", "{" + off + "}"}),
                 "--profiling-options: task_trace: expected off, as training_trace is"));
  CHECK(contains(
      profiling_refusal({"--profiling-options", "{" + quoted("training_trace", "yes") + "}"}),
      "training_trace: expected one of on, off, got \"yes\""));
}

TEST_CASE("profiling options: task_trace switches launches and how much is told of them") {
  CHECK(Profile(quoted("task_trace", "off")).files() == "step_trace.csv ");
  for (const char* level : {"on", "l1"}) {
    const Profile full(quoted("task_trace", level));
    CHECK(full.files() == kUsual);
    CHECK(contains(full.read("op_summary.csv"), "aiv_vec_time(us)"));
    CHECK(contains(full.read("timeline.json"), "vector core 0 VECTOR"));
  }
  const Profile names(quoted("task_trace", "l0"));
  CHECK(names.files() == kTasks + "step_trace.csv timeline.json ");
  CHECK_FALSE(contains(names.read("op_summary.csv"), "aiv_vec_time(us)"));
  CHECK_FALSE(contains(names.read("timeline.json"), "vector core 0 VECTOR"));
  CHECK(run_tool({"profile", names.folder.file("p")}).exit_code == 0);
  CHECK(contains(profiling_refusal({"--profiling-options", "{" + quoted("task_trace", "l2") + "}"}),
                 "task_trace: expected one of on, off, l0, l1"));
}

TEST_CASE("profiling options: aicpu and runtime_api add their files") {
  CHECK(Profile(quoted("aicpu", "on")).files() == kUsual + "aicpu.csv ");
  const Profile calls(quoted("runtime_api", "on"));
  CHECK(calls.files() == kUsual + "api_statistic.csv ");
  CHECK(contains(calls.read("api_statistic.csv"), "launch"));
  CHECK(Profile(quoted("aicpu", "off") + ", " + quoted("runtime_api", "off")).files() == kUsual);
}

TEST_CASE("profiling options: aic_metrics chooses columns and says what there is not") {
  const auto header = [](const Profile& profile) {
    return lines_of(profile.read("op_summary.csv"))[0];
  };
  CHECK(contains(header(Profile(quoted("aic_metrics", "PipeUtilization"))), "aic_fixpipe_ratio"));
  const Profile arithmetic(quoted("aic_metrics", "ArithmeticUtilization"));
  CHECK(contains(header(arithmetic), "aic_cube_fops"));
  CHECK_FALSE(contains(header(arithmetic), "aic_fixpipe_ratio"));
  CHECK(contains(header(Profile(quoted("aic_metrics", "Memory"))), "main_mem_read_bw(GB/s)"));
  for (const char* name : {"MemoryL0", "MemoryUB", "ResourceConflictRatio", "L2Cache"}) {
    const Profile none(quoted("aic_metrics", name));
    CHECK_FALSE(contains(header(none), "_ratio"));
    CHECK(contains(none.result.err, "the model has no figures of " + std::string(name)));
  }
  CHECK(
      contains(profiling_refusal({"--profiling-options", "{" + quoted("aic_metrics", "L2") + "}"}),
               "aic_metrics: expected one of PipeUtilization"));
}

TEST_CASE("profiling options: fp_point and bp_point move the bounds of the passes") {
  const auto cells = [](const Profile& profile) {
    return lines_of(profile.read("step_trace.csv"))[1];
  };
  const std::string usual = cells(Profile(""));
  CHECK(cells(Profile(quoted("fp_point", "") + ", " + quoted("bp_point", ""))) == usual);
  CHECK(cells(Profile(quoted("fp_point", "hidden2/matmul"))) != usual);
  CHECK(cells(Profile(quoted("bp_point", "hidden2/matmul"))) != usual);
  CHECK(contains(
      profiling_refusal({"--profiling-options", "{" + quoted("output", "/tmp/x") + ", " +
                                                    quoted("fp_point", "hidden2/matmol") + "}"}),
      "did you mean 'hidden2/matmul'?"));
}

TEST_CASE("profiling options: storage_limit is a size with its unit and in its range") {
  CHECK(Profile(quoted("storage_limit", "200MB")).files() == kUsual);
  for (const char* size : {"199MB", "4294967296MB", "200", "200 KB", "-1MB"}) {
    CHECK(contains(
        profiling_refusal({"--profiling-options", "{" + quoted("storage_limit", size) + "}"}),
        "storage_limit: expected a size from \"200MB\" to \"4294967295MB\""));
  }
}

TEST_CASE("profiling options: what a training has not got and unknown keys are warned of") {
  CHECK(
      contains(Profile(quoted("hccl", "on")).result.err, "hccl: collectives are recorded anyway"));
  CHECK(contains(Profile(quoted("l2", "on")).result.err, "l2: the model has no figures"));
  const Profile unknown(quoted("task_trase", "on"));
  CHECK(contains(unknown.result.err, "no such key 'task_trase'"));
  CHECK(contains(unknown.result.err, "did you mean 'task_trace'?"));
  CHECK(unknown.files() == kUsual);
}

TEST_CASE("profiling options: wrong JSON is the fault of who typed it") {
  for (const char* text : {"{", "", "[]", "{\"aicpu\": 1}", "{} {}", "{\"aicpu\": \"on\",}"})
    CHECK(contains(profiling_refusal({"--profiling-options", text}), "--profiling-options"));
}

TEST_CASE("profiling options: the flag wins over the environment") {
  const TempFolder files;
  const auto in = [&](const std::string& name) {
    return "{" + quoted("output", files.file(name)) + ", " + quoted("task_trace", "off") + "}";
  };
  const auto has = [&](const std::string& name) {
    return std::filesystem::exists(files.file(name) + "/step_trace.csv");
  };
  const Variables on = {{"PROFILING_MODE", "true"}, {"PROFILING_OPTIONS", in("env")}};
  CHECK(train_mlp({"--profiling-mode", "false"}, on).exit_code == 0);
  CHECK_FALSE(has("env"));
  CHECK(train_mlp({"--profiling-options", in("flag")}, on).exit_code == 0);
  CHECK(has("flag"));
  CHECK_FALSE(has("env"));
  CHECK(train_mlp({"--profile", files.file("folder")}, on).exit_code == 0);
  CHECK(has("folder"));
  CHECK_FALSE(has("env"));
  CHECK(train_mlp({}, {{"PROFILING_OPTIONS", in("env")}}).exit_code == 0);
  CHECK_FALSE(has("env"));
  CHECK(train_mlp({}, {{"PROFILING_MODE", "false"}, {"PROFILING_OPTIONS", in("env")}}).exit_code ==
        0);
  CHECK_FALSE(has("env"));
  CHECK(train_mlp({}, on).exit_code == 0);
  CHECK(has("env"));
  const ToolResult cpu = train_mlp({"--backend", "cpu"}, on);
  CHECK(cpu.exit_code == 2);
  CHECK(contains(cpu.err, "PROFILING_MODE: only the NPU has profiles"));
  CHECK(contains(profiling_refusal({}, {{"PROFILING_MODE", "yes"}}), "PROFILING_MODE"));
  CHECK(contains(profiling_refusal({}, {{"PROFILING_MODE", "true"}, {"PROFILING_OPTIONS", "{"}}),
                 "PROFILING_OPTIONS"));
}

TEST_CASE("profiling options: a mode alone takes the defaults and flags must agree") {
  const TempFolder files;
  CHECK(train_mlp({"--profiling-mode", "true", "--profile", files.file("p")}).exit_code == 0);
  CHECK(std::filesystem::exists(files.file("p") + "/op_summary.csv"));
  // Without a folder it is keel_profile in the one where the tool runs.
  const ToolResult there =
      run_bash("cd \"$1\" && \"$0\" train --quiet --steps 2 --threads 1 --profiling-mode true",
               {files.path()});
  CHECK_MESSAGE(there.exit_code == 0, there.err);
  CHECK(std::filesystem::exists(files.file("keel_profile") + "/op_summary.csv"));
  CHECK(contains(profiling_refusal({"--profiling-mode", "false", "--profiling-options", "{}"}),
                 "--profiling-mode: is false, and --profiling-options asks for a profile"));
  CHECK(contains(profiling_refusal({"--profiling-mode", "false", "--profile", files.file("q")}),
                 "--profile asks for a profile"));
  CHECK(contains(profiling_refusal({"--profiling-mode", "maybe"}), "--profiling-mode"));
  CHECK(contains(profiling_refusal({"--backend", "cpu", "--profiling-mode", "true"}),
                 "--backend npu"));
  CHECK(contains(profiling_refusal({"--profiling-mode", "false", "--profile-steps", "1-2"}),
                 "--profile-steps: no profile is asked for"));
}

// The timeline and the table named device 0 whatever the device was.
TEST_CASE("profiling options: files name the device that is used") {
  const TempFolder folder;
  const ToolResult result = train_mlp(
      {"--device-id", "3", "--profiling-options",
       "{" + quoted("output", folder.file("p")) + ", " + quoted("runtime_api", "on") + "}"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const std::string timeline = read_text(folder.file("p") + "/timeline.json");
  CHECK(contains(timeline, "npu:3 (device clock)"));
  CHECK(!contains(timeline, "npu:0"));
  const auto rows = lines_of(read_text(folder.file("p") + "/api_statistic.csv"));
  REQUIRE(rows.size() > 1);
  CHECK(contains(rows[1], "3,runtime,"));
}

TEST_SUITE_END();
