// `keel train`: optimizers, schedules, micro-batches, clipping and averaged weights by flags.
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <keel/graph/runtime/safetensors.h>

#include "cli/data_set.h"
#include "cli/tool.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

ToolResult train_on_cpu(const Words& words) {
  Words all = {"train",   "--quiet", "--data",    small_data().path(),
               "--batch", "20",      "--backend", "cpu"};
  all.insert(all.end(), words.begin(), words.end());
  return run_tool(all);
}

TEST_CASE("keel train makes each optimizer's loss fall") {
  const TempFolder files;
  for (const char* name :
       {"sgd", "momentum", "adam", "adamw", "rmsprop", "lion", "adagrad", "lamb"}) {
    CAPTURE(name);
    const std::string metrics = files.file(std::string(name) + ".metrics");
    const ToolResult result =
        train_on_cpu({"--optimizer", name, "--steps", "40", "--metrics", metrics});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    const auto rows = read_json_lines(metrics);
    REQUIRE(rows.size() == 40);
    CHECK(rows.back().at("loss").get<double>() < 0.97 * rows.front().at("loss").get<double>());
  }
}

TEST_CASE("keel train with everything around its update has the same bits for every loop size") {
  const TempFolder files;
  std::string metrics;
  for (const char* size : {"1", "7", "45"}) {
    CAPTURE(size);
    const std::string file = files.file(size);
    const std::string summary = files.file("summary");
    const ToolResult result = train_on_cpu(
        {"--steps",     "45", "--optimizer",  "lamb", "--schedule", "plateau", "--accumulate", "4",
         "--clip-norm", "1",  "--clip-value", "0.01", "--average",  "0.9",     "--loop-size",  size,
         "--metrics",   file, "--summary",    summary});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(read_json(summary).at("updates_applied") == 11);
    if (metrics.empty()) metrics = read_text(file);
    CHECK(read_text(file) == metrics);
  }
}

TEST_CASE("keel train resumes schedules and averages between micro-batches") {
  const TempFolder files;
  const Words flags = {"--schedule",   "linear", "--warmup",  "10",
                       "--accumulate", "4",      "--average", "0.9"};
  REQUIRE(
      train_on_cpu(with(flags, {"--steps", "60", "--summary", files.file("whole")})).exit_code ==
      0);
  const std::string states = files.file("states");
  REQUIRE(train_on_cpu(with(flags, {"--steps", "30", "--schedule-steps", "60", "--save", states}))
              .exit_code == 0);
  // All of it comes from the file.
  const ToolResult rest =
      train_on_cpu({"--resume", states, "--steps", "60", "--summary", files.file("rest")});
  REQUIRE_MESSAGE(rest.exit_code == 0, rest.err);
  const auto whole = read_json(files.file("whole")), resumed = read_json(files.file("rest"));
  CHECK(resumed.at("state_sha256") == whole.at("state_sha256"));
  CHECK(resumed.at("test_accuracy") == whole.at("test_accuracy"));
  for (const Words& other : {Words{"--schedule", "cosine"}, Words{"--accumulate", "3"},
                             Words{"--average", "0.5"}, Words{"--clip-norm", "1"}}) {
    const ToolResult refused = train_on_cpu(with({"--resume", states, "--steps", "60"}, other));
    CHECK(refused.exit_code == 1);
    CHECK(refused.err.find(other[0] + ": expected") != std::string::npos);
    CHECK(refused.err.find("was trained with") != std::string::npos);
  }
}

TEST_CASE("keel train says what makes its update and what does not fill one") {
  const TempFolder files;
  const ToolResult result =
      run_tool({"train", "--data", small_data().path(), "--batch", "20", "--steps", "11",
                "--accumulate", "4", "--schedule", "cosine", "--clip-norm", "2", "--average", "0.5",
                "--summary", files.file("j")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out.find("the last 3 steps do not fill an update") != std::string::npos);
  const auto summary = read_json(files.file("j"));
  CHECK(summary.at("schedule") == "cosine");
  CHECK(summary.at("schedule_steps") == 11);
  CHECK(summary.at("warmup") == 0);
  CHECK(summary.at("accumulate") == 4);
  CHECK(summary.at("clip_norm") == 2);
  CHECK(summary.at("average") == 0.5);
  CHECK_FALSE(summary.contains("clip_value"));
  CHECK(summary.at("updates_applied") == 2);
}

TEST_CASE("keel train has a model's own schedule and a resumed training keeps it") {
  const TempFolder files;
  const auto transformer = [&](const Words& flags) {
    return run_tool(with({"train", "--model", "transformer", "--data", small_data().path(),
                          "--batch", "20", "--summary", files.file("j")},
                         flags));
  };
  const std::string states = files.file("states");
  REQUIRE(transformer({"--steps", "30", "--save", states}).exit_code == 0);
  auto summary = read_json(files.file("j"));
  CHECK(summary.at("schedule") == "cosine");
  CHECK(summary.at("schedule_steps") == 30);
  CHECK(summary.at("warmup") == 3);
  CHECK(summary.at("lr") == 0.003);
  const ToolResult longer = transformer({"--resume", states, "--steps", "40"});
  CHECK(longer.exit_code == 0);
  CHECK_MESSAGE(
      longer.err.find("ended at step 30, and the rate stays at its end") != std::string::npos,
      longer.err);
  summary = read_json(files.file("j"));
  CHECK(summary.at("schedule_steps") == 30);
  CHECK(summary.at("warmup") == 3);
  // The user's word holds.
  REQUIRE(transformer({"--steps", "10", "--schedule", "constant", "--save", files.file("c")})
              .exit_code == 0);
  CHECK(read_json(files.file("j")).at("schedule") == "constant");
  REQUIRE(transformer({"--resume", files.file("c"), "--steps", "20"}).exit_code == 0);
  CHECK(read_json(files.file("j")).at("schedule") == "constant");
  REQUIRE(transformer({"--steps", "10", "--warmup", "0"}).exit_code == 0);
  CHECK(read_json(files.file("j")).at("warmup") == 0);
}

TEST_CASE("keel train halves its rate after half an epoch of few steps without a better loss") {
  // All rows are alike, and the rate moves nothing, so that no loss is better than the first one.
  const TempFolder files;
  std::string rows = "a,b,y\n0.5,1,1\n";
  for (int row = 1; row < 150; ++row) rows += "0.5,1,0\n";
  const std::string data = files.write("t.csv", rows);
  // 120 rows are for the training: an epoch of 12 steps, and one of 4.
  for (const auto& [batch, half_epoch] : {std::pair(10, 6), std::pair(30, 2)}) {
    CAPTURE(batch);
    const auto scale_after = [&](int steps) {
      const std::string states = files.file("states");
      const ToolResult result =
          run_tool({"train", "--quiet", "--data", data, "--label", "y", "--batch",
                    std::to_string(batch), "--steps", std::to_string(steps), "--lr", "1e-30",
                    "--schedule", "plateau", "--backend", "cpu", "--save", states});
      REQUIRE_MESSAGE(result.exit_code == 0, result.err);
      return keel::read_safetensors(states).tensors.at("plateau/scale").at(0);
    };
    CHECK(scale_after(half_epoch) == 1);
    CHECK(scale_after(1 + half_epoch) == 0.5);
  }
}

TEST_CASE("keel train takes flags that repeat what is usual when it resumes") {
  const TempFolder files;
  REQUIRE(train_on_cpu({"--steps", "4", "--save", files.file("s")}).exit_code == 0);
  const ToolResult result =
      train_on_cpu({"--resume", files.file("s"), "--steps", "6", "--accumulate", "1", "--schedule",
                    "constant", "--warmup", "0"});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("keel train refuses updates that cannot be") {
  const std::vector<std::pair<Words, std::string>> usage = {
      {{"--optimizer", "foo"}, "expected one of sgd, momentum, adam, adamw, rmsprop, lion"},
      {{"--schedule", "foo"}, "expected one of constant, cosine, linear, polynomial, one-cycle"},
      {{"--warmup", "5"}, "this one is constant"},
      {{"--schedule", "plateau", "--schedule-steps", "9"}, "this one is plateau"},
      {{"--schedule", "linear", "--warmup", "-1"}, "--warmup: expected an integer"},
      {{"--accumulate", "0"}, "--accumulate: expected an integer from 1"},
      {{"--clip-norm", "0"}, "--clip-norm: expected a number"},
      {{"--clip-value", "nan"}, "--clip-value: expected a number"},
      {{"--average", "1"}, "--average: expected a number"}};
  for (const auto& wrong : usage) {
    CAPTURE(join(wrong.first));
    const ToolResult result = train_on_cpu(with(wrong.first, {"--steps", "9"}));
    CHECK(result.exit_code == 2);
    CHECK(result.err.find(wrong.second) != std::string::npos);
  }
  const ToolResult warmup = train_on_cpu({"--steps", "9", "--schedule", "linear", "--warmup", "9"});
  CHECK(warmup.exit_code == 2);
  CHECK(warmup.err.find("fewer than the 9 steps") != std::string::npos);
  const ToolResult cycle = train_on_cpu({"--steps", "3", "--schedule", "one-cycle"});
  CHECK(cycle.exit_code == 2);
  CHECK(cycle.err.find("at least 4 updates") != std::string::npos);
  const ToolResult none = train_on_cpu({"--steps", "9", "--accumulate", "10"});
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("--accumulate: expected at most the 9 steps") != std::string::npos);
}

}  // namespace

TEST_SUITE_END();
