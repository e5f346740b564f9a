// `--precision` of `keel train` and `keel graph`: what it changes, what it reports, what it
// refuses.
#include <cmath>
#include <fstream>

#include <doctest/doctest.h>

#include "keel/graph/graph.h"

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"
#include "cli/training_run.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

const TempFolder& data_of_400() {
  static const DataFolder folder(400, 100);
  return folder;
}

TrainingRun train_on_400(const Words& words) {
  return training_run(TempFolder(), with({"--data", data_of_400().path(), "--batch", "20"}, words));
}

}  // namespace

TEST_CASE("train: precision is printed and in the summary and trains about as well") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const Words words = {"--backend", backend, "--steps", "40"};
    const TrainingRun full = train_on_400(words);
    const std::string own = backend == std::string("npu") ? "must_keep_origin_dtype" : "fp32";
    CHECK(full.summary.at("precision") == own);
    CHECK(contains(full.out, "in " + own));
    for (const char* mode : {"mixed_bf16", "mixed_fp16"}) {
      Words mixed_words = words;
      mixed_words.insert(mixed_words.end(), {"--precision", mode});
      const TrainingRun mixed = train_on_400(mixed_words);
      CHECK(mixed.summary.at("precision") == mode);
      CHECK(mixed.summary.at("dtype") == "f32");
      CHECK(contains(mixed.out, std::string("in ") + mode));
      CHECK(mixed.metrics != full.metrics);
      const double loss = full.summary.at("train_loss"), got = mixed.summary.at("train_loss");
      CHECK(std::fabs(got - loss) <= 0.02 * loss);
    }
    Words named = words;
    named.insert(named.end(), {"--precision", "fp32"});
    CHECK(train_on_400(named).summary.at("state_sha256") == full.summary.at("state_sha256"));
  }
}

TEST_CASE("train: a mixed training is the same for any loop size and any threads") {
  for (const char* backend : {"cpu", "npu"}) {
    CAPTURE(backend);
    const auto run = [&](const char* loop_size, const char* threads) {
      return train_on_400({"--backend", backend, "--precision", "mixed_bf16", "--model", "mlp",
                           "--steps", "25", "--loop-size", loop_size, "--threads", threads});
    };
    const TrainingRun first = run("1", "1");
    for (const char* loop_size : {"7", "100"}) {
      const TrainingRun other = run(loop_size, "2");
      CHECK(other.metrics == first.metrics);
      CHECK(other.summary.at("state_sha256") == first.summary.at("state_sha256"));
    }
  }
}

TEST_CASE("train: a resumed training keeps its precision and refuses another") {
  const TempFolder files;
  const std::string file = files.file("states");
  const TrainingRun first =
      train_on_400({"--precision", "mixed_bf16", "--steps", "11", "--save", file});
  const TrainingRun whole = train_on_400({"--precision", "mixed_bf16", "--steps", "30"});
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

TEST_CASE("precision: errors name the flags that were typed and no line of the tool") {
  const TempFolder files;
  const std::string file = files.file("states");
  train_on_400({"--steps", "1", "--save", file});
  for (const Words& command :
       {Words{"train", "--steps", "1"}, Words{"graph", "--compiled"},
        Words{"eval", "--load", file, "--data", data_of_400().path()},
        Words{"predict", "--load", file, "--index", "1", "--data", data_of_400().path()}}) {
    const auto with = [&](const Words& flags) {
      Words words = command;
      words.insert(words.end(), flags.begin(), flags.end());
      return refusal(words, 2);
    };
    CAPTURE(join(command));
    const std::string last = with({"--precision-mode-v2", "cube_hif8"});
    CHECK_MESSAGE(contains(last, "no other preset has it\n"), last);
    const std::string both = with({"--precision", "fp32", "--precision-mode", "force_fp16"});
    CHECK_MESSAGE(contains(both, "got --precision fp32 and --precision-mode force_fp16"), both);
  }
}

TEST_CASE("precision: a preset without bf16 says so and names those that have it") {
  const std::string text = refusal(
      {"train", "--quiet", "--steps", "2", "--preset", "ascend910", "--precision", "mixed_bf16"},
      2);
  CHECK(contains(text, "precision mixed_bf16"));
  CHECK(contains(text, "ascend910 has no bf16"));
  CHECK(contains(text, "ascend910b1"));
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

TEST_CASE("train: every legal mode trains about as well or refuses with a reason") {
  using keel::PrecisionOption;
  const TrainingRun full = train_on_400({"--steps", "40"});
  for (const PrecisionOption option : {PrecisionOption::kMode, PrecisionOption::kModeV2}) {
    const std::string flag =
        option == PrecisionOption::kMode ? "--precision-mode" : "--precision-mode-v2";
    for (const std::string& mode : keel::precision_names(option)) {
      CAPTURE(mode);
      if (mode == "force_fp16" || mode == "fp16") {
        const std::string text = refusal({"train", "--quiet", "--steps", "2", flag, mode}, 2);
        CHECK(contains(text, flag + ": " + mode + ": is for inference"));
        const std::string advised = mode == "fp16" ? "origin" : "must_keep_origin_dtype";
        CHECK_MESSAGE(contains(text, "choose a mode for training, such as " + advised + "\n"),
                      text);
        train_on_400({"--steps", "2", flag, advised});
        continue;
      }
      if (contains(mode, "hif8")) {
        const std::string text = refusal({"train", "--quiet", "--steps", "2", flag, mode}, 2);
        CHECK(contains(text, "no other preset has it"));
        continue;
      }
      const TrainingRun run = train_on_400({"--steps", "40", flag, mode});
      CHECK(run.summary.at("precision") == mode);
      const double loss = full.summary.at("train_loss"), got = run.summary.at("train_loss");
      CHECK(std::fabs(got - loss) <= 0.02 * loss);
      const bool same = mode == "must_keep_origin_dtype" || mode == "origin";
      CHECK((run.summary.at("state_sha256") == full.summary.at("state_sha256")) == same);
    }
  }
}

TEST_CASE("train: a default for inference is refused with a flag that can be added") {
  const Words words = {"train", "--quiet", "--model", "mlp", "--steps", "1"};
  const Variables preset = {{"KEEL_NPU_PRESET", "ascend310"}};
  const ToolResult refused = run_tool(words, preset);
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "npu: force_fp16: the default precision, is for inference"));
  CHECK_MESSAGE(contains(refused.err, "; add --precision-mode must_keep_origin_dtype\n"),
                refused.err);
  Words advised = words;
  advised.insert(advised.end(), {"--precision-mode", "must_keep_origin_dtype"});
  const ToolResult followed = run_tool(advised, preset);
  CHECK_MESSAGE(followed.exit_code == 0, followed.err);
}

TEST_CASE("train: a mix list is read and warned of and kept for a resumed training") {
  const TempFolder files;
  const std::string list = files.file("ops_info.json"), states = files.file("states");
  write_text(list, R"({"white-list": {"to-remove": ["matmul"], "to-add": ["matmull"]}})");
  const Words mode = {"--precision-mode", "allow_mix_precision"};
  Words with_list = {"--precision-mode", "allow_mix_precision", "--modify-mixlist", list};
  const ToolResult warned = run_tool({"train", "--quiet", "--steps", "2", "--precision-mode",
                                      "allow_mix_precision", "--modify-mixlist", list});
  CHECK(warned.exit_code == 0);
  CHECK(contains(warned.err, "no op is called 'matmull'; did you mean 'matmul'?"));

  // Without a white op nothing is low.
  const auto hash = [](const Words& words) {
    Words all = words;
    all.insert(all.end(), {"--steps", "20"});
    return train_on_400(all).summary.at("state_sha256").get<std::string>();
  };
  CHECK(hash(with_list) == hash({"--precision", "fp32"}));
  CHECK(hash(mode) != hash({"--precision", "fp32"}));

  Words first = with_list;
  first.insert(first.end(), {"--steps", "11", "--save", states});
  train_on_400(first);
  const TempFolder out;
  const ToolResult resumed = run_tool(
      {"train", "--quiet", "--resume", states, "--steps", "20", "--summary", out.file("summary")});
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(read_json(out.file("summary")).at("precision") == "allow_mix_precision");
  CHECK(read_json(out.file("summary")).at("state_sha256") == hash(with_list));

  write_text(list, R"({"black-list": {"to-add": ["sum"]}})");
  CHECK(contains(
      refusal({"train", "--quiet", "--resume", states, "--steps", "20", "--modify-mixlist", list},
              1),
      "--modify-mixlist: expected the same file, as"));
  write_text(list, "{ // mixed\n}");
  CHECK(contains(refusal({"train", "--steps", "2", "--precision-mode", "allow_mix_precision",
                          "--modify-mixlist", list},
                         1),
                 "remove the comments"));
  CHECK(contains(refusal({"train", "--steps", "2", "--precision-mode", "allow_fp32_to_fp16",
                          "--modify-mixlist", files.file("none")},
                         1),
                 "none"));
}

TEST_CASE("train: customised dtypes decide about single nodes") {
  const TempFolder files;
  const std::string rules = files.file("dtypes.cfg");
  write_text(rules,
             "OpType::matmul::InputDtype:float32,float32,OutputDtype:float32\n"
             "nowhere::InputDtype:float32,OutputDtype:float32\n");
  const ToolResult graph = run_tool({"graph", "--compiled", "--precision-mode",
                                     "allow_fp32_to_fp16", "--customize-dtypes", rules});
  CHECK(contains(graph.out, "matmul: f32 by customised dtypes, " + rules + ":1"));
  CHECK(contains(graph.err, "no node is called 'nowhere'"));
  write_text(rules, "matmul\n");
  CHECK(contains(refusal({"train", "--steps", "2", "--customize-dtypes", rules}, 2),
                 ":1: expected NAME::InputDtype:"));
}

TEST_CASE("info: the table of a precision mode and the op library") {
  const ToolResult table =
      run_tool({"info", "--precision-mode", "allow_mix_precision_bf16", "--preset", "ascend910b4"});
  REQUIRE_MESSAGE(table.exit_code == 0, table.err);
  CHECK(contains(table.out, "allow_mix_precision_bf16: ops of the white list in bf16"));
  CHECK(contains(table.out, "bf16 (white list: low)"));
  const ToolResult as_json =
      run_tool({"info", "--json", "--precision-mode-v2", "origin", "--backend", "cpu"});
  const json rows = json::parse(as_json.out);
  CHECK(rows.at("precision") == "origin");
  CHECK(rows.at("ops").at("matmul").at("f32") == "f32 (everything: keep)");
  CHECK(contains(
      refusal({"info", "--precision-mode", "allow_fp32_to_bf16", "--preset", "ascend910"}, 2),
      "presets that have it: ascend910b1, ascend910b2, ascend910b3, ascend910b4"));
  CHECK(contains(refusal({"info", "--backend", "cpu"}, 2), "add --precision-mode"));

  const TempFolder files;
  const std::string file = files.file("ops_info.json");
  const ToolResult dumped = run_tool({"info", "--dump-ops-info"});
  REQUIRE(dumped.exit_code == 0);
  json ops = json::parse(dumped.out);
  CHECK(ops.at("matmul").at("precision_reduce").at("flag") == "true");
  CHECK(ops.at("exp").at("precision_reduce").at("flag") == "false");
  ops["sum"]["precision_reduce"]["flag"] = "false";
  write_text(file, ops.dump());
  const ToolResult edited = run_tool(
      {"info", "--precision-mode", "allow_mix_precision", "--modify-mixlist", file, "--json"});
  REQUIRE_MESSAGE(edited.exit_code == 0, edited.err);
  CHECK(json::parse(edited.out).at("ops").at("sum").at("f32") == "f32 (black list: keep)");
  CHECK(json::parse(run_tool({"info", "--dump-ops-info", "--modify-mixlist", file}).out) == ops);
}

TEST_CASE("train: a scaled loss trains to the same bits in f32 and is reported") {
  const TrainingRun plain = train_on_400({"--model", "mlp", "--steps", "20"});
  const TrainingRun scaled =
      train_on_400({"--model", "mlp", "--steps", "20", "--loss-scale", "1024"});
  // Powers of two change no f32 of that size.
  CHECK(scaled.summary.at("loss_scale") == 1024);
  CHECK(scaled.summary.at("skipped_steps") == 0);
  CHECK(scaled.summary.at("train_loss") == plain.summary.at("train_loss"));
  CHECK(!plain.summary.contains("loss_scale"));
  CHECK(contains(lines_of(scaled.metrics)[0], "\"loss_scale\":1024"));
}

TEST_CASE("train: steps that overflow are skipped alike for any loop size and when resumed") {
  const Words words = {"--model",    "mlp",          "--precision",
                       "mixed_fp16", "--loss-scale", "exponential,16777216,6,2,2,0.5"};
  const auto run = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return train_on_400(all);
  };
  for (const char* preset : {"ascend910", "ascend910b1"}) {
    CAPTURE(preset);
    const TrainingRun whole = run({"--preset", preset, "--steps", "40"});
    const int64_t skipped = whole.summary.at("skipped_steps");
    CHECK(skipped >= 2);
    CHECK(whole.summary.at("updates_applied") == 40 - skipped);
    CHECK(contains(lines_of(whole.metrics)[0], "\"loss_scale\":16777216,\"skipped\":true"));
    CHECK(contains(whole.out, "of 40 steps skipped"));
    for (const char* loop_size : {"1", "7"}) {
      const TrainingRun other =
          run({"--preset", preset, "--steps", "40", "--loop-size", loop_size});
      CHECK(other.metrics == whole.metrics);
      CHECK(other.summary.at("state_sha256") == whole.summary.at("state_sha256"));
    }
    const TempFolder files;
    const std::string file = files.file("states");
    const TrainingRun first = run({"--preset", preset, "--steps", "17", "--save", file});
    const ToolResult resumed =
        run_tool({"train", "--quiet", "--resume", file, "--preset", preset, "--steps", "40",
                  "--summary", files.file("summary"), "--metrics", files.file("metrics")});
    REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
    CHECK(first.metrics + read_text(files.file("metrics")) == whole.metrics);
    CHECK(read_json(files.file("summary")).at("state_sha256") == whole.summary.at("state_sha256"));
    CHECK(contains(
        refusal({"train", "--quiet", "--resume", file, "--steps", "40", "--loss-scale", "none"}, 1),
        "--loss-scale: expected exponential,16777216"));
  }
}

TEST_CASE("train: mixed_fp16 scales by default and with micro batches and others do not") {
  CHECK(train_on_400({"--steps", "4", "--precision", "mixed_fp16"}).summary.at("loss_scale") ==
        65536);
  CHECK(
      !train_on_400({"--steps", "4", "--precision", "mixed_bf16"}).summary.contains("loss_scale"));
  const TrainingRun gathered =
      train_on_400({"--steps", "8", "--accumulate", "4", "--precision", "mixed_fp16",
                    "--loss-scale", "exponential,1e30,1,1,2,0.5"});
  CHECK(gathered.summary.at("skipped_steps") == 2);
  CHECK(gathered.summary.at("updates_applied") == 0);
  // Only the step that completes an update counts.
  CHECK(gathered.summary.at("loss_scale") == doctest::Approx(5e29));
  CHECK(contains(refusal({"train", "--loss-scale", "0.5"}, 2), "--loss-scale: expected a number"));
  CHECK(
      contains(refusal({"train", "--loss-scale", "exponential,1,2,3,4,0.5,6"}, 2), "at most five"));
  CHECK(contains(refusal({"train", "--loss-scale", "exponential,1,0"}, 2), "--loss-scale"));
}

TEST_CASE("train: a file of a step whose update a micro-batch has spoilt is one to go on from") {
  const Words words = {"--model",      "mlp",
                       "--precision",  "mixed_fp16",
                       "--loss-scale", "exponential,1e30,100,1,2,1e-13",
                       "--accumulate", "4"};
  const auto run = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return train_on_400(all);
  };
  const TrainingRun whole = run({"--steps", "40"});
  // The scales of the first two updates, 1e30 and 1e17, are too large, and that of the third is
  // not.
  CHECK(whole.summary.at("skipped_steps") == 2);
  CHECK(whole.summary.at("updates_applied") == 8);
  const TempFolder files;
  const std::string file = files.file("states");
  const TrainingRun first = run({"--steps", "6", "--save", file});
  CHECK(!first.summary.contains("non_finite_state"));
  const ToolResult resumed = run_tool(
      {"train", "--quiet", "--resume", file, "--steps", "40", "--summary", files.file("summary")});
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(read_json(files.file("summary")).at("state_sha256") == whole.summary.at("state_sha256"));
}

TEST_CASE("train: running statistics of a micro-batch that overflowed are left out") {
  const TempFolder files;
  std::ofstream table(files.file("rows.csv"));
  for (int column = 1; column <= 16; ++column) table << "x" << column << ",";
  table << "y\n";
  for (int row = 0; row < 64; ++row) {
    // The numbers of a few rows are no f16.
    for (int column = 1; column <= 16; ++column)
      table << (row % 23 == 22 ? 3e7 : std::sin(row * column + 1)) << ",";
    table << row % 2 << "\n";
  }
  table.close();
  for (const char* micro_batches : {"1", "4"}) {
    CAPTURE(micro_batches);
    const std::string summary = files.file("summary");
    const ToolResult result =
        run_tool({"train", "--quiet", "--model", "resnet", "--data", files.file("rows.csv"),
                  "--label", "y", "--batch", "8", "--epochs", "2", "--precision", "mixed_fp16",
                  "--accumulate", micro_batches, "--summary", summary});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(read_json(summary).at("skipped_steps") >= 1);
    CHECK(!read_json(summary).contains("non_finite_state"));
  }
}

TEST_CASE("train: an accelerated training changes its precision at one step and says so") {
  const auto run = [&](const Words& more) {
    Words words = {"--model", "mlp", "--steps", "20", "--accelerate-train-mode", "fast|step|0.5"};
    words.insert(words.end(), more.begin(), more.end());
    return train_on_400(words);
  };
  const TrainingRun whole = run({});
  CHECK(whole.summary.at("precision") == "must_keep_origin_dtype");
  CHECK(whole.summary.at("accelerate_train_mode") == "fast|step|0.5");
  CHECK(whole.summary.at("switched_at_step") == 10);
  const json& phases = whole.summary.at("phases");
  REQUIRE(phases.size() == 2);
  CHECK(phases[0].at("precision") == "allow_mix_precision_fp16");
  CHECK(phases[0].at("steps") == 10);
  CHECK(phases[1].at("precision") == "must_keep_origin_dtype");
  CHECK(phases[1].at("steps") == 10);
  CHECK(phases[0].at("step_device_us") != phases[1].at("step_device_us"));
  const auto rows = lines_of(whole.metrics);
  CHECK(contains(rows[9], "\"precision\":\"allow_mix_precision_fp16\""));
  CHECK(!contains(rows[10], "precision"));
  CHECK(contains(whole.out,
                 "accelerated: 10 of 20 steps in allow_mix_precision_fp16, in "
                 "must_keep_origin_dtype behind step 10"));
  for (const char* loop_size : {"1", "7"}) {
    const TrainingRun other = run({"--loop-size", loop_size});
    CHECK(other.metrics == whole.metrics);
    CHECK(other.summary.at("state_sha256") == whole.summary.at("state_sha256"));
    CHECK(contains(other.out, "behind step 10, for which a launch was cut short") ==
          (std::string(loop_size) == "7"));
  }
  for (const char* steps : {"6", "15"}) {
    const TempFolder files;
    const std::string file = files.file("states");
    const TrainingRun first = train_on_400(
        {"--model", "mlp", "--steps", steps, "--accelerate-train-mode",
         std::string(steps) == "6" ? "fast|step|0.9" : "fast|step|0.5", "--save", file});
    const ToolResult resumed = run_tool({"train", "--quiet", "--resume", file, "--steps", "20",
                                         "--summary", files.file("summary")});
    REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
    const json summary = read_json(files.file("summary"));
    // A fit of 6 steps ends its fast phase at 5, one of 15 at 7: a change is never undone.
    CHECK(summary.at("switched_at_step") == (std::string(steps) == "6" ? 5 : 7));
    CHECK(summary.at("phases")[0].at("steps") == 0);
  }
  const TrainingRun by_loss =
      train_on_400({"--model", "mlp", "--steps", "20", "--accelerate-train-mode", "fast1|loss",
                    "--target-loss", "1e6"});
  CHECK(by_loss.summary.at("switched_at_step") == 1);
  CHECK(contains(refusal({"train", "--accelerate-train-mode", "fast|step|0.95"}, 2),
                 "--accelerate-train-mode: expected a number from 0.2 to 0.9"));
  CHECK(contains(refusal({"train", "--accelerate-train-mode", "fast|loss"}, 2), "TARGET_LOSS"));
  CHECK(contains(refusal({"train", "--target-loss", "1"}, 2), "--target-loss"));
  CHECK(contains(refusal({"train", "--quiet", "--precision-mode", "force_fp32",
                          "--accelerate-train-mode", "fast|step"},
                         2),
                 "which the training ends in, got force_fp32"));
}

// Presets of series 910 stop f16 at 65504, those of series 910B make infinities.
TEST_CASE("precision: a file that met other overflows of f16 is used with a warning") {
  const TempFolder files;
  const std::string file = files.file("states"), wide = files.file("wide");
  const Words base = {"train",   "--quiet", "--model", "mlp", "--data", data_of_400().path(),
                      "--batch", "20",      "--steps", "1"};
  const auto train_with = [&](const Words& more) {
    Words words = base;
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  };
  train_with({"--preset", "ascend910", "--precision", "mixed_fp16", "--save", file});
  train_with({"--preset", "ascend910", "--precision", "fp32", "--save", wide});
  const std::string warning =
      "states was trained where an overflow of f16 becomes the largest number, 65504, and here it "
      "becomes an infinity";
  const Words resume = {"train", "--quiet", "--steps", "2", "--resume"};
  const auto told = [&](Words words, const std::string& of, const std::string& preset = "") {
    words.push_back(of);
    const ToolResult result =
        run_tool(words, preset.empty() ? Variables{} : Variables{{"KEEL_NPU_PRESET", preset}});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return contains(result.err, warning) ? "told" : result.err;
  };
  for (const Words& words :
       {resume, Words{"eval", "--load"}, Words{"predict", "--index", "0", "--load"}}) {
    const std::string command = join(words);
    CAPTURE(command);
    CHECK(told(words, file) == "told");
    CHECK(told(words, file, "ascend910") == "");
    CHECK(told(words, file, "ascend310") == "");  // another device, the same overflow
    CHECK(told(words, wide) == "");
  }
  const ToolResult same =
      run_tool({"train", "--quiet", "--steps", "2", "--preset", "ascend910", "--resume", file});
  CHECK(same.exit_code == 0);
  CHECK(same.err == "");
}

// Precisions whose own low dtype is another, or that have none.
TEST_CASE("precision: a file notes overflows of f16 of a fast phase and of customised dtypes") {
  const TempFolder files;
  const std::string file = files.file("states"), rules = files.file("dtypes.cfg");
  const auto run_on = [](const std::string& preset, const Words& command, const Words& more) {
    Words words = command;
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words, {{"KEEL_NPU_PRESET", preset}});
    const std::string typed = join(words);
    REQUIRE_MESSAGE(result.exit_code == 0, typed, ": ", result.err);
    return result.err;
  };
  const Words first = {"train",   "--quiet", "--model", "mlp", "--data", data_of_400().path(),
                       "--batch", "20",      "--steps", "2",   "--save", file};
  const Words resume = {"train", "--quiet", "--steps", "4", "--resume", file};
  const Words eval = {"eval", "--load", file, "--precision"};
  const std::string stopped = "states was trained where an overflow of f16 becomes the largest";
  const std::string infinite = "states was trained where an overflow of f16 becomes an infinity";

  run_on("ascend910", first, {"--precision", "fp32", "--accelerate-train-mode", "fast|step|0.9"});
  CHECK(contains(run_on("ascend910b1", resume, {}), stopped));
  CHECK(!contains(run_on("ascend910", resume, {}), "overflow"));
  CHECK(contains(run_on("ascend910b1", eval, {"mixed_fp16"}), stopped));
  CHECK(!contains(run_on("ascend910b1", eval, {"fp32"}), "overflow"));
  run_on("ascend910b1", first,
         {"--precision", "fp32", "--accelerate-train-mode", "fast1|step|0.9"});
  CHECK(!contains(run_on("ascend910", eval, {"mixed_fp16"}), "overflow"));

  write_text(rules, "OpType::matmul::InputDtype:float16,float16,OutputDtype:float32\n");
  run_on("ascend910b1", first, {"--precision", "mixed_bf16", "--customize-dtypes", rules});
  CHECK(contains(run_on("ascend910", eval, {"mixed_fp16"}), infinite));
  // A mode that keeps the graph's dtypes reads no rules.
  run_on("ascend910b1", first, {"--precision", "fp32", "--customize-dtypes", rules});
  CHECK(!contains(run_on("ascend910", eval, {"mixed_fp16"}), "overflow"));
}

TEST_SUITE_END();
