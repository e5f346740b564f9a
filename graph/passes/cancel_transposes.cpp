#include "keel/graph/passes/cancel_transposes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/value_table.h"
#include "keel/graph/passes/permutation.h"
#include "keel/graph/passes/users.h"

namespace keel {
namespace {

// Returns whether the node's result is computed element by element from inputs that broadcast.
bool broadcasts_elementwise(const Node& node) {
  return node.has(kElementwise) && !node.has(kMovement | kView | kEffect) &&
         node.types().size() == 1 && node.bodies().empty() && node.type().shape.known();
}

// Copies a graph with transpositions behind the element-wise work that reads them, where one that
// turns them back follows, or where that work can then be computed with the product before. Values
// in `turned_` and `wanted_` are of the graph that is copied.
class Canceller {
 public:
  Canceller(const Graph& from, Graph& to, const SupportsFunction& supports)
      : from_(from),
        to_(to),
        supports_(supports),
        rewriter_(from, to),
        live_(live_nodes(from)),
        users_(from, live_),
        wanted_(from),
        turned_(from) {}

  // Returns whether the copy has fewer transpositions, or as many behind more work, or a body has.
  bool run() {
    find_wanted();
    rewriter_.clone_inputs();
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()] && !node.is(OpRole::kInput)) visit(node);
    }
    for (const Value& v : from_.outputs()) make(v);
    for (const Assignment& a : from_.updates()) make(a.next);
    rewriter_.finish();
    return made_ <= met_ && (changed_ || made_ < met_ || behind_products_);
  }

 private:
  // A value that is `base`, which is of the copy, transposed; `by` is the transposition that it
  // comes from.
  struct Turned {
    Value base;
    Permutation perm;
    const Node* by = nullptr;
    bool of_product = false;  // base is a product, or element-wise work on one
  };

  // Notes for each value the first permutation that something behind it wants of it, through the
  // element-wise work between them.
  void find_wanted() {
    for (size_t id = from_.size(); id-- > 0;) {
      const Node& node = from_.node(static_cast<uint32_t>(id));
      if (!live_[id]) continue;
      if (const auto perm = permutation_of(node)) {
        want(node.input(0), *perm);
      } else if (broadcasts_elementwise(node) && !wanted_[node.output()].empty()) {
        for (const Value& v : node.inputs()) {
          if (v.shape() == node.type().shape) want(v, wanted_[node.output()]);
        }
      }
    }
  }
  void want(const Value& v, const Permutation& perm) {
    if (wanted_[v].empty()) wanted_[v] = perm;
  }

  void visit(const Node& node) {
    if (const auto perm = permutation_of(node)) {
      transpose(node, *perm);
    } else if (!broadcasts_elementwise(node) || !compute_before(node)) {
      copy(node);
    }
  }

  void transpose(const Node& node, const Permutation& perm) {
    ++met_;
    const Value& x = node.input(0);
    const Turned& before = turned_[x];
    if (!before.base.valid()) {
      const Value base = made(x);
      turned_[node.output()] = {base, perm, &node, base.node().has(kProduct)};
      return;
    }
    Permutation both = composed(before.perm, perm);
    if (is_identity(both))
      rewriter_.map(node.output(), before.base);
    else
      turned_[node.output()] = {before.base, std::move(both), &node, before.of_product};
  }

  // Returns whether it is of use to compute the node before `operand`, one of its operands, is
  // turned.
  bool is_better_before(const Node& node, const Value& operand) const {
    const Turned& turned = turned_[operand];
    const Permutation& wanted = wanted_[node.output()];
    if (!wanted.empty() && is_identity(composed(turned.perm, wanted))) return true;
    return turned.of_product && users_.of(operand).size() == 1 && !users_.leaves(operand);
  }

  // Computes the node on what its operands were before they were turned; returns false, and does
  // nothing, where that is of no use or an operand is not turned.
  bool compute_before(const Node& node) {
    const Shape& shape = node.type().shape;
    const NodeList<Value> operands = node.inputs();
    const auto first = std::find_if(operands.begin(), operands.end(), [&](const Value& v) {
      return v.shape() == shape && turned_[v].base.valid();
    });
    if (first == operands.end() || !is_better_before(node, *first)) return false;
    const Turned turned = turned_[*first];
    if (!may_follow(node, turned)) return false;
    const Permutation& perm = turned.perm;
    for (const Value& v : node.inputs())
      if (!turns_back(v, shape, perm)) return false;
    const LabelScope label(to_, node);
    Values inputs;
    for (const Value& v : node.inputs()) inputs.push_back(turned_back(v, shape, perm));
    const Node& moved = to_.add(node.op(), std::move(inputs), node.attributes(), node.site());
    to_.relabel(moved, node.shared_label());
    turned_[node.output()] = {moved.output(), perm, turned.by, turned.of_product};
    behind_products_ = behind_products_ || turned.of_product;
    return true;
  }

  // Returns whether the transposition can turn the node's result instead of its operand: on the
  // processor that computes the node, where that has it in the result's dtype.
  bool may_follow(const Node& node, const Turned& turned) const {
    if (is_on_host(node) != is_on_host(*turned.by)) return false;
    const DType dtype = node.type().dtype;
    if (dtype == turned.base.dtype()) return true;
    if (!supports_) return false;
    Graph scratch(from_.ops());
    const Value base = scratch.input("x", dtype, turned.base.shape(), turned.by->site());
    return supports_(add_transpose(scratch, base, turned)).supported;
  }

  // Returns whether an operand of a result of `shape` can be had as it was before `perm` turned it.
  bool turns_back(const Value& v, const Shape& shape, const Permutation& perm) const {
    if (v.shape() == shape) return turned_[v].base.valid() && turned_[v].perm == perm;
    return v.shape().num_elements() == 1 || shape_before(v.shape(), perm).has_value();
  }
  Value turned_back(const Value& v, const Shape& shape, const Permutation& perm) {
    if (v.shape() == shape) return turned_[v].base;
    const Value operand = made(v);
    if (v.shape().num_elements() == 1) return operand;
    const OpDef& reshape = to_.ops().at("reshape");
    return to_
        .add(reshape, {operand},
             reshape.attributes->parse({{"shape", *shape_before(v.shape(), perm)}}),
             v.node().site())
        .output();
  }

  // Returns the value in the copy, with its transposition where that has not been made.
  Value made(const Value& v) {
    make(v);
    return rewriter_(v);
  }
  void make(const Value& v) {
    const Turned& turned = turned_[v];
    if (rewriter_.mapped(v) || !turned.base.valid()) return;
    ++made_;
    rewriter_.map(v, add_transpose(to_, turned.base, turned).output());
  }
  static const Node& add_transpose(Graph& graph, const Value& base, const Turned& turned) {
    const OpDef& op = turned.by->op();
    const Node& made =
        graph.add(op, {base}, op.attributes->parse({{"perm", turned.perm}}), turned.by->site());
    graph.relabel(made, turned.by->shared_label());
    return made;
  }

  void copy(const Node& node) {
    for (const Value& v : node.inputs()) make(v);
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      std::shared_ptr<Graph> fewer = cancel_transposes(*body, supports_);
      changed_ = changed_ || fewer != nullptr;
      bodies.push_back(fewer != nullptr ? std::move(fewer) : body);
    }
    rewriter_.clone(node, std::move(bodies));
  }

  const Graph& from_;
  Graph& to_;
  const SupportsFunction& supports_;  // empty: no backend to ask
  Rewriter rewriter_;
  const std::vector<bool> live_;
  const Users users_;
  ValueTable<Permutation> wanted_;  // empty: none
  ValueTable<Turned> turned_;
  size_t met_ = 0, made_ = 0;     // transpositions of the graph and of its copy
  bool behind_products_ = false;  // one has been moved behind work that is now a product's
  bool changed_ = false;          // a body
};

// Returns whether there are any in the graph or in a body. Most graphs of training have none, and
// need no copy to find out.
bool has_transpositions(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return permutation_of(node) ||
           std::any_of(node.bodies().begin(), node.bodies().end(),
                       [](const auto& body) { return has_transpositions(*body); });
  });
}

}  // namespace

std::unique_ptr<Graph> cancel_transposes(const Graph& graph, const SupportsFunction& supports) {
  if (!has_transpositions(graph)) return nullptr;
  auto result = std::make_unique<Graph>(graph.ops());
  return Canceller(graph, *result, supports).run() ? std::move(result) : nullptr;
}

std::unique_ptr<Graph> cancel_transposes(const Graph& graph) {
  return cancel_transposes(graph, SupportsFunction());
}

}  // namespace keel
