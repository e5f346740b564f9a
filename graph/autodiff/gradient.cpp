#include "keel/graph/autodiff/gradient.h"

#include <algorithm>
#include <string>
#include <utility>

#include "keel/graph/autodiff/agreed_attributes.h"
#include "keel/graph/autodiff/body_gradient.h"
#include "keel/graph/autodiff/flow.h"
#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/captures.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

[[noreturn]] void no_gradient(const Node& node, const std::string& why, const std::string& fix,
                              CallSite site) {
  throw Error({.op = "gradient",
               .argument = full_name(node) + " at " + to_string(node.site()),
               .message = why,
               .fix = fix,
               .site = site});
}

// Says whether a gradient passes the node: from what the ys use to an x that lies before it.
bool leads_on(const Node& node, const ValueSet& computed, const ValueSet& useful) {
  for (size_t i = 0; i < node.types().size(); ++i) {
    const Value v = node.output(i);
    if (computed.contains(v) && useful.contains(v)) return true;
  }
  return false;
}

// Throws for a node on a path from the xs to the ys that no gradient passes, in bodies too.
void check_path(const Graph& graph, const Values& ys, const Values& xs, CallSite site) {
  const ValueSet computed = floats_computed_from(graph, xs);
  ValueSet varied = computed;
  varied.insert(xs.begin(), xs.end());
  const ValueSet useful = sources_of(graph, ys);
  for (const Node& node : graph.nodes()) {
    if (!leads_on(node, computed, useful) || node.is(OpRole::kGradient)) continue;
    if (node.op().gradient == nullptr) {
      no_gradient(node, "is on the path from the parameters to the result but has no gradient",
                  node.op().not_differentiable.empty()
                      ? "cut the path with stop_gradient, or express it by other ops"
                      : node.op().not_differentiable,
                  site);
    }
    if (node.ordered() && node.has(kControl)) {
      no_gradient(node,
                  "has effects in its body, and the way back would compute the body again, effects "
                  "included",
                  "take the effects out of the body, or cut the path with stop_gradient", site);
    }
    Values outputs;
    for (size_t i = 0; i < node.types().size(); ++i) outputs.push_back(node.output(i));
    if (node.is(OpRole::kWhile)) {
      if (const auto& a = node.as<WhileAttributes>(); a.trip_count < 0 && a.max_trips < 0) {
        no_gradient(node,
                    "has no bound on its iterations, so what the way back needs of each cannot be "
                    "kept",
                    "give while_loop a trip_count (an exact number) or max_trips (an upper bound), "
                    "or cut the path with stop_gradient",
                    site);
      }
      const Graph& body = *node.bodies()[1];
      const auto inner_xs = varied_in_loop(body, mask_of_members(node.data_inputs(), varied));
      const auto inner_ys = useful_in_loop(body, mask_of_members(outputs, useful));
      check_path(body, select_floats(body.outputs(), inner_ys),
                 select_floats(body.inputs(), inner_xs), site);
    } else if (node.is(OpRole::kCond)) {
      for (const auto& body : node.bodies()) {
        check_path(*body, select_floats(body->outputs(), mask_of_members(outputs, useful)),
                   select_floats(body->inputs(), mask_of_members(node.data_inputs(), varied, 1)),
                   site);
      }
    }
  }
}

// Returns the values of the graph that depend on x, of this graph or of one around it.
ValueSet dependents_within(const Graph& graph, const Value& x) {
  if (&x.graph() == &graph) return dependents_of(graph, {x});
  const ValueSet around = dependents_within(*graph.parent(), x);
  Values entering;
  for (const auto& [outer, inner] : graph.captures())
    if (around.contains(outer)) entering.push_back(inner);
  return dependents_of(graph, entering);
}

// A body takes what is computed around it as it comes: a path that begins there would be lost, and
// the gradient 0.
void require_path_within(Graph& graph, const Value& loss, const Value& x,
                         const std::string& argument, CallSite site) {
  const Value origin = origin_of(x);
  if (&origin.graph() == &graph) return;
  const Value own = graph.capture(origin);
  const ValueSet around = dependents_within(*graph.parent(), origin);
  const ValueSet useful = sources_of(graph, {loss});
  for (const auto& [outer, inner] : graph.captures()) {
    if (inner == own || !around.contains(outer) || !useful.contains(inner)) continue;
    const Node& lost = origin_of(outer).node();
    throw Error(
        {.op = "gradient",
         .argument = argument,
         .expected = "paths to y that lie in the body of the call",
         .got = "one through " + full_name(lost) + " around it, made at " + to_string(lost.site()),
         .fix =
             graph.always_runs()
                 ? "make a loop variable of it, as what no turn of a loop of known turns changes "
                   "is computed before the loop, take the gradient outside of the loop, or cut "
                   "the path with stop_gradient"
                 : "compute that in the body, too, take the gradient outside of it, or cut the "
                   "path with stop_gradient",
         .site = site});
  }
}

// The labels of what differentiates nodes: their own inside a scope "gradient". Neighbours mostly
// share one.
class GradientLabels {
 public:
  const NodeLabelPtr& of(const Node& node) {
    NodeLabelPtr label = LabelScope::label_inside(node);
    if (made_ != nullptr && label == forward_) return made_;
    forward_ = std::move(label);
    return made_ = with_outer_scope(without_recompute(forward_), "gradient");
  }

 private:
  NodeLabelPtr forward_, made_;
};

// Gradients that have come to the values of a graph, each from a user of the value. They are added
// up when the node that computes it is reached.
class PartialGradients {
 public:
  // Gradients are kept for values that depend on the xs and come before the node `end`.
  PartialGradients(Graph& graph, const Values& xs, uint32_t end, CallSite site)
      : graph_(graph), depends_(dependents_of(graph, xs)), parts_(end), site_(site) {}

  const ValueSet& depends() const noexcept { return depends_; }
  bool has_any(const Node& node) const { return !parts_[node.id()].empty(); }

  void add_seed(const Value& to, const Value& gradient) {
    if (Parts* parts = parts_of(to)) parts->gradients.push_back(gradient);
  }
  void add(const Node& user, size_t input, const Value& gradient) {
    Parts* parts = parts_of(user.input(input));
    if (parts == nullptr) return;
    parts->gradients.push_back(gradient);
    parts->users.meet(user, input);
  }

  // Returns their sum, which belongs where all users of the value do; an invalid one of none.
  Value total(const Value& of) {
    if (of.node_id() >= parts_.size() || parts_[of.node_id()].empty()) return {};
    Parts& parts = parts_[of.node_id()][of.output()];
    if (parts.gradients.empty()) return {};
    if (parts.gradients.size() == 1) return parts.gradients[0];
    const LabelScope label(graph_, parts.users.label_in(graph_.label()));
    // It adds from the front, so that the order of additions depends on the graph alone.
    Value sum = parts.gradients[0];
    for (size_t i = 1; i < parts.gradients.size(); ++i)
      sum = emit("add", {Operand(sum, site_), Operand(parts.gradients[i], site_)}, site_);
    parts.gradients = {sum};
    return sum;
  }

 private:
  struct Parts {
    Values gradients;
    AgreedAttributes users;
  };
  // Null where no gradients are kept for the value.
  Parts* parts_of(const Value& v) {
    if (v.node_id() >= parts_.size() || !depends_.contains(v)) return nullptr;
    auto& outputs = parts_[v.node_id()];
    outputs.resize(v.node().types().size());
    return &outputs[v.output()];
  }

  Graph& graph_;
  const ValueSet depends_;
  std::vector<std::vector<Parts>> parts_;  // by node and output
  CallSite site_;
};

}  // namespace

Values gradients(Operand y, const Values& xs, CallSite site) {
  const auto fail = [&](const std::string& argument, const std::string& expected,
                        const std::string& got) {
    throw Error(
        {.op = "gradient", .argument = argument, .expected = expected, .got = got, .site = site});
  };
  const Value loss = require_value(y, "gradient", "y", site);
  if (!is_float(loss.dtype(site)) || loss.shape().rank() != 0) {
    fail("y", "a float scalar (take its sum or mean)", to_string(loss.type()));
  }
  Graph& graph = loss.graph();
  graph.require_open("gradient", "y", loss, site);
  // All of them are looked at before the first changes the graph.
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string argument = "x " + std::to_string(i);
    const Value x = require_value(Operand(xs[i], site), "gradient", argument.c_str());
    if (!is_float(x.dtype(site))) fail(argument, "a float Value", to_string(x.type()));
    graph.require_within_reach(x, "gradient", argument, site);
  }
  if (xs.empty()) return {};
  Values inputs{loss};
  for (const Value& x : xs) inputs.push_back(graph.capture(x));
  for (size_t i = 0; i < xs.size(); ++i)
    require_path_within(graph, loss, xs[i], "x " + std::to_string(i), site);
  check_path(graph, {loss}, Values(inputs.begin() + 1, inputs.end()), site);
  const Node& node = graph.add("gradient", std::move(inputs), Attributes(), site);
  Values result;
  for (size_t i = 0; i < xs.size(); ++i) result.push_back(node.output(i));
  return result;
}

Values expand_gradients(const Values& ys, const Values& xs, const Values& seeds, CallSite site) {
  if (xs.empty()) return {};
  Graph& graph = xs[0].graph();
  uint32_t end = 0;
  for (const Value& y : ys) end = std::max(end, y.node_id() + 1);
  PartialGradients partial(graph, xs, end, site);
  for (size_t i = 0; i < ys.size(); ++i) partial.add_seed(ys[i], seeds[i]);
  GradientLabels labels;
  Recomputation recomputed(graph);
  for (uint32_t id = end; id-- > 0;) {
    const Node& node = graph.node(id);
    if (!partial.has_any(node)) continue;
    const std::vector<bool> wanted = mask_of_members(node.data_inputs(), partial.depends());
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) continue;
    if (node.op().gradient == nullptr) {
      if (is_float(node.type().dtype)) check_path(graph, ys, xs, site);
      continue;
    }
    Values outputs;
    for (size_t i = 0; i < node.data_types().size(); ++i) outputs.push_back(node.output(i));
    const Values inputs = recomputed(node.data_inputs(), node);
    const Values results = recomputed(outputs, node);
    const LabelScope label(graph, labels.of(node));
    Values output_gradients;
    for (const Value& output : outputs) output_gradients.push_back(partial.total(output));
    const Values flows = node.op().gradient(BuildContext{node.op(), node.attributes(), inputs,
                                                         results, output_gradients, node.bodies(),
                                                         graph, node.site(), wanted});
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!flows[i].valid()) continue;
      if (flows[i].type() != node.input(i).type()) {
        throw Error({.op = node.op_name(),
                     .argument = "gradient of input " + std::to_string(i),
                     .expected = to_string(node.input(i).type()),
                     .got = to_string(flows[i].type()),
                     .site = node.site()});
      }
      partial.add(node, i, flows[i]);
    }
  }
  Values result;
  for (const Value& x : xs) {
    // The work for x alone belongs where x does, too: zeros have no users that would say it.
    AgreedAttributes own;
    own.meet(x.node().label().attributes);
    const LabelScope label(graph, own.label_in(graph.label()));
    const Value gradient = partial.total(x);
    result.push_back(gradient.valid() ? gradient : filled(graph, x.type(), 0, site));
  }
  return result;
}

}  // namespace keel
