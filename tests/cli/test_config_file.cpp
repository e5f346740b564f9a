// `--config FILE.json`: flags out of a file, on any command: what it takes, what wins, and what is
// refused with file and place.
#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

// A file of flags, and runs of `keel train` on the small set with it.
class Config {
 public:
  explicit Config(const std::string& text) { files_.write("run.json", text); }

  std::string path() const { return files_.file("run.json"); }
  std::string file(const std::string& name) const { return files_.file(name); }
  ToolResult train(const Words& words = {}) const {
    Words all = {"train", "--quiet",  "--data", small_data().path(), "--threads",
                 "1",     "--config", path(),   "--summary",         files_.file("summary")};
    all.insert(all.end(), words.begin(), words.end());
    return run_tool(all);
  }
  json summary(const Words& words = {}) const {
    const ToolResult result = train(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(result.err.empty());
    return read_json(files_.file("summary"));
  }

 private:
  TempFolder files_;
};

// Refused with one line that names the file and holds each of `parts`.
void check_config_refused(const std::string& text, int exit_code, const Words& parts,
                          const Words& words = {}) {
  CAPTURE(text.substr(0, 200));
  const Config config(text);
  const ToolResult result = config.train(words);
  CHECK(result.exit_code == exit_code);
  REQUIRE_MESSAGE(lines_of(result.err).size() == 1, result.err);
  CHECK_MESSAGE(contains(result.err, config.path()), result.err);
  for (const std::string& part : parts)
    CHECK_MESSAGE(contains(result.err, part), result.err << " lacks " << part);
  CHECK(result.out.empty());
}

}  // namespace

TEST_CASE("config: a file trains as the same flags do and the summary names the file") {
  check_config_refused(R"({"plugin": []})", kWrongArgument,
                       {"plugin: expected a list that is not empty"});
  const Config good(R"({"model": "mlp", "batch": 20, "steps": 12, "loop-size": 5, "lr": 0.25,
                        "no-cache": true, "flip": false, "seed": 7, "keep-best": "loss"})");
  json of_file = good.summary();
  const Config none("{}");
  json of_flags =
      none.summary({"--model", "mlp", "--batch", "20", "--steps", "12", "--loop-size", "5", "--lr",
                    "0.25", "--no-cache", "--seed", "7", "--keep-best", "loss"});
  CHECK(of_file["config"]["file"] == good.path());
  CHECK(of_file["config"]["flags"] ==
        json({"batch", "keep-best", "loop-size", "lr", "model", "no-cache", "seed", "steps"}));
  CHECK(of_flags["config"]["flags"] == json::array());
  for (const char* same : {"model", "batch", "steps", "loop_size", "lr", "feed", "seed", "flip",
                           "metric", "kept_best", "state_sha256", "launches"})
    CHECK_MESSAGE(of_file[same] == of_flags[same], same);
  CHECK(of_file["loop_size"] == 5);
  CHECK(of_file["launches"] == 3);
}

TEST_CASE("config: a number is the same however it is written") {
  const Config config(R"({"batch": 2e1, "steps": 3.0, "lr": 25e-2})");
  const json summary = config.summary();
  CHECK(summary["batch"] == 20);
  CHECK(summary["steps"] == 3);
  CHECK(summary["lr"] == 0.25);
  check_config_refused(R"({"batch": 15e-1})", kWrongArgument,
                       {"--batch: expected an integer", "'1.5'"});
}

TEST_CASE("config: a flag on the command line wins over the file") {
  const Config config(R"({"steps": 12, "batch": 20, "loop-size": "auto"})");
  const json summary = config.summary({"--steps=3", "--loop-size", "2"});
  CHECK(summary["steps"] == 3);
  CHECK(summary["batch"] == 20);
  CHECK(summary["loop_size"] == 2);
  CHECK(summary["config"]["flags"] == json({"batch"}));
  // Flags that may be given several times are replaced as a whole.
  const TempFolder files;
  files.write("run.json", R"({"input": ["a=missing.npy"]})");
  const ToolResult run =
      run_tool({"run", "no.onnx", "--config", files.file("run.json"), "--input", "b=other.npy"});
  CHECK(run.exit_code == 1);
  CHECK(!contains(run.err, "missing.npy"));
}

TEST_CASE("config: every command has it") {
  const TempFolder files;
  files.write("info.json", R"({"json": true})");
  const ToolResult info = run_tool({"info", "--config", files.file("info.json")});
  CHECK(info.exit_code == 0);
  CHECK(json::parse(info.out).contains("devices"));
  files.write("bench.json", R"({"sizes": [1, 5], "batch": 20, "seconds": 0.01})");
  const ToolResult bench = run_tool(
      {"bench", "loop", "--config", files.file("bench.json"), "--json", files.file("out")});
  REQUIRE_MESSAGE(bench.exit_code == 0, bench.err);
  CHECK(read_json(files.file("out"))["sizes"].size() == 2);
  for (const char* command : {"train", "eval", "predict", "export", "inspect", "graph", "sample",
                              "conformance", "calibrate", "import", "run", "profile", "info"}) {
    CHECK_MESSAGE(contains(run_tool({command, "--help"}).out, "--config FILE.json"), command);
  }
}

TEST_CASE("config: files that cannot be read as JSON") {
  check_config_refused("", kWrongArgument, {":1:"});
  check_config_refused("{", kWrongArgument, {":1:1: "});
  check_config_refused("{\n  \"batch\": 20 // images\n}", kWrongArgument, {":2:15"});
  check_config_refused("{\"batch\": 20,}", kWrongArgument, {":1:14"});
  check_config_refused("{\"batch\": 20} {}", kWrongArgument, {":1:15"});
  check_config_refused("{\"batch\": 20,\n \"batch\": 30}", kWrongArgument,
                       {":2:", "\"batch\" stands here twice"});
  check_config_refused(std::string("{\"batch\"\0: 20}", 14), kWrongArgument, {":1:"});
  check_config_refused("{\"label\": \"\xff\"}", kWrongArgument, {":1:"});
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"batch\":";
  check_config_refused(deep, kWrongArgument, {":1:"});
  check_config_refused(std::string(100 << 20, ' '), kFailed, {"got 104857600"});
  const Config config("{}");
  const ToolResult missing =
      run_tool({"train", "--config", config.file("nothing.json"), "--steps", "1"});
  CHECK(missing.exit_code == 1);
  CHECK(contains(missing.err, "nothing.json"));
  CHECK(run_tool({"train", "--config", "/dev/zero"}).exit_code == 1);
  CHECK(run_tool({"train", "--config", "/"}).exit_code == 1);
}

TEST_CASE("config: keys and values that no flag takes") {
  check_config_refused("[]", kWrongArgument, {"expected an object"});
  check_config_refused("7", kWrongArgument, {"expected an object"});
  check_config_refused(R"({"bacth": 20})", kWrongArgument,
                       {"no flag 'bacth'", "did you mean 'batch'?"});
  check_config_refused(R"({"loop_size": 20})", kWrongArgument, {"did you mean 'loop-size'?"});
  check_config_refused(R"({"--batch": 20})", kWrongArgument, {"no flag '--batch'"});
  check_config_refused(R"({"": 20})", kWrongArgument, {"no flag ''"});
  check_config_refused(R"({"config": "x"})", kWrongArgument, {"for the command line alone"});
  check_config_refused(R"({"help": true})", kWrongArgument, {"for the command line alone"});
  check_config_refused(R"({"batch": "20"})", kWrongArgument,
                       {": batch: expected a number, got \"20\""});
  check_config_refused(R"({"batch": true})", kWrongArgument, {": batch: expected a number"});
  check_config_refused(R"({"batch": null})", kWrongArgument, {": batch: expected a number"});
  check_config_refused(R"({"batch": [20]})", kWrongArgument, {": batch: expected a number"});
  check_config_refused(R"({"batch": {"n": 20}})", kWrongArgument, {": batch: expected a number"});
  check_config_refused(R"({"model": 5})", kWrongArgument, {": model: expected a text, got 5"});
  check_config_refused(R"({"model": ""})", kWrongArgument,
                       {": model: expected a text that is not empty"});
  check_config_refused(R"({"model": "a\u0000b"})", kWrongArgument,
                       {": model: expected a text", "NUL"});
  check_config_refused(R"({"quiet": 1})", kWrongArgument,
                       {": quiet: expected true or false, got 1"});
  check_config_refused(R"({"quiet": "yes"})", kWrongArgument, {": quiet: expected true or false"});
  check_config_refused(R"({"keep-best": 1})", kWrongArgument,
                       {": keep-best: expected a text, or true"});
  check_config_refused(R"({"plugin": [7]})", kWrongArgument, {": plugin[0]: expected a text"});
}

TEST_CASE("config: the steps of a profile are a number or a range") {
  const Config files("{}");
  const std::string folder = files.file("profile");
  for (const char* steps : {"3", "\"3\"", "\"2-3\""}) {
    CAPTURE(steps);
    const Config config("{\"steps\": 4, \"batch\": 20, \"profile\": \"" + folder +
                        "\", \"profile-steps\": " + steps + "}");
    const ToolResult result = config.train();
    CHECK_MESSAGE(result.exit_code == 0, result.err);
  }
}

TEST_CASE("config: what is wrong in a flag of the file names the file") {
  check_config_refused(R"({"batch": 0})", kWrongArgument,
                       {"--batch: expected", "(--batch is from "});
  check_config_refused(R"({"batch": 1.5})", kWrongArgument,
                       {"--batch: expected an integer", "1.5"});
  check_config_refused(R"({"batch": 99999999999999999999})", kWrongArgument, {"--batch"});
  check_config_refused(R"({"loop-size": 0})", kWrongArgument,
                       {"--loop-size", "(--loop-size is from "});
  check_config_refused(R"({"loop-size": "sometimes"})", kWrongArgument, {"--loop-size"});
  check_config_refused(R"({"epochs": 2})", kWrongArgument,
                       {"--epochs is given as well", "(--epochs is "}, {"--steps", "5"});
  check_config_refused(R"({"epochs": 2, "steps": 3})", kWrongArgument,
                       {"(--epochs, --steps are from "});
  check_config_refused(R"({"precision-mode": "origin"})", kWrongArgument,
                       {"(--precision-mode is from "});
  // Flags of one letter have one dash.
  const Config ranks(R"({"n": 0})");
  const Words launch = {"launch", "--config", ranks.path(), "--", "true"};
  CHECK(contains(run_tool(launch).err, "(-n is from " + ranks.path() + ")"));
}

TEST_CASE("config: the file is given once and is no other file of the command") {
  const Config config(R"({"steps": 1})");
  const ToolResult twice = config.train({"--config", config.path()});
  CHECK(twice.exit_code == 2);
  CHECK(contains(twice.err, "--config: is given more than once"));
  const ToolResult written = config.train({"--metrics", config.path()});
  CHECK(written.exit_code == 2);
  CHECK(contains(written.err, "--metrics"));
  CHECK(contains(written.err, "--config"));
  CHECK(read_text(config.path()) == R"({"steps": 1})");
  CHECK(run_tool({"train", "--config"}).exit_code == 2);
  CHECK(run_tool({"train", "--config="}).exit_code == 2);
}

TEST_SUITE_END();
