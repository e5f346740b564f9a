// Ctrl-C in `keel train`: once finishes the step, saves and summarises; twice ends it at once.
#include <filesystem>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
namespace fs = std::filesystem;

struct Cut {
  ToolResult result;
  TempFolder files;
  bool has(const std::string& name) const { return fs::exists(files.file(name)); }
};

// A training without an end, interrupted once its first steps are in the metrics file.
void interrupt(Cut& cut, const Words& more, int signals) {
  static const TempFolder data;
  static const bool written = (DataSet(200, 20).write_to(data), true);
  REQUIRE(written);
  const std::string metrics = cut.files.file("metrics");
  Words words = {"train",       "--quiet",
                 "--data",      data.path(),
                 "--steps",     "1000000000",
                 "--loop-size", "1000000",
                 "--metrics",   metrics,
                 "--summary",   cut.files.file("summary"),
                 "--save",      cut.files.file("states")};
  words.insert(words.end(), more.begin(), more.end());
  cut.result = run_tool_until(
      words, [&] { return fs::exists(metrics) && fs::file_size(metrics) > 0; }, signals);
}

}  // namespace

TEST_CASE("cancel: Ctrl-C once finishes the step and saves on every backend") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Cut cut;
    interrupt(cut, {"--backend", backend, "--batch", "16"}, 1);
    CHECK_MESSAGE(cut.result.exit_code == 130, cut.result.err);
    REQUIRE(cut.has("states"));
    const auto summary = read_json(cut.files.file("summary"));
    const int64_t steps = summary.at("steps");
    CHECK(steps > 0);
    CHECK(steps < 1000000);  // in the middle of a launch
    CHECK(read_json_lines(cut.files.file("metrics")).size() == static_cast<size_t>(steps));
    CHECK(read_json_lines(cut.files.file("metrics")).back().at("step") == steps);
  }
}

TEST_CASE("cancel: Ctrl-C twice ends it at once and writes nothing") {
  // A step of the oracle on such a model takes longer than it takes to press twice; pressing on,
  // since signals that come together are one.
  Cut cut;
  interrupt(cut, {"--model", "lenet", "--backend", "ref", "--batch", "20", "--threads", "1"}, 1000);
  CHECK_MESSAGE(cut.result.exit_code == 130, cut.result.err);
  CHECK(!cut.has("states"));
  CHECK(!cut.has("summary"));
}

// timeout(1) sends its signal to the process and at once to the process group.
TEST_CASE("cancel: a signal to the process and to its group is one request") {
  const DataFolder data(200, 20);
  const TempFolder files;
  const ToolResult result = run_bash(
      R"(set -m
      "$0" train --quiet --data "$1" --steps 1000000000 --loop-size 1000000 --batch 16 --threads 1 \
        --metrics "$2" --save "$3" &
      until [ -s "$2" ] || ! kill -0 $!; do sleep 0.01; done
      kill -TERM -- $! -$!; wait $!)",
      {data.path(), files.file("metrics"), files.file("states")});
  CHECK_MESSAGE(result.exit_code == 128 + SIGTERM, result.err);
  CHECK_MESSAGE(result.err.find("keel: ") == std::string::npos, result.err);
  CHECK(fs::exists(files.file("states")));
}

TEST_SUITE_END();
