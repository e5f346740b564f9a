#include <algorithm>
#include <string>
#include <utility>

#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/skipped_steps.h"
#include "keel/graph/ir/update_check.h"
#include "keel/graph/passes/passes.h"

namespace keel {
namespace {

std::shared_ptr<Graph> specialise_body(const Graph& body, const std::vector<Type>& input_types);

// Says whether an op has no meaning but what it becomes when dimensions are known.
bool is_recorded(const Node& node) {
  return !node.op().reference && node.op().decompose && node.bodies().empty();
}

// Copies one node with concrete types; gradients are expanded on the spot, so that those of
// enclosing gradients, which come later, see ordinary nodes only.
void specialise_node(const Node& node, Rewriter& rewriter, Graph& to) {
  if (node.is(OpRole::kGradient)) {
    const LabelScope label(to, node);
    const Values inputs = rewriter(node.inputs());
    const Value y = inputs[0];
    const Values xs(inputs.begin() + 1, inputs.end());
    const Value one = to.constant(Tensor::full(y.dtype(), Shape{}, 1), node.site());
    const Values expanded = expand_gradients({y}, xs, {one}, node.site());
    for (size_t i = 0; i < expanded.size(); ++i) rewriter.map(node.output(i), expanded[i]);
    return;
  }
  if (is_recorded(node)) {
    const LabelScope label(to, node);
    const Values inputs = rewriter(node.inputs());
    const Values expanded = node.op().decompose(
        BuildContext{node.op(), node.attributes(), inputs, {}, {}, {}, to, node.site()});
    for (size_t i = 0; i < expanded.size(); ++i) rewriter.map(node.output(i), expanded[i]);
    return;
  }
  if (node.bodies().empty()) {
    rewriter.clone(node);
    return;
  }
  if (is_checkpointed_forward(node)) {
    throw Error({.op = node.op_name(),
                 .argument = "forward_of",
                 .expected = "none, as in every finished graph",
                 .got = "one",
                 .site = node.site()});
  }
  const Values inputs = rewriter(node.data_inputs());
  std::vector<std::shared_ptr<Graph>> bodies;
  for (const auto& body : node.bodies()) {
    bodies.push_back(specialise_body(*body, body_input_types(node, inputs)));
  }
  rewriter.clone(node, inputs, node.attributes(), std::move(bodies));
}

std::shared_ptr<Graph> specialise_body(const Graph& body, const std::vector<Type>& input_types) {
  // It gets no parent: nothing is captured any more, and passes may drop the graph around it.
  auto result = std::make_shared<Graph>(body.ops());
  Rewriter rewriter(body, *result);
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const Node& node = body.inputs()[i].node();
    const LabelScope label(*result, node.shared_label());
    rewriter.map(node.output(), result->input(name_of(node), input_types.at(i).dtype,
                                              input_types.at(i).shape, node.site()));
  }
  const std::vector<bool> live = live_nodes(body);
  for (const Node& node : body.nodes()) {
    if (live[node.id()] && !node.is(OpRole::kInput)) specialise_node(node, rewriter, *result);
  }
  rewriter.finish();
  if (has_open_bodies(*result)) result = place_checkpointed_forwards(*result);
  return result;
}

// Returns the counts of skipped steps of what the update leaves out.
Values counts_of_others(const SpecialiseRequest& request) {
  Values counts;
  const auto& assignments = request.update.assignments;
  if (assignments.empty()) return counts;
  for (const Value& state : request.graph->states()) {
    const auto assigned = [&](const Assignment& a) { return a.state == state; };
    if (counts_skipped_steps(state) &&
        std::none_of(assignments.begin(), assignments.end(), assigned))
      counts.push_back(state);
  }
  return counts;
}

std::vector<bool> reached(const SpecialiseRequest& request) {
  const Graph& graph = *request.graph;
  std::vector<bool> reach(graph.size(), false);
  if (request.boundary && request.boundary->stop.valid())
    reach[request.boundary->stop.node_id()] = true;
  for (const Value& v : request.fetches) reach[v.node_id()] = true;
  for (const Assignment& a : request.update.assignments) {
    reach[a.state.node_id()] = true;
    reach[a.next.node_id()] = true;
  }
  for (const Value& count : counts_of_others(request)) reach[count.node_id()] = true;
  for (uint32_t id = static_cast<uint32_t>(graph.size()); id-- > 0;) {
    if (!reach[id]) continue;
    // A program has those of a model's effects whose results it uses.
    for (const Value& input : graph.node(id).data_inputs()) reach[input.node_id()] = true;
  }
  return reach;
}

void check_request(const SpecialiseRequest& request) {
  const auto check = [&](const Value& v, const std::string& what) {
    request.graph->require_own(v, "session", what, {}, "the session's graph");
  };
  for (size_t i = 0; i < request.fetches.size(); ++i)
    check(request.fetches[i], "fetch " + std::to_string(i));
  if (request.boundary && request.boundary->stop.valid())
    check(request.boundary->stop, "stop_when");
  for (const Assignment& a : request.update.assignments) {
    check(a.state, "updated state");
    check(a.next, "next value");
  }
  require_step(request.update.assignments, "update", CallSite{});
}

void map_input(const Node& node, const SpecialiseRequest& request, Rewriter& rewriter, Graph& to) {
  const std::string& name = name_of(node);
  const auto it = request.input_types.find(name);
  if (it == request.input_types.end()) {
    throw Error({.op = "feed",
                 .argument = name,
                 .expected = to_string(node.type()),
                 .got = "nothing",
                 .fix = "feed this input" + made_at(node.output())});
  }
  const Type& got = it->second;
  if (got.dtype != node.type().dtype || !matches(node.type().shape, got.shape)) {
    throw Error({.op = "feed",
                 .argument = name,
                 .expected = to_string(node.type()),
                 .got = to_string(got),
                 .fix = "feed what this input takes" + made_at(node.output())});
  }
  const LabelScope label(to, node.shared_label());
  rewriter.map(node.output(), to.input(name, got.dtype, got.shape, node.site()));
}

void add_updates(const SpecialiseRequest& request, const Rewriter& rewriter, Graph& to) {
  if (request.update.empty()) return;
  for (const Assignment& a : request.update.assignments) {
    // It says that the step skips nothing of what this counts.
    if (a.next == a.state && counts_skipped_steps(a.state)) continue;
    const Value next = rewriter(a.next);
    if (next.type() != a.state.type()) {
      throw Error({.op = "update",
                   .argument = name_of(a.state.node()),
                   .expected = to_string(a.state.type()),
                   .got = to_string(next.type()),
                   .site = a.next.node().site()});
    }
    to.add_update(rewriter(a.state), next);
  }
  const NameScope scope(to, "keel");
  const auto count = [&](const Value& counter) {
    to.add_update(counter,
                  emit("add", {Operand(counter, CallSite{}), Operand(1, CallSite{})}, CallSite{}));
  };
  count(to.step());
  for (const Value& skipped : counts_of_others(request)) count(rewriter(skipped));
  // An update that may be skipped counts itself.
  const Value applied = request.graph->find_state(kUpdatesState);
  const auto& assignments = request.update.assignments;
  const bool counted = std::any_of(assignments.begin(), assignments.end(),
                                   [&](const Assignment& a) { return a.state == applied; });
  if (applied.valid() && !counted) count(to.updates_applied());
}

}  // namespace

Values reached_inputs(const SpecialiseRequest& request) {
  check_request(request);
  const std::vector<bool> reach = reached(request);
  Values inputs;
  for (const Value& input : request.graph->inputs()) {
    if (reach[input.node_id()]) inputs.push_back(input);
  }
  return inputs;
}

std::unique_ptr<Graph> specialise(const SpecialiseRequest& request) {
  check_request(request);
  const std::vector<bool> reach = reached(request);
  auto result = std::make_unique<Graph>(request.graph->ops());
  Rewriter rewriter(*request.graph, *result);
  for (const Node& node : request.graph->nodes()) {
    if (!reach[node.id()]) continue;
    if (node.is(OpRole::kInput))
      map_input(node, request, rewriter, *result);
    else
      specialise_node(node, rewriter, *result);
  }
  result->set_outputs(rewriter(request.fetches));
  add_updates(request, rewriter, *result);
  if (const auto& boundary = request.boundary) {
    const Value stop = boundary->stop.valid() ? rewriter(boundary->stop) : Value();
    add_step_boundary(*result, stop, boundary->site);
  }
  if (has_open_bodies(*result)) result = place_checkpointed_forwards(*result);
  return result;
}

}  // namespace keel
