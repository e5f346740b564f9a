#include "keel/graph/control/control_flow.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "keel/graph/ir/emit.h"

namespace keel {
namespace {

Error control_error(const char* op, const std::string& argument, const std::string& expected,
                    const std::string& got, CallSite site) {
  return Error({.op = op, .argument = argument, .expected = expected, .got = got, .site = site});
}

// Makes the loop variables. The first of the outer values is the iteration count, which has its
// input already.
Values body_variables(Graph& body, const Values& outer) {
  Values variables;
  for (size_t i = 1; i < outer.size(); ++i) {
    variables.push_back(body.input("v" + std::to_string(i - 1), outer[i].dtype(), outer[i].shape(),
                                   outer[i].node().site()));
  }
  return variables;
}

// Returns what a branch gets for its operands, which stands for the values themselves.
Values captured_in(Graph& body, const Values& outer) {
  Values captured;
  for (const Value& v : outer) captured.push_back(body.capture(v));
  return captured;
}

// Results of a body as values of the body's own graph.
Values adopt_results(Graph& body, const Values& results, const char* op, const char* argument,
                     CallSite site) {
  for (size_t i = 0; i < results.size(); ++i) {
    body.require_within_reach(results[i], op, argument + (", result " + std::to_string(i)), site);
  }
  Values own;
  for (const Value& v : results) own.push_back(body.capture(v));
  return own;
}

// A body while the user's function builds it. When that is through, also by an exception, values of
// the body cannot be used outside any more.
class BodyScope {
 public:
  BodyScope(Graph& graph, const char* op, bool always_runs, CallSite site)
      : op_(op), site_(site), body_(graph.make_body(site, always_runs)) {}
  ~BodyScope() { body_->close(op_, site_); }
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;

  Graph& operator*() const { return *body_; }
  Graph* operator->() const { return body_.get(); }
  const std::shared_ptr<Graph>& graph() const { return body_; }

 private:
  const char* op_;
  CallSite site_;
  std::shared_ptr<Graph> body_;
};

// Returns what either body captured, each once; both bodies get all of them as inputs in that
// order.
Values unify_captures(Graph& first, Graph& second) {
  Values outers;
  std::unordered_set<Value, ValueHash> known;
  for (const Graph* body : {&first, &second}) {
    for (const auto& [outer, inner] : body->captures()) {
      if (known.insert(outer).second) outers.push_back(outer);
    }
  }
  first.order_captures(outers);
  second.order_captures(outers);
  return outers;
}

Values outputs_from(const Node& node, size_t first) {
  Values outputs;
  for (size_t i = first; i < node.data_types().size(); ++i) outputs.push_back(node.output(i));
  return outputs;
}

Values operand_values(const std::vector<Operand>& operands, Graph& graph, const char* op,
                      CallSite site) {
  DType dtype = f32;
  for (const Operand& o : operands) {
    if (!o.is_literal()) {
      dtype = o.value().dtype(site);
      break;
    }
  }
  Values values;
  for (const Operand& o : operands) {
    const Value value = to_value(o, graph, dtype, op);
    graph.require_within_reach(value, op, "operand " + std::to_string(values.size()), site);
    values.push_back(graph.capture(value));
  }
  return values;
}

void require_function(const BodyFunction& function, const char* op, const char* argument,
                      CallSite site) {
  if (!function) throw control_error(op, argument, "a function", "an empty one", site);
}

// With a trip count the condition is never asked, so what it computes must not run before the loop.
std::shared_ptr<Graph> build_condition(Graph& graph, const Values& inputs,
                                       const ConditionFunction& condition, int64_t trip_count,
                                       CallSite site) {
  const BodyScope test(graph, "while_loop", trip_count < 0, site);
  test->set_iteration(test->input("iteration", i64, {}, site));
  const Values variables = body_variables(*test, inputs);
  const Value holds =
      condition ? condition(variables) : test->constant(Tensor::full(boolean, {}, 1), site);
  const Values result = adopt_results(*test, {holds}, "while_loop", "condition", site);
  if (result[0].type() != Type{boolean, Shape{}}) {
    throw control_error("while_loop", "condition", "bool[]", to_string(result[0].type()), site);
  }
  test->set_outputs(result);
  return test.graph();
}

std::shared_ptr<Graph> build_loop_body(Graph& graph, const Values& inputs, const BodyFunction& body,
                                       int64_t trip_count, CallSite site) {
  const BodyScope step(graph, "while_loop", trip_count > 0, site);
  const Value iteration = step->input("iteration", i64, {}, site);
  step->set_iteration(iteration);
  Values results =
      adopt_results(*step, body(body_variables(*step, inputs)), "while_loop", "body", site);
  if (results.size() + 1 != inputs.size()) {
    throw control_error("while_loop", "body", std::to_string(inputs.size() - 1) + " values",
                        std::to_string(results.size()), site);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].type() == inputs[i + 1].type()) continue;
    throw control_error("while_loop", "loop variable " + std::to_string(i),
                        to_string(inputs[i + 1].type()) + " from the body as at the start",
                        to_string(results[i].type()), site);
  }
  results.insert(results.begin(), emit("add", {Operand(iteration, site), Operand(1, site)}, site));
  step->set_outputs(std::move(results));
  return step.graph();
}

Value key_base(Graph& graph, CallSite site) {
  const auto fold = [&](Value key, Value data) {
    return graph.add("fold_key", {key, data}, Attributes(), site).output();
  };
  if (graph.parent() == nullptr) return fold(graph.seed(), graph.step());
  const Value outer = graph.capture(key_base(*graph.parent(), site));
  return graph.iteration().valid() ? fold(outer, graph.iteration()) : outer;
}

}  // namespace

const Node& add_while_loop(const std::vector<Operand>& init, const ConditionFunction& condition,
                           const BodyFunction& body, WhileAttributes attributes, CallSite site) {
  Graph& graph = graph_of_call(init, "while_loop", site);
  Values inputs = operand_values(init, graph, "while_loop", site);
  inputs.insert(inputs.begin(), graph.constant(Tensor::scalar<int64_t>(0), site));

  const std::shared_ptr<Graph> test =
      build_condition(graph, inputs, condition, attributes.trip_count, site);
  const std::shared_ptr<Graph> step =
      build_loop_body(graph, inputs, body, attributes.trip_count, site);
  const Values captures = unify_captures(*test, *step);
  inputs.insert(inputs.end(), captures.begin(), captures.end());

  return graph.add("while_loop", std::move(inputs), Attributes::of(attributes), site, {test, step});
}

Values while_loop(const std::vector<Operand>& init, const ConditionFunction& condition,
                  const BodyFunction& body, WhileOptions options, CallSite site) {
  if (!condition && !options.trip_count)
    throw control_error("while_loop", "condition", "a function, or a trip_count", "neither", site);
  require_function(body, "while_loop", "body", site);
  const auto given = [&](const char* name, const std::optional<int64_t>& option, int64_t least) {
    if (!option || *option >= least) return option.value_or(-1);
    throw control_error("while_loop", name, "at least " + std::to_string(least),
                        std::to_string(*option), site);
  };
  const WhileAttributes attributes{
      .trip_count = given("trip_count", options.trip_count, 0),
      .max_trips = given("max_trips", options.max_trips, 0),
      .recompute_every = given("recompute_every", options.recompute_every, 1),
      .memory_budget_bytes = given("memory_budget_bytes", options.memory_budget_bytes, 0)};
  return outputs_from(add_while_loop(init, condition, body, attributes, site), 1);
}

Values cond(Operand predicate, const std::vector<Operand>& operands, const BodyFunction& then_body,
            const BodyFunction& else_body, CallSite site) {
  std::vector<Operand> all = operands;
  all.insert(all.begin(), predicate);
  Graph& graph = graph_of_call(all, "cond", site);
  const Values given = operand_values(operands, graph, "cond", site);

  std::vector<std::shared_ptr<Graph>> bodies;
  for (const BodyFunction* function : {&then_body, &else_body}) {
    const char* const which = function == &then_body ? "then_body" : "else_body";
    require_function(*function, "cond", which, site);
    const BodyScope body(graph, "cond", false, site);
    const Values results = (*function)(captured_in(*body, given));
    body->set_outputs(adopt_results(*body, results, "cond", which, site));
    bodies.push_back(body.graph());
  }
  Values inputs = unify_captures(*bodies[0], *bodies[1]);
  const Value chosen = to_value(predicate, graph, boolean, "cond");
  graph.require_within_reach(chosen, "cond", "predicate", site);
  inputs.insert(inputs.begin(), graph.capture(chosen));
  return outputs_from(graph.add("cond", std::move(inputs), Attributes(), site, bodies), 0);
}

Value random_key(Graph& graph, CallSite site) {
  Graph& own = graph.under_construction();
  const int64_t salt = own.next_salt();
  return emit("fold_key", {Operand(key_base(own, site), site), Operand(salt, site)}, site);
}

std::unique_ptr<Graph> make_sunk_loop(std::shared_ptr<Graph> step) {
  auto graph = std::make_unique<Graph>(step->ops());
  graph->add("sunk_loop", {}, Attributes(), {}, {std::move(step)});
  return graph;
}

}  // namespace keel
