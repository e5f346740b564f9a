// What is wrong is told before the first step, in words that help, and files that are there stay.
#include <filesystem>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;

// A small training with its files.
struct SmallTraining {
  ToolResult run(const Words& more) const {
    return run_tool(with({"train", "--quiet", "--data", data.path(), "--batch", "20"}, more));
  }
  std::string file(const std::string& name) const { return files.file(name); }

  DataFolder data{100, 20};
  TempFolder files;
};

}  // namespace

TEST_CASE("told early: a training that fails before its first step leaves its metrics alone") {
  const SmallTraining training;
  const Words metrics = {"--metrics", training.file("metrics")};
  REQUIRE(
      training.run(with(metrics, {"--steps", "8", "--save", training.file("states")})).exit_code ==
      0);
  const std::string lines = read_text(training.file("metrics"));
  const Words no_layer = {"--enable-dump", "--dump-path", training.file("dump"), "--dump-layer",
                          "nosuch"};
  check_failed(training.run(with(with(metrics, {"--steps", "8"}), no_layer)), 2, {"nosuch"});
  CHECK(read_text(training.file("metrics")) == lines);
  const Words resumed = with(metrics, {"--resume", training.file("states"), "--steps", "12"});
  check_failed(training.run(with(resumed, no_layer)), 2, {"nosuch"});
  CHECK(read_text(training.file("metrics")) == lines);
  CHECK(training.run(resumed).exit_code == 0);
  CHECK(lines_of(read_text(training.file("metrics"))).size() == 12);
  // Steps and epochs are not taken for each other: there are 5 steps in an epoch.
  check_failed(training.run({"--resume", training.file("states"), "--epochs", "1"}), 1,
               {"--epochs", "at least the 8 steps", "1, which are 5 steps"});
  // One that is through and did no step has taken out what lies behind its own.
  CHECK(training.run(with(metrics, {"--resume", training.file("states"), "--steps", "8"}))
            .exit_code == 0);
  CHECK(read_text(training.file("metrics")) == lines);
}

TEST_CASE("told early: a name that no file can have") {
  const SmallTraining training;
  const ToolResult result =
      training.run({"--steps", "1000000000", "--save", training.file(std::string(256, 'z'))});
  check_failed(result, 1, {"--save", "too long"});
}

TEST_CASE("told early: a save that would be taken for a checkpoint") {
  const SmallTraining training;
  const std::string folder = training.file("checkpoints");
  REQUIRE(training.run({"--steps", "3", "--checkpoint", folder}).exit_code == 0);
  const std::string last = folder + "/step-0000000003.safetensors";
  const std::string before = read_text(last);
  for (const Words& words : {Words{"--save", last, "--replace"},
                             Words{"--save", folder + "/step-0000000099.safetensors"}}) {
    check_failed(training.run(with({"--resume", folder, "--steps", "5"}, words)), 2,
                 {"--save", "checkpoint"});
  }
  CHECK(read_text(last) == before);
  CHECK(training.run({"--resume", folder, "--steps", "5"}).exit_code == 0);
}

TEST_CASE("told early: files may lie in the folder of checkpoints that is made later") {
  const SmallTraining training;
  const std::string folder = training.file("new");
  CHECK(training
            .run({"--steps", "2", "--checkpoint", folder, "--metrics", folder + "/m.jsonl",
                  "--summary", folder + "/./s.json"})
            .exit_code == 0);
  CHECK(fs::exists(folder + "/m.jsonl"));
  CHECK(fs::exists(folder + "/s.json"));
}

TEST_CASE("told early: data that a resumed training does not find where they were") {
  const SmallTraining training;
  const std::string moved = training.file("moved");
  fs::copy(training.data.path(), moved);
  REQUIRE(run_tool({"train", "--quiet", "--data", moved, "--batch", "20", "--steps", "2", "--save",
                    training.file("states")})
              .exit_code == 0);
  fs::remove_all(moved);
  const Words resumed = {"train", "--quiet", "--resume", training.file("states"), "--steps", "4"};
  check_failed(run_tool(resumed), 1, {"--resume", training.file("states"), "say with --data"});
  CHECK(run_tool(with(resumed, {"--data", training.data.path()})).exit_code == 0);
}

TEST_CASE("told early: the file of a command may stand behind its flags") {
  const SmallTraining training;
  REQUIRE(training.run({"--steps", "2", "--save", training.file("states")}).exit_code == 0);
  CHECK(run_tool({"inspect", "--json", training.file("json"), training.file("states")}).exit_code ==
        0);
  check_failed(run_tool({"inspect", training.file("states"), "--json", training.file("json"),
                         training.file("more")}),
               2, {"more", "one at a time"});
  check_failed(run_tool({"info", "more"}), 2, {"'more'", "is not a flag"});
  check_failed(run_tool({"train", "-h"}), 2, {"--help"});
}

TEST_CASE("told early: an export is an .onnx file") {
  const SmallTraining training;
  REQUIRE(training.run({"--steps", "2", "--save", training.file("states")}).exit_code == 0);
  check_failed(
      run_tool({"export", "--load", training.file("states"), "--out", training.file("model.keel")}),
      2, {"--out", "FILE.onnx", "keel freeze"});
  CHECK_FALSE(fs::exists(training.file("model.keel")));
}

TEST_CASE("told early: results of a run go to a folder") {
  const SmallTraining training;
  check_failed(run_tool({"run", training.file("none.onnx"), "--output-dir",
                         training.files.write("file", "")}),
               2, {"--output-dir", "a folder"});
}

TEST_CASE("told early: a profile that was cut short is none") {
  const SmallTraining training;
  const std::string folder = training.file("profile");
  REQUIRE(training.run({"--backend", "npu", "--steps", "4", "--profile", folder}).exit_code == 0);
  const std::string steps = read_text(folder + "/step_trace.csv");
  CHECK(run_tool({"profile", folder}).exit_code == 0);
  training.files.write("profile/step_trace.csv", steps.substr(0, steps.find('\n') + 1));
  check_failed(run_tool({"profile", folder}), 1, {"step_trace.csv", "cut short"});
}

TEST_SUITE_END();
