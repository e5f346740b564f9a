// What the ops with bodies and dequeue demand of types; the builders of graph/control are tested
// elsewhere.
#include <functional>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("dequeue gives one value for each field") {
  Graph g;
  const Values fields = dequeue(g, "train", {{{"image", {u8, {100, 784}}}, {"y", {u8, {100}}}}});
  REQUIRE(fields.size() == 2);
  CHECK(fields[0].type() == Type{u8, {100, 784}});
  CHECK(fields[1].type() == Type{u8, {100}});
  CHECK(fields[0].node().has(kEffect));
  CHECK(fields[0].node().site().line == __LINE__ - 5);
}

TEST_CASE("dequeue refuses a spec that no queue has") {
  Graph g;
  const auto refused = [&](const std::string& queue, const ElementSpec& spec) {
    return error_of([&] { dequeue(g, queue, spec); });
  };
  CHECK(contains(refused("q", {}), "at least one field"));
  CHECK(contains(refused("", {{{"x", {f32, {1}}}}}), "the queue's name"));
  CHECK(contains(refused("q", {{{"x", {f32, {-1}}}}}), "all dimensions of 'x' known"));
  CHECK(contains(refused("q", {{{"x", {f32, {1}}}, {"x", {f32, {1}}}}}), "'x' twice"));
  CHECK(contains(refused("q", {{{"", {f32, {1}}}}}), "a name for each field"));
}

// A body with these input types that passes some of its inputs on.
std::shared_ptr<Graph> body_of(const std::vector<Type>& inputs,
                               const std::vector<size_t>& outputs) {
  auto graph = std::make_shared<Graph>();
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(graph->input("x" + std::to_string(i), inputs[i].dtype, inputs[i].shape));
  }
  Values results;
  for (const size_t i : outputs) results.push_back(values[i]);
  graph->set_outputs(results);
  return graph;
}

TEST_CASE("cond demands bodies of its operands and of each other's types") {
  Graph g;
  const Type vector{f32, {2}};
  const Value p = g.input("p", boolean, {});
  const Value x = g.input("x", f32, {2});
  const auto build = [&](std::shared_ptr<Graph> a, std::shared_ptr<Graph> b, Value predicate) {
    return error_of([&] { g.add("cond", {predicate, x}, {}, CallSite::here(), {a, b}); });
  };
  const auto good = body_of({vector}, {0});
  CHECK(build(good, good, p).empty());
  CHECK(contains(build(good, body_of({vector}, {}), p), "1 values like then_body"));
  CHECK(contains(build(good, body_of({{f32, {3}}}, {0}), p), "input 0 of type f32[2]"));
  CHECK(contains(build(body_of({}, {}), good, p), "1 inputs"));
  CHECK(contains(build(good, good, x), "a bool scalar"));
  const auto made_flag = body_of({vector}, {0});
  made_flag->set_outputs({made_flag->constant(Tensor(boolean, {}))});
  CHECK(contains(build(good, made_flag, p), "the same types"));
}

TEST_CASE("while_loop demands loop variables of fixed types") {
  Graph g;
  const Type count{i64, {}};
  const Type vector{f32, {2}};
  const Value n = g.input("n", i64, {});
  const Value x = g.input("x", f32, {2});
  const auto build = [&](std::shared_ptr<Graph> condition, std::shared_ptr<Graph> body,
                         Value first) {
    return error_of([&] {
      g.add("while_loop", {first, x}, {}, CallSite::here(), {condition, body});
    });
  };
  const auto condition = body_of({count, vector}, {});
  condition->set_outputs({condition->constant(Tensor(boolean, {}))});
  const auto body = body_of({count, vector}, {0, 1});
  CHECK(build(condition, body, n).empty());
  CHECK(contains(build(body_of({count, vector}, {1}), body, n), "bool[]"));
  CHECK(contains(build(condition, body_of({count, vector}, {0, 0}), n), "loop variable 0"));
  CHECK(contains(build(condition, body_of({count, vector}, {1, 1}), n), "body: count"));
  CHECK(contains(build(condition, body_of({count, vector}, {}), n), "the next count"));
  CHECK(contains(build(condition, body, x), "i64[]"));
}

TEST_CASE("fused_reduction demands a reduction and element-wise ops around it") {
  Graph g;
  const Value x = g.input("x", f32, {3, 4});
  const Value bias = g.input("bias", f32, {4});
  const Type reduced{f32, {4}};
  using Build = std::function<Values(Graph&)>;
  const auto made = [](const std::vector<Type>& inputs, const Build& outputs) {
    const auto body = body_of(inputs, {});
    body->set_outputs(outputs(*body));
    return body;
  };
  const auto first = [&](const Build& outputs) { return made({x.type()}, outputs); };
  const auto good = first([](Graph& b) { return Values{sum(exp(b.inputs()[0]), {0})}; });
  const auto epilogue = made({reduced, bias.type()}, [](Graph& b) {
    return Values{tanh(b.inputs()[0] + b.inputs()[1]), cast(b.inputs()[0], f16)};
  });
  const auto build = [&](const std::shared_ptr<Graph>& a, const std::shared_ptr<Graph>& b,
                         const Values& inputs) {
    return error_of([&] { g.add("fused_reduction", inputs, {}, CallSite::here(), {a, b}); });
  };
  CHECK(build(good, epilogue, {x, bias}).empty());
  const Node& node = g.node(static_cast<uint32_t>(g.size() - 1));
  CHECK(node.types() == std::vector<Type>{reduced, {f16, {4}}});
  const auto viewed = first([](Graph& b) {
    return Values{max(reshape(exp(b.inputs()[0]), {3, 2, 2}), {1, 2})};
  });
  const auto behind_view = made({{f32, {3}}}, [](Graph& b) {
    return Values{exp(reshape(b.inputs()[0], {3, 1}))};
  });
  CHECK(build(viewed, behind_view, {x}).empty());

  // What the first body may hold and has to end in.
  const auto moved = first([](Graph& b) {
    return Values{sum(transpose(b.inputs()[0], {1, 0}), {1})};
  });
  CHECK(contains(build(moved, epilogue, {x, bias}), "a reduction, views and element-wise ops"));
  const auto none = first([](Graph& b) { return Values{exp(b.inputs()[0])}; });
  CHECK(contains(build(none, epilogue, {x, bias}), "got 0 reductions"));
  const auto behind = first([](Graph& b) { return Values{exp(sum(b.inputs()[0], {0}))}; });
  CHECK(contains(build(behind, epilogue, {x, bias}), "made by its only reduction"));
  const auto twice =
      first([](Graph& b) { return Values{sum(max(b.inputs()[0], {0}, true), {0})}; });
  CHECK(contains(build(twice, epilogue, {x, bias}), "got 2 reductions"));
  const auto with_state = first([](Graph& b) {
    b.state("s", zeros({2}));
    return Values{sum(b.inputs()[0], {0})};
  });
  CHECK(contains(build(with_state, epilogue, {x, bias}), "no states or updates"));

  // The second, and how the two are linked.
  const auto again =
      made({reduced, bias.type()}, [](Graph& b) { return Values{sum(b.inputs()[0])}; });
  CHECK(contains(build(good, again, {x, bias}), "views and element-wise ops only"));
  const auto nothing = made({reduced, bias.type()}, [](Graph&) { return Values{}; });
  CHECK(contains(build(good, nothing, {x, bias}), "at least one output"));
  const auto unlinked =
      made({{f32, {3}}, bias.type()}, [](Graph& b) { return Values{exp(b.inputs()[0])}; });
  CHECK(contains(build(good, unlinked, {x, bias}), "the types that the bodies take"));
  for (const Values& inputs : {Values{x}, Values{x, bias, bias}, Values{bias, x}}) {
    CHECK(contains(build(good, epilogue, inputs), "the types that the bodies take"));
  }
}

TEST_CASE("fused_product demands a product and element-wise ops around it") {
  Graph g;
  const Value x = g.input("x", f32, {3, 4});
  const Value w = g.input("w", f32, {4, 2});
  const Value bias = g.input("bias", f32, {2});
  const Type product_type{f32, {3, 2}};
  using Build = std::function<Values(Graph&)>;
  const auto made = [](const std::vector<Type>& inputs, const Build& outputs) {
    const auto body = body_of(inputs, {});
    body->set_outputs(outputs(*body));
    return body;
  };
  const auto load = [&](const Build& outputs) { return made({x.type(), w.type()}, outputs); };
  const auto product = [](Graph& b) { return matmul(b.inputs()[0], b.inputs()[1]); };
  const auto good =
      load([&](Graph& b) { return Values{matmul(exp(b.inputs()[0]), b.inputs()[1])}; });
  const auto epilogue = made({product_type, bias.type()}, [](Graph& b) {
    return Values{tanh(b.inputs()[0] + b.inputs()[1]), cast(b.inputs()[0], f16)};
  });
  const auto build = [&](const std::shared_ptr<Graph>& first, const std::shared_ptr<Graph>& second,
                         const Values& inputs) {
    return error_of([&] { g.add("fused_product", inputs, {}, CallSite::here(), {first, second}); });
  };
  CHECK(build(good, epilogue, {x, w, bias}).empty());
  const Node& node = g.node(static_cast<uint32_t>(g.size() - 1));
  CHECK(node.types() == std::vector<Type>{product_type, {f16, {3, 2}}});

  // What the first body may hold and has to end in.
  const auto summed = load(
      [&](Graph& b) { return Values{matmul(b.inputs()[0], b.inputs()[1] + sum(b.inputs()[0]))}; });
  CHECK(contains(build(summed, epilogue, {x, w, bias}), "gather and element-wise ops"));
  const auto none = load([](Graph& b) { return Values{exp(b.inputs()[0])}; });
  CHECK(contains(build(none, epilogue, {x, w, bias}), "got 0 products"));
  const auto behind = load([&](Graph& b) { return Values{exp(product(b))}; });
  CHECK(contains(build(behind, epilogue, {x, w, bias}), "made by its only product"));
  const auto twice = load([&](Graph& b) { return Values{product(b), product(b)}; });
  CHECK(contains(build(twice, epilogue, {x, w, bias}), "got 2 products"));
  const auto with_state = load([&](Graph& b) {
    b.state("s", zeros({2}));
    return Values{product(b)};
  });
  CHECK(contains(build(with_state, epilogue, {x, w, bias}), "no states or updates"));

  // The second, and how the two are linked.
  const auto reduced =
      made({product_type, bias.type()}, [](Graph& b) { return Values{sum(b.inputs()[0])}; });
  CHECK(contains(build(good, reduced, {x, w, bias}), "element-wise and row-wise ops only"));
  const auto rows = made({product_type, bias.type()},
                         [](Graph& b) { return Values{softmax(b.inputs()[0] + b.inputs()[1])}; });
  CHECK(build(good, rows, {x, w, bias}).empty());
  const auto read = made({product_type, bias.type()},
                         [](Graph& b) { return Values{exp(softmax(b.inputs()[0]))}; });
  CHECK(contains(build(good, read, {x, w, bias}), "row-wise ops whose results leave"));
  const auto nothing = made({product_type, bias.type()}, [](Graph&) { return Values{}; });
  CHECK(contains(build(good, nothing, {x, w, bias}), "at least one output"));
  const auto unlinked =
      made({{f32, {2, 3}}, bias.type()}, [](Graph& b) { return Values{exp(b.inputs()[0])}; });
  CHECK(contains(build(good, unlinked, {x, w, bias}), "the types that the bodies take"));
  for (const Values& inputs : {Values{x, w}, Values{x, w, bias, bias}, Values{w, x, bias}}) {
    CHECK(contains(build(good, epilogue, inputs), "the types that the bodies take"));
  }
}

}  // namespace

TEST_SUITE_END();
