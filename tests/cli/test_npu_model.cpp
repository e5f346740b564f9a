#include <filesystem>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using keel_test::contains;
using namespace keel_test;

std::string folder_of(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() / ("keel_cli_" + name);
  std::filesystem::remove_all(path);
  return path.string();
}

}  // namespace

TEST_CASE("calibrate: prints predictions beside published figures and succeeds") {
  const ToolResult result = run_tool({"calibrate"});
  CHECK(result.exit_code == 0);
  for (const char* part : {"249.50", "306.60", "215.80", "pass", "asc-devkit", "65.30", "MISS",
                           "20 of 21 within their bounds"}) {
    CAPTURE(part);
    CHECK(contains(result.out, part));
  }
}

TEST_CASE("info: a preset prints peaks and the source of each parameter") {
  const ToolResult result = run_tool({"info", "--preset", "ascend910"});
  CHECK(result.exit_code == 0);
  for (const char* part : {"262.1 TFLOP/s", "Hot Chips 31", "assumed", "clock_mhz"}) {
    CAPTURE(part);
    CHECK(contains(result.out, part));
  }
  const ToolResult wrong = run_tool({"info", "--preset", "ascend911"});
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.err, "ascend910b1"));
}

TEST_CASE("train: a profile is written and shown as a table") {
  const std::string folder = folder_of("profile");
  const ToolResult trained =
      run_tool({"train", "--model", "mlp", "--steps", "4", "--preset", "ascend910", "--precision",
                "fp32", "--profile", folder, "--profile-steps", "2-3"});
  CHECK_MESSAGE(trained.exit_code == 0, trained.err);
  CHECK(contains(trained.out, "device clock"));
  for (const char* file :
       {"op_summary.csv", "op_statistic.csv", "step_trace.csv", "timeline.json", "advice.txt"}) {
    CAPTURE(file);
    CHECK(std::filesystem::file_size(folder + "/" + file) > 0);
  }
  const ToolResult shown = run_tool({"profile", folder});
  CHECK_MESSAGE(shown.exit_code == 0, shown.err);
  // A launch has the names of its nodes, and the scopes of the layers that made them.
  CHECK(contains(shown.out, "hidden2/matmul + add + relu"));
  CHECK(contains(shown.out, "loss/sum + div"));
  CHECK(contains(read_text(folder + "/op_summary.csv"), "hidden2/matmul + add + relu"));
  CHECK(contains(shown.out, "step 2"));
  CHECK(contains(shown.out, "bound by"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("train: folders of profiles that cannot be made are told of by their flag") {
  const TempFolder files;
  std::filesystem::create_symlink("loop", files.file("loop"));
  const Words train = {"train", "--quiet", "--steps", "1", "--threads", "1"};
  const auto error = [&](const std::string& flag, const std::string& value) {
    Words words = train;
    words.insert(words.end(), {flag, value});
    const ToolResult result = run_tool(words);
    CHECK(result.exit_code != 0);
    return result.err;
  };
  for (const std::string& name : {std::string("loop"), std::string(300, 'x')}) {
    const std::string folder = files.file(name);
    CAPTURE(folder);
    const std::string flag = error("--profile", folder);
    CHECK_MESSAGE(
        flag.starts_with("keel: error: --profile: " + folder + ": the folder cannot be made: "),
        flag);
    const std::string options = error("--profiling-options", "{\"output\": \"" + folder + "\"}");
    CHECK_MESSAGE(contains(options, "output of the profiling options: " + folder + ": the folder"),
                  options);
  }
}

TEST_CASE("train: steps of a resumed training's profile count from its first one") {
  const TempFolder files;
  const Words train = {"train", "--quiet", "--model", "mlp", "--threads", "1"};
  const auto run = [&](const Words& more) {
    Words words = train;
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  const std::string states = files.file("states"), folder = files.file("p");
  REQUIRE(run({"--steps", "10", "--save", states}).exit_code == 0);
  const Words resumed = {"--resume", states, "--steps", "14", "--profile", folder};
  const auto profiled = [&](const std::string& steps) {
    Words words = resumed;
    words.insert(words.end(), {"--profile-steps", steps});
    return run(words);
  };
  const ToolResult behind = profiled("6-7");
  CHECK(behind.exit_code == 2);
  CHECK_MESSAGE(contains(behind.err,
                         "--profile-steps: expected steps up to 4, as they count from the first "
                         "one behind the 10 of --resume, got 6"),
                behind.err);
  const ToolResult clamped = profiled("3-7");
  CHECK_MESSAGE(clamped.exit_code == 0, clamped.err);
  const std::string trace = read_text(folder + "/step_trace.csv");
  CHECK_MESSAGE(lines_of(trace).size() == 3, trace);  // names, step 3 and step 4
  // A training that is at its end has no steps to tell of.
  const std::string none = files.file("none");
  const ToolResult ended = run({"--resume", states, "--steps", "10", "--profile", none});
  CHECK_MESSAGE(ended.exit_code == 0, ended.err);
  CHECK_MESSAGE(contains(ended.err, "no profile is written: this run has no steps"), ended.err);
  CHECK_FALSE(std::filesystem::exists(none));
}

TEST_CASE("train: the profile of an accelerated training is of the phase that it resumes in") {
  const TempFolder files;
  const auto profile = [&](const Words& more) {
    Words words = {
        "train",         "--quiet",         "--model", "mlp",      "--accelerate-train-mode",
        "fast|step|0.5", "--profile-steps", "1-2",     "--profile"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words);
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    return read_text(more.front() + "/op_summary.csv");
  };
  const std::string states = files.file("states");
  CHECK(contains(profile({files.file("p"), "--steps", "8", "--save", states}), "FLOAT16"));
  // The first steps of this run come behind those of mixed f16.
  CHECK_FALSE(contains(profile({files.file("q"), "--steps", "12", "--resume", states}), "FLOAT16"));
}

TEST_CASE("train: the profile of a part of a job is of the phase that the job is in") {
  const TempFolder files;
  const auto profile = [&](const std::string& steps, const Variables& job) {
    const std::string folder = files.file("p");
    const ToolResult result =
        run_tool({"train", "--quiet", "--model", "mlp", "--steps", "8", "--accelerate-train-mode",
                  "fast|step|0.5", "--profile", folder, "--profile-steps", steps},
                 job);
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    return folder;
  };
  const auto summary = [&](const std::string& steps, const Variables& job) {
    return read_text(profile(steps, job) + "/op_summary.csv");
  };
  CHECK_FALSE(contains(summary("7-8", {}), "FLOAT16"));
  CHECK(contains(summary("7-8", {{"TOTAL_STEP", "100"}}), "FLOAT16"));
  CHECK_FALSE(contains(summary("7-8", {{"TOTAL_STEP", "100"}, {"STEP_NOW", "60"}}), "FLOAT16"));
  // The job's step 50, the last fast one, is this run's fourth.
  const std::string trace =
      read_text(profile("3-8", {{"TOTAL_STEP", "100"}, {"STEP_NOW", "46"}}) + "/step_trace.csv");
  CHECK_MESSAGE(lines_of(trace).size() == 3, trace);  // names, step 3 and step 4
}

TEST_CASE("train: presets and block_dim leave the weights as they are") {
  const std::string folder = folder_of("presets");
  std::filesystem::create_directories(folder);
  std::string sha;
  for (const Words& extra : {Words{}, Words{"--preset", "ascend310"}, Words{"--block-dim", "1"}}) {
    // Of themselves presets compute in other precision modes.
    Words words = {"train",     "--steps",          "3",           "--quiet",
                   "--summary", folder + "/s.json", "--precision", "fp32"};
    words.insert(words.end(), extra.begin(), extra.end());
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    const auto summary = read_json(folder + "/s.json");
    const auto hash = summary.at("state_sha256").get<std::string>();
    CHECK(summary.at("step_device_us") > 0);
    if (!sha.empty()) CHECK(hash == sha);
    sha = hash;
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("train: wrong flags about the NPU are refused") {
  struct Row {
    Words words;
    const char* part;
  };
  const Row rows[] = {
      {{"train", "--preset", "nothing"}, "ascend910b1"},
      {{"train", "--block-dim", "0"}, "--block-dim"},
      {{"train", "--profile-steps", "1-2"}, "--profile DIR"},
      {{"train", "--profile", "/tmp/x", "--profile-steps", "3-2"}, "--profile-steps"},
      {{"train", "--backend", "cpu", "--preset", "ascend910"}, "--backend npu"},
      {{"profile"}, "folder"},
  };
  for (const Row& row : rows) {
    CAPTURE(join(row.words));
    const ToolResult result = run_tool(row.words);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, row.part));
  }
  for (const std::string folder : {"/no/such/folder", "/"}) {
    const ToolResult result = run_tool({"profile", folder});
    CHECK(result.exit_code == 1);
    CHECK_MESSAGE(contains(result.err, folder + ": holds no profile"), result.err);
    CHECK_MESSAGE(contains(result.err, "keel train --profile DIR"), result.err);
  }
}

TEST_SUITE_END();
