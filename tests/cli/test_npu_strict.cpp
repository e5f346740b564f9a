#include <doctest/doctest.h>

#include "cli/tool.h"
#include "cli/training_run.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

namespace {

using keel_test::contains;
using namespace keel_test;

TrainingRun train_seeded(const Words& words, const Variables& variables) {
  return training_run(TempFolder(), with({"--quiet", "--seed", "3"}, words), variables);
}

}  // namespace

TEST_CASE("strict: softmax and mlp train to the same bits as in plain runs") {
  const Words softmax = {"--model", "softmax", "--steps", "30", "--loop-size", "7"};
  const Words mlp = {"--model", "mlp",     "--optimizer", "adam",        "--batch",
                     "32",      "--steps", "7",           "--loop-size", "5"};
  const Words mixed = {"--model", "mlp",     "--precision", "mixed_bf16",  "--batch",
                       "32",      "--steps", "5",           "--loop-size", "4"};
  for (const Words& words : {softmax, mlp, mixed}) {
    CAPTURE(join(words));
    const TrainingRun plain = train_seeded(words, {{"KEEL_NPU_STRICT", "0"}});
    const TrainingRun strict = train_seeded(words, {{"KEEL_NPU_STRICT", "1"}});
    CHECK(plain.summary.at("npu_strict") == false);
    CHECK(strict.summary.at("npu_strict") == true);
    CHECK(strict.summary.at("state_sha256") == plain.summary.at("state_sha256"));
    CHECK(strict.summary.at("test_accuracy") == plain.summary.at("test_accuracy"));
    CHECK(!plain.metrics.empty());
    CHECK(strict.metrics == plain.metrics);
  }
}

TEST_CASE("strict: whether it is on is reported and other values are refused") {
  CHECK(contains(run_tool({"info"}, {{"KEEL_NPU_STRICT", "1"}}).out, "on: KEEL_NPU_STRICT=1"));
  CHECK(contains(run_tool({"info"}, {{"KEEL_NPU_STRICT", "0"}}).out, "off"));
  for (const char* value : {"2", "yes", "on", " 1"}) {
    CAPTURE(value);
    const ToolResult result = run_tool({"train", "--steps", "1"}, {{"KEEL_NPU_STRICT", value}});
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, "KEEL_NPU_STRICT"));
    CHECK(contains(result.err, "one of 0, 1"));
  }
}

TEST_SUITE_END();
