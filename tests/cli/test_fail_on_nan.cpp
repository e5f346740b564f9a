// `--fail-on-nan`: a training that diverges ends behind its first bad step, with an error and the
// weights of the step before.
#include <fstream>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

struct Failed {
  ToolResult result;
  json summary;
  std::string metrics;
};

Failed train_until_nan(const Words& more, const TempFolder& files) {
  Words words = {"train", "--quiet", "--model", "mlp",     "--lr",
                 "1e6",   "--steps", "40",      "--batch", "20"};
  words.insert(words.end(),
               {"--summary", files.file("summary"), "--metrics", files.file("metrics")});
  words.insert(words.end(), more.begin(), more.end());
  const ToolResult result = run_tool(words);
  return {result, read_json(files.file("summary")), read_text(files.file("metrics"))};
}

}  // namespace

TEST_CASE("fail on nan: the step is the same for every loop size and the weights stay finite") {
  for (const char* backend : {"npu", "cpu"}) {
    CAPTURE(backend);
    std::string sha, metrics;
    for (const char* loop_size : {"1", "7", "40"}) {
      CAPTURE(loop_size);
      const TempFolder files;
      const std::string saved = files.file("states");
      const Failed run = train_until_nan(
          {"--backend", backend, "--loop-size", loop_size, "--fail-on-nan", "--save", saved},
          files);
      CHECK(run.result.exit_code == 1);
      const int64_t step = run.summary.at("steps");
      CHECK(step < 40);
      CHECK(contains(run.result.err, "--fail-on-nan: step " + std::to_string(step) +
                                         ": the loss or a gradient is infinite or NaN"));
      CHECK(!run.summary.contains("non_finite_state"));
      CHECK(run.summary.at("updates_applied") == step - 1);
      CHECK(static_cast<int64_t>(lines_of(run.metrics).size()) == step);
      const std::string own = run.summary.at("state_sha256");
      if (!sha.empty()) CHECK(own == sha);
      if (!metrics.empty()) CHECK(run.metrics == metrics);
      sha = own;
      metrics = run.metrics;
      const std::string report = files.file("report");
      REQUIRE(run_tool({"inspect", saved, "--json", report}).exit_code == 0);
      const json inspected = read_json(report);
      REQUIRE(!inspected.at("tensors").empty());
      for (const json& tensor : inspected.at("tensors")) {
        CHECK(tensor.value("nan", 0) == 0);
        CHECK(tensor.value("inf", 0) == 0);
      }
    }
  }
}

TEST_CASE("fail on nan: a sound training has the same weights with it") {
  const TempFolder files;
  const auto run = [&](const Words& more) {
    Words words = {"train", "--quiet", "--steps", "20", "--summary", files.file("summary")};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words);
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    return read_json(files.file("summary"));
  };
  CHECK(run({"--fail-on-nan"}).at("test_loss") == run({}).at("test_loss"));
  // Overflow that the scaling skips is no failure.
  const json scaled = run({"--fail-on-nan", "--model", "mlp", "--precision", "mixed_fp16",
                           "--loss-scale", "exponential,16777216,6,2,2,0.5"});
  CHECK(scaled.at("skipped_steps") > 0);
  const ToolResult both = run_tool({"train", "--fail-on-nan", "--accumulate", "2"});
  CHECK(both.exit_code == 2);
  CHECK(contains(both.err, "does not go with --accumulate"));
}

TEST_SUITE_END();
