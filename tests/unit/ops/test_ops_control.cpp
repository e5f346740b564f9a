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

// A body of these inputs that gives what `outputs` makes of them.
std::shared_ptr<Graph> fused_body(const std::vector<Type>& inputs,
                                  const std::function<Values(const Values&)>& outputs) {
  const auto body = body_of(inputs, {});
  body->set_outputs(outputs(body->inputs()));
  return body;
}

// What adding a `fused` node with that body says.
std::string refused_body(const std::vector<Type>& inputs,
                         const std::function<Values(const Values&)>& outputs) {
  Graph g;
  Values values;
  for (const Type& type : inputs) {
    values.push_back(g.input("x" + std::to_string(values.size()), type.dtype, type.shape));
  }
  const auto body = fused_body(inputs, outputs);
  return error_of([&] { g.add("fused", values, {}, CallSite::here(), {body}); });
}

TEST_CASE("fused demands a body of the types that it is given without states") {
  Graph g;
  const Type matrix{f32, {3, 4}};
  const Value x = g.input("x", f32, {3, 4});
  const auto doubled = fused_body({matrix}, [](const Values& v) { return Values{v[0] + v[0]}; });
  const auto build = [&](const std::shared_ptr<Graph>& body, const Values& inputs) {
    return error_of([&] { g.add("fused", inputs, {}, CallSite::here(), {body}); });
  };
  CHECK(build(doubled, {x}).empty());
  CHECK(contains(build(doubled, {x, x}), "2 inputs"));
  CHECK(contains(build(doubled, {g.input("y", f32, {4, 3})}), "input 0 of type f32[4, 3]"));
  CHECK(contains(build(fused_body({matrix}, [](const Values&) { return Values{}; }), {x}),
                 "at least one output"));
  const auto with_state = fused_body({matrix}, [](const Values& v) {
    v[0].graph().state("s", zeros({2}));
    return Values{v[0] + v[0]};
  });
  CHECK(contains(build(with_state, {x}), "no states or updates"));
}

TEST_CASE("fused demands element-wise ops around at most one anchor") {
  const Type matrix{f32, {3, 4}};
  CHECK(contains(refused_body({matrix},
                              [](const Values& v) {
                                return Values{exp(transpose(v[0], {1, 0}))};
                              }),
                 "element-wise ops, slices of inputs' rows and joins of results"));
  CHECK(refused_body({matrix}, [](const Values& v) {
          return Values{exp(slice(v[0], {0, 1}, {3, 3}))};
        }).empty());
  CHECK(contains(
      refused_body({matrix}, [](const Values& v) { return Values{exp(slice(v[0], {1}, {3}))}; }),
      "got 'slice'"));
  CHECK(contains(refused_body({matrix},
                              [](const Values& v) {
                                return Values{exp(slice(v[0] + v[0], {0, 1}, {3, 3}))};
                              }),
                 "got 'slice'"));
  CHECK(refused_body({matrix}, [](const Values& v) {
          const Value y = exp(v[0]);
          return Values{concat({y, -y}, 1), y};
        }).empty());
  CHECK(contains(refused_body({matrix},
                              [](const Values& v) {
                                return Values{concat({exp(v[0]), v[0]}, 1)};
                              }),
                 "got 'concat' of what 'input' gives"));
  CHECK(contains(refused_body({matrix},
                              [](const Values& v) {
                                return Values{exp(concat({exp(v[0]), -v[0]}, 1))};
                              }),
                 "got 'concat' that 'exp' reads"));
  CHECK(contains(refused_body({matrix},
                              [](const Values& v) {
                                return Values{exp(v[0]), concat({exp(v[0]), -v[0]}, 0)};
                              }),
                 "got 'concat'"));
  CHECK(contains(refused_body({matrix, {f32, {4}}},
                              [](const Values& v) {
                                return Values{exp(v[0]), concat({exp(v[1]), -v[1]}, 0)};
                              }),
                 "outputs of 12 elements"));
  CHECK(contains(refused_body({matrix}, [](const Values& v) { return Values{softmax(v[0])}; }),
                 "row-wise ops behind a product only"));
  CHECK(
      contains(refused_body({matrix},
                            [](const Values& v) { return Values{sum(max(v[0], {0}, true), {0})}; }),
               "got 2 of them"));
  CHECK(
      contains(refused_body({matrix, {f32, {4, 2}}},
                            [](const Values& v) { return Values{matmul(v[0], v[1]) + sum(v[1])}; }),
               "got 2 of them"));
}

TEST_CASE("fused takes a reduction with element-wise ops and views around it") {
  const Type matrix{f32, {3, 4}}, bias{f32, {4}};
  CHECK(refused_body({matrix, bias}, [](const Values& v) {
          const Value reduced = sum(exp(v[0]), {0});
          return Values{tanh(reduced + v[1]), cast(reduced, f16)};
        }).empty());
  CHECK(refused_body({matrix}, [](const Values& v) {
          const Value reduced = max(reshape(exp(v[0]), {3, 2, 2}), {1, 2});
          return Values{exp(reshape(reduced, {3, 1}))};
        }).empty());
  CHECK(contains(refused_body({matrix},
                              [](const Values& v) {
                                return Values{sum(transpose(v[0], {1, 0}), {1})};
                              }),
                 "element-wise ops and views before the reduction"));
  CHECK(contains(refused_body({matrix},
                              [](const Values& v) {
                                return Values{transpose(sum(v[0], {0}, true), {1, 0})};
                              }),
                 "element-wise ops and views behind the reduction"));
  CHECK(contains(
      refused_body({matrix}, [](const Values& v) { return Values{softmax(sum(v[0], {0}, true))}; }),
      "row-wise ops behind a product only"));
}

TEST_CASE("fused takes a product with gathered rows before and row-wise ops behind it") {
  const Type left{f32, {3, 4}}, right{f32, {4, 2}}, bias{f32, {2}};
  CHECK(refused_body({left, right, bias}, [](const Values& v) {
          const Value y = matmul(exp(v[0]), v[1]);
          return Values{tanh(y + v[2]), softmax(y + v[2]), cast(y, f16)};
        }).empty());
  CHECK(refused_body({{u8, {9, 4}}, {i32, {3}}, right}, [](const Values& v) {
          return Values{matmul(cast(gather(v[0], v[1]), f32), v[2])};
        }).empty());
  CHECK(contains(refused_body({left, right},
                              [](const Values& v) {
                                return Values{matmul(reshape(v[0], {3, 4}), v[1])};
                              }),
                 "element-wise ops and gathers before the product"));
  CHECK(contains(
      refused_body({left, right},
                   [](const Values& v) { return Values{exp(softmax(matmul(v[0], v[1])))}; }),
      "row-wise ops whose results leave"));
}

TEST_CASE("fused demands a prologue that its anchor alone reads") {
  const Type square{f32, {4, 4}};
  CHECK(contains(refused_body({square},
                              [](const Values& v) {
                                const Value x = exp(v[0]);
                                return Values{matmul(x, v[0]) + x};
                              }),
                 "a prologue that the anchor alone reads"));
  CHECK(contains(refused_body({square},
                              [](const Values& v) {
                                const Value x = exp(v[0]);
                                return Values{sum(x), x};
                              }),
                 "one that leaves"));
}

}  // namespace

TEST_SUITE_END();
