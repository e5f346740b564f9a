// Environment variables: each is in force, yields to what goes before it, or is an error; none that
// asks for something is ignored.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

struct EnvironmentRule {
  Variables variables;
  Words words;
  int exit_code;
  std::string told;       // in the one line of the error; of a training that goes well: the device
  int64_t loop_size = 0;  // of its summary; 0: not looked at
};

ToolResult train_under(const EnvironmentRule& rule, const std::string& summary) {
  Words words = {"train", "--quiet",   "--data", small_data().path(), "--batch", "20", "--steps",
                 "3",     "--threads", "1",      "--summary",         summary};
  words.insert(words.end(), rule.words.begin(), rule.words.end());
  return run_tool(words, rule.variables);
}

std::string described(const EnvironmentRule& rule) {
  std::string text = join(rule.words);
  for (const auto& [name, value] : rule.variables) text += " " + name + "=" + value;
  return text;
}

const std::string kNoPlace = "RANK_SIZE: expected 1, since nothing says where the ranks meet";

const std::string kOneRank = std::string(KEEL_SOURCE_DIR) + "/tests/cli/rank_tables/one_rank.json";
const std::string kTwoRanks =
    std::string(KEEL_SOURCE_DIR) + "/tests/cli/rank_tables/two_ranks.json";

const EnvironmentRule kEnvironmentRules[] = {
    // Ranks have to find each other, so nothing may ask for more than one without saying where.
    {{{"RANK_SIZE", "1"}, {"RANK_ID", "0"}}, {}, 0, "npu:0"},
    {{{"RANK_SIZE", "2"}, {"RANK_ID", "0"}}, {}, 2, kNoPlace},
    {{{"RANK_SIZE", "2"}, {"RANK_ID", "1"}}, {"--backend", "cpu"}, 2, kNoPlace},
    {{{"RANK_SIZE", "2"}},
     {},
     2,
     "RANK_ID: expected 0 to 1, since RANK_SIZE says 2 ranks, got none"},
    {{{"RANK_SIZE", "2"}, {"RANK_ID", "2"}}, {}, 2, "RANK_ID: expected 0 to 1"},
    {{{"RANK_SIZE", "0"}}, {}, 2, "RANK_SIZE: expected an integer"},
    {{{"RANK_SIZE", "-1"}}, {}, 2, "RANK_SIZE"},
    {{{"RANK_SIZE", "two"}}, {}, 2, "RANK_SIZE: expected an integer"},
    {{{"RANK_SIZE", ""}}, {}, 0, "npu:0"},
    {{{"RANK_ID", "1"}}, {}, 2, "RANK_ID: expected 0, since RANK_SIZE, which is not set, says one"},
    {{{"RANK_ID", "zero"}}, {}, 2, "RANK_ID: expected an integer"},
    {{{"RANK_TABLE_FILE", "/nowhere/hccl.json"}}, {}, 1, "/nowhere/hccl.json"},
    {{{"RANK_TABLE_FILE", kTwoRanks}, {"RANK_ID", "1"}, {"HCCL_CONNECT_TIMEOUT", "1"}},
     {},
     3,
     "HCCL_CONNECT_TIMEOUT: nobody answers at 127.0.0.1 port 29600"},
    {{{"RANK_TABLE_FILE", kTwoRanks}, {"CM_WORKER_SIZE", "2"}},
     {},
     2,
     "CM_WORKER_SIZE: expected none, since RANK_TABLE_FILE is set, got '2'"},
    {{{"RANK_TABLE_FILE", kTwoRanks}, {"RANK_ID", "1"}, {"RANK_SIZE", "4"}},
     {},
     1,
     "RANK_SIZE: expected 2, as "},
    {{{"RANK_TABLE_FILE", kOneRank}}, {}, 0, "npu:3"},
    {{{"RANK_TABLE_FILE", kOneRank}, {"ASCEND_DEVICE_ID", "3"}}, {}, 0, "npu:3"},
    {{{"RANK_TABLE_FILE", kOneRank}, {"ASCEND_DEVICE_ID", "2"}},
     {},
     1,
     "ASCEND_DEVICE_ID: expected 3, the device_id of rank 0 in "},
    {{{"RANK_TABLE_FILE", kOneRank}, {"DEVICE_ID", "2"}}, {}, 1, "DEVICE_ID: expected 3, the"},
    {{{"RANK_TABLE_FILE", kOneRank}}, {"--backend", "cpu"}, 0, "cpu:0"},
    {{{"RANK_TABLE_FILE", kOneRank}}, {"--device-id", "1"}, 0, "npu:1"},
    {{{"HCCL_IF_BASE_PORT", "80"}}, {}, 2, "HCCL_IF_BASE_PORT: expected an integer"},
    {{{"CM_WORKER_SIZE", "1"}}, {}, 0, "npu:0"},
    {{{"CM_WORKER_SIZE", "8"}}, {}, 2, "RANK_ID: expected 0 to 7, since CM_WORKER_SIZE says 8"},
    {{{"CM_WORKER_SIZE", "8"}, {"RANK_ID", "0"}}, {}, 2, "CM_CHIEF_IP: expected a value, since "},
    {{{"CM_WORKER_SIZE", "8"},
      {"RANK_ID", "0"},
      {"CM_CHIEF_IP", "127.0.0.1"},
      {"CM_CHIEF_PORT", "61234"},
      {"HCCL_CONNECT_TIMEOUT", "1"}},
     {},
     3,
     "HCCL_CONNECT_TIMEOUT: after 1 s these ranks have not come: 1, 2, 3, 4, 5, 6, 7"},
    {{{"JOB_ID", "job_7-a"}}, {}, 0, "npu:0"},
    {{{"JOB_ID", "a b"}}, {}, 2, "JOB_ID: expected letters, digits"},

    // Which device: the flag, ASCEND_DEVICE_ID, DEVICE_ID, 0.
    {{}, {}, 0, "npu:0"},
    {{{"DEVICE_ID", "3"}}, {}, 0, "npu:3"},
    {{{"ASCEND_DEVICE_ID", "2"}}, {}, 0, "npu:2"},
    {{{"ASCEND_DEVICE_ID", "2"}, {"DEVICE_ID", "3"}}, {}, 0, "npu:2"},
    {{{"ASCEND_DEVICE_ID", "2"}, {"DEVICE_ID", "3"}}, {"--device-id", "1"}, 0, "npu:1"},
    {{{"DEVICE_ID", "3"}}, {"--device-id", "0"}, 0, "npu:0"},
    {{{"ASCEND_DEVICE_ID", ""}, {"DEVICE_ID", "3"}}, {}, 0, "npu:3"},
    {{{"ASCEND_DEVICE_ID", "-1"}}, {}, 2, "ASCEND_DEVICE_ID: expected an integer"},
    {{{"ASCEND_DEVICE_ID", "1x"}}, {"--device-id", "1"}, 2, "ASCEND_DEVICE_ID"},
    {{{"ASCEND_DEVICE_ID", "1"}, {"DEVICE_ID", "x"}}, {}, 2, "DEVICE_ID: expected an integer"},
    {{{"DEVICE_ID", "99999999999"}}, {}, 2, "DEVICE_ID"},
    {{{"DEVICE_ID", "8"}}, {}, 2, "DEVICE_ID: npu: expected a device number from 0 to 7, got 8"},
    {{{"DEVICE_ID", "1"}}, {"--backend", "cpu"}, 2, "DEVICE_ID: cpu: expected a device number"},
    {{}, {"--device-id", "8"}, 2, "--device-id: expected a device number from 0 to 7, got 8"},
    {{}, {"--device-id", "-1"}, 2, "--device-id"},

    // The loop size: the flag, NPU_LOOP_SIZE, 100.
    {{}, {}, 0, "npu:0", 100},
    {{{"NPU_LOOP_SIZE", "2"}}, {}, 0, "npu:0", 2},
    {{{"NPU_LOOP_SIZE", "2"}}, {"--loop-size", "3"}, 0, "npu:0", 3},
    {{{"NPU_LOOP_SIZE", "0"}}, {}, 2, "NPU_LOOP_SIZE"},
    {{{"NPU_LOOP_SIZE", "-1"}}, {}, 2, "NPU_LOOP_SIZE"},
    {{{"NPU_LOOP_SIZE", "1.5"}}, {}, 2, "NPU_LOOP_SIZE"},
    {{{"NPU_LOOP_SIZE", "0"}}, {"--loop-size", "3"}, 2, "NPU_LOOP_SIZE"},

    // Profiles: what flags say goes before the environment.
    {{{"PROFILING_MODE", "false"}}, {}, 0, "npu:0"},
    {{{"PROFILING_MODE", "on"}}, {}, 2, "PROFILING_MODE: expected one of true, false"},
    {{{"PROFILING_MODE", "true"}}, {"--profiling-mode", "false"}, 0, "npu:0"},
    {{{"PROFILING_MODE", "true"}}, {"--backend", "cpu"}, 2, "PROFILING_MODE: only the NPU"},
    {{{"PROFILING_MODE", "true"}, {"PROFILING_OPTIONS", R"({"task_trace": "l9"})"}},
     {},
     2,
     "PROFILING_OPTIONS: task_trace: expected one of on, off, l0, l1"},
    {{{"PROFILING_MODE", "true"}, {"PROFILING_OPTIONS", R"({"training_trace": "off"})"}},
     {},
     2,
     "task_trace: expected off"},

    // How far a job is, for the change of precision.
    {{{"STEP_NOW", "x"}}, {"--accelerate-train-mode", "fast|step"}, 2, "STEP_NOW"},
    {{{"TOTAL_STEP", "0"}}, {"--accelerate-train-mode", "fast|step"}, 2, "TOTAL_STEP"},
    {{}, {"--accelerate-train-mode", "fast|loss"}, 2, "TARGET_LOSS"},
    {{{"TARGET_LOSS", "low"}}, {"--accelerate-train-mode", "fast|loss"}, 2, "TARGET_LOSS"},

    {{{"STEP_NOW", "51"}, {"TOTAL_STEP", "50"}}, {}, 2, "STEP_NOW: expected at most the 50 of"},
    {{{"STEP_NOW", "50"}, {"TOTAL_STEP", "50"}}, {}, 0, "npu:0"},

    // A wrong value is an error also where nothing reads it, or something goes before it.
    {{{"PROFILING_MODE", "yes"}}, {"--profiling-mode", "false"}, 2, "PROFILING_MODE: expected one"},
    {{{"PROFILING_OPTIONS", R"({"task_trace": "l9"})"}}, {}, 2, "PROFILING_OPTIONS: task_trace"},
    {{{"TARGET_LOSS", "nan"}}, {}, 2, "TARGET_LOSS"},
    {{{"TARGET_LOSS", "abc"}},
     {"--accelerate-train-mode", "fast|loss", "--target-loss", "1"},
     2,
     "TARGET_LOSS"},
    {{{"LOSS_NOW", "inf"}}, {}, 2, "LOSS_NOW"},
    {{{"LOSS_NOW", "abc"}}, {"--accelerate-train-mode", "fast|step"}, 2, "LOSS_NOW"},
    {{{"TOTAL_STEP", "abc"}}, {}, 2, "TOTAL_STEP"},
    {{{"STEP_NOW", "-3"}, {"TOTAL_STEP", "abc"}}, {}, 2, "STEP_NOW"},
    {{{"KEEL_NPU_PRESET", "nope"}}, {"--preset", "ascend910"}, 2, "KEEL_NPU_PRESET: preset: nope"},

    {{{"KEEL_LOG", "loud"}}, {}, 2, "KEEL_LOG"},
    {{{"KEEL_READ_BUDGET_MIB", "0"}}, {}, 2, "KEEL_READ_BUDGET_MIB"},
    {{{"KEEL_NPU_STRICT", "yes"}}, {}, 2, "KEEL_NPU_STRICT"},
};

}  // namespace

TEST_CASE("environment: each rule") {
  for (const EnvironmentRule& rule : kEnvironmentRules) {
    CAPTURE(described(rule));
    const TempFolder files;
    const ToolResult result = train_under(rule, files.file("summary"));
    REQUIRE_MESSAGE(result.exit_code == rule.exit_code, result.err);
    if (rule.exit_code != 0) {
      CHECK_MESSAGE(contains(result.err, "keel: error: "), result.err);
      CHECK_MESSAGE(contains(result.err, rule.told), result.err);
      CHECK(lines_of(result.err).size() == 1);
      CHECK(files.empty());
      continue;
    }
    CHECK(result.err.empty());
    const json summary = read_json(files.file("summary"));
    CHECK(summary["device"] == rule.told);
    if (rule.loop_size > 0) CHECK(summary["loop_size"] == rule.loop_size);
    const auto job = rule.variables.find("JOB_ID");
    CHECK(summary.contains("job_id") == (job != rule.variables.end()));
    if (job != rule.variables.end()) CHECK(summary["job_id"] == job->second);
  }
}

TEST_CASE("environment: a file of flags goes before it") {
  const TempFolder files;
  files.write("run.json", R"({"loop-size": 2, "device-id": 5})");
  const EnvironmentRule rule{
      {{"NPU_LOOP_SIZE", "7"}, {"DEVICE_ID", "3"}}, {"--config", files.file("run.json")}, 0, ""};
  REQUIRE(train_under(rule, files.file("summary")).exit_code == 0);
  const json summary = read_json(files.file("summary"));
  CHECK(summary["loop_size"] == 2);
  CHECK(summary["device"] == "npu:5");
}

TEST_CASE("environment: other commands that run a model follow it") {
  const TempFolder files;
  const Words train_words = {"train", "--quiet", "--steps", "1", "--save", files.file("states")};
  REQUIRE(run_tool(train_words).exit_code == 0);
  const Words eval = {"eval", "--load", files.file("states")};
  CHECK(run_tool(eval, {{"DEVICE_ID", "3"}}).exit_code == 0);
  CHECK(run_tool(eval, {{"DEVICE_ID", "8"}}).exit_code == 2);
  const Variables two_ranks = {{"RANK_SIZE", "2"}, {"RANK_ID", "0"}};
  CHECK(run_tool(eval, two_ranks).exit_code == 2);
  CHECK(run_tool({"graph", "--compiled"}, two_ranks).exit_code == 2);
  for (const char* command : {"freeze", "export"}) {
    CAPTURE(command);
    const std::string out = files.file(command == std::string("freeze") ? "m.keel" : "m.onnx");
    const Words words = {command, "--load", files.file("states"), "--out", out};
    const ToolResult refused = run_tool(words, two_ranks);
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "RANK_SIZE: expected one rank"));
    CHECK_FALSE(std::filesystem::exists(out));
    CHECK(run_tool(words).exit_code == 0);
  }
  // What runs none tells of the environment, and does not fail for it.
  CHECK(run_tool({"inspect", files.file("states")}, two_ranks).exit_code == 0);
}

TEST_CASE("environment: the table shows values and what is wrong with them") {
  const ToolResult good =
      run_tool({"config", "--environment"}, {{"NPU_LOOP_SIZE", "7"}, {"JOB_ID", "night"}});
  CHECK_MESSAGE(good.exit_code == 0, good.err);
  CHECK(std::regex_search(good.out, std::regex("NPU_LOOP_SIZE +7 +steps in one launch")));
  CHECK(std::regex_search(good.out, std::regex("JOB_ID +night ")));
  CHECK(std::regex_search(good.out, std::regex("\nRANK_SIZE +- ")));
  const ToolResult bad = run_tool(
      {"config", "--environment"},
      {{"RANK_SIZE", "2"}, {"RANK_ID", "0"}, {"NPU_LOOP_SIZE", "0"}, {"KEEL_NPU_PRESET", "a\nb"}});
  CHECK(bad.exit_code == 2);
  CHECK(std::regex_search(bad.out, std::regex("\nRANK_SIZE +2 +WRONG: ")));
  CHECK(std::regex_search(bad.out, std::regex("\nDEVICE_ID +- ")));
  REQUIRE(lines_of(bad.err).size() == 3);
  CHECK(contains(bad.err, "keel: error: NPU_LOOP_SIZE"));
  CHECK(contains(bad.err, "keel: error: RANK_SIZE"));
}

TEST_CASE("environment: all that is wrong is shown and what every command checks as well") {
  const ToolResult bad = run_tool({"config", "--environment"}, {{"RANK_SIZE", "two"},
                                                                {"RANK_ID", "-1"},
                                                                {"CM_WORKER_SIZE", "x"},
                                                                {"RANK_TABLE_FILE", "ranks.json"},
                                                                {"JOB_ID", "a b"},
                                                                {"ASCEND_DEVICE_ID", "-1"},
                                                                {"DEVICE_ID", "one"},
                                                                {"KEEL_READ_BUDGET_MIB", "0"},
                                                                {"KEEL_LOG", "loud"}});
  CHECK(bad.exit_code == 2);
  for (const char* name : {"RANK_SIZE", "RANK_ID", "CM_WORKER_SIZE", "RANK_TABLE_FILE", "JOB_ID",
                           "ASCEND_DEVICE_ID", "DEVICE_ID", "KEEL_READ_BUDGET_MIB", "KEEL_LOG"}) {
    CAPTURE(name);
    CHECK(std::regex_search(bad.out, std::regex("(^|\n)" + std::string(name) + " +.*WRONG: ")));
    CHECK(contains("\n" + bad.err, std::string("\nkeel: error: ") + name));
  }
  CHECK(lines_of(bad.err).size() == 9);
  // The columns stand below each other, that of the longest name included.
  const std::vector<std::string> rows = lines_of(
      run_tool({"config", "--environment"}, {{"ENABLE_FORCE_V2_CONTROL", "1"}, {"NO_COLOR", "1"}})
          .out);
  const auto value_at = [&](const std::string& name) {
    for (const std::string& row : rows)
      if (row.starts_with(name + " ")) return row.find_first_not_of(' ', name.size());
    return std::string::npos;
  };
  CHECK(value_at("ENABLE_FORCE_V2_CONTROL") == value_at("NO_COLOR"));
  CHECK(value_at("NO_COLOR") == value_at("NPU_LOOP_SIZE"));
  // Elsewhere they stay errors before anything is done.
  CHECK(run_tool({"info"}, {{"KEEL_READ_BUDGET_MIB", "0"}}).exit_code == 2);
  CHECK(run_tool({"info"}, {{"KEEL_LOG", "loud"}}).exit_code == 2);
  CHECK(run_tool({"config", "--from-adapter", "x.json"}, {{"KEEL_LOG", "loud"}}).exit_code == 2);
}

// A variable that is read somewhere and stands in no table would be in force unseen.
TEST_CASE("environment: the table has every variable that the sources read") {
  namespace fs = std::filesystem;
  const std::string table = run_tool({"config", "--environment"}).out;
  const std::regex reads(
      R"re((?:environment_(?:text|integer|choice)|getenv)\(\s*"([A-Z_0-9]+)")re");
  const std::regex constants(R"re(k[A-Za-z]*Variable = "([A-Z_0-9]+)")re");
  std::set<std::string> names;
  for (const char* room : {"core", "graph", "ops", "data", "backends", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(KEEL_SOURCE_DIR) / room)) {
      const std::string ending = entry.path().extension().string();
      if (ending != ".cpp" && ending != ".h") continue;
      const std::string text = read_text(entry.path().string());
      for (const std::regex& pattern : {reads, constants}) {
        for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
          names.insert((*at)[1]);
      }
    }
  }
  CHECK(names.size() >= 12);
  for (const std::string& name : names)
    CHECK_MESSAGE(contains("\n" + table, "\n" + name + " "), name);
}

// Measurements and listings ran on the host, where a training was refused.
TEST_CASE("environment: a device of an accelerator is refused by all that runs on the host") {
  const Variables second = {{"ASCEND_DEVICE_ID", "1"}};
  const Words commands[] = {
      {"bench", "train", "--models", "softmax", "--backends", "npu,cpu", "--seconds", "0.001"},
      {"bench", "loop", "--backend", "ref", "--seconds", "0.001", "--sizes", "10"},
      {"bench", "feed", "--backend", "cpu", "--seconds", "0.001"},
      {"bench", "compile", "--backends", "ref", "--sizes", "10", "--rounds", "1"},
      {"bench", "ranks", "--backend", "cpu", "--seconds", "0.001", "--models", "softmax"},
      {"graph", "--compiled", "--backend", "cpu"},
      {"conformance", "--ops", "add", "--cases", "1", "--backend", "ref"}};
  for (const Words& words : commands) {
    CAPTURE(join(words));
    const ToolResult result = run_tool(words, second);
    CHECK(result.exit_code == 2);
    CHECK_MESSAGE(contains(result.err, "ASCEND_DEVICE_ID: "), result.err);
    CHECK_MESSAGE(contains(result.err, "expected a device number from 0 to 0, got 1"), result.err);
  }
  CHECK(run_tool({"graph", "--compiled", "--backend", "npu"}, second).exit_code == 0);
}

TEST_CASE("environment: what is wrong is no failure of each case of onnx") {
  const TempFolder files;
  files.write("model.onnx", "");
  const ToolResult result = run_tool({"conformance", "--onnx", files.path(), "--backend", "npu"},
                                     {{"KEEL_NPU_PRESET", "nonsense"}});
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(contains(result.err, "KEEL_NPU_PRESET: preset: nonsense"), result.err);
}

TEST_CASE("environment: a read budget that is none is an error beside the flag as well") {
  const ToolResult result =
      run_tool({"info", "--passes", "--read-budget", "3"}, {{"KEEL_READ_BUDGET_MIB", "many"}});
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(contains(result.err, "KEEL_READ_BUDGET_MIB: expected an integer"), result.err);
}

TEST_SUITE_END();
