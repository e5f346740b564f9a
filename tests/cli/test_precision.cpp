// `--precision` of `keel train` and `keel graph`: what it changes, what it reports, what it
// refuses.
#include <cmath>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

const TempFolder& small_data() {
  static const DataFolder folder(400, 100);
  return folder;
}

struct Trained {
  json summary;
  std::string metrics;
  std::string out;
};

Trained train(const Words& words) {
  const TempFolder files;
  Words all = {"train",
               "--data",
               small_data().path(),
               "--batch",
               "20",
               "--summary",
               files.file("summary"),
               "--metrics",
               files.file("metrics")};
  all.insert(all.end(), words.begin(), words.end());
  CAPTURE(join(all));
  const ToolResult result = run_tool(all);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return {read_json(files.file("summary")), read_text(files.file("metrics")), result.out};
}

std::string refusal(const Words& words, int exit_code) {
  const ToolResult result = run_tool(words);
  CAPTURE(join(words));
  CHECK(result.exit_code == exit_code);
  CHECK_MESSAGE(lines_of(result.err).size() == 1, result.err);
  return result.err;
}

}  // namespace

TEST_CASE("train: precision is printed and in the summary and trains about as well") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const Words words = {"--backend", backend, "--steps", "40"};
    const Trained full = train(words);
    CHECK(full.summary.at("precision") == "fp32");
    CHECK(contains(full.out, "in fp32"));
    for (const char* mode : {"mixed_bf16", "mixed_fp16"}) {
      Words mixed_words = words;
      mixed_words.insert(mixed_words.end(), {"--precision", mode});
      const Trained mixed = train(mixed_words);
      CHECK(mixed.summary.at("precision") == mode);
      CHECK(mixed.summary.at("dtype") == "f32");
      CHECK(contains(mixed.out, std::string("in ") + mode));
      CHECK(mixed.metrics != full.metrics);
      const double loss = full.summary.at("train_loss"), got = mixed.summary.at("train_loss");
      CHECK(std::fabs(got - loss) <= 0.02 * loss);
    }
    Words named = words;
    named.insert(named.end(), {"--precision", "fp32"});
    CHECK(train(named).summary.at("state_sha256") == full.summary.at("state_sha256"));
  }
}

TEST_CASE("train: a mixed training is the same for any loop size and any threads") {
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(backend);
    const auto run = [&](const char* loop_size, const char* threads) {
      return train({"--backend", backend, "--precision", "mixed_bf16", "--model", "mlp", "--steps",
                    "25", "--loop-size", loop_size, "--threads", threads});
    };
    const Trained first = run("1", "1");
    for (const char* loop_size : {"7", "100"}) {
      const Trained other = run(loop_size, "2");
      CHECK(other.metrics == first.metrics);
      CHECK(other.summary.at("state_sha256") == first.summary.at("state_sha256"));
    }
  }
}

TEST_CASE("train: a resumed training keeps its precision and refuses another") {
  const TempFolder files;
  const std::string file = files.file("states");
  const Trained first = train({"--precision", "mixed_bf16", "--steps", "11", "--save", file});
  const Trained whole = train({"--precision", "mixed_bf16", "--steps", "30"});
  const auto resume = [&](const Words& more) {
    const TempFolder out;
    Words words = {"train", "--quiet",   "--resume",          file,        "--steps",
                   "30",    "--summary", out.file("summary"), "--metrics", out.file("metrics")};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return std::pair(read_json(out.file("summary")), read_text(out.file("metrics")));
  };
  for (const Words& words : {Words{}, Words{"--precision", "mixed_bf16"}}) {
    const auto [summary, metrics] = resume(words);
    CHECK(summary.at("precision") == "mixed_bf16");
    CHECK(summary.at("state_sha256") == whole.summary.at("state_sha256"));
    CHECK(first.metrics + metrics == whole.metrics);
  }
  const std::string text =
      refusal({"train", "--quiet", "--resume", file, "--steps", "30", "--precision", "fp32"}, 1);
  CHECK(contains(text, "--precision"));
  CHECK(contains(text, "expected mixed_bf16"));
  CHECK(contains(text, "got fp32"));
}

TEST_CASE("precision: flags that make no sense are refused") {
  const std::string text = refusal({"train", "--precision", "half"}, 2);
  CHECK(contains(text, "--precision"));
  CHECK(contains(text, "fp32, mixed_bf16, mixed_fp16"));
  CHECK(contains(refusal({"graph", "--precision", "mixed_bf16"}, 2), "--compiled"));
}

TEST_CASE("precision: a preset without bf16 says so and names those that have it") {
  const std::string text = refusal(
      {"train", "--quiet", "--steps", "2", "--preset", "ascend910", "--precision", "mixed_bf16"},
      1);
  CHECK(contains(text, "matmul"));
  CHECK(contains(text, "ascend910 has no bf16"));
  CHECK(contains(text, "ascend910b1"));
  CHECK(contains(text, "softmax.cpp:"));
  const ToolResult fp16 = run_tool(
      {"train", "--quiet", "--steps", "2", "--preset", "ascend910", "--precision", "mixed_fp16"});
  CHECK_MESSAGE(fp16.exit_code == 0, fp16.err);
}

TEST_CASE("graph: the decisions follow the compiled step") {
  for (const char* backend : {"cpu", "npu", "ref"}) {
    CAPTURE(backend);
    const ToolResult result = run_tool({"graph", "--compiled", "--backend", backend, "--precision",
                                        "mixed_bf16", "--model", "mlp"});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    size_t low = 0, kept = 0;
    bool heading = false;
    for (const std::string& line : lines_of(result.out)) {
      heading = heading || line == "precision: mixed_bf16";
      if (!heading) continue;
      if (contains(line, "matmul: bf16 by products: low (f32 sums), ")) ++low;
      if (contains(line, ": f32 by everything else: keep")) ++kept;
    }
    CHECK(heading);
    CHECK(contains(result.out, "  hidden1/matmul: bf16 by products"));
    CHECK(low == 8);  // three layers forward; backward one less, the image has no gradient
    CHECK(kept > 8);
  }
}

TEST_SUITE_END();
