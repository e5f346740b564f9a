// Flags about precision: what they change of a saved model, and how they are called when they are
// refused.
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/graph.h"

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;

constexpr const char* kProducts =
    "OpType::matmul::InputDtype:float16,float16,OutputDtype:float32\n";
constexpr const char* kList = R"({"white-list": {"to-remove": ["matmul"]}})";

}  // namespace

TEST_CASE("eval: a flag about a part of the precision leaves the other parts to the file") {
  const DataFolder data(400, 100);
  const TempFolder files;
  const std::string states = files.file("states"), rules = files.file("rules.cfg"),
                    list = files.file("ops.json");
  write_text(rules, kProducts);
  write_text(list, kList);
  const Words train = {"train", "--quiet", "--data", data.path(),        "--steps",
                       "2",     "--batch", "20",     "--precision-mode", "allow_mix_precision"};
  done(with(train, {"--save", states}));
  const auto eval = [&](const std::string& file, const Words& flags) {
    return done(with({"eval", "--load", file, "--data", data.path()}, flags));
  };
  for (const Words& flags :
       {Words{}, Words{"--customize-dtypes", rules}, Words{"--modify-mixlist", list},
        Words{"--modify-mixlist", list, "--customize-dtypes", rules}}) {
    CAPTURE(join(flags));
    const ToolResult result = eval(states, flags);
    CHECK(result.err == "");
    CHECK_MESSAGE(contains(result.out, " in allow_mix_precision\n"), result.out);
  }

  const std::string other = refusal({"eval", "--load", states, "--data", data.path(), "--precision",
                                     "mixed_fp16", "--modify-mixlist", list});
  CHECK_MESSAGE(contains(other, "--modify-mixlist: expected a precision mode that goes by lists"),
                other);
  CHECK(contains(other, "got --precision mixed_fp16; "));
}

TEST_CASE("eval: flags about parts of the precision replace these parts of the file alone") {
  const DataFolder data(400, 100);
  const TempFolder files;
  const std::string rules = files.file("rules.cfg"), list = files.file("ops.json"),
                    kept = files.file("kept.json"), states = files.file("states");
  write_text(rules, "nowhere::InputDtype:float32,OutputDtype:float32\n");
  write_text(list, kList);
  write_text(kept, "{}");
  const ToolResult trained =
      run_tool({"train", "--quiet", "--data", data.path(), "--steps", "2", "--batch", "20",
                "--precision-mode", "allow_mix_precision", "--modify-mixlist", list,
                "--customize-dtypes", rules, "--save", states});
  REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
  // A run logs the decision about products, and whose rule has no node.
  const auto logged = [&](const Words& flags) {
    const ToolResult result = run_tool(
        with({"eval", "--load", states, "--data", data.path()}, flags), {{"KEEL_LOG", "info"}});
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    return result.err;
  };
  const auto is_low = [](const std::string& log) { return contains(log, "matmul: f16 by "); };
  const std::string own_rule = "states: customize_dtypes:1: no node is called 'nowhere'";

  CHECK_FALSE(is_low(logged({})));
  CHECK(contains(logged({}), own_rule));
  // The file's rules beside a list of its own.
  const std::string other_list = logged({"--modify-mixlist", kept});
  CHECK(is_low(other_list));
  CHECK_MESSAGE(contains(other_list, own_rule), other_list);
  // The file's list beside rules of its own.
  write_text(rules, "elsewhere::InputDtype:float32,OutputDtype:float32\n");
  const std::string other_rules = logged({"--customize-dtypes", rules});
  CHECK_FALSE(is_low(other_rules));
  CHECK_FALSE(contains(other_rules, "nowhere"));
  CHECK_MESSAGE(contains(other_rules, "rules.cfg:1: no node is called 'elsewhere'"), other_rules);
}

TEST_CASE("eval: a mode that is named stands without lists and rules of the file") {
  const DataFolder data(400, 100);
  const TempFolder files;
  const std::string rules = files.file("rules.cfg"), list = files.file("ops.json"),
                    states = files.file("states");
  write_text(rules, kProducts);
  write_text(list, R"({"white-list": {"to-remove": ["matmul"]}})");
  done({"train", "--quiet", "--data", data.path(), "--steps", "2", "--batch", "20",
        "--precision-mode", "allow_mix_precision", "--modify-mixlist", list, "--customize-dtypes",
        rules, "--save", states});
  struct Row {
    const char *flag, *mode, *dtype;
  };
  for (const Row& row : {Row{"--precision", "mixed_bf16", "bf16"},
                         Row{"--precision-mode", "allow_mix_precision_bf16", "bf16"},
                         Row{"--precision-mode", "allow_mix_precision_fp16", "f16"},
                         Row{"--precision", "fp32", nullptr}}) {
    CAPTURE(row.mode);
    const ToolResult result =
        run_tool({"eval", "--load", states, "--data", data.path(), row.flag, row.mode},
                 {{"KEEL_LOG", "info"}});
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    CHECK(contains(result.out, std::string(" in ") + row.mode + "\n"));
    CHECK_FALSE(contains(result.err, "[warning]"));
    CHECK_FALSE(contains(result.err, "customised dtypes"));
    if (row.dtype != nullptr) {
      CHECK_MESSAGE(contains(result.err, std::string("matmul: ") + row.dtype + " by "), result.err);
    }
  }
}

// The table draws nodes of its own: those of a training may be the ones that a rule is for.
TEST_CASE("info: rules that are right for a training are shown and are no errors") {
  const TempFolder files;
  const std::string rules = files.file("rules.cfg");
  const auto table = [&](const std::string& text) {
    write_text(rules, text);
    const ToolResult result = run_tool(
        {"info", "--precision-mode", "allow_mix_precision", "--json", "--customize-dtypes", rules});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return nlohmann::json::parse(result.out).at("ops");
  };
  const std::string by_rule = "f32 (customised dtypes, " + rules + ":1)";
  for (const std::string index : {"int32", "int64"}) {
    CAPTURE(index);
    const auto ops = table("OpType::gather::InputDtype:float32," + index + ",OutputDtype:float32");
    CHECK(ops.at("gather").at("f32") == by_rule);
    CHECK(ops.at("gather").at("f16") == by_rule);
  }
  // A concat of three is drawn, where there is one.
  const auto three =
      table("OpType::concat::InputDtype:float32,float32,float32,OutputDtype:float32");
  CHECK(three.at("concat").at("f32") == by_rule);
  // A rule that no drawn node fits is said in its row.
  const auto none = table("OpType::gather::InputDtype:float32,float32,OutputDtype:float32");
  const std::string row = none.at("gather").at("f32");
  CHECK_MESSAGE(row.starts_with("customised dtypes, " + rules + ":1: expected i"), row);
  CHECK_MESSAGE(row.ends_with(" for its input 1, got f32"), row);
}

TEST_CASE("precision: a name of another flag is told as one") {
  struct Wrong {
    const char *flag, *name, *hint;
  };
  for (const Wrong& wrong :
       {Wrong{"--precision", "fp16", "it is a name of --precision-mode-v2: use that flag\n"},
        Wrong{"--precision-mode", "mixed_fp16", "it is a name of --precision: use that flag\n"},
        Wrong{"--precision-mode-v2", "force_fp16",
              "it is a name of --precision-mode: use that flag\n"},
        Wrong{"--precision", "mixd_fp16", "did you mean 'mixed_fp16'?\n"}}) {
    const std::string text = refusal({"train", "--steps", "1", wrong.flag, wrong.name});
    CHECK_MESSAGE(contains(text, std::string("error: ") + wrong.flag + ": expected one of "), text);
    CHECK_MESSAGE(contains(text, wrong.hint), text);
  }
}

TEST_CASE("precision: what does not go together is told by the flags that were typed") {
  const TempFolder files;
  const std::string list = files.file("ops.json"), rules = files.file("rules.cfg"),
                    states = files.file("states");
  write_text(list, kList);
  write_text(rules, kProducts);
  for (const Words& command :
       {Words{"train", "--steps", "1"}, Words{"info"}, Words{"graph", "--compiled"}}) {
    const std::string named =
        refusal(with(command, {"--modify-mixlist", list, "--precision", "mixed_fp16"}));
    CHECK_MESSAGE(contains(named,
                           "--modify-mixlist: expected a precision mode that goes by lists "
                           "of ops, such as allow_mix_precision_fp16, got --precision "
                           "mixed_fp16; add --precision-mode allow_mix_precision instead"),
                  named);
    const std::string unnamed = refusal(with(command, {"--modify-mixlist", list}));
    CHECK_MESSAGE(contains(unnamed,
                           "got must_keep_origin_dtype, the device's default; add "
                           "--precision-mode allow_mix_precision, or drop the list\n"),
                  unnamed);
  }
  const std::string fast =
      refusal({"train", "--steps", "1", "--precision", "mixed_fp16", "--loss-scale", "none",
               "--accelerate-train-mode", "fast|step"});
  CHECK_MESSAGE(contains(fast, "--accelerate-train-mode: --precision: expected "), fast);

  done({"train", "--quiet", "--steps", "1", "--save", states});
  const std::string resumed =
      refusal({"train", "--resume", states, "--steps", "2", "--customize-dtypes", rules}, 1);
  CHECK_MESSAGE(contains(resumed, "states was trained without such a file; drop the flag"),
                resumed);

  for (const char* flag : {"--precision", "--customize-dtypes"}) {
    const std::string value = flag == std::string("--precision") ? "fp32" : rules;
    CHECK(contains(refusal({"info", "--dump-ops-info", flag, value}),
                   std::string(flag) + ": does not go with --dump-ops-info"));
  }
}

TEST_CASE("loss scale: what it may be is listed and a scale that never shrinks is refused") {
  const auto refused = [](const std::string& scale) {
    return refusal({"train", "--steps", "1", "--loss-scale", scale});
  };
  const std::string text = refused("dynamic");
  CHECK_MESSAGE(contains(text,
                         "--loss-scale: expected a number from 1 to 3.4e+38, none, or "
                         "exponential[,INIT,INCR_EVERY,DECR_EVERY,INCR,DECR], got "
                         "'dynamic'\n"),
                text);
  CHECK(contains(refused("expnential,4"), "did you mean 'exponential'?"));
  CHECK(contains(refused("exponential,1e38,1000,1,2,0.99999999"),
                 "--loss-scale: expected a number from 1e-30 to 0.9999999, got '0.99999999'"));
}

TEST_CASE("loss scale: a training whose every update was skipped is warned of") {
  const TempFolder files;
  const std::string summary = files.file("summary"), states = files.file("states");
  const auto warnings_of = [&](const std::string& scale, const Words& more = {}) {
    const ToolResult result = done(with({"train", "--quiet", "--steps", "4", "--precision",
                                         "mixed_fp16", "--loss-scale", scale, "--summary", summary},
                                        more));
    const nlohmann::json written = read_json(summary);
    CHECK(written.value("warnings", nlohmann::json::array()).size() == lines_of(result.err).size());
    return result.err;
  };
  CHECK(contains(warnings_of("exponential,1e38,1000,1,2,0.99"),
                 "warning: no update was applied: all 4 were skipped, as their gradients were not "
                 "finite, and the loss scale is "));
  CHECK(contains(warnings_of("exponential,1e38,1000,1,2,0.99"),
                 "; a --loss-scale that begins smaller may help\n"));
  CHECK(contains(warnings_of("1e38", {"--save", states}), "; a smaller --loss-scale may help\n"));
  // Steps that make up an update are no updates.
  CHECK(contains(warnings_of("1e38", {"--accumulate", "2"}), "applied: all 2 were skipped"));
  CHECK(contains(warnings_of("1e38", {"--accumulate", "3"}),
                 "applied: the only one was skipped, as its gradients"));
  const ToolResult resumed = done({"train", "--quiet", "--resume", states, "--steps", "6"});
  CHECK_MESSAGE(contains(resumed.err, "; --init in place of --resume takes another --loss-scale\n"),
                resumed.err);
  CHECK(warnings_of("exponential,1024,1000,1,2,0.99") == "");
  // The second step's scale is 1.
  CHECK(warnings_of("exponential,1e38,1000,1,2,1e-30") == "");
}

TEST_SUITE_END();
