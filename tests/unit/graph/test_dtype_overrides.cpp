// Customised dtypes: the file's grammar, names before ops, and what a rule does to a node.
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/ir/verify.h"
#include "keel/graph/precision/apply_precision.h"
#include "keel/graph/precision/keep_dtype.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/fusing.h"

TEST_SUITE_BEGIN("graph");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;
using keel_test::everything;

struct Applied {
  std::unique_ptr<Graph> graph;
  PrecisionReport report;

  const Node& node(const std::string& op) const {
    for (const Node& n : graph->nodes()) {
      if (n.op_name() == op) return n;
    }
    FAIL("no node of " << op);
    return graph->nodes().front();
  }
  std::string rule(const std::string& name) const {
    for (const PrecisionDecision& d : report.decisions) {
      if (d.name == name) return d.rule;
    }
    return "";
  }
};

Applied applied_overrides(Graph& g, const char* mode, const std::string& file) {
  const PrecisionOption list = PrecisionOption::kMode;
  Applied result;
  result.graph = apply_precision(g,
                                 {.mode = &find_precision_mode(mode, list),
                                  .dtypes = parse_dtype_overrides(file, "dtypes.cfg")},
                                 everything, &result.report);
  verify(*result.graph);
  return result;
}

// x [2, 2] -> head/matmul -> exp -> sum
void build(Graph& g) {
  const Value x = g.input("x", f32, {2, 2});
  Value y;
  {
    const NameScope head(g, "head");
    y = matmul(x, x);
  }
  g.set_outputs({sum(exp(y))});
}

}  // namespace

TEST_CASE("customize_dtypes: a name wins over its op") {
  Graph g;
  build(g);
  const Applied by_op =
      applied_overrides(g, "allow_fp32_to_fp16",
                        "# all products\n\nOpType::matmul::InputDtype:bfloat16,bf16,"
                        "OutputDtype:bfloat16\n");
  CHECK(by_op.node("matmul").input(0).dtype() == bf16);
  CHECK(by_op.node("matmul").type().dtype == bf16);
  CHECK(by_op.rule("head/matmul") == "customised dtypes, dtypes.cfg:3");

  const Applied by_name =
      applied_overrides(g, "allow_fp32_to_fp16",
                        "OpType::matmul::InputDtype:bf16,bf16,OutputDtype:bf16\n"
                        "head/matmul::InputDtype: float32, float32, OutputDtype:float32");
  CHECK(by_name.node("matmul").input(0).dtype() == f32);
  CHECK(by_name.rule("head/matmul") == "customised dtypes, dtypes.cfg:2");
  CHECK(by_name.report.unused.size() == 1);
  CHECK(by_name.report.unused[0] == "dtypes.cfg:1: no node of matmul is left for it");
}

TEST_CASE("customize_dtypes: products keep f32 sums where the result is f32") {
  Graph g;
  build(g);
  const Applied wide = applied_overrides(
      g, "allow_fp32_to_bf16", "head/matmul::InputDtype:float16,float16,OutputDtype:float32");
  CHECK(wide.node("matmul").as<MatmulAttributes>().wide);
  CHECK(wide.node("matmul").type().dtype == f32);
  // Another op computes in its operands' dtype, and the result is cast.
  const Applied cast = applied_overrides(g, "allow_fp32_to_bf16",
                                         "OpType::exp::InputDtype:float16,OutputDtype:bfloat16");
  CHECK(cast.node("exp").type().dtype == f16);
  CHECK(cast.graph->outputs()[0].dtype() == f32);
}

TEST_CASE("customize_dtypes: modes that keep the graphs dtypes do not look at them and say so") {
  Graph g;
  build(g);
  const std::string file = "OpType::matmul::InputDtype:f16,f16,OutputDtype:f16";
  const Applied kept = applied_overrides(g, "must_keep_origin_dtype", file);
  CHECK(kept.node("matmul").input(0).dtype() == f32);
  REQUIRE(kept.report.unused.size() == 1);
  CHECK(kept.report.unused[0] == "customised dtypes are not looked at by must_keep_origin_dtype");
}

TEST_CASE("customize_dtypes: a rule that names nothing is reported") {
  Graph g;
  build(g);
  const Applied none =
      applied_overrides(g, "allow_fp32_to_fp16", "tail/matmul::InputDtype:f16,f16,OutputDtype:f16");
  REQUIRE(none.report.unused.size() == 1);
  CHECK(none.report.unused[0] == "dtypes.cfg:1: no node is called 'tail/matmul'");
}

TEST_CASE("customize_dtypes: a rule for a node that keeps its dtypes is not called misspelt") {
  Graph g;
  const Value x = g.input("x", f32, {2, 2});
  Value y;
  {
    const KeepDtypeScope keep(g);
    y = named(matmul(x, x), "y");
  }
  const Value n = named(sum(g.input("n", i32, {3})), "n_sum");
  g.set_outputs({y, n});
  const auto unused = [&](const std::string& rule) {
    const Applied kept = applied_overrides(g, "allow_fp32_to_fp16", rule);
    REQUIRE(kept.report.unused.size() == 1);
    return kept.report.unused[0];
  };
  const std::string by_name = unused("y::InputDtype:f16,f16,OutputDtype:f32");
  CAPTURE(by_name);
  CHECK(
      by_name.starts_with("dtypes.cfg:1: 'y' keeps its dtypes: it is built in a KeepDtypeScope, "));
  CHECK(contains(by_name, "test_dtype_overrides.cpp:"));
  CHECK(contains(unused("OpType::matmul::InputDtype:f16,f16,OutputDtype:f32"),
                 "dtypes.cfg:1: 'y' keeps its dtypes: it is built in a KeepDtypeScope"));
  CHECK(contains(unused("n_sum::InputDtype:f16,OutputDtype:f16"), "'n_sum' keeps its dtypes: "));
  CHECK(unused("z::InputDtype:f16,OutputDtype:f16") == "dtypes.cfg:1: no node is called 'z'");
}

TEST_CASE("customize_dtypes: rules that do not fit their node are errors with its line") {
  Graph g;
  build(g);
  const auto error = [&](const std::string& file) {
    return error_of([&] { applied_overrides(g, "allow_fp32_to_fp16", file); });
  };
  const std::string count = error("OpType::matmul::InputDtype:f16,OutputDtype:f16");
  CHECK(contains(
      count, "head/matmul: dtypes of dtypes.cfg:1: expected 2 dtypes, one for each input, got 1"));
  CHECK(contains(count, "test_dtype_overrides.cpp"));
  CHECK(contains(error("OpType::exp::InputDtype:i32,OutputDtype:f32"),
                 "expected f32 for its input 0, got i32"));
  CHECK(contains(error("OpType::matmul::InputDtype:f16,bf16,OutputDtype:f16"),
                 "the backend declines it in them"));
}

TEST_CASE("customize_dtypes: lines that are no rules are errors with file and line") {
  struct Wrong {
    const char* text;
    const char* what;
  };
  const Wrong all[] = {{"head/matmul", "dtypes.cfg:1: expected NAME::InputDtype:"},
                       {"head/matmul::f16,f16", "got 'head/matmul::f16,f16'"},
                       {"\n::InputDtype:f16,OutputDtype:f16", "dtypes.cfg:2"},
                       {"a::InputDtype:f16", "expected NAME::InputDtype:"},
                       {"a::InputDtype:half,OutputDtype:f16", "got 'half'"},
                       {"a::InputDtype:f16,,OutputDtype:f16", "got ''"},
                       {"OpType::matmull::InputDtype:f16,f16,OutputDtype:f16", "matmul"},
                       {"a::InputDtype:f16,OutputDtype:f16\na::InputDtype:f32,OutputDtype:f32",
                        "dtypes.cfg:2: a: has a rule already, at dtypes.cfg:1"}};
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.text);
    const std::string text = error_of([&] { parse_dtype_overrides(wrong.text, "dtypes.cfg"); });
    CHECK_MESSAGE(contains(text, wrong.what), text);
  }
  CHECK(parse_dtype_overrides("", "dtypes.cfg").empty());
  CHECK(parse_dtype_overrides("# nothing\r\n\r\n", "dtypes.cfg").empty());
}

TEST_SUITE_END();
