// apply_precision: what becomes low under each rule, what stays, and what is refused.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/precision/apply_precision.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/fusing.h"
#include "support/random_graph.h"

TEST_SUITE_BEGIN("graph");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::count_op;
using keel_test::error_of;
using keel_test::everything;

std::unique_ptr<Graph> applied(Graph& g, const PrecisionMode& mode, PrecisionReport* report) {
  auto result = apply_precision(g, {.mode = &mode}, everything, report);
  verify(*result);
  return result;
}

std::unique_ptr<Graph> applied(Graph& g, const std::string& mode,
                               PrecisionReport* report = nullptr) {
  return applied(g, find_precision_mode(mode), report);
}

const PrecisionDecision& decision_of(const PrecisionReport& report, const std::string& op) {
  const auto it = std::find_if(report.decisions.begin(), report.decisions.end(),
                               [&](const PrecisionDecision& d) { return d.op == op; });
  REQUIRE(it != report.decisions.end());
  return *it;
}

Value twos(Graph& g, const std::string& name) { return g.input(name, f32, {2, 2}); }

// A mode of tests: the named entries, bf16.
PrecisionMode table(std::vector<PrecisionEntry> entries) {
  return {.name = "test", .summary = "", .low = bf16, .entries = std::move(entries)};
}

}  // namespace

TEST_CASE("precision: products get low operands and keep f32 sums and nothing else changes") {
  for (const auto& [mode, low] : {std::pair{"mixed_bf16", bf16}, {"mixed_fp16", f16}}) {
    Graph g;
    const Value x = twos(g, "x");
    const Value w = g.state("w", zeros({2, 2}));
    const Value y = matmul(x, w);
    const int line = __LINE__ - 1;
    const Value loss = sum(softmax(y) + x);
    g.set_outputs({loss, y});
    g.add_update(w, w - y * 0.5f);
    PrecisionReport report;
    const auto graph = applied(g, mode, &report);
    CHECK(count_op(*graph, "cast") == 2);
    CHECK(graph->size() == g.size() + 2);
    for (const Node& node : graph->nodes()) {
      if (node.op_name() == "cast") CHECK(node.type().dtype == low);
      if (node.op_name() != "matmul") continue;
      CHECK(node.as<MatmulAttributes>().wide);
      CHECK(node.input(0).dtype() == low);
      CHECK(node.type() == y.type());
    }
    CHECK(graph->outputs()[0].type() == loss.type());
    CHECK(graph->updates()[0].next.dtype() == f32);
    CHECK(graph->states()[0].dtype() == f32);
    CHECK(report.mode == mode);
    const PrecisionDecision& product = decision_of(report, "matmul");
    CHECK(product.dtype == low);
    CHECK(product.rule == "products: low (f32 sums)");
    CHECK(to_string(product) == std::string("matmul: ") + name_of(low) +
                                    " by products: low (f32 sums), " + to_string(product.site));
    CHECK(contains(to_string(product.site), "test_precision.cpp:" + std::to_string(line)));
    CHECK(decision_of(report, "softmax").dtype == f32);
    CHECK(decision_of(report, "softmax").rule == "everything else: keep");
    CHECK(decision_of(report, "sub").dtype == f32);
    CHECK(report.decisions.size() == 6);  // matmul softmax add sum mul sub
  }
}

TEST_CASE("precision: operands are rounded and sums are not") {
  Graph g;
  const Value x = g.input("x", f32, {1, 2});
  const Value y = g.input("y", f32, {2, 1});
  g.set_outputs({matmul(x, y)});
  // 1 + 2^-9 is 1 in bf16 and itself in f16; 256 + 1 is no bf16.
  const keel_test::Feeds feeds = {{"x", Tensor::of<float>({1, 2}, {1.001953125f, 16})},
                                  {"y", Tensor::of<float>({2, 1}, {1, 16})}};
  const auto value = [&](const std::string& mode) {
    return keel_test::evaluate(*applied(g, mode), feeds)[0].item<float>();
  };
  CHECK(value("mixed_bf16") == 257.0f);
  CHECK(value("mixed_fp16") == 257.001953125f);
}

TEST_CASE("precision: an operand of several products is cast once") {
  Graph g;
  const Value x = twos(g, "x");
  const Value w = twos(g, "w");
  g.set_outputs({matmul(x, w), matmul(w, x), matmul(x, x)});
  CHECK(count_op(*applied(g, "mixed_bf16"), "cast") == 2);
}

TEST_CASE("precision: products of other dtypes stay as they are") {
  for (const DType dtype : {f64, f16, bf16, i32}) {
    Graph g;
    const Value x = g.input("x", dtype, {2, 2});
    g.set_outputs({matmul(x, x)});
    PrecisionReport report;
    const auto graph = applied(g, "mixed_bf16", &report);
    CHECK(graph->size() == g.size());
    CHECK(graph->outputs()[0].dtype() == dtype);
    CHECK(report.decisions.size() == (size_of(dtype) == 2 ? 1 : 0));
  }
  Graph g;
  const Value x = g.input("x", bf16, {2, 2});
  g.set_outputs({matmul(x, x, {.wide = true})});
  PrecisionReport report;
  CHECK(applied(g, "mixed_fp16", &report)->size() == g.size());
  CHECK(decision_of(report, "matmul").rule == "products: keep");
}

TEST_CASE("precision: bodies of loops and branches are treated alike") {
  Graph g;
  const Value x = twos(g, "x");
  const Value w = twos(g, "w");
  const Values looped = while_loop(
      {x}, [](const Values& v) { return less(sum(v[0]), 1000.0f); },
      [&](const Values& v) { return Values{matmul(v[0], w) + 1.0f}; });
  const Values taken = cond(
      greater(sum(x), 0.0f), {looped[0]}, [&](const Values& v) { return Values{matmul(v[0], w)}; },
      [](const Values& v) { return Values{v[0]}; });
  g.set_outputs({taken[0]});
  PrecisionReport report;
  const auto graph = applied(g, "mixed_bf16", &report);
  std::vector<std::string> inside;
  for (const PrecisionDecision& d : report.decisions) {
    if (d.op == "matmul") inside.push_back(d.inside);
  }
  CHECK(inside == std::vector<std::string>{"while_loop body 1", "cond body 0"});
  const PrecisionDecision& first = decision_of(report, "matmul");
  CHECK(contains(to_string(first), "while_loop body 1: matmul: bf16"));
  for (const Node& node : graph->nodes()) {
    if (node.op_name() != "while_loop") continue;
    CHECK(node.types().back() == x.type());  // behind the count of turns
    CHECK(count_op(*node.bodies()[1], "cast") == 2);
    CHECK(node.bodies()[1]->outputs().back().type() == x.type());
  }
}

TEST_CASE("precision: rules of a table are looked up from the top and by name or trait") {
  Graph g;
  const Value x = twos(g, "x");
  const Value y = exp(x) + x;
  const Value z = transpose(y);
  const Value kept = sum(z);
  g.set_outputs({kept, z, transpose(x)});
  PrecisionReport report;
  const auto graph =
      applied(g,
              table({{.what = "exponentials", .op = "exp", .forms = {PrecisionForm::kGraph}},
                     {.what = "arithmetic", .traits = kElementwise, .forms = {PrecisionForm::kLow}},
                     {.what = "moving",
                      .traits = kMovement,
                      .follows = true,
                      .forms = {PrecisionForm::kLow}}}),
              &report);
  CHECK(decision_of(report, "exp").dtype == f32);
  CHECK(decision_of(report, "exp").rule == "exponentials: keep");
  CHECK(decision_of(report, "add").dtype == bf16);
  CHECK(decision_of(report, "add").rule == "arithmetic: low");
  CHECK(decision_of(report, "sum").rule == "no rule: keep");
  // The first transpose reads what is low already, the second does not.
  CHECK(decision_of(report, "transpose").dtype == bf16);
  CHECK(decision_of(report, "transpose").rule == "moving: low");
  CHECK(report.decisions.back().op == "transpose");
  CHECK(report.decisions.back().dtype == f32);
  CHECK(report.decisions.back().rule == "moving: keep (its operands are not low)");
  // exp and x down, the transposed one up once for the sum and the output.
  CHECK(count_op(*graph, "cast") == 3);
  for (const Value& v : graph->outputs()) CHECK(v.dtype() == f32);
}

TEST_CASE("precision: what a graph hands out keeps its dtype under any rule") {
  const PrecisionMode low =
      table({{.what = "all", .forms = {PrecisionForm::kLow, PrecisionForm::kGraph}}});
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const auto random = keel_test::random_graph(seed, 40);
    PrecisionReport report;
    const auto graph = applied(*random.graph, low, &report);
    CHECK(!report.decisions.empty());
    for (size_t i = 0; i < graph->outputs().size(); ++i) {
      CHECK(graph->outputs()[i].type() == random.graph->outputs()[i].type());
    }
    const auto& updates = random.graph->updates();
    REQUIRE(graph->updates().size() == updates.size());
    for (size_t i = 0; i < updates.size(); ++i) {
      CHECK(graph->updates()[i].next.type() == updates[i].next.type());
    }
    // No products in these, so that mixed precision changes no bit.
    CHECK(keel_test::all_bit_equal(
        keel_test::evaluate(*applied(*random.graph, "mixed_bf16"), random.feeds),
        keel_test::evaluate(*random.graph, random.feeds)));
  }
}

TEST_CASE("precision: the first form that the backend takes is taken and the report says why") {
  Graph g;
  const Value x = twos(g, "x");
  g.set_outputs({matmul(x, x)});
  const int line = __LINE__ - 1;
  const auto declines = [](const Node& node) -> Support {
    const bool has_bf16 = !node.inputs().empty() && node.input(0).dtype() == bf16;
    if (has_bf16) return {false, "toy has no bf16; use a better toy"};
    return {true, ""};
  };
  PrecisionReport report;
  const PrecisionMode& mixed = find_precision_mode("mixed_bf16");
  const auto graph = apply_precision(g, {.mode = &mixed}, declines, &report);
  CHECK(graph->size() == g.size());
  CHECK(decision_of(report, "matmul").rule ==
        "products: keep (not low (f32 sums): toy has no bf16; use a better toy)");
  CHECK(decision_of(report, "matmul").dtype == f32);

  const PrecisionMode low = table({{.what = "products", .forms = {PrecisionForm::kLow}}});
  const std::string text = error_of([&] { apply_precision(g, {.mode = &low}, declines); });
  CHECK(contains(text, "matmul: precision test has no form of it that the backend takes"));
  CHECK(contains(text, "not low: toy has no bf16; use a better toy"));
  CHECK(contains(text, "choose another precision mode"));
  CHECK(contains(text, "test_precision.cpp:" + std::to_string(line)));
}

TEST_CASE("precision: an unknown mode is refused naming the modes") {
  CHECK(precision_names() == std::vector<std::string>{"fp32", "mixed_bf16", "mixed_fp16"});
  const std::string text = error_of([] { find_precision_mode("mixed_fp8"); });
  CHECK(contains(text, "one of fp32, mixed_bf16, mixed_fp16"));
  CHECK(contains(text, "'mixed_fp8'"));
  CHECK(contains(text, "did you mean 'mixed_fp16'?"));
}

TEST_SUITE_END();
