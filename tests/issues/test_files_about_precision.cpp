// Files of mix lists and of customised dtypes: an op library with gray ops was taken for the other
// form, rules for a composite and its parts were dropped with a reason that was not so, and a rule
// for an op with any number of inputs made models fail that have nodes with another one.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/log.h"
#include "keel/keel.h"

#include "support/error_of.h"
#include "support/fusing.h"

TEST_SUITE_BEGIN("issues");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

PrecisionReport report_of(Graph& g, const Values& fetches, const std::string& rules) {
  SessionOptions options;
  options.precision = Precision::named("allow_mix_precision_fp16");
  options.precision.dtypes = parse_dtype_overrides(rules, "rules.cfg");
  Session session(g, device("npu"), options);
  return session.sink({.fetches = fetches}).compile_report().precision;
}

std::string decision_of(const PrecisionReport& report, const std::string& name) {
  for (const PrecisionDecision& d : report.decisions) {
    if (d.name == name) return std::string(name_of(d.dtype)) + " by " + d.rule;
  }
  return "none";
}

}  // namespace

TEST_CASE("an op library with gray ops is read as one") {
  std::vector<std::string> warnings;
  const auto parsed = [&](const std::string& text) {
    return parse_mix_list(text, "ops.json", builtin_ops(), warnings);
  };
  const MixList list = parsed(R"({"matmul": {"precision_reduce": {"flag": "true"}},
                                  "add": {}, "exp": {}, "adds": {},
                                  "sum": {"precision_reduce": {"flag": "false"}}})");
  const auto class_of = [&](const char* op) { return list.class_of(builtin_ops().at(op)); };
  CHECK(class_of("matmul") == MixClass::kWhite);
  CHECK(class_of("sum") == MixClass::kBlack);
  CHECK(class_of("add") == MixClass::kGray);
  CHECK(class_of("exp") == MixClass::kGray);
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "ops.json: adds: no op is called 'adds'; did you mean 'add'?"));
  CHECK(contains(error_of([&] {
                   parsed(R"({"matmul": {"precision_reduce": {"flag": "true"}},
                              "add": {"precision": "f16"}})");
                 }),
                 "ops.json: add: unknown key 'precision'"));
  CHECK(contains(error_of([&] { parsed(R"({"gray-list": {}})"); }), "unknown key 'gray-list'"));
}

TEST_CASE("a rule decides about a part of a composite that a mixed mode keeps") {
  Graph g;
  const Value w = g.state("w", ones({2, 2}));
  const Value average = named(mean(w), "average");
  const PrecisionReport kept = report_of(g, {average}, "");
  CHECK(decision_of(kept, "average/sum") == "f32 by part of mean, gray: keep");

  const PrecisionReport ruled =
      report_of(g, {average}, "average/sum::InputDtype:float16,OutputDtype:float16\n");
  CHECK(ruled.unused.empty());
  CHECK(decision_of(ruled, "average/sum") == "f16 by customised dtypes, rules.cfg:1");
}

TEST_CASE("a rule for a composite says which parts can be named") {
  Graph g;
  const Value w = g.state("w", ones({2, 2}));
  const Value average = named(mean(w), "average");
  const PrecisionReport report =
      report_of(g, {average},
                "average::InputDtype:float16,OutputDtype:float16\n"
                "aver::InputDtype:float16,OutputDtype:float16\n"
                "OpType::mean::InputDtype:float16,OutputDtype:float16\n");
  REQUIRE(report.unused.size() == 3);
  CHECK_MESSAGE(contains(report.unused[0], "rules.cfg:2: no node is called 'aver'"),
                report.unused[0]);
  CHECK(!contains(report.unused[0], "parts"));
  CHECK_MESSAGE(contains(report.unused[1],
                         "rules.cfg:1: no node is called 'average'; rules may name its parts: "),
                report.unused[1]);
  CHECK(contains(report.unused[1], "'average/sum'"));
  CHECK(report.unused[2] ==
        "rules.cfg:3: no node of mean is left for it; where it is computed in parts, rules name "
        "those");
}

TEST_CASE("parts that keep their dtypes by themselves are not offered to rules") {
  Graph g;
  const Value w = g.state("w", ones({2, 2}));
  const KeepDtypeScope exact(g);
  const PrecisionReport report = report_of(g, {named(mean(w), "average")},
                                           "average::InputDtype:float16,OutputDtype:float16\n");
  REQUIRE(report.unused.size() == 1);
  CHECK(report.unused[0] == "rules.cfg:1: no node is called 'average'");
}

TEST_CASE("equal parts of different composites that a mixed mode keeps are merged") {
  // Returns how many nodes cse merges: as many where the products alone change their dtypes.
  const auto merged = [](const char* mode, Value (*first)(const Value&)) {
    Graph g;
    const Value x = g.state("x", ones({16, 32})), w = g.state("w", ones({32, 32}));
    const Value h = matmul(x, w);
    SessionOptions options;
    options.precision = Precision::named(mode);
    Session session(g, device("npu"), options);
    const CompileReport report =
        session.sink({.fetches = {first(h), var(h, {1})}}).compile_report();
    int64_t before = 0;
    for (const auto& pass : report.passes) {
      const auto nodes = static_cast<int64_t>(pass.nodes);
      if (pass.name == "cse") return before - nodes;
      before = nodes;
    }
    return int64_t{-1};
  };
  Value (*const spread)(const Value&) = [](const Value& h) { return stddev(h, {1}); };
  Value (*const middle)(const Value&) = [](const Value& h) { return mean(h, {1}); };
  for (const auto first : {spread, middle}) {
    const int64_t expected = merged("must_keep_origin_dtype", first);
    CHECK(expected > 0);
    CHECK(merged("allow_mix_precision_fp16", first) == expected);
  }
}

TEST_CASE("a rule for an op with any number of inputs is for nodes with as many") {
  Graph g;
  const Value a = g.state("a", ones({4, 4})), b = g.state("b", ones({4, 4}));
  const Value two = named(concat({a, b}, 0), "two"), three = named(concat({a, b, a}, 0), "three");
  const std::string rule = "OpType::concat::InputDtype:float16,float16,OutputDtype:float32\n";
  const PrecisionReport both = report_of(g, {two, three}, rule);
  CHECK(both.unused.empty());
  CHECK(decision_of(both, "two") == "f16 by customised dtypes, rules.cfg:1");
  CHECK(decision_of(both, "three") == "f32 by gray: keep (its operands are not low)");

  const PrecisionReport one = report_of(g, {three}, rule);
  REQUIRE(one.unused.size() == 1);
  CHECK_MESSAGE(one.unused[0].starts_with(
                    "rules.cfg:1: 'three' is passed over: it has 3 inputs and 1 output, and the "
                    "rule dtypes for 2 inputs and 1 output, "),
                one.unused[0]);

  // A node that is meant by its own name, and an op with one number of inputs.
  const auto refusal = [&](const std::string& wrong) {
    return error_of([&] { report_of(g, {three, matmul(a, b), relu(a)}, wrong); });
  };
  CHECK(contains(refusal("three::InputDtype:float16,float16,OutputDtype:float32\n"),
                 "three: dtypes of rules.cfg:1: expected 3 dtypes, one for each input, got 2"));
  CHECK(contains(refusal("OpType::matmul::InputDtype:float16,OutputDtype:float32\n"),
                 "dtypes of rules.cfg:1: expected 2 dtypes, one for each input, got 1"));
  CHECK(contains(refusal("OpType::relu::InputDtype:float16,float16,OutputDtype:float32\n"),
                 "dtypes of rules.cfg:1: expected 1 dtype, that of its input, got 2"));
}

TEST_CASE("a rule for an op with several outputs is for nodes with as many") {
  Graph g;
  const Value x = g.state("x", ones({6, 4}));
  Values outputs = split(x, 2, 0);
  for (const Value& v : split(x, 3, 0)) outputs.push_back(v);
  g.set_outputs(outputs);
  PrecisionReport report;
  // Taken as they are: no device has a kernel for them.
  const std::string rule = "OpType::split::InputDtype:float16,OutputDtype:float32,float32\n";
  apply_precision(g,
                  {.mode = &find_precision_mode("allow_fp32_to_fp16", PrecisionOption::kMode),
                   .dtypes = parse_dtype_overrides(rule, "rules.cfg")},
                  keel_test::everything, &report);
  CHECK(report.unused.empty());
  REQUIRE(report.decisions.size() == 2);
  CHECK(report.decisions[0].rule == "customised dtypes, rules.cfg:1");
  CHECK(report.decisions[1].rule == "everything else: keep");
}

TEST_CASE("a rule without effect is warned of once for a session") {
  // The second one has other parts in each program.
  const std::string rules =
      "y::InputDtype:f16,f16,OutputDtype:f32\n"
      "block::InputDtype:f16,f16,OutputDtype:f32\n";
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel level, const std::string& line) {
    if (level == LogLevel::kWarn) warnings.push_back(line);
  });
  {
    Graph g;
    const Value w = g.state("w", ones({2, 2}));
    const Value product = matmul(w, w);
    Values parts;
    {
      const NameScope block(g, "block");
      parts = {named(w + 1.0f, "a"), named(w * 2.0f, "b")};
    }
    SessionOptions options;
    options.precision = Precision::named("allow_mix_precision_fp16");
    options.precision.dtypes = parse_dtype_overrides(rules, "rules.cfg");
    Session session(g, device("npu"), options);
    session.run(product);
    session.run(product + 1.0f);
    for (const Value& part : parts) session.run(part);
  }
  set_log_sink({});
  REQUIRE(warnings.size() == 2);
  CHECK(contains(warnings[0], "rules.cfg:2: no node is called 'block'"));
  CHECK(contains(warnings[1], "rules.cfg:1: no node is called 'y'"));
}

TEST_SUITE_END();
