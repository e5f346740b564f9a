// What `keel` writes never lands on what it reads, nor on something else that it writes.
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;

const Words kOutputs = {"--save", "--summary", "--metrics"};

// Every file below a folder with its content.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().string()] = read_text(entry.path().string());
  }
  return files;
}

// A small data set, a preset and saved states, and the ways to refuse to touch them.
struct Inputs {
  Inputs() {
    preset = files.write("mine.json", read_text(std::string(KEEL_SOURCE_DIR) +
                                                "/backends/npu/presets/ascend910b1.json"));
    states = files.file("states");
    const ToolResult result = run_tool({"train", "--quiet", "--data", data.path(), "--batch", "16",
                                        "--steps", "3", "--save", states});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  }
  // Other names of a file: links, a hard link, and the same path written otherwise.
  Words names_of(const std::string& path) {
    const std::string name = std::to_string(++names_made);
    fs::create_symlink(path, files.file("link" + name));
    fs::create_symlink("link" + name, files.file("link to link" + name));
    fs::create_hard_link(path, files.file("hard" + name));
    const fs::path p = path;
    return {path,
            (p.parent_path() / "." / p.filename()).string(),
            (p.parent_path() / ".." / p.parent_path().filename() / p.filename()).string(),
            files.file("link" + name),
            files.file("link to link" + name),
            files.file("hard" + name)};
  }
  // Exit 2, both flags named, no file changed or made.
  void check_refused(const Words& words, const Words& parts, const Variables& variables = {}) {
    CAPTURE(join(words));
    const auto before = std::pair(contents(data.path()), contents(files.path()));
    const ToolResult result =
        run_tool(with({"train", "--batch", "16", "--steps", "4"}, words), variables);
    CHECK_MESSAGE(result.exit_code == 2, result.err);
    CHECK(result.out.empty());
    for (const std::string& part : parts)
      CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err << " lacks " << part);
    CHECK((std::pair(contents(data.path()), contents(files.path())) == before));
  }

  DataFolder data{200, 20};
  TempFolder files;
  std::string preset, states;
  int names_made = 0;
};

}  // namespace

TEST_CASE("output files: two outputs on one path are refused") {
  Inputs inputs;
  fs::create_symlink("new", inputs.files.file("dangling"));
  for (size_t i = 0; i < kOutputs.size(); ++i) {
    const std::string& first = kOutputs[i];
    const std::string& second = kOutputs[(i + 1) % kOutputs.size()];
    for (const char* other : {"new", "./new", "dangling"}) {
      inputs.check_refused({"--data", inputs.data.path(), first, inputs.files.file("new"), second,
                            inputs.files.file(other)},
                           {first, second});
    }
  }
  // The files of a profile, too.
  inputs.check_refused({"--data", inputs.data.path(), "--profile", inputs.files.file("p"),
                        "--summary", inputs.files.file("p/advice.txt")},
                       {"--profile", "--summary"});
}

TEST_CASE("output files: no output is the file that the shell opened for what is printed") {
  const Inputs inputs;
  const std::string log = inputs.files.file("log"), kept = "what was there before\n";
  struct Rule {
    const char* line;
    const char* told;
  };
  const Rule rules[] = {
      {"train --steps 2 --summary /dev/stdout >>$1",
       "--summary: /dev/stdout: is the file of standard output, too"},
      {"train --steps 2 --metrics /dev/stdout >>$1",
       "--metrics: /dev/stdout: is the file of standard output, too"},
      {"train --steps 2 --metrics /dev/stderr >>$1 2>&1",
       "--metrics: /dev/stderr: is the file of standard "},
      {"train --steps 2 --save $1 >>$1", "is the file of standard output, too"},
      {"train --steps 2 --save $1 2>>$1", "is the file of standard error, too"},
      {"eval --load $2 --json $1 >>$1", "is the file of standard output, too"},
  };
  for (const Rule& rule : rules) {
    const std::string line = rule.line;
    CAPTURE(line);
    inputs.files.write("log", kept);
    const ToolResult result = run_bash("\"$0\" " + line, {log, inputs.states});
    CHECK(result.exit_code == 2);
    const std::string all = read_text(log) + result.err;
    CHECK(all.starts_with(kept));
    CHECK_MESSAGE(contains(all, rule.told), all);
  }
  // A pipe is no file that anything could be lost of.
  const ToolResult lines =
      run_bash(R"("$0" train --quiet --steps 2 --metrics /dev/stdout | cat)", {});
  CHECK(lines_of(lines.out).size() == 2);
  const ToolResult piped =
      run_bash(R"("$0" train --quiet --steps 2 --summary /dev/stdout | cat)", {});
  CHECK_MESSAGE(contains(piped.err, "/dev/stdout: expected a regular file, got a pipe"), piped.err);
}

TEST_CASE("output files: no output is a checkpoint of the same training") {
  Inputs inputs;
  const std::string folder = inputs.files.file("ck"), one = folder + "/step-0000000001.safetensors";
  const Words words = {"--data", inputs.data.path(), "--checkpoint", folder};
  for (const std::string& flag : kOutputs) {
    // Written by step 4 at the latest, whether the folder is there or not.
    inputs.check_refused(with(words, {flag, one}), {flag, "--checkpoint"});
    inputs.check_refused(
        with(words, {flag, inputs.files.file("./ck/../ck/step-0000000004.safetensors")}),
        {flag, "--checkpoint"});
  }
  const Words first = {"train", "--quiet", "--batch", "16", "--steps", "1"};
  const ToolResult made = run_tool(with(first, words));
  REQUIRE_MESSAGE(made.exit_code == 0, made.err);
  REQUIRE(fs::exists(one));
  const Words resumed = with(words, {"--resume", folder});
  for (const std::string& name : inputs.names_of(one))
    inputs.check_refused(with(resumed, {"--save", name, "--replace"}), {"--save", "--checkpoint"});
  // Files beside them are nobody's.
  const ToolResult beside = run_tool(with(
      {"train", "--quiet", "--batch", "16", "--steps", "2"},
      with(resumed, {"--save", folder + "/step-2.safetensors", "--summary", folder + "/1.json"})));
  CHECK_MESSAGE(beside.exit_code == 0, beside.err);
}

TEST_CASE("output files: the training set is never overwritten") {
  Inputs inputs;
  for (const std::string& flag : kOutputs) {
    for (const std::string& name : inputs.names_of(inputs.data.file(kTrainImages)))
      inputs.check_refused({"--data", inputs.data.path(), flag, name}, {flag, "--data"});
    // A name that would be read in its place from now on.
    inputs.check_refused(
        {"--data", inputs.data.path(), flag, inputs.data.file(kTestLabels + ".gz")},
        {flag, "--data"});
    // The set that the resumed file names.
    inputs.check_refused({"--resume", inputs.states, flag, inputs.data.file(kTestImages)},
                         {flag, "--data"});
  }
}

TEST_CASE("output files: the file of --init is never overwritten") {
  Inputs inputs;
  for (const std::string& flag : kOutputs) {
    for (const std::string& name : inputs.names_of(inputs.states))
      inputs.check_refused({"--data", inputs.data.path(), "--init", inputs.states, flag, name},
                           {flag, "--init"});
  }
}

TEST_CASE("output files: a preset file is never overwritten") {
  Inputs inputs;
  for (const std::string& flag : kOutputs) {
    for (const std::string& name : inputs.names_of(inputs.preset)) {
      inputs.check_refused({"--data", inputs.data.path(), "--preset", inputs.preset, flag, name},
                           {flag, "--preset"});
      inputs.check_refused({"--data", inputs.data.path(), flag, name}, {flag, "KEEL_NPU_PRESET"},
                           {{"KEEL_NPU_PRESET", inputs.preset}});
    }
  }
}

TEST_CASE("output files: the resumed file is replaced only where that is asked for") {
  Inputs inputs;
  for (const std::string& flag : kOutputs) {
    for (const std::string& name : inputs.names_of(inputs.states))
      inputs.check_refused({"--resume", inputs.states, flag, name}, {flag, "--resume"});
  }
  for (const char* flag : {"--summary", "--metrics"}) {
    inputs.check_refused({"--resume", inputs.states, flag, inputs.states, "--save",
                          inputs.files.file("new"), "--replace"},
                         {flag, "--resume"});
  }
  inputs.check_refused({"--resume", inputs.states, "--replace"}, {"--replace"});
  // In place, twice over, equals one training.
  for (const char* steps : {"7", "11"}) {
    const ToolResult result =
        run_tool({"train", "--quiet", "--resume", inputs.states, "--save", inputs.states,
                  "--replace", "--steps", steps, "--summary", inputs.files.file("parts.json")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  }
  REQUIRE(run_tool({"train", "--quiet", "--data", inputs.data.path(), "--batch", "16", "--steps",
                    "11", "--summary", inputs.files.file("whole.json")})
              .exit_code == 0);
  CHECK(read_json(inputs.files.file("parts.json")).at("state_sha256") ==
        read_json(inputs.files.file("whole.json")).at("state_sha256"));
}

TEST_CASE("output files: benchmarks keep off each other's and the data's files") {
  Inputs inputs;
  const Words loop = {"bench",   "loop", "--data",    inputs.data.path(),
                      "--sizes", "1",    "--seconds", "0.001"};
  const std::string page = inputs.files.file("page");
  for (const Words& words :
       {Words{"--json", page, "--html", inputs.files.file("./page")},
        Words{"--json", inputs.data.file(kTrainImages)},
        Words{"--html", inputs.names_of(inputs.data.file(kTrainLabels)).back()}}) {
    CAPTURE(join(words));
    const auto before = contents(inputs.data.path());
    const ToolResult result = run_tool(with(loop, words));
    CHECK_MESSAGE(result.exit_code == 2, result.err);
    CHECK(result.err.find(words[0]) != std::string::npos);
    CHECK(contents(inputs.data.path()) == before);
    CHECK(!fs::exists(page));
  }
}

TEST_CASE("output files: files beside each other in one folder are fine") {
  Inputs inputs;
  const ToolResult result =
      run_tool({"train", "--quiet", "--resume", inputs.states, "--steps", "4", "--save",
                inputs.data.file("states"), "--summary", inputs.data.file("summary"), "--metrics",
                inputs.data.file("metrics"), "--profile", inputs.data.path()});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("output files: two trainings cannot write one metrics file") {
  Inputs inputs;
  const std::string metrics = inputs.files.file("metrics");
  ToolResult second;
  const Words words = {"train",   "--quiet", "--data",    inputs.data.path(),
                       "--batch", "16",      "--metrics", metrics};
  const ToolResult first = run_tool_until(with(words, {"--steps", "1000000000"}), [&] {
    if (!fs::exists(metrics) || fs::file_size(metrics) == 0) return false;
    second = run_tool(with(words, {"--steps", "2", "--save", inputs.files.file("second")}));
    return true;
  });
  CHECK(first.exit_code == 130);
  CHECK(second.exit_code == 1);
  CHECK_MESSAGE(
      second.err.find("--metrics: " + metrics + ": another process writes it") != std::string::npos,
      second.err);
  CHECK(!fs::exists(inputs.files.file("second")));
  const auto rows = read_json_lines(metrics);
  for (size_t i = 0; i < rows.size(); ++i) REQUIRE(rows[i].at("step") == i + 1);
  // Once the first has ended its file is free.
  CHECK(run_tool(with(words, {"--steps", "2"})).exit_code == 0);
  CHECK(read_json_lines(metrics).size() == 2);
}

TEST_SUITE_END();
