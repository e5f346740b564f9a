// Flags that a command would leave unread are refused, and lists are taken from files of --config.
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

void check_flag_refused(const Words& words, const std::string& part) {
  CAPTURE(join(words));
  const ToolResult result = run_tool(words);
  CHECK_MESSAGE(result.exit_code == 2, result.err);
  CHECK(result.out == "");
  CHECK_MESSAGE(contains(result.err, part), result.err);
}

}  // namespace

TEST_CASE("refused flags: graph has no batch and no backend unless it compiles") {
  check_flag_refused({"graph", "--batch", "7"}, "--batch: is about the step as it is compiled");
  check_flag_refused({"graph", "--backend", "cpu"},
                     "--backend: is about the step as it is compiled");
  check_flag_refused({"graph", "--dot", "--compiled"}, "--dot: draws the graph");
}

TEST_CASE("refused flags: a loop size that is none tells all forms of one") {
  for (const char* size : {"often", "0", "1.5"}) {
    check_flag_refused({"train", "--loop-size", size},
                       ", auto, or a time in ms: 250ms, got '" + std::string(size) + "'");
  }
}

TEST_CASE("refused flags: a word behind one dash is told of whole") {
  check_flag_refused({"train", "-model", "mlp"},
                     "-model: there is no such flag; did you mean '--model'?");
  check_flag_refused({"train", "--steps", "3", "-optimiser=adam"},
                     "-optimiser: there is no such flag; did you mean '--optimizer'?");
  check_flag_refused({"train", "-x"}, "-x: there is no such flag");
  check_flag_refused({"train", "-h"}, "-h: there is no such flag; --help lists the flags");
}

TEST_CASE("refused flags: models that are none are told of with the files that are some") {
  for (const Words& words : {Words{"graph"}, Words{"eval", "--load", "s"},
                             Words{"freeze", "--load", "s", "--out", "o"}}) {
    Words all = words;
    all.insert(all.end(), {"--model", "nothere"});
    check_flag_refused(all, "lstm, FILE.onnx, FILE.pb, FILE.keel, got 'nothere'");
  }
}

TEST_CASE("refused flags: info does one thing at a time") {
  check_flag_refused({"info", "--passes", "--rates"}, "--rates: does not go with --passes");
  check_flag_refused({"info", "--passes", "--preset", "nonsense", "--backend", "cpu"},
                     "--preset: does not go with --passes");
  check_flag_refused({"info", "--rates", "--backend", "cpu"},
                     "--backend: does not go with --rates");
  check_flag_refused({"info", "--dump-ops-info", "--preset", "ascend910"},
                     "--preset: does not go with --dump-ops-info");
  check_flag_refused({"info", "--passes", "--precision-mode", "must_keep_origin_dtype"},
                     "--passes: does not go with flags about precision");
  check_flag_refused({"info", "--preset", "ascend910", "--json"},
                     "--json: does not go with --preset");
  check_flag_refused({"info", "--precision-mode", "must_keep_origin_dtype", "--backend", "cpu",
                      "--preset", "ascend910"},
                     "--preset: is about the NPU, and the backend is cpu");
}

TEST_CASE("refused flags: a configuration gives the lists of import as arrays") {
  const TempFolder files;
  const std::string config = files.write("run.json", R"({"outputs": ["a", "b"]})");
  // The array is taken: what is missing is the model.
  const ToolResult result = run_tool(
      {"import", files.file("none.onnx"), "--out", files.file("out.keel"), "--config", config});
  CHECK(result.exit_code == 1);
  CHECK_MESSAGE(contains(result.err, "none.onnx"), result.err);
  // Shapes have commas of their own.
  files.write("run.json", R"({"outputs": ["a", "a"], "inputs": ["x:[-1,784]", "y:[2]"]})");
  check_flag_refused(
      {"import", files.file("none.onnx"), "--out", files.file("out.keel"), "--config", config},
      "--inputs: goes with a TensorFlow graph");
}

TEST_CASE("refused flags: acceleration by the loss names the flag that it lacks") {
  const ToolResult result = run_tool({"train", "--data", small_data().path(), "--batch", "16",
                                      "--steps", "1", "--accelerate-train-mode", "fast|loss"});
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(contains(result.err, "add --target-loss LOSS, or set TARGET_LOSS"), result.err);
}

TEST_CASE("refused flags: a refused training has made no folder") {
  const TempFolder files;
  const std::string folder = files.file("checkpoints");
  for (const Words& words :
       {Words{"--precision-mode", "force_fp16"}, Words{"--precision-mode-v2", "fp16"},
        Words{"--accelerate-train-mode", "fast|loss|1.05"}}) {
    Words all = {"train", "--steps", "3", "--checkpoint", folder};
    all.insert(all.end(), words.begin(), words.end());
    check_flag_refused(all, words[0] + ": " + words[1] + ": ");
    CHECK_FALSE(std::filesystem::exists(folder));
  }
  check_flag_refused({"train", "--steps", "3", "--checkpoint", folder, "--fail-on-nan",
                      "--accelerate-train-mode", "fast|loss", "--target-loss", "0.3"},
                     "--fail-on-nan: does not go with --accelerate-train-mode fast|loss|1.05");
  CHECK_FALSE(std::filesystem::exists(folder));
  const std::string options = files.write("options.json", R"({"precision_mode": "force_fp16"})");
  check_flag_refused({"config", "--from-adapter", options, "--out", files.file("run.json")},
                     "--precision-mode: force_fp16: is for inference");
  CHECK_FALSE(std::filesystem::exists(files.file("run.json")));
}

TEST_CASE("refused flags: a file or a name that is not there is told with its flag") {
  const TempFolder files;
  const std::string none = files.file("none.json");
  for (const std::string flag :
       {"--resume", "--init", "--modify-mixlist", "--customize-dtypes", "--config"}) {
    CAPTURE(flag);
    const ToolResult result = run_tool({"train", "--steps", "1", flag, none});
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(contains(result.err, "keel: error: " + flag + ": " + none + ": cannot open"),
                  result.err);
  }
  for (const Words& words :
       {Words{"train", "--steps", "1", "--preset", "nope"}, Words{"info", "--preset", "nope"}})
    check_flag_refused(words, "keel: error: --preset: nope: expected one of ");
}

TEST_SUITE_END();
