// What the ops with bodies and dequeue demand of types; the builders of graph/control are tested
// elsewhere.
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

}  // namespace

TEST_SUITE_END();
