#include <string>

#include <doctest/doctest.h>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/verify.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/reduce.h"

#include "support/error_of.h"

namespace keel {

// Builds graphs that Graph::add would refuse.
struct GraphTestAccess {
  static void set_inputs(const Node& node, const Values& inputs) {
    edit(node).inputs_ = edit(node).graph_->keep<Value>(inputs);
  }
  static void set_type(const Node& node, const Type& type) {
    edit(node).types_ = edit(node).graph_->keep<Type>({&type, 1});
  }
  static Attributes& attributes(const Node& node) { return edit(node).attributes_; }
  static std::vector<std::shared_ptr<Graph>>& bodies(const Node& node) {
    return edit(node).bodies_;
  }
  static void open(Graph& body) { body.closed_by_ = nullptr; }
  static Values& outputs(Graph& graph) { return graph.outputs_; }
  static std::vector<Assignment>& updates(Graph& graph) { return graph.updates_; }
  static std::vector<AttachedUpdate>& attached(Graph& graph) { return graph.attached_; }
  static void move_to(const Node& node, uint32_t id) { edit(node).id_ = id; }
  static void remove_op(const Node& node) { edit(node).op_ = nullptr; }
  static void become(const Node& node, const Node& other) {
    edit(node).op_ = other.op_;
    edit(node).attributes_ = other.attributes_;
    set_type(node, other.type());
  }
  static Values& inputs(Graph& g) { return g.inputs_; }
  static Values& states(Graph& g) { return g.states_; }
  static std::vector<std::pair<Value, Value>>& captures(Graph& g) { return g.captures_; }

 private:
  static Node& edit(const Node& node) { return const_cast<Node&>(node); }
};

}  // namespace keel

TEST_SUITE_BEGIN("graph");

namespace {

using keel::Attributes;
using keel::Error;
using keel::Graph;
using keel::Shape;
using keel::Tensor;
using keel::Value;
using keel::Values;
using keel_test::contains;
using Access = keel::GraphTestAccess;

std::string verify_error(const Graph& graph) {
  try {
    keel::verify(graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// x, w, and sum = x + w at model.cpp:3.
struct Small {
  Graph g;
  Value x = g.input("x", keel::f32, {2});
  Value w = g.state("w", {.type = {keel::f32, Shape{2}}});
  Value sum = keel::add(x, w, {"model.cpp", 3});
};

// x, and a loop that doubles it while it is below a captured limit.
struct Looped {
  Graph g;
  Value x = g.input("x", keel::f32, {});
  Value limit = g.input("limit", keel::f32, {});
  Values out = keel::while_loop(
      {x}, [&](const Values& v) { return keel::less(v[0], limit); },
      [](const Values& v) { return Values{v[0] * 2}; });
  const keel::Node& loop = out[0].node();
};

}  // namespace

TEST_CASE("verify accepts what the builder makes") {
  Small small;
  small.g.set_outputs({small.sum});
  small.g.add_update(small.w, small.sum);
  small.g.attach_update(small.sum, small.w, small.x);
  CHECK(verify_error(small.g) == "no error");
  Looped looped;
  CHECK(verify_error(looped.g) == "no error");
  CHECK(verify_error(*looped.loop.bodies()[1]) == "no error");
}

TEST_CASE("verify names the node and the line") {
  Small s;
  Access::set_inputs(s.sum.node(), {s.x, Value()});
  const std::string error = verify_error(s.g);
  CHECK(contains(error, "%2 (add): input 1"));
  CHECK(contains(error, "an empty Value"));
  CHECK(contains(error, "model.cpp:3"));
}

TEST_CASE("verify refuses a dangling input") {
  Small s;
  Access::set_inputs(s.sum.node(), {Value(&s.g, 77, 0), s.w});
  CHECK(contains(verify_error(s.g), "a value that does not exist"));
  Access::set_inputs(s.sum.node(), {Value(&s.g, 0, 1), s.w});
  CHECK(contains(verify_error(s.g), "a value that does not exist"));
  Small other;
  Access::set_inputs(s.sum.node(), {other.x, s.w});
  CHECK(contains(verify_error(s.g), "a value of another graph"));
}

TEST_CASE("verify refuses a cycle") {
  Small s;
  Access::set_inputs(s.sum.node(), {s.sum, s.w});
  CHECK(contains(verify_error(s.g), "expected a value of an earlier node, got %2"));
  const Value later = s.sum * 2;
  Access::set_inputs(s.sum.node(), {later, s.w});
  CHECK(contains(verify_error(s.g), "expected a value of an earlier node, got %4"));
}

TEST_CASE("verify refuses a node without op or out of place") {
  Small s;
  Access::move_to(s.sum.node(), 1);
  CHECK(contains(verify_error(s.g), "another place"));
  Small t;
  Access::remove_op(t.sum.node());
  CHECK(contains(verify_error(t.g), "no op"));
}

TEST_CASE("verify refuses a wrong arity") {
  Small s;
  Access::set_inputs(s.sum.node(), {s.x});
  CHECK(contains(verify_error(s.g), "number of inputs"));
  Small t;
  Access::bodies(t.sum.node()).push_back(std::make_shared<Graph>());
  CHECK(contains(verify_error(t.g), "number of bodies"));
}

TEST_CASE("verify refuses the attributes of another op") {
  Small s;
  Access::attributes(s.sum.node()) = Attributes::of(keel::ConstantAttributes{});
  CHECK(contains(verify_error(s.g), "%2 (add): attributes"));
  Small t;
  Access::attributes(t.x.node()) = Attributes();
  CHECK(contains(verify_error(t.g), "%0 (input): attributes"));
}

TEST_CASE("verify recomputes types") {
  Small s;
  Access::set_type(s.sum.node(), {keel::f32, Shape{3}});
  CHECK(contains(verify_error(s.g), "%2 (add): types: expected f32[2], got f32[3]"));
  Small t;
  Access::set_type(t.x.node(), {keel::i32, Shape{2}});
  CHECK(contains(verify_error(t.g), "%0 (input): types"));
}

TEST_CASE("verify refuses bodies that do not match their node") {
  Looped l;
  Access::bodies(l.loop)[0] = nullptr;
  CHECK(contains(verify_error(l.g), "body"));
  Looped m;
  Access::bodies(m.loop)[1] = std::make_shared<Graph>();
  CHECK(contains(verify_error(m.g), "inputs"));
  Looped n;
  Access::set_type(n.loop.bodies()[1]->node(0), {keel::f64, Shape{}});
  CHECK(contains(verify_error(n.g), "%0 (input): types"));
}

TEST_CASE("verify refuses a body that contains itself") {
  auto step = std::make_shared<Graph>();
  const auto root = std::make_unique<Graph>();
  root->add("sunk_loop", {}, {}, {}, {step});
  const keel::Node& inner = step->add("sunk_loop", {}, {}, {}, {std::make_shared<Graph>()});
  Access::bodies(inner)[0] = step;
  CHECK(contains(verify_error(*root), "a body contains itself"));
  Access::bodies(inner).clear();
}

TEST_CASE("verify refuses orphan captures") {
  Looped l;
  Graph& condition = *l.loop.bodies()[0];
  REQUIRE(condition.captures().size() == 1);
  Access::captures(condition)[0].first = l.x;
  CHECK(contains(verify_error(l.g), "orphan capture"));
  Access::captures(condition)[0].first = Value(&l.g, 99, 0);
  CHECK(contains(verify_error(l.g), "orphan capture"));
  Access::captures(condition)[0] = {l.limit, Value(&condition, 99, 0)};
  CHECK(contains(verify_error(l.g), "orphan capture"));
  Looped m;
  Values inputs = m.loop.inputs().to_vector();
  inputs.back() = m.x;
  Access::set_inputs(m.loop, inputs);
  CHECK(contains(verify_error(m.g), "orphan capture"));
}

TEST_CASE("verify refuses lists that do not hold the inputs and states") {
  Small s;
  Access::inputs(s.g).clear();
  CHECK(contains(verify_error(s.g), "input list"));
  Small t;
  Access::states(t.g)[0] = t.x;
  CHECK(contains(verify_error(t.g), "state list"));
  Small u;
  u.g.add("input", {}, u.x.node().attributes(), {});
  CHECK(contains(verify_error(u.g), "a name that no other input has"));
}

TEST_CASE("verify refuses a state in a body") {
  Looped l;
  Graph& body = *l.loop.bodies()[1];
  Small s;
  Access::open(body);
  const Value fresh = body.constant(Tensor::scalar(1.0f));
  Access::become(fresh.node(), s.w.node());
  Access::states(body).push_back(fresh);
  CHECK(contains(verify_error(l.g), "expected the root graph, got a body of a control op"));
}

TEST_CASE("verify refuses outputs that are not the graph's") {
  Small s;
  Small other;
  Access::outputs(s.g) = {other.x};
  CHECK(contains(verify_error(s.g),
                 "output: expected a value of the graph, got a value of another graph"));
  Access::outputs(s.g) = {Value()};
  CHECK(contains(verify_error(s.g), "an empty Value"));
  Access::outputs(s.g) = {Value(&s.g, 2, 1)};
  CHECK(contains(verify_error(s.g), "%2.1, which does not exist"));
}

TEST_CASE("verify refuses wrong updates") {
  Small a;
  Access::updates(a.g).push_back({a.x, a.sum});
  CHECK(contains(verify_error(a.g), "expected a state, got the result of input"));
  Small b;
  Access::updates(b.g).push_back({b.w, keel::sum(b.x)});
  CHECK(contains(verify_error(b.g), "update of w: expected f32[2], got f32[]"));
  Small c;
  c.g.add_update(c.w, c.sum);
  c.g.add_update(c.w, c.x);
  CHECK(contains(verify_error(c.g), "one next value of a state, got two"));
  Small d;
  Access::updates(d.g).push_back({d.w, Value()});
  CHECK(contains(verify_error(d.g), "next value"));
  Small e;
  Access::attached(e.g).push_back({Value(), e.w, e.x});
  CHECK(contains(verify_error(e.g), "attached update"));
  Small f;
  f.g.attach_update(f.sum, f.w, keel::cast(f.x, keel::f64));
  CHECK(contains(verify_error(f.g), "update of w"));
}

TEST_CASE("verify lets an unknown dimension be the state's") {
  Small s;
  const Value unknown = s.g.input("u", keel::f32, {-1});
  s.g.attach_update(s.sum, s.w, unknown);
  CHECK(verify_error(s.g) == "no error");
}

TEST_SUITE_END();
