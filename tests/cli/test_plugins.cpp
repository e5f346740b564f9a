// Plugins that are none: each is refused with a message that names the file and says why, and none
// ends the tool in another way.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "keel/core/base/file.h"

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/scale.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

namespace fs = std::filesystem;

std::string plugin(const std::string& name) {
  return std::string(KEEL_TEST_PLUGINS) + "/" + name + ".so";
}

// Refused with exit code 1, one line on stderr that names the file and says `reason`.
void check_plugin_refused(const std::string& path, const std::string& reason) {
  const ToolResult result = run_tool({"info", "--plugin", path});
  CAPTURE(path);
  CAPTURE(result.err);
  CHECK(result.exit_code == 1);
  CHECK(lines_of(result.err).size() == 1);
  CHECK(contains(result.err, path));
  CHECK(contains(result.err, reason));
  CHECK(result.out.empty());
}

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("plugins: wrong entries versions names and exceptions are refused") {
  check_plugin_refused(plugin("no_entry"), "it exports no keel_make_backend");
  check_plugin_refused(plugin("no_abi"), "it exports no keel_backend_abi");
  check_plugin_refused(plugin("entry_is_data"), "is no function");
  check_plugin_refused(plugin("api_version"), "built for version 1 of the backend API");
  check_plugin_refused(plugin("library"), "it was compiled with another library");
  check_plugin_refused(plugin("null"), "its entry gave no backend");
  check_plugin_refused(plugin("throws_error"), "the device is not plugged in");
  check_plugin_refused(plugin("throws_exception"), "the device is on fire");
  check_plugin_refused(plugin("throws_int"), "something that is no exception");
  check_plugin_refused(plugin("name_throws"), "no name today");
  check_plugin_refused(plugin("name_empty"), "got ''");
  check_plugin_refused(plugin("name_control"), "evil\\x1b[31m\\x00backend");
  check_plugin_refused(plugin("name_taken"), "a backend named 'cpu' is there already");
  check_plugin_refused(plugin("no_device"), "has no device");
}

// One line on stderr and exit code 1, whatever the plugin threw or took back.
TEST_CASE("plugins: what a backend throws or takes back ends a training with an error") {
  const Words train = {"train",     "--plugin", plugin("wrong_backend"),
                       "--backend", "wrong",    "--model",
                       "softmax",   "--steps",  "1",
                       "--quiet",   "--data",   "digits"};
  const auto check_ends = [&](const std::string& wrong, const Words& more,
                              const std::string& reason) {
    Words words = train;
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words, {{"KEEL_TEST_WRONG", wrong}});
    CAPTURE(wrong);
    CAPTURE(result.err);
    CHECK(result.exit_code == 1);
    CHECK(lines_of(result.err).size() == 1);
    CHECK(contains(result.err, reason));
  };
  check_ends("", {"--optimizer", "adam"},
             "backend wrong: compile: it threw something that is no exception");
  check_ends("devices", {}, "backend wrong: it has no device now");
  check_ends("copies", {}, "something that is no exception was thrown");
}

TEST_CASE("plugins: what a device says of itself is printed as text") {
  const ToolResult result = run_tool({"info", "--plugin", plugin("wrong_backend")});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "colour\\x1b[2J: red"));
  CHECK(!contains(result.out, "\x1b"));
}

// The prices were taken for those of Keel's NPU, whose lanes no other program has: the measurement
// was thrown away at its end.
TEST_CASE("plugins: bench loop measures steps that another backend prices") {
  const TempFolder temp;
  const std::string json = temp.file("loop.json");
  const ToolResult result = run_tool(
      {"bench", "loop", "--plugin", plugin("wrong_backend"), "--backend", "wrong", "--sizes",
       "1,10", "--seconds", "0.01", "--batch", "1", "--json", json, "--html", temp.file("p")},
      {{"KEEL_TEST_WRONG", "prices"}});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const auto measured = read_json(json);
  CHECK(measured["sizes"][0]["step_device_us"] == 1.5);
  CHECK(measured["npu_preset"] == "abacus");
  REQUIRE(measured["timelines"].size() == 4);
  for (const auto& timeline : measured["timelines"]) CHECK(!timeline.contains("device_lanes"));
  CHECK(contains(read_text(temp.file("p")), "wrong (device clock)"));
}

TEST_CASE("plugins: no output goes over a plugin that is loaded") {
  const TempFolder temp;
  const std::string path = temp.file("backend.so");
  fs::copy_file(plugin("wrong_backend"), path);
  const std::string before = keel::read_file(path, 1 << 28);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "--steps", "1", "--save", path},
        {"train", "--steps", "1", "--summary", path},
        {"conformance", "--ops", "add", "--json", path},
        {"bench", "compile", "--json", path}}) {
    CAPTURE(words[0]);
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--plugin", path});
    const ToolResult result = run_tool(all);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, "would overwrite the file that --plugin reads"));
    CHECK(keel::read_file(path, 1 << 28) == before);
  }
}

TEST_CASE("plugins: files that are no shared objects are refused") {
  const TempFolder temp;
  check_plugin_refused(temp.file("missing.so"), "No such file");
  check_plugin_refused(temp.path(), "a regular file");
  check_plugin_refused(temp.write("empty.so", ""), "too short");
  check_plugin_refused(temp.write("text.so", std::string(4000, 'x')), "does not begin with");
  const std::string fifo = temp.file("fifo.so");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  check_plugin_refused(fifo, "a regular file");
  check_plugin_refused(KEEL_TOOL, "keel_make_backend");
  std::string foreign = read_text(plugin("no_device"));
  foreign[18] = static_cast<char>(foreign[18] ^ 0x55);  // e_machine
  check_plugin_refused(temp.write("foreign.so", foreign), "another kind of processor");
}

TEST_CASE("plugins: a file cut anywhere is refused or whole") {
  const TempFolder temp;
  const std::string whole = read_text(plugin("no_device"));
  const size_t stride = long_scale() ? 61 : whole.size() / 40 + 1;
  for (size_t size = 1; size < whole.size(); size += stride) {
    const ToolResult result =
        run_tool({"info", "--plugin", temp.write("cut.so", whole.substr(0, size))});
    CAPTURE(size);
    CAPTURE(result.err);
    // Behind the last loaded segment stands nothing that the loader needs.
    CHECK(result.exit_code == 1);
    CHECK((contains(result.err, "truncated") || contains(result.err, "too short") ||
           contains(result.err, "has no device")));
  }
}

TEST_SUITE_END();

}  // namespace keel_test
