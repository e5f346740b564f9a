// What a command reads by flags that many commands have, by variables of the environment and by the
// options of an adapter is never overwritten by what it writes.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

const char* const kPrecisionRules = "OpType::sum::InputDtype:float32,OutputDtype:float32\n";

std::string text_of(const std::string& path_in_source) {
  return read_text(std::string(KEEL_SOURCE_DIR) + "/" + path_in_source);
}

// The command ends with exit code 2, names both, and leaves the file as it was.
void check_kept(const Words& words, const std::string& file, const std::string& output,
                const std::string& input, const Variables& variables = {}) {
  CAPTURE(join(words));
  const std::string before = read_text(file);
  const ToolResult result = run_tool(words, variables);
  CHECK_MESSAGE(result.exit_code == 2, result.err);
  CHECK_MESSAGE(contains(result.err, output + ": "), result.err);
  CHECK_MESSAGE(contains(result.err, "would overwrite the file that " + input + " reads"),
                result.err);
  CHECK(read_text(file) == before);
}

// Saved states of softmax regression on a small data set.
struct SavedSoftmax : TempFolder {
  SavedSoftmax() {
    const ToolResult result = run_tool({"train", "--quiet", "--data", small_data().path(),
                                        "--batch", "16", "--steps", "1", "--save", states()});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  }
  std::string states() const { return file("states"); }
};

}  // namespace

TEST_CASE("common inputs: eval and predict keep what they read by flags and variables") {
  const SavedSoftmax files;
  const std::string rules = files.write("rules.cfg", kPrecisionRules);
  const std::string preset =
      files.write("preset.json", text_of("backends/npu/presets/ascend910b1.json"));
  const std::string table =
      files.write("table.json", text_of("tests/cli/rank_tables/one_rank.json"));
  const std::string config = files.write("flags.json", R"({"threads": 1})");
  for (const Words& command : {Words{"eval"}, Words{"predict", "--index", "0"}}) {
    Words words = command;
    words.insert(words.end(), {"--load", files.states(), "--json"});
    const auto with = [&](const std::string& json, const Words& more) {
      Words all = words;
      all.push_back(json);
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    check_kept(with(rules, {"--customize-dtypes", rules}), rules, "--json", "--customize-dtypes");
    check_kept(with(config, {"--config", config}), config, "--json", "--config");
    check_kept(with(preset, {}), preset, "--json", "KEEL_NPU_PRESET",
               {{"KEEL_NPU_PRESET", preset}});
    check_kept(with(table, {}), table, "--json", "RANK_TABLE_FILE",
               {{"RANK_TABLE_FILE", table}, {"RANK_ID", "0"}});
  }
}

TEST_CASE("common inputs: train keeps its configuration below the folder of a profile") {
  const TempFolder files;
  std::filesystem::create_directory(files.file("prof"));
  const std::string config = files.write("prof/timeline.json", R"({"batch": 16})");
  check_kept({"train", "--data", small_data().path(), "--steps", "1", "--config", config,
              "--profile", files.file("prof")},
             config, "--profile", "--config");
}

TEST_CASE("common inputs: train keeps the table of its ranks") {
  const TempFolder files;
  const std::string table =
      files.write("table.json", text_of("tests/cli/rank_tables/one_rank.json"));
  for (const char* output : {"--summary", "--save", "--metrics"}) {
    check_kept(
        {"train", "--data", small_data().path(), "--batch", "16", "--steps", "1", output, table},
        table, output, "RANK_TABLE_FILE", {{"RANK_TABLE_FILE", table}, {"RANK_ID", "0"}});
  }
}

TEST_CASE("common inputs: a configuration does not replace the files that its options name") {
  const TempFolder files;
  const std::string mix = files.write("mix.json", R"({"black-list": {"to-add": ["sum"]}})");
  const nlohmann::json options = {{"precision_mode", "allow_mix_precision"},
                                  {"modify_mixlist", mix}};
  const std::string adapter = files.write("adapter.json", options.dump());
  check_kept({"config", "--from-adapter", adapter, "--out", mix}, mix, "--out", "modify_mixlist");
  const ToolResult nowhere =
      run_tool({"config", "--from-adapter", adapter, "--out", files.file("none/run.json")});
  CHECK(nowhere.exit_code == 1);
  CHECK_MESSAGE(contains(nowhere.err, "--out: "), nowhere.err);
}

TEST_CASE("common inputs: a preset that is built in is no file of that name") {
  const SavedSoftmax files;
  const std::string json = files.file("ascend910b1");
  const ToolResult result = run_tool({"eval", "--load", files.states(), "--json", json},
                                     {{"KEEL_NPU_PRESET", "ascend910b1"}});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json(json)["model"] == "softmax");
}

TEST_SUITE_END();
