// In which order the tasks of a fused step come: updates as soon as nothing else reads their states
// and nothing that is still to come may end the step.
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

#include "support/fusing.h"

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Graph;
using keel::Node;
using keel::Shape;
using keel::Value;
using keel::Values;
using keel_test::fused_products;

// Two layers without a bias, whose gradients are written down by hand.
struct Layers {
  Layers() {
    const Value forward = matmul(matmul(x, first), second);
    at_result = forward * 2.0f;
    at_hidden = matmul(at_result, second, {.transpose_b = true});
    of_second = matmul(matmul(x, first), at_result, {.transpose_a = true});
    at_input = matmul(at_hidden, first, {.transpose_b = true});
    of_first = matmul(x, at_hidden, {.transpose_a = true});
  }
  void update(const Value& rate) {
    g.add_update(second, second - of_second * rate);
    g.add_update(first, first - of_first * rate);
  }

  Graph g;
  Value x = g.input("x", keel::f32, {4, 5});
  Value first = g.state("first", {.type = {keel::f32, Shape{5, 6}}});
  Value second = g.state("second", {.type = {keel::f32, Shape{6, 7}}});
  Value at_result, at_hidden, of_second, at_input, of_first;
};

// The first product with such a result.
uint32_t place_of(const Graph& graph, const Shape& shape) {
  for (const Node& node : graph.nodes()) {
    const Node* anchor = keel_test::anchor_of(node);
    const bool product =
        node.op_name() == "matmul" || (anchor != nullptr && anchor->has(keel::kProduct));
    if (product && node.type().shape == shape) return node.id();
  }
  throw std::runtime_error("no such product");
}

}  // namespace

TEST_CASE("fuse order: an update comes behind the last reader of its state") {
  Layers layers;
  const Value steps = layers.g.state("steps", {.type = {keel::i64, Shape{}}});
  layers.update(cast(steps, keel::f32) * 0.1f);
  layers.g.set_outputs({layers.at_input});
  const auto graph = fused_products(layers.g);
  CHECK(keel_test::count_anchors(*graph, keel::kProduct) == 3);
  // The weight that the hidden gradient is made of is written next, before the input's gradient.
  CHECK(place_of(*graph, {6, 7}) > place_of(*graph, {4, 6}));
  CHECK(place_of(*graph, {6, 7}) < place_of(*graph, {4, 5}));
  CHECK(place_of(*graph, {5, 6}) > place_of(*graph, {4, 5}));
}

TEST_CASE("fuse order: a view of a state reads it") {
  Layers layers;
  const Value turned = reshape(layers.second, {3, 14});
  const Value reads = matmul(layers.g.input("y", keel::f32, {2, 3}), turned);
  layers.update(layers.g.input("rate", keel::f32, {}));
  layers.g.set_outputs({reads});
  const auto graph = fused_products(layers.g);
  CHECK(place_of(*graph, {6, 7}) > place_of(*graph, {2, 14}));
}

TEST_CASE("fuse order: products that are no updates come where they are used") {
  Graph g;
  const Value x = g.input("x", keel::f32, {4, 4});
  std::vector<Value> products;
  for (int i = 0; i < 5; ++i) products.push_back(matmul(x, x + static_cast<float>(i)));
  Value total = sum(tanh(products[0] * 2.0f));
  for (int i = 1; i < 5; ++i) total = total + sum(tanh(products[static_cast<size_t>(i)] * 2.0f));
  g.set_outputs({total});
  const auto graph = fused_products(g);
  // Between two products lies what takes the first one's result.
  uint32_t before = 0;
  size_t apart = 0;
  for (const Node& node : graph->nodes()) {
    const Node* anchor = keel_test::anchor_of(node);
    if (anchor == nullptr || !anchor->has(keel::kProduct)) continue;
    apart += before != 0 && node.id() > before + 1;
    before = node.id();
  }
  CHECK(keel_test::count_anchors(*graph, keel::kProduct) == 5);
  CHECK(apart == 4);
}

TEST_CASE("fuse order: a loop's variable has its readers before its next value") {
  Graph g;
  const Value w = g.input("w", keel::f32, {4, 4}), z = g.input("z", keel::f32, {4, 4});
  const Values out = keel::while_loop(
      {w, z},
      [](const Values& v) {
        return v[0].graph().constant(keel::Tensor::full(keel::boolean, {}, 1));
      },
      [](const Values& v) {
        const Value gradient = matmul(v[1], v[1], {.transpose_a = true});
        const Value next = matmul(v[1], v[0]) * 0.5f;
        return Values{v[0] - gradient * 0.001f, next};
      },
      {.trip_count = 3});
  g.set_outputs({out[0], out[1]});
  const auto graph = fused_products(g);
  const Graph& body = *keel_test::only_node(*graph, "while_loop").bodies()[1];
  // The gradient is the product that reads z alone.
  uint32_t gradient = 0, reader = 0;
  for (const Node& node : body.nodes()) {
    const Node* anchor = keel_test::anchor_of(node);
    if (anchor == nullptr || !anchor->has(keel::kProduct)) continue;
    (anchor->input(0) == anchor->input(1) ? gradient : reader) = node.id();
  }
  CHECK(reader != 0);
  CHECK(reader < gradient);
}

TEST_CASE("fuse order: an update waits for what may still end the step") {
  Layers layers;
  const Value rows = layers.g.input("rows", keel::i32, {3});
  layers.g.set_outputs({gather(layers.at_input, rows)});
  layers.update(layers.g.input("rate", keel::f32, {}));
  const auto graph = fused_products(layers.g);
  const uint32_t gathers = keel_test::only_node(*graph, "gather").id();
  CHECK(place_of(*graph, {6, 7}) > gathers);
  CHECK(place_of(*graph, {5, 6}) > gathers);
}

TEST_CASE("fuse order: an update waits for what its rate is made of") {
  Layers layers;
  layers.update(sum(square(layers.of_first)) + 1.0f);  // as behind a norm of gradients
  layers.g.set_outputs({layers.at_input});
  const auto graph = fused_products(layers.g);
  CHECK(place_of(*graph, {6, 7}) > place_of(*graph, {4, 5}));
}

TEST_SUITE_END();
