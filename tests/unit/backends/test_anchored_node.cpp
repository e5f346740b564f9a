// A `fused` node as backends see it: what its body is split into, where its operands come from, and
// that kernels take bodies whatever the order of their inputs.
#include <functional>

#include <doctest/doctest.h>

#include "keel/backends/common/anchored_node.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::kFusingDevices;
using testing::noise;
using testing::run_case;
using testing::StepCase;

using FusedBody = std::function<Values(const Values&)>;

// Adds a `fused` node whose body gives what `build` makes of its inputs.
const Node& add_fused(Graph& g, const Values& inputs, const FusedBody& build) {
  auto body = std::make_shared<Graph>(g.ops());
  Values inner;
  for (const Value& v : inputs) {
    inner.push_back(body->input("v" + std::to_string(inner.size()), v.dtype(), v.shape()));
  }
  body->set_outputs(build(inner));
  return g.add("fused", inputs, {}, CallSite::here(), {body});
}

// Runs `build` on inputs of these shapes as one fused node, with them in the order that `order`
// gives, and as a graph that is not fused.
void check_any_order(const std::vector<Shape>& shapes,
                     const std::vector<std::vector<size_t>>& orders, const FusedBody& build) {
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes) {
    tensors.push_back(noise(shape, static_cast<uint32_t>(tensors.size()) + 1));
  }
  const auto inputs_of = [&](Graph& g) {
    Values inputs;
    for (const Shape& shape : shapes) {
      inputs.push_back(g.input("x" + std::to_string(inputs.size()), f32, shape));
    }
    return inputs;
  };
  const StepCase plain{[&](Graph& g) { return std::pair(Update{}, build(inputs_of(g))); }, tensors};
  for (const char* where : kFusingDevices) {
    CAPTURE(std::string(where));
    const std::vector<Tensor> expected = run_case(plain, where, false);
    for (const std::vector<size_t>& order : orders) {
      const StepCase fused{[&](Graph& g) {
                             const Values inputs = inputs_of(g);
                             Values ordered;
                             for (const size_t i : order) ordered.push_back(inputs[i]);
                             const Node& node = add_fused(g, ordered, [&](const Values& inner) {
                               Values given(inner.size());
                               for (size_t i = 0; i < order.size(); ++i) given[order[i]] = inner[i];
                               return build(given);
                             });
                             Values outputs;
                             for (uint32_t i = 0; i < node.types().size(); ++i)
                               outputs.push_back(node.output(i));
                             return std::pair(Update{}, outputs);
                           },
                           tensors};
      CHECK(all_equal(run_case(fused, where, true), expected));
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("anchored node: a node that is not fused is its own anchor") {
  Graph g;
  const Value x = g.input("x", f32, {3, 4});
  const Value w = g.input("w", f32, {4, 5});
  const Value y = matmul(x, w);
  const AnchoredNode product(y.node());
  CHECK(product.is_product());
  CHECK_FALSE(product.is_fused());
  CHECK(&product.anchor() == &y.node());
  CHECK(product.source(1) == 1);
  CHECK(product.stored(0) == x);
  CHECK_FALSE(product.has_prologue(0));
  CHECK_FALSE(product.has_epilogue());
  CHECK(AnchoredNode(exp(x).node()).is_elementwise());
  CHECK_FALSE(AnchoredNode(sum(x).node()).is_elementwise());
}

TEST_CASE("anchored node: an element-wise body has no anchor but the node") {
  Graph g;
  const Value x = g.input("x", f32, {3});
  const AnchoredNode node(add_fused(g, {x}, [](const Values& v) { return Values{exp(v[0]) * 2}; }));
  CHECK(node.is_elementwise());
  CHECK_FALSE(node.is_product());
  CHECK_FALSE(node.is_fused());
  CHECK(node.epilogue().size() == 2);
}

TEST_CASE("anchored node: a product knows its sources and its rows and who reads what") {
  Graph g;
  const Value bias = g.input("bias", f32, {4}), w = g.input("w", f32, {5, 4});
  const Value rows = g.input("rows", i32, {3}), table = g.input("table", u8, {9, 5});
  const AnchoredNode node(add_fused(g, {bias, w, rows, table}, [](const Values& v) {
    const Value x = cast(gather(v[3], v[2]), f32) / 255.0f;
    const Value y = matmul(x, v[1]) + v[0];
    return Values{softmax(y), y};
  }));
  CHECK(node.is_product());
  CHECK(node.source(0) == 3);
  CHECK(node.row_numbers_of(0) == 2);
  CHECK(node.source(1) == 1);
  CHECK_FALSE(node.row_numbers_of(1).has_value());
  CHECK(node.has_prologue(0));
  CHECK_FALSE(node.has_prologue(1));
  CHECK(node.prologue().size() == 3);
  CHECK(node.prologue_inputs() == std::vector<size_t>{1, 2, 3});
  CHECK(node.epilogue_inputs() == std::vector<size_t>{0});
  CHECK(node.epilogue().size() == 1);
  CHECK(node.row_wise().size() == 1);
  const EpilogueGraph epilogue(node);
  REQUIRE(epilogue.outputs.size() == 1);
  CHECK(epilogue.outputs[0].number == 1);
  CHECK(epilogue.graph->inputs().size() == 2);
}

TEST_CASE("anchored node: an operand of several variables has no source") {
  Graph g;
  const Value a = g.input("a", f32, {4, 4}), b = g.input("b", f32, {4, 4});
  const AnchoredNode node(
      add_fused(g, {a, b}, [](const Values& v) { return Values{matmul(v[0] + v[1], v[1])}; }));
  CHECK_FALSE(node.source(0).has_value());
  CHECK(node.source(1) == 1);
  for (const char* where : kFusingDevices) {
    CHECK_FALSE(device(where).backend().supports(node.node()).supported);
  }
}

TEST_CASE("anchored node: products take their inputs in any order") {
  // The left operand is read behind the product as well.
  check_any_order({{40, 40}, {40, 40}, {40}}, {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}},
                  [](const Values& v) { return Values{relu(matmul(v[0], v[1]) + v[2]) + v[0]}; });
  check_any_order({{30, 20}, {20, 16}, {16}}, {{2, 0, 1}, {1, 0, 2}}, [](const Values& v) {
    const Value y = matmul(v[0], v[1]) + v[2];
    return Values{softmax(y), y};
  });
}

TEST_CASE("anchored node: reductions take their inputs in any order") {
  check_any_order({{50, 30}, {30}, {}}, {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}},
                  [](const Values& v) { return Values{sum(v[0] * v[1], {0}) * v[2] - v[1]}; });
}

TEST_SUITE_END();

}  // namespace keel
