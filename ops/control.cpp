// The ops that hold sub-graphs, and `gradient`. graph/control and graph/autodiff build them,
// graph/passes expand, make or lower them; here is what they mean for types. None has a reference:
// the ops in their bodies have.

#include <optional>
#include <utility>
#include <vector>

#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/ir/fused_body.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/graph/ir/views.h"

namespace keel {
namespace {

const Type kCount{i64, {}};
const Type kFlag{boolean, {}};

const Graph& body(const InferContext& c, size_t index) {
  if (index >= c.bodies.size() || c.bodies[index] == nullptr) {
    c.fail("bodies", "body " + std::to_string(index), "none");
  }
  return *c.bodies[index];
}

std::vector<Type> types_of(const Values& values) {
  std::vector<Type> types;
  for (const Value& value : values) types.push_back(value.type());
  return types;
}

// The body's inputs must have the types of the node's inputs from `first` on.
void require_inputs(const InferContext& c, const char* name, const Graph& graph, size_t first) {
  const std::vector<Type> got = types_of(graph.inputs());
  const auto given = c.inputs.subspan(first);
  if (got.size() != given.size()) {
    c.fail(name, std::to_string(given.size()) + " inputs", std::to_string(got.size()));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != given[i]) {
      c.fail(name, "input " + std::to_string(i) + " of type " + to_string(given[i]),
             to_string(got[i]));
    }
  }
}

void require_output_type(const InferContext& c, const std::string& what, const Type& expected,
                         const Type& got, const std::string& fix) {
  if (got != expected) c.fail(what, to_string(expected), to_string(got), fix);
}

void require_no_updates(const InferContext& c, const char* name, const Graph& graph) {
  if (!graph.updates().empty() || !graph.states().empty()) {
    c.fail(name, "no states or updates in a body", "some",
           "make states in the root graph; pass their values through the outputs");
  }
}

std::vector<Type> infer_token(const InferContext&) { return {{DType::kToken, {}}}; }

std::vector<Type> infer_while(const InferContext& c) {
  const auto& a = c.as<WhileAttributes>();
  if (a.trip_count < -1)
    c.fail("trip_count", ">= 0, or -1 for unknown", std::to_string(a.trip_count));
  if (a.max_trips < -1) c.fail("max_trips", ">= 0, or -1 for none", std::to_string(a.max_trips));
  if (a.max_trips >= 0 && a.trip_count > a.max_trips) {
    c.fail("max_trips", "at least the trip_count, " + std::to_string(a.trip_count),
           std::to_string(a.max_trips), "leave max_trips out: trip_count bounds the loop");
  }
  if (a.recompute_every < -1 || a.recompute_every == 0) {
    c.fail("recompute_every", ">= 1, or -1 for a choice", std::to_string(a.recompute_every));
  }
  if (a.memory_budget_bytes < -1) {
    c.fail("memory_budget_bytes", ">= 0, or -1 for none", std::to_string(a.memory_budget_bytes));
  }
  if (c.inputs.empty() || c.inputs[0] != kCount) {
    c.fail(c.input_name(0), to_string(kCount),
           c.inputs.empty() ? "nothing" : to_string(c.inputs[0]));
  }
  const Graph& condition = body(c, 0);
  const Graph& step = body(c, 1);
  require_inputs(c, "condition", condition, 0);
  require_inputs(c, "body", step, 0);
  require_no_updates(c, "condition", condition);
  require_no_updates(c, "body", step);
  if (condition.outputs().size() != 1) {
    c.fail("condition", "one bool scalar", std::to_string(condition.outputs().size()) + " values");
  }
  require_output_type(c, "condition", kFlag, condition.outputs()[0].type(),
                      "compare something, e.g. with less()");
  std::vector<Type> next = types_of(step.outputs());
  if (next.empty() || next.size() > c.inputs.size()) {
    c.fail("body",
           "the next count and at most " + std::to_string(c.inputs.size() - 1) + " loop variables",
           std::to_string(next.size()) + " values");
  }
  require_output_type(c, "body: count", kCount, next[0], "");
  for (size_t i = 1; i < next.size(); ++i) {
    require_output_type(c, "body: loop variable " + std::to_string(i - 1), c.inputs[i], next[i],
                        "loop variables keep their dtype and shape; cast or reshape in the body");
  }
  return next;
}

std::vector<Type> infer_cond(const InferContext& c) {
  c.require(0, c.inputs[0] == kFlag, "a bool scalar");
  const Graph& then_body = body(c, 0);
  const Graph& else_body = body(c, 1);
  require_inputs(c, "then_body", then_body, 1);
  require_inputs(c, "else_body", else_body, 1);
  require_no_updates(c, "then_body", then_body);
  require_no_updates(c, "else_body", else_body);
  std::vector<Type> then_types = types_of(then_body.outputs());
  const std::vector<Type> else_types = types_of(else_body.outputs());
  if (then_types.size() != else_types.size()) {
    c.fail("else_body", std::to_string(then_types.size()) + " values like then_body",
           std::to_string(else_types.size()));
  }
  for (size_t i = 0; i < then_types.size(); ++i) {
    require_output_type(c, "else_body: value " + std::to_string(i), then_types[i], else_types[i],
                        "both bodies give the same types; cast or reshape in one of them");
  }
  return then_types;
}

std::vector<Type> infer_gradient(const InferContext& c) {
  c.require(0, is_float(c.inputs[0].dtype) && c.inputs[0].shape.rank() == 0, "a float scalar");
  std::vector<Type> types;
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    c.require(i, is_float(c.inputs[i].dtype), "a float");
    types.push_back(c.inputs[i]);
  }
  return types;
}

void require_traits(const InferContext& c, const std::vector<const Node*>& nodes, uint32_t traits,
                    const char* expected) {
  for (const Node* node : nodes) {
    if (!node->has(traits)) c.fail("body", expected, "'" + node->op_name() + "'");
  }
}

// Refuses anchors beside the first that are no siblings of it, or that something follows.
void require_siblings(const InferContext& c, const Graph& graph, const FusedBody& parts) {
  Values results{parts.anchor->output()};
  for (const Node* sibling : parts.siblings) {
    if (!are_siblings(*parts.anchor, *sibling)) {
      c.fail("body", "at most one product or reduction, or several reductions of one kind",
             std::to_string(1 + parts.siblings.size()) + " of them");
    }
    results.push_back(sibling->output());
  }
  const size_t behind = parts.epilogue.size() + parts.row_wise.size();
  if (graph.outputs() != results || behind != 0) {
    c.fail("body",
           "the results of " + std::to_string(results.size()) +
               " reductions as its outputs, and nothing behind them",
           std::to_string(graph.outputs().size()) + " outputs and " + std::to_string(behind) +
               " ops behind them");
  }
}

// Refuses a join of rows that the body does not compute, or that something follows.
void require_join(const InferContext& c, const Graph& graph, const Node& join) {
  for (const Value& v : join.inputs()) {
    if (v.node().has(kElementwise)) continue;
    c.fail("body", "joins of rows that the body computes",
           "'" + join.op_name() + "' of what '" + v.node().op_name() + "' gives");
  }
  for (const Node& node : graph.nodes()) {
    const auto& read = node.inputs();
    if (std::find(read.begin(), read.end(), join.output()) == read.end()) continue;
    c.fail("body", "joins of rows that only leave",
           "'" + join.op_name() + "' that '" + node.op_name() + "' reads");
  }
}

// Refuses nodes that a part of a fused body may not hold.
void require_parts(const InferContext& c, const Graph& graph, const FusedBody& parts) {
  if (parts.anchor == nullptr) {
    for (const Node* node : parts.epilogue) {
      if (node->has(kElementwise) || (slices_rows(*node) && node->input(0).node().has(kSource)))
        continue;
      if (joins_rows(*node)) {
        require_join(c, graph, *node);
        continue;
      }
      c.fail("body", "element-wise ops, slices of inputs' rows and joins of results, or an anchor",
             "'" + node->op_name() + "'");
    }
    require_traits(c, parts.row_wise, 0, "row-wise ops behind a product only");
    return;
  }
  if (!parts.siblings.empty()) require_siblings(c, graph, parts);
  if (parts.anchor->has(kProduct)) {
    for (const Node* node : parts.prologue) {
      if (node->has(kElementwise) || is_gather(*node)) continue;
      c.fail("body", "element-wise ops and gathers before the product",
             "'" + node->op_name() + "'");
    }
    require_traits(c, parts.epilogue, kElementwise,
                   "element-wise and row-wise ops behind the product");
    return;
  }
  require_traits(c, parts.prologue, kElementwise | kView,
                 "element-wise ops and views before the reduction");
  require_traits(c, parts.epilogue, kElementwise | kView,
                 "element-wise ops and views behind the reduction");
  require_traits(c, parts.row_wise, 0, "row-wise ops behind a product only");
}

// Who may read the values of each part.
void require_flow(const InferContext& c, const Graph& graph, const FusedBody& parts) {
  using Part = FusedBody::Part;
  for (const Node& node : graph.nodes()) {
    const Part own = parts.part[node.id()];
    const auto user = [&] { return "one that '" + node.op_name() + "' reads"; };
    for (const Value& v : node.inputs()) {
      const Part read = parts.part_of(v);
      if (read == Part::kRowWise) c.fail("body", "row-wise ops whose results leave", user());
      if (read == Part::kPrologue && own != Part::kPrologue && own != Part::kAnchor) {
        c.fail("body", "a prologue that the anchor alone reads", user());
      }
      if (own == Part::kRowWise && v.node().is(OpRole::kConstant)) {
        c.fail("body", "row-wise ops that read no constants of the body", user());
      }
    }
  }
  for (const Value& v : graph.outputs()) {
    if (parts.part_of(v) == Part::kPrologue) {
      c.fail("body", "a prologue that the anchor alone reads", "one that leaves");
    }
  }
}

// Says whether a value is read element by element in the order in which it lies, whatever shape of
// so many elements kernels go over.
bool is_read_in_order(const Value& v, int64_t elements) {
  const int64_t own = v.shape().num_elements();
  return own == elements || own == 1;
}

// Kernels go over the elements of an element-wise part once, by one shape, `iterated`: what has
// fewer elements is broadcast to that. Views change nothing there, so all of the part has as many
// elements, and only what has the shape itself may read a part of them. What a gather takes rows of
// has a shape of its own. `leads_to`: what the part computes.
void require_elements(const InferContext& c, const FusedBody& parts, const Value& leads_to,
                      FusedBody::Part part, const Shape& of_part) {
  struct Walked {
    Value value;
    Shape iterated;
  };
  std::vector<Walked> open{{leads_to, of_part}};
  std::vector<std::optional<Shape>> seen(parts.part.size());
  while (!open.empty()) {
    const auto [value, iterated] = std::move(open.back());
    open.pop_back();
    const Node& node = value.node();
    const int64_t elements = iterated.num_elements();
    if (parts.part[node.id()] != part) continue;
    const auto refuse = [&](const std::string& expected) {
      c.fail("body", expected, "'" + node.op_name() + "' of " + to_string(node.type()));
    };
    std::optional<Shape>& before = seen[node.id()];
    if (before && *before != iterated)
      refuse("one shape that a value is gone over by, " + to_string(*before));
    if (before) continue;
    before = iterated;
    if (is_gather(node)) {
      open.push_back({node.input(0), node.input(0).shape()});
      continue;
    }
    if (!node.has(kElementwise | kView)) continue;
    // A broadcast has any shape where what reads it has that of the part.
    const bool has_all = node.type().shape.num_elements() == elements;
    if (!has_all && node.has(kBroadcast)) continue;
    if (!has_all) refuse("element-wise ops of " + std::to_string(elements) + " elements");
    for (const Value& v : node.inputs()) {
      if (node.type().shape == iterated || is_read_in_order(v, elements)) continue;
      if (node.has(kView) && v != node.input(0)) continue;  // its elements are not read
      refuse("ops that broadcast " + to_string(v.type()) + " to the shape " + to_string(iterated) +
             " which the part goes over");
    }
    if (node.has(kBroadcast)) continue;
    for (const Value& v : node.inputs()) open.push_back({v, iterated});
  }
}

// Requires what a part computes to have as many elements as the part goes over, and the shape
// itself behind a product.
void require_result(const InferContext& c, const FusedBody& parts, const Value& v,
                    const Shape& iterated) {
  const bool product = parts.anchor != nullptr && parts.anchor->has(kProduct);
  if (v.shape().num_elements() != iterated.num_elements()) {
    c.fail("body", "outputs of " + std::to_string(iterated.num_elements()) + " elements",
           to_string(v.type()));
  }
  if (product && v.shape() != iterated) {
    c.fail("body", "results of the product's shape, " + to_string(iterated), to_string(v.type()));
  }
  require_elements(c, parts, v, FusedBody::Part::kEpilogue, iterated);
}

// Returns the shape that what follows an anchor, or all of a body without one, goes over.
const Shape& shape_behind(const Graph& graph, const FusedBody& parts) {
  const Shape& first = iteration_shape(graph);
  if (parts.anchor == nullptr) return first;
  const Shape& own = parts.anchor->type().shape;
  const bool is_own = parts.anchor->has(kProduct) || own.num_elements() != first.num_elements();
  return is_own ? own : first;
}

// A product leaves rows, which row-wise ops take by their numbers.
void require_rows(const InferContext& c, const FusedBody& parts, const Shape& iterated) {
  for (const Node* op : parts.row_wise) {
    if (op->input(0).shape() != iterated) {
      c.fail("body", "row-wise ops on rows of the product's shape, " + to_string(iterated),
             "'" + op->op_name() + "' of " + to_string(op->input(0).type()));
    }
    for (const Value& v : op->inputs()) {
      if (parts.part_of(v) == FusedBody::Part::kEpilogue) require_result(c, parts, v, iterated);
    }
  }
}

void require_one_iteration(const InferContext& c, const Graph& graph, const FusedBody& parts) {
  using Part = FusedBody::Part;
  for (const Node& node : graph.nodes()) {
    if (node.is(OpRole::kConstant) && node.type().shape.num_elements() != 1) {
      c.fail("body", "constants of one element", to_string(node.type()),
             "make it an input of the node");
    }
  }
  const auto require_operand = [&](const Value& operand) {
    require_elements(c, parts, operand, Part::kPrologue, root_of(operand).shape());
  };
  if (parts.anchor != nullptr) {
    for (const Value& operand : parts.anchor->inputs()) require_operand(operand);
  }
  for (const Node* sibling : parts.siblings) require_operand(sibling->input(0));
  const Shape& iterated = shape_behind(graph, parts);
  require_rows(c, parts, iterated);
  for (const Value& v : graph.outputs()) {
    const Part part = parts.part_of(v);
    if (part != Part::kEpilogue && part != Part::kSource) continue;
    if (parts.anchor != nullptr || !joins_rows(v.node())) {
      require_result(c, parts, v, iterated);
    } else {
      for (const Value& joined : v.node().inputs()) require_result(c, parts, joined, iterated);
    }
  }
}

std::vector<Type> infer_fused(const InferContext& c) {
  const Graph& graph = body(c, 0);
  require_inputs(c, "body", graph, 0);
  require_no_updates(c, "body", graph);
  if (graph.outputs().empty()) c.fail("body", "at least one output", "none");
  const FusedBody parts(graph);
  require_parts(c, graph, parts);
  require_flow(c, graph, parts);
  require_one_iteration(c, graph, parts);
  return types_of(graph.outputs());
}

// The inputs of the body are those of the program, the same in every step; what changes comes from
// dequeue.
std::vector<Type> infer_sunk_loop(const InferContext& c) {
  body(c, 0);
  return {};
}

std::vector<Type> infer_step_end(const InferContext& c) {
  if (!c.inputs.empty()) c.require(0, c.inputs[0] == kFlag, "a bool scalar");
  return {};
}

// Draws two variables of any dtype that change places.
Sample sample_while(SampleSource& source) {
  const Shape shape = source.shape(0, 3);
  const int64_t trips = source.integer(0, 3);
  return {{source.values(shape), source.values(shape)}, [trips](Graph&, const Values& in) {
            return while_loop(
                {in[0], in[1]},
                [](const Values& v) { return v[0].graph().constant(Tensor::full(boolean, {}, 1)); },
                [](const Values& v) {
                  return Values{v[1], v[0]};
                },
                {.trip_count = trips});
          }};
}

Sample sample_cond(SampleSource& source) {
  const Shape shape = source.shape(0, 3);
  return {{source.values(boolean, {}, 0, 1), source.values(shape), source.values(shape)},
          [](Graph&, const Values& in) {
            return cond(
                in[0], {in[1], in[2]}, [](const Values& v) { return v; },
                [](const Values& v) {
                  return Values{v[1], v[0]};
                });
          }};
}

}  // namespace

void register_control(OpTable& table) {
  table.add(
      {.name = "while_loop",
       .summary = "repeats a body while a condition holds; gives the count and the final variables",
       .input_names = {"count", "variable"},
       .variadic = true,
       .bodies = 2,
       .attributes = &attributes_schema<WhileAttributes>(),
       .infer = infer_while,
       .gradient = gradient_of_while,
       .traits = kControl,
       .role = OpRole::kWhile,
       .sample = sample_while});
  table.add({.name = "cond",
             .summary = "the outputs of one of two bodies, chosen by a bool scalar",
             .input_names = {"predicate", "operand"},
             .variadic = true,
             .bodies = 2,
             .infer = infer_cond,
             .gradient = gradient_of_cond,
             .traits = kControl,
             .role = OpRole::kCond,
             .sample = sample_cond});
  table.add({.name = "gradient",
             .summary = "d y / d x for each x; expanded when the graph is specialised",
             .input_names = {"y", "x"},
             .variadic = true,
             .infer = infer_gradient,
             .traits = kControl,
             .role = OpRole::kGradient});
  table.add({.name = "fused",
             .summary = "a sub-graph computed in one pass: element-wise ops, alone or around one "
                        "product or reduction",
             .input_names = {"input"},
             .variadic = true,
             .bodies = 1,
             .infer = infer_fused,
             .traits = kControl,
             .role = OpRole::kFused});
  table.add({.name = "token",
             .summary = "what the first effect of a graph waits for: nothing; it holds no element",
             .infer = infer_token,
             .not_differentiable = "it has no value",
             .traits = kSource,
             .role = OpRole::kToken});
  table.add({.name = "step_end",
             .summary = "with is_step_boundary: where a step ends; its input true ends the launch",
             .input_names = {"stop"},
             .optional_inputs = 1,
             .attributes = &attributes_schema<StepEndAttributes>(),
             .infer = infer_step_end,
             .not_differentiable = "it has no value",
             .traits = kEffect,
             .role = OpRole::kStepEnd});
  table.add({.name = "sunk_loop",
             .summary = "runs a step graph as often as the launch says",
             .bodies = 1,
             .infer = infer_sunk_loop,
             .traits = kControl | kEffect,
             .role = OpRole::kSunkLoop});
}

}  // namespace keel
