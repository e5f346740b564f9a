#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/passes/freeze.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/permutation.h"
#include "keel/graph/passes/users.h"

namespace keel {
namespace {

// Larger results are computed at run time: constants live as long as the program. What is turned,
// as weights of another layout are, would otherwise be turned in each run.
constexpr size_t kMostFoldedBytes = size_t{1} << 20, kMostTurnedBytes = size_t{256} << 20;

// Multiply-adds of a product that is evaluated: the references' plain loops take 0.1 s for them.
constexpr double kMostMultiplyAdds = 1e7;

constexpr uint32_t kNeverFolded = kNoFold | kEffect | kRandom | kControl | kSource;

const Tensor* constant_of(const Value& v) {
  const Node& node = v.node();
  return node.is(OpRole::kConstant) ? &node.as<ConstantAttributes>().value : nullptr;
}

// Returns whether the reference gives the bits that every backend gives.
bool is_exact(const Node& node) {
  if (node.op().bound.ulps == 0 && node.op().bound.k == 0) return true;
  const auto rounds = [](const Type& type) { return is_float(type.dtype); };
  return std::none_of(node.types().begin(), node.types().end(), rounds) &&
         std::none_of(node.inputs().begin(), node.inputs().end(),
                      [&](const Value& v) { return rounds(v.type()); });
}

// Returns how many multiply-adds a product of matrices takes, m * k * n. It is an estimate where
// these lie in batches, and for convolutions, whose windows share elements.
double multiply_adds(std::span<const Tensor> operands, const Shape& result) {
  double squared = static_cast<double>(result.num_elements());
  for (const Tensor& t : operands) squared *= static_cast<double>(t.num_elements());
  return std::sqrt(squared);
}

// Returns whether some element is infinite in f16.
bool overflows_f16(const Tensor& t) {
  if (t.dtype() != f16) return false;
  const std::span<const Half> values = t.data<Half>();
  return std::any_of(values.begin(), values.end(),
                     [](Half h) { return (h.bits & 0x7fff) == 0x7c00; });
}

// Returns whether every element has the bits that `value` has in this dtype.
bool is_filled_with(const Value& v, double value) {
  const Tensor* t = constant_of(v);
  if (t == nullptr || t->num_elements() == 0) return false;
  return bit_equal(*t, Tensor::full(t->dtype(), t->shape(), value));
}

// Returns whether the node's attributes are nothing but its result's shape.
bool takes_shape(const Node& node) {
  const auto attributes = node.attributes().list();
  return attributes.size() == 1 && attributes[0].first == "shape";
}

// Copies a graph, leaving out what has become unnecessary. Values below are those of the copy.
class Folder {
 public:
  Folder(const Graph& from, Graph& to, DeadNodes dead)
      : from_(from),
        to_(to),
        dead_(dead),
        rewriter_(from, to),
        live_(live_nodes(from)),
        users_(from, live_) {}

  void run() {
    rewriter_.clone_inputs();
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()] && !node.is(OpRole::kInput)) visit(node);
    }
    rewriter_.finish();
  }

 private:
  void visit(const Node& node) {
    if (node.has(kSource)) {
      rewriter_.clone(node);
      return;
    }
    if (!node.bodies().empty()) {
      std::vector<std::shared_ptr<Graph>> bodies;
      for (const auto& body : node.bodies()) bodies.push_back(fold(*body, dead_));
      rewriter_.clone(node, std::move(bodies));
      return;
    }
    const LabelScope label(to_, node);
    Values inputs = rewriter_(node.inputs());
    if (evaluate(node, inputs)) return;
    Value same = node.data_types().size() == 1 ? simplified(node, inputs) : Value();
    if (same.valid()) {
      rewriter_.map(node.output(), same);
      return;
    }
    if (drop_broadcasts(node, inputs))
      rewriter_.clone(node, std::move(inputs), node.attributes(), {});
    else
      rewriter_.clone(node);
  }

  // ---- constants

  // Returns whether an element-wise op uses the node, or nothing but the step's result.
  bool element_wise_reads(const Node& node) const {
    const auto users = users_.of(node);
    return users.empty() || std::any_of(users.begin(), users.end(), [&](uint32_t id) {
             return from_.node(id).has(kElementwise);
           });
  }

  // Returns whether a variable of a loop begins as what the node gives.
  bool begins_variable(const Node& node) const {
    const auto users = users_.of(node);
    return std::any_of(users.begin(), users.end(), [&](uint32_t id) {
      const Node& loop = from_.node(id);
      if (!loop.is(OpRole::kWhile)) return false;
      const size_t variables = loop.bodies()[1]->outputs().size();
      for (size_t i = 0; i < variables; ++i) {
        if (loop.input(i).node_id() == node.id()) return true;
      }
      return false;
    });
  }

  bool evaluate(const Node& node, const Values& inputs) {
    if (node.has(kNeverFolded) || node.op().reference == nullptr) return false;
    // A broadcast constant costs element-wise users nothing; written out it would be read from
    // memory. A loop overwrites what its variables begin with, so it would copy a constant in each
    // step, where a broadcast is made in the variable's place and need not be made at all where
    // the turns write every row. Others need it in memory, and not computed anew in each step.
    const bool repeats = node.has(kElementwise) && node.has(kMovement);
    if (repeats && (element_wise_reads(node) || begins_variable(node))) return false;
    std::vector<Tensor> arguments;
    bool exactly = false;
    for (const Value& v : inputs) {
      const Tensor* t = constant_of(v);
      if (t == nullptr) return false;
      arguments.push_back(*t);
      exactly = exactly || is_marked(v.node(), kFoldAttribute, kExactFold);
    }
    if (exactly && !is_exact(node)) return false;
    const size_t most = permutation_of(node) ? kMostTurnedBytes : kMostFoldedBytes;
    for (const Type& type : node.types()) {
      if (!type.shape.known() || size_of(type.dtype) == 0) return false;
      if (type.shape.num_bytes(type.dtype) > most) return false;
    }
    if (node.has(kProduct) && multiply_adds(arguments, node.type().shape) > kMostMultiplyAdds)
      return false;
    std::vector<Tensor> results;
    for (const Type& type : node.types()) results.emplace_back(type.dtype, type.shape);
    try {
      node.op().reference(ReferenceContext{node.op(), node.attributes(), arguments, results});
    } catch (const Error&) {
      return false;  // it may stand in a branch that is never taken: the run decides
    }
    // Not folded: the device decides whether an infinite f16 result stays so or stops at 65504. It
    // never stops what is only moved.
    if (std::any_of(results.begin(), results.end(), overflows_f16) &&
        !(node.has(kMovement | kView) &&
          std::any_of(arguments.begin(), arguments.end(), overflows_f16))) {
      return false;
    }
    std::optional<AttributeScope> mark;
    if (exactly) mark.emplace(to_, kFoldAttribute, kExactFold);
    for (size_t i = 0; i < results.size(); ++i) {
      rewriter_.map(node.output(i), to_.constant(results[i], node.site()));
    }
    return true;
  }

  // ---- identities: a value with the same bits, or an invalid one

  Value simplified(const Node& node, const Values& inputs) {
    if (!node.type().shape.known() || inputs.empty()) return {};
    if (Value v = without_conversion(node, inputs); v.valid()) return v;
    if (Value v = without_neutral(node, inputs); v.valid()) return v;
    if (Value v = without_choice(node, inputs); v.valid()) return v;
    if (Value v = merged_broadcasts(node, inputs); v.valid()) return v;
    if (Value v = merged_views(node, inputs); v.valid()) return v;
    return merged_transposes(node, inputs);
  }

  static Value without_conversion(const Node& node, const Values& inputs) {
    // A view shows its first input; others are there for its checks, which inference has made.
    const bool of_first =
        node.has(kView) || (node.has(kConversion | kBroadcast) && inputs.size() == 1);
    return of_first && inputs[0].type() == node.type() ? inputs[0] : Value();
  }

  // x * 1, x / 1, x - 0 and x + -0; not x + 0, which turns -0 into 0. Nor any of f16: where x is
  // infinite, a device that stops at 65504 gives that, and tells of an overflow.
  static Value without_neutral(const Node& node, const Values& inputs) {
    const std::optional<double> neutral = node.op().neutral;
    if (inputs.size() != 2 || !is_number(node.type().dtype) || !neutral) return {};
    if (node.type().dtype == f16) return {};
    for (size_t kept = 0; kept < (node.has(kCommutes) ? 2 : 1); ++kept) {
      if (inputs[kept].type() == node.type() && is_filled_with(inputs[1 - kept], *neutral)) {
        return inputs[kept];
      }
    }
    return {};
  }

  // A select whose predicate is known gives one of its operands, in its own shape. One of f16 that
  // may be infinite stays, for the reason above.
  Value without_choice(const Node& node, const Values& inputs) {
    if (!node.is(OpRole::kSelect)) return {};
    const bool first = is_filled_with(inputs[0], 1);
    if (!first && !is_filled_with(inputs[0], 0)) return {};
    const Value& chosen = inputs[first ? 1 : 2];
    const Tensor* known = constant_of(chosen);
    if (node.type().dtype == f16 && (known == nullptr || overflows_f16(*known))) return {};
    if (chosen.type() == node.type()) return chosen;
    return add(to_.ops().at("broadcast_to"), chosen, "shape", node.type().shape, node.site());
  }

  // A broadcast of a broadcast repeats what the first one does, to any shape that it keeps by -1.
  Value merged_broadcasts(const Node& node, const Values& inputs) {
    if (!node.has(kBroadcast) || !inputs[0].node().has(kBroadcast) || !takes_shape(node)) return {};
    return add_like(node, inputs[0].node().input(0), "shape", node.type().shape);
  }

  // A reshape of a view looks at the bytes below.
  Value merged_views(const Node& node, const Values& inputs) {
    if (!node.has(kView) || inputs.size() != 1) return {};
    Value below = inputs[0];
    while (below.node().has(kView) && below.node().inputs().size() == 1) {
      below = below.node().input(0);
      if (below.type() == node.type()) return below;
    }
    if (below == inputs[0] || !takes_shape(node)) return {};
    return add_like(node, below, "shape", node.type().shape);
  }

  Value merged_transposes(const Node& node, const Values& inputs) {
    const auto outer = permutation_of(node);
    const auto inner = outer ? permutation_of(inputs[0].node()) : std::nullopt;
    if (!inner || inner->size() != outer->size()) return {};
    const Permutation merged = composed(*inner, *outer);
    const Value below = inputs[0].node().input(0);
    return is_identity(merged) ? below : add_like(node, below, "perm", merged);
  }

  Value add_like(const Node& node, const Value& input, const char* attribute,
                 AttributeValue value) {
    return add(node.op(), input, attribute, std::move(value), node.site());
  }

  Value add(const OpDef& op, const Value& input, const char* attribute, AttributeValue value,
            CallSite site) {
    Attributes attributes = op.attributes->parse({{attribute, std::move(value)}});
    return to_.add(op, {input}, std::move(attributes), site).output();
  }

  // Element-wise ops broadcast by themselves: their inputs need not be, as long as another one
  // has the full shape. Returns whether one is not any more.
  static bool drop_broadcasts(const Node& node, Values& inputs) {
    if (!node.has(kElementwise)) return false;
    bool dropped = false;
    for (Value& input : inputs) {
      if (!input.node().has(kBroadcast)) continue;
      const Value broadcast = std::exchange(input, input.node().input(0));
      const bool same = infers_same(node, inputs);
      if (!same) input = broadcast;
      dropped = dropped || same;
    }
    return dropped;
  }

  static bool infers_same(const Node& node, const Values& inputs) {
    std::vector<Type> types;
    for (const Value& v : inputs) types.push_back(v.type());
    try {
      return node.types() ==
             node.op().infer(InferContext(node.op(), types, node.attributes(), {}, node.site()));
    } catch (const Error&) {
      return false;
    }
  }

  const Graph& from_;
  Graph& to_;
  const DeadNodes dead_;
  Rewriter rewriter_;
  const std::vector<bool> live_;
  const Users users_;
};

std::unique_ptr<Graph> without_dead_nodes(std::unique_ptr<Graph> graph) {
  const std::vector<bool> live = live_nodes(*graph);
  if (std::find(live.begin(), live.end(), false) == live.end()) return graph;
  auto result = std::make_unique<Graph>(graph->ops());
  Rewriter rewriter(*graph, *result);
  rewriter.clone_inputs();
  for (const Node& node : graph->nodes()) {
    if (live[node.id()] && !node.is(OpRole::kInput)) rewriter.clone(node);
  }
  rewriter.finish();
  return result;
}

}  // namespace

std::unique_ptr<Graph> fold(const Graph& graph, DeadNodes dead) {
  auto folded = std::make_unique<Graph>(graph.ops());
  Folder(graph, *folded, dead).run();
  return dead == DeadNodes::kKeep ? std::move(folded) : without_dead_nodes(std::move(folded));
}

}  // namespace keel
