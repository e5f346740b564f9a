// `keel train --save` and `--resume`: a training in two parts equals one in a single part.
#include <filesystem>
#include <fstream>
#include <limits>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/safetensors_bytes.h"
#include "support/scale.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;

constexpr int kTotal = 45;
// Beginnings, middles and ends of epochs (12, 24, 36) and of launches of 7.
const std::vector<int> kStops = {1,  2,  3,  5,  6,  7,  8,  11, 12, 13,
                                 17, 19, 23, 24, 25, 29, 31, 36, 40, 44};

// With a metrics file of its own, or in the one of another run.
ToolResult train_to_files(const TempFolder& files, const std::string& name, const Words& words,
                          const std::string& metrics = "") {
  Words all = {"train",     "--quiet",
               "--summary", files.file(name + ".json"),
               "--metrics", files.file((metrics.empty() ? name : metrics) + ".metrics")};
  all.insert(all.end(), words.begin(), words.end());
  return run_tool(all);
}

// The mlp's trainings take long: it stops at the corners of launches and epochs alone but for long
// scale.
const std::vector<int>& mlp_stops() {
  static const std::vector<int> corners = {1, 6, 7, 12, 25, 44};
  return long_scale() ? kStops : corners;
}

// Whatever the launches are cut into, before and after the stop.
void check_every_stop(const Words& model, const std::vector<int>& stops) {
  const TempFolder files;
  const Words base = with(model, {"--data", small_data().path(), "--batch", "16", "--seed", "5"});
  REQUIRE(train_to_files(files, "whole",
                         with(base, {"--steps", std::to_string(kTotal), "--loop-size", "10"}))
              .exit_code == 0);
  const std::string expected = read_text(files.file("whole.metrics"));
  const auto whole = read_json(files.file("whole.json"));
  for (size_t i = 0; i < stops.size(); ++i) {
    CAPTURE(stops[i]);
    const std::string loop_size = i % 2 == 0 ? "7" : "100";
    const std::string file = files.file("states");
    ToolResult part = train_to_files(files, "first",
                                     with(base, {"--steps", std::to_string(stops[i]), "--loop-size",
                                                 loop_size, "--save", file}));
    REQUIRE_MESSAGE(part.exit_code == 0, part.err);
    // Model, optimizer, batch, seed and data come from the file.
    part = train_to_files(files, "second",
                          {model[0], model[1], "--resume", file, "--steps", std::to_string(kTotal),
                           "--loop-size", loop_size},
                          "first");
    REQUIRE_MESSAGE(part.exit_code == 0, part.err);
    CHECK(read_text(files.file("first.metrics")) == expected);
    const auto second = read_json(files.file("second.json"));
    CHECK(second.at("state_sha256") == whole.at("state_sha256"));
    CHECK(second.at("test_accuracy") == whole.at("test_accuracy"));
    CHECK(second.at("steps") == kTotal - stops[i]);
    CHECK(second.at("resumed_at_step") == stops[i]);
  }
}

void check_resume_refused(const Words& words, int exit_code, const Words& parts) {
  const TempFolder out;
  CAPTURE(join(words));
  const ToolResult result = run_tool(with({"train", "--summary", out.file("summary"), "--metrics",
                                           out.file("metrics"), "--save", out.file("states")},
                                          words));
  CHECK(result.exit_code == exit_code);
  REQUIRE_MESSAGE(lines_of(result.err).size() == 1, result.err);
  for (const std::string& part : parts)
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err << " lacks " << part);
  CHECK_MESSAGE(out.empty(), "a file was written");
}

}  // namespace

TEST_CASE("resume: softmax on cpu is bit-equal whatever the step it stopped at") {
  check_every_stop({"--backend", "cpu", "--model", "softmax"}, kStops);
}
TEST_CASE("resume: softmax on npu is bit-equal whatever the step it stopped at") {
  check_every_stop({"--backend", "npu", "--model", "softmax"}, kStops);
}
TEST_CASE("resume: mlp with adam on cpu is bit-equal whatever the step it stopped at") {
  check_every_stop({"--backend", "cpu", "--model", "mlp", "--optimizer", "adam"}, mlp_stops());
}
TEST_CASE("resume: mlp with adam on npu is bit-equal whatever the step it stopped at") {
  check_every_stop({"--backend", "npu", "--model", "mlp", "--optimizer", "adam"}, mlp_stops());
}

TEST_CASE("resume: a training that Ctrl-C ended goes on as if it had not been") {
  const TempFolder files;
  const Words base = {"--data", small_data().path(), "--batch", "16", "--loop-size", "1000"};
  const std::string metrics = files.file("first.metrics");
  const ToolResult cut = run_tool_until(
      with({"train", "--quiet", "--metrics", metrics, "--summary", files.file("first.json"),
            "--save", files.file("states"), "--steps", "1000000000"},
           base),
      [&] { return fs::exists(metrics) && fs::file_size(metrics) > 0; });
  REQUIRE_MESSAGE(cut.exit_code == 130, cut.err);
  const int done = read_json(files.file("first.json")).at("steps");
  const std::string total = std::to_string(done + 30);
  REQUIRE(
      train_to_files(files, "second", {"--resume", files.file("states"), "--steps", total}, "first")
          .exit_code == 0);
  REQUIRE(train_to_files(files, "whole", with(base, {"--steps", total})).exit_code == 0);
  CHECK(read_text(metrics) == read_text(files.file("whole.metrics")));
  CHECK(read_json(files.file("second.json")).at("state_sha256") ==
        read_json(files.file("whole.json")).at("state_sha256"));
}

TEST_CASE("resume: metrics go on behind the step of the file and a torn line goes") {
  const TempFolder files;
  const Words base = {"--data", small_data().path(), "--batch", "16"};
  REQUIRE(train_to_files(files, "whole", with(base, {"--steps", "30"})).exit_code == 0);
  REQUIRE(train_to_files(files, "first", with(base, {"--steps", "10", "--save", files.file("s")}))
              .exit_code == 0);
  const std::string metrics = files.file("first.metrics");
  const std::string first = read_text(metrics);
  const auto check = [&](const std::string& before) {
    files.write("first.metrics", before);
    REQUIRE(train_to_files(files, "second",
                           with(base, {"--resume", files.file("s"), "--steps", "30"}), "first")
                .exit_code == 0);
    CHECK(read_text(metrics) == read_text(files.file("whole.metrics")));
  };
  check(first);
  check(read_text(metrics));  // the file of all 30 steps
  check(first + "{\"step\":11,\"epoch\":1,\"lo");
  check(first.substr(0, first.size() - 1));  // whole, but for its end
}

TEST_CASE("resume: flags that contradict the file are refused naming both") {
  const TempFolder files;
  const std::string file = files.file("states");
  const std::string& data = small_data().path();
  REQUIRE(train_to_files(files, "first",
                         {"--data", data, "--batch", "16", "--steps", "5", "--save", file})
              .exit_code == 0);
  const auto refused = [&](const Words& words, const Words& parts, int exit_code = 1) {
    check_resume_refused(with({"--resume", file}, words), exit_code, parts);
  };
  refused({"--model", "mlp"}, {"--model", "softmax", "mlp", file});
  refused({"--batch", "20"}, {"--batch", "16", "20", file});
  refused({"--seed", "7"}, {"--seed", "expected 0", "got 7", file});
  refused({"--optimizer", "adam"}, {"--optimizer", "sgd", "adam", file});
  refused({"--data", "digits"}, {"--data", "sha256", data, file});
  refused({"--steps", "4"}, {"--steps", "5 steps", file});
  // A folder that went away.
  const TempFolder moved;
  DataSet(200, 20).write_to(moved);
  CHECK(train_to_files(files, "second", {"--resume", file, "--steps", "6", "--data", moved.path()})
            .exit_code == 0);
  // The rate may change; all flags may be given as they were.
  CHECK(train_to_files(files, "second",
                       {"--resume", file, "--steps", "6", "--lr", "0.1", "--model", "softmax",
                        "--batch", "16", "--seed", "0", "--optimizer", "sgd", "--data", data})
            .exit_code == 0);
  CHECK(read_json(files.file("second.json")).at("lr") == 0.1);
  // Nothing left to do is no error.
  CHECK(train_to_files(files, "second", {"--resume", file, "--steps", "5"}).exit_code == 0);
  CHECK(read_json(files.file("second.json")).at("steps") == 0);
}

TEST_CASE("resume: files that are missing or damaged or too old are refused") {
  const TempFolder files;
  const std::string file = files.file("states");
  const Words base = {"--data", small_data().path(), "--batch", "16"};
  REQUIRE(train_to_files(files, "first", with(base, {"--steps", "5", "--save", file})).exit_code ==
          0);
  const std::string bytes = read_text(file);
  const auto refused = [&](const std::string& content, const Words& parts) {
    const std::string bad = files.file("bad");
    std::ofstream(bad, std::ios::binary) << content;
    check_resume_refused({"--resume", bad}, 1, with(parts, {bad}));
  };
  check_resume_refused({"--resume", files.file("nowhere")}, 1, {files.file("nowhere")});
  check_resume_refused({"--resume", files.path()}, 1, {files.path()});
  refused("", {});
  refused("no safetensors at all", {});
  for (const size_t length : {size_t{7}, size_t{100}, bytes.size() / 2, bytes.size() - 1})
    refused(bytes.substr(0, length), {});
  // The same number of bytes, so that the header's length stays right.
  const auto renamed = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  const auto refused_and_sealed = [&](const std::string& from, const std::string& to,
                                      const Words& parts) {
    refused(renamed(from, to), {"checksum"});
    refused(with_right_checksums(renamed(from, to)), parts);
  };
  refused_and_sealed("cursor_position", "cursor_positiom", {"cursor_position"});
  refused_and_sealed("data_sha256", "data_sha255", {"data_sha256"});
  refused_and_sealed("\"batch\":\"16\"", "\"batch\":\"1x\"", {"batch", "1x"});
  refused_and_sealed("\"batch\":\"16\"", "\"batch\":\"-1\"", {"batch", "-1"});
  refused_and_sealed("\"batch\":\"16\"", "\"batch\":\"18\"", {"cursor_position", "80"});
  refused_and_sealed("\"lr\":\"0.5\"", "\"lr\":\"nan\"", {"lr", "nan"});
  refused_and_sealed("\"cursor_position\":\"80\"", "\"cursor_position\":\"81\"",
                     {"position", "81"});
  refused_and_sealed("\"cursor_position\":\"80\"", "\"cursor_position\":\"96\"",
                     {"position", "96"});
  refused_and_sealed("\"cursor_epoch\":\"0\"", "\"cursor_epoch\":\"7\"", {"epoch", "7"});
  refused_and_sealed("\"step\":\"5\"", "\"step\":\"6\"", {"80"});
  refused_and_sealed("\"model\":\"softmax\"", "\"model\":\"softmix\"", {"softmix"});
  // The states themselves.
  const auto little_endian = [](int64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const int64_t step : {int64_t{6}, int64_t{-5}, std::numeric_limits<int64_t>::min()}) {
    const std::string changed = replaced(bytes, little_endian(0) + little_endian(5),
                                         little_endian(0) + little_endian(step));
    refused(changed, {"keel/step", "checksum"});
    refused(with_right_checksums(changed), {"keel/step", std::to_string(step)});
  }
  std::string not_a_number = bytes;
  not_a_number.replace(bytes.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));
  refused(not_a_number, {"'w'", "checksum"});
  refused(with_right_checksums(not_a_number), {"'w'", "NaN", "--allow-non-finite"});
  std::ofstream(files.file("nan"), std::ios::binary) << with_right_checksums(not_a_number);
  CHECK(train_to_files(files, "nan",
                       {"--resume", files.file("nan"), "--steps", "5", "--allow-non-finite"})
            .exit_code == 0);
}

TEST_SUITE_END();
