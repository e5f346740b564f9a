// `keel train --checkpoint`: which files are written and stay, what resuming from the folder gives,
// and what an error of saving does to a training.
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <doctest/doctest.h>
#include <sys/file.h>

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"
#include "support/safetensors_bytes.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;

Words quiet_training(const Words& more) {
  Words words = {"train", "--quiet", "--data", small_data().path(), "--batch", "16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string file_of(const TempFolder& files, int64_t step) {
  const std::string digits = std::to_string(step);
  return files.file("runs/step-" + std::string(10 - digits.size(), '0') + digits + ".safetensors");
}

nlohmann::json metadata_of(const std::string& path) {
  return nlohmann::json::parse(safetensors_header(read_text(path))).at("__metadata__");
}

// Whether this may mount: then a disk can be full, or be read-only, for real.
bool may_mount() {
  return run_program("/usr/bin/unshare", {"-m", "/bin/mount", "-t", "tmpfs", "none", "/mnt"})
             .exit_code == 0;
}

}  // namespace

TEST_CASE("checkpoints: a training is resumed from the folder as if nothing had been") {
  for (const char* model : {"softmax", "mlp"}) {
    CAPTURE(model);
    const TempFolder files;
    const Words base = {"--model",      model, "--optimizer", "adam", "--seed",      "3",
                        "--validation", "40",  "--shift",     "1",    "--keep-best", "loss"};
    const auto run = [&](const std::string& name, Words words) {
      words.insert(words.end(), {"--summary", files.file(name + ".json"), "--metrics",
                                 files.file(name + ".metrics")});
      const ToolResult result = run_tool(words);
      REQUIRE_MESSAGE(result.exit_code == 0, result.err);
      return read_json(files.file(name + ".json"));
    };
    const auto with = [&](Words words) {
      words.insert(words.end(), base.begin(), base.end());
      return quiet_training(words);
    };
    const auto whole = run("whole", with({"--steps", "43"}));
    const auto saved = [&](const std::string& steps) {
      return Words{"--steps",      steps, "--checkpoint", files.file("runs"),
                   "--save-every", "7",   "--keep",       "2"};
    };
    run("part", with(saved("17")));
    const auto part = read_json(files.file("part.json")).at("checkpoint");
    CHECK(part.at("last_step") == 17);
    CHECK(part.at("last_file") == file_of(files, 17));
    CHECK(part.at("folder") == files.file("runs"));
    CHECK(part.at("failed") == 0);
    Words more = {"train", "--quiet", "--resume", files.file("runs"), "--keep-best", "loss"};
    const Words rest = saved("43");
    more.insert(more.end(), rest.begin(), rest.end());
    const auto end = run("part", more);
    CHECK(end.at("resumed_at_step") == 17);
    CHECK(end.at("state_sha256") == whole.at("state_sha256"));
    CHECK(end.at("test_accuracy") == whole.at("test_accuracy"));
    CHECK(end.at("best_step") == whole.at("best_step"));
    CHECK(end.at("kept_best") == whole.at("kept_best"));
    CHECK(read_text(files.file("part.metrics")) == read_text(files.file("whole.metrics")));
    // The best stays beside the two newest.
    const int64_t best = end.at("best_step");
    CHECK(fs::exists(file_of(files, best)));
    CHECK(fs::exists(file_of(files, 43)));
    CHECK(names_in(files.file("runs")).size() <= 3);
  }
}

TEST_CASE("checkpoints: a file says all about its run and is a file like any other") {
  const TempFolder files;
  REQUIRE(run_tool(
              quiet_training({"--steps", "12", "--lr", "0.25", "--checkpoint", files.file("runs")}))
              .exit_code == 0);
  CHECK(names_in(files.file("runs")) == Words{"step-0000000012.safetensors"});
  const auto metadata = metadata_of(file_of(files, 12));
  CHECK(metadata.at("step") == "12");
  CHECK(metadata.at("updates") == "12");
  CHECK(metadata.at("seed") == "0");
  CHECK(metadata.at("backend") == "npu");
  CHECK_FALSE(metadata.at("isa").get<std::string>().empty());
  for (const char* name : {"cursor_epoch", "cursor_position", "cursor_key", "keel_sha256"})
    CHECK(metadata.contains(name));
  const auto run = nlohmann::json::parse(metadata.at("run").get<std::string>());
  CHECK(run.at("model") == "softmax");
  CHECK(run.at("lr") == 0.25);
  CHECK(run.at("batch") == 16);
  CHECK(run.at("optimizer") == "sgd");
  CHECK(run_tool({"inspect", file_of(files, 12)}).exit_code == 0);
  CHECK(run_tool({"eval", "--load", file_of(files, 12), "--data", small_data().path()}).exit_code ==
        0);
}

TEST_CASE("checkpoints: a time is a period as well and the metrics are not torn by it") {
  const TempFolder files;
  const std::string metrics = files.file("metrics");
  const ToolResult result =
      run_tool(quiet_training({"--steps", "2000", "--loop-size", "100000", "--checkpoint",
                               files.file("runs"), "--save-every", "5ms", "--keep", "0",
                               "--metrics", metrics, "--summary", files.file("summary")}));
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json_lines(metrics).size() == 2000);
  const auto summary = read_json(files.file("summary"));
  CHECK(summary.at("steps") == 2000);
  CHECK(summary.at("checkpoint").at("saved") == names_in(files.file("runs")).size());
}

TEST_CASE("checkpoints: a signal leaves one of the step that it ended") {
  const TempFolder files;
  const std::string metrics = files.file("metrics");
  const ToolResult result = run_tool_until(
      quiet_training({"--steps", "1000000000", "--metrics", metrics, "--summary",
                      files.file("summary"), "--checkpoint", files.file("runs"), "--save-every",
                      "1h"}),
      [&] { return fs::exists(metrics) && fs::file_size(metrics) > 0; }, 1, SIGTERM);
  CHECK(result.exit_code == 128 + SIGTERM);
  const int64_t steps = read_json(files.file("summary")).at("steps");
  CHECK(fs::exists(file_of(files, steps)));
}

TEST_CASE("checkpoints: a damaged newest file is refused and the one before it is named") {
  const TempFolder files;
  const std::string runs = files.file("runs");
  const Words outputs = {"--checkpoint", runs, "--summary", files.file("summary")};
  const auto resume = [&](const std::string& from, const std::string& steps) {
    Words words = {"train", "--quiet", "--resume", from, "--steps", steps};
    words.insert(words.end(), outputs.begin(), outputs.end());
    return run_tool(words);
  };
  Words first = quiet_training({"--steps", "10"});
  first.insert(first.end(), outputs.begin(), outputs.end());
  REQUIRE(run_tool(first).exit_code == 0);
  REQUIRE(resume(runs, "20").exit_code == 0);
  REQUIRE(resume(runs, "30").exit_code == 0);
  const std::string newest = file_of(files, 30);
  std::string bytes = read_text(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  std::ofstream(newest, std::ios::binary) << bytes;
  check_failed(resume(runs, "40"), 1,
               {"--resume: " + newest, "checksum", file_of(files, 24) + ", of step 24"});
  // The older one is gone on with, and the damaged one goes when the first new one is there.
  CHECK(resume(file_of(files, 24), "40").exit_code == 0);
  CHECK_FALSE(fs::exists(newest));
  REQUIRE(run_tool(quiet_training({"--steps", "40", "--summary", files.file("whole")})).exit_code ==
          0);
  CHECK(read_json(files.file("summary")).at("state_sha256") ==
        read_json(files.file("whole")).at("state_sha256"));
}

TEST_CASE("checkpoints: the folder of another training and wrong flags are refused") {
  const TempFolder files;
  const std::string runs = files.file("runs");
  REQUIRE(run_tool(quiet_training({"--steps", "5", "--checkpoint", runs})).exit_code == 0);
  const auto refused = [&](const Words& words, int exit_code, const Words& parts) {
    CAPTURE(join(words));
    check_failed(run_tool(quiet_training(words)), exit_code, parts);
    CHECK(names_in(runs) == Words{"step-0000000005.safetensors"});
  };
  refused({"--steps", "9", "--checkpoint", runs}, 1,
          {"--checkpoint", runs, "another training", "step 5", "resume"});
  refused({"--checkpoint", small_data().file("train-images-idx3-ubyte")}, 1,
          {"--checkpoint", "expected a folder"});
  refused({"--checkpoint", "/proc/none"}, 1, {"--checkpoint", "/proc/none"});
  refused({"--save-every", "3"}, 2, {"--save-every", "--checkpoint"});
  refused({"--keep", "3"}, 2, {"--keep", "--checkpoint"});
  refused({"--on-save-error", "stop"}, 2, {"--on-save-error", "--checkpoint"});
  const auto refused_beside = [&](const char* flag, const char* value, const Words& parts) {
    refused({"--checkpoint", files.file("new"), flag, value}, 2, parts);
    CHECK_FALSE(fs::exists(files.file("new")));
  };
  for (const char* wrong : {"0", "-1", "x", "0s", "-3s", "s", "5 s", "5d", "nanms", "1e99h"})
    refused_beside("--save-every", wrong, {"--save-every"});
  refused_beside("--keep", "-1", {"--keep"});
  refused_beside("--on-save-error", "ignore", {"--on-save-error", "continue", "stop"});
  refused_beside("--keep-best", "acuracy", {"--keep-best", "accuracy"});
  refused_beside("--save", files.file("new").c_str(), {"--save", "--checkpoint"});
  refused({"--resume", files.path()}, 1, {"--resume", "no checkpoint"});
  refused({"--keep-best", "loss", "--metric", "accuracy"}, 2, {"--keep-best", "--metric"});
}

TEST_CASE("checkpoints: a folder that another training writes to costs no metrics") {
  const TempFolder files;
  const std::string runs = files.file("runs"), metrics = files.write("metrics", "{\"step\":1}\n");
  fs::create_directory(runs);
  const int folder = ::open(runs.c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(folder >= 0);
  REQUIRE(::flock(folder, LOCK_EX | LOCK_NB) == 0);
  check_failed(
      run_tool(quiet_training({"--steps", "5", "--checkpoint", runs, "--metrics", metrics})), 1,
      {"--checkpoint", "another training writes to it"});
  ::close(folder);
  CHECK(read_text(metrics) == "{\"step\":1}\n");
}

TEST_CASE(
    "checkpoints: metrics that lack lines before the file's step are gone on with and told of") {
  const TempFolder files;
  const std::string runs = files.file("runs"), metrics = files.file("metrics");
  REQUIRE(run_tool(quiet_training({"--steps", "12", "--checkpoint", runs, "--metrics", metrics}))
              .exit_code == 0);
  const std::string whole = read_text(metrics);
  files.write("metrics", whole.substr(0, whole.find("{\"step\":11,")));
  const ToolResult result =
      run_tool({"train", "--quiet", "--resume", runs, "--steps", "14", "--metrics", metrics});
  CHECK(result.exit_code == 0);
  CHECK_MESSAGE(result.err.find("has no line of step 12") != std::string::npos, result.err);
  CHECK(read_json_lines(metrics).size() == 12);
}

TEST_CASE(
    "checkpoints: a file in the way is told and the training goes on or stops as it is told") {
  const TempFolder files;
  fs::create_directories(file_of(files, 30));
  const auto run = [&](const char* policy) {
    return run_tool(quiet_training({"--steps",
                                    "100000",
                                    "--loop-size",
                                    "100000",
                                    "--stop-at",
                                    "2",
                                    "--metric",
                                    "loss",
                                    "--eval-every",
                                    "60",
                                    "--lr",
                                    "0.001",
                                    "--checkpoint",
                                    files.file("runs"),
                                    "--save-every",
                                    "30",
                                    "--on-save-error",
                                    policy,
                                    "--save",
                                    files.file("states"),
                                    "--summary",
                                    files.file("summary")}));
  };
  const ToolResult stopped = run("stop");
  check_failed(stopped, 1, {file_of(files, 30), "expected a regular file"});
  auto summary = read_json(files.file("summary"));
  CHECK(summary.at("steps") < 100000);
  REQUIRE(summary.at("errors").size() == 1);
  // As it is on stderr, without a line of the tool's own source.
  const std::string told = summary.at("errors")[0];
  CHECK_MESSAGE(stopped.err.find("keel: error: " + told + "\n") != std::string::npos, told);
  // Nothing is lost: --save has the last step.
  CHECK(metadata_of(files.file("states")).at("step") ==
        std::to_string(summary.at("steps").get<int64_t>()));
  const ToolResult on = run("continue");
  check_failed(on, 1, {file_of(files, 30), "expected a regular file"});
  CHECK(lines_of(on.err).size() == 1);
  summary = read_json(files.file("summary"));
  CHECK(summary.at("stopped_by") == "stop-at");
  CHECK(summary.at("checkpoint").at("failed") == 1);
  CHECK(summary.at("checkpoint").at("last_step") == summary.at("steps"));
}

TEST_CASE("checkpoints: a full and a read-only disk lose neither the training nor older files") {
  if (!may_mount()) {
    MESSAGE("keel test skipped: no right to mount a disk that can be full");
    return;
  }
  const TempFolder files;
  fs::create_directory(files.file("runs"));
  REQUIRE(run_tool(quiet_training({"--steps", "3000", "--summary", files.file("whole"), "--metrics",
                                   files.file("whole.metrics")}))
              .exit_code == 0);
  const auto words = [&](const std::string& steps, const char* policy) {
    return quiet_training({"--steps", steps, "--checkpoint", files.file("runs"), "--save-every",
                           "100", "--keep", "2", "--on-save-error", policy, "--metrics",
                           files.file("metrics"), "--summary", files.file("summary")});
  };
  // A file of softmax takes 33 KiB: one fits, and a second one does not.
  const char* full = R"(
    exec unshare -m bash -c 'mount -t tmpfs -o size=56k none "$RUNS" || exit 99
      "$0" "$@"; echo "exit $?"; ls -A "$RUNS"
      mount -o remount,size=200k "$RUNS"
      "$0" train --quiet --resume "$RUNS" --checkpoint "$RUNS" --steps 3000 --metrics "$METRICS" \
        --summary "$SUMMARY"; echo "exit $?"' "$0" "$@")";
  const Variables variables = {{"RUNS", files.file("runs")},
                               {"METRICS", files.file("metrics")},
                               {"SUMMARY", files.file("summary")}};
  const ToolResult went_on = run_bash(full, words("1000", "continue"), variables);
  CHECK_MESSAGE(went_on.out == "exit 1\nstep-0000000100.safetensors\nexit 0\n",
                went_on.out << went_on.err);
  CHECK_MESSAGE(went_on.err.find("No space left on device") != std::string::npos, went_on.err);
  CHECK(read_json(files.file("summary")).at("resumed_at_step") == 100);
  CHECK(read_json(files.file("summary")).at("state_sha256") ==
        read_json(files.file("whole")).at("state_sha256"));
  CHECK(read_text(files.file("metrics")) == read_text(files.file("whole.metrics")));

  const ToolResult stopped = run_bash(full, words("100000000", "stop"), variables);
  CHECK_MESSAGE(stopped.out == "exit 1\nstep-0000000100.safetensors\nexit 0\n",
                stopped.out << stopped.err);
  CHECK(read_text(files.file("metrics")) == read_text(files.file("whole.metrics")));

  const char* read_only = R"(
    exec unshare -m bash -c 'mount -t tmpfs none "$RUNS" || exit 99
      "$0" "$@" & until ls "$RUNS"/step-* > "$METRICS.list" 2>&1; do sleep 0.01; done
      until kill -STOP $! && mount -o remount,ro "$RUNS" 2> "$METRICS.list"; do
        kill -CONT $!; sleep 0.001
      done
      kill -CONT $!; wait $!; echo "exit $?"
      "$0" "$@"; echo "exit $?"
      mount -o remount,rw "$RUNS"
      "$0" train --quiet --resume "$RUNS" --checkpoint "$RUNS" --steps 3000 --metrics "$METRICS" \
        --summary "$SUMMARY"; echo "exit $?"' "$0" "$@")";
  const ToolResult shut = run_bash(read_only, words("3000", "continue"), variables);
  CHECK_MESSAGE(shut.out == "exit 1\nexit 1\nexit 0\n", shut.out << shut.err);
  CHECK_MESSAGE(shut.err.find("Read-only file system") != std::string::npos, shut.err);
  CHECK(read_json(files.file("summary")).at("state_sha256") ==
        read_json(files.file("whole")).at("state_sha256"));
}

TEST_SUITE_END();
