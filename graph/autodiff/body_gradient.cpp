#include "keel/graph/autodiff/body_gradient.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

// Says for each node whether the `results` need it where the values in `given` are there.
std::vector<bool> nodes_read(const Graph& body, const Values& results, const Values& given = {}) {
  std::vector<bool> read(body.size(), false);
  const auto mark = [&](const Value& v) {
    if (std::find(given.begin(), given.end(), v) == given.end()) read[v.node_id()] = true;
  };
  for (const Value& v : results) mark(v);
  for (uint32_t id = static_cast<uint32_t>(body.size()); id-- > 0;) {
    if (!read[id]) continue;
    for (const Value& v : body.node(id).inputs()) mark(v);
  }
  return read;
}

// Copies what computes `results`, with `arguments` for the inputs.
void clone_body(const Graph& body, const Values& results, const Values& arguments,
                Rewriter& rewriter) {
  const std::vector<bool> read = nodes_read(body, results);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].valid()) rewriter.map(body.inputs()[i], arguments[i]);
  }
  for (const Node& node : body.nodes()) {
    if (read[node.id()] && !node.is(OpRole::kInput)) rewriter.clone(node);
  }
}

// Returns the live nodes that read each value.
std::unordered_map<Value, std::vector<uint32_t>, ValueHash> users_of(
    const Graph& graph, const std::vector<bool>& live) {
  std::unordered_map<Value, std::vector<uint32_t>, ValueHash> users;
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    for (const Value& v : node.inputs()) {
      std::vector<uint32_t>& of = users[v];
      if (of.empty() || of.back() != node.id()) of.push_back(node.id());
    }
  }
  return users;
}

}  // namespace

std::vector<bool> inputs_read(const Graph& body, const Values& results) {
  const std::vector<bool> read = nodes_read(body, results);
  std::vector<bool> inputs;
  for (const Value& v : body.inputs()) inputs.push_back(read[v.node_id()]);
  return inputs;
}

Values inline_body(const Graph& body, const Values& results, const Values& arguments, Graph& to) {
  Rewriter rewriter(body, to);
  clone_body(body, results, arguments, rewriter);
  return rewriter(results);
}

BodyGradient::BodyGradient(const Graph& body, const std::vector<size_t>& ys,
                           const std::vector<size_t>& xs,
                           const std::vector<AgreedAttributes>& of_inputs,
                           const NodeLabelPtr& around, CallSite site)
    : body_(body), whole_(body.ops()), inlined_(body, whole_) {
  Values inputs;
  for (const Value& v : body.inputs()) {
    const LabelScope label(whole_, of_inputs[inputs.size()].label_in(nullptr));
    inputs.push_back(
        whole_.input("x" + std::to_string(inputs.size()), v.dtype(), v.shape(), v.node().site()));
  }
  Values results;
  Values seeds;
  for (const size_t y : ys) {
    const Value v = body.outputs()[y];
    results.push_back(v);
    seeds.push_back(whole_.input("d" + std::to_string(y), v.dtype(), v.shape(), site));
  }
  Values of;
  for (const size_t x : xs) of.push_back(inputs[x]);
  clone_body(body, results, inputs, inlined_);
  first_gradient_ = static_cast<uint32_t>(whole_.size());
  const LabelScope label(whole_, around);
  whole_.set_outputs(expand_gradients(inlined_(results), of, seeds, site));
}

std::unique_ptr<Graph> BodyGradient::graph(const Values& kept) const {
  if (kept.empty()) return place_checkpointed_forwards(whole_);
  Graph cut(body_.ops());
  Rewriter rewriter(whole_, cut);
  rewriter.clone_inputs();
  for (const Value& v : kept) {
    const std::string name = "k" + std::to_string(cut.inputs().size());
    rewriter.map(inlined_(v), cut.input(name, v.dtype(), v.shape(), v.node().site()));
  }
  const std::vector<bool> read = nodes_read(whole_, whole_.outputs(), inlined_(kept));
  for (const Node& node : whole_.nodes()) {
    if (read[node.id()] && !node.is(OpRole::kInput)) rewriter.clone(node);
  }
  cut.set_outputs(rewriter(whole_.outputs()));
  return place_checkpointed_forwards(cut);
}

Values BodyGradient::made_by_products() const {
  const std::vector<bool> live = live_nodes(whole_);
  const Users users = users_of(whole_, live);
  // The node of the body that alone uses a value, if it is element-wise; null where there is none.
  const auto next = [&](const Value& v) -> const Node* {
    const auto of = users.find(v);
    if (of == users.end() || of->second.size() != 1 || of->second[0] >= first_gradient_)
      return nullptr;
    const Node& user = whole_.node(of->second[0]);
    const bool same =
        user.has(kElementwise) && user.types().size() == 1 && user.type().shape == v.shape();
    return same ? &user : nullptr;
  };
  std::unordered_map<Value, Value, ValueHash> in_body;
  Values found;
  for (const Node& node : body_.nodes()) {
    if (!node.bodies().empty()) return {};
    for (size_t i = 0; i < node.types().size(); ++i) {
      const Value v = node.output(i);
      if (inlined_.mapped(v)) in_body[inlined_(v)] = v;
    }
  }
  for (const Node& node : whole_.nodes()) {
    const bool recomputed = node.id() < first_gradient_ && live[node.id()];
    if (!recomputed || !node.has(kProduct) || node.types().size() != 1) continue;
    if (scoped_attribute(node, kRecomputeAttribute) != nullptr) continue;
    Value last = node.output();
    while (const Node* user = next(last)) last = user->output();
    for (const Value& made : made_alone_of(last, users)) {
      const Value v = in_body.at(made);
      if (std::find(found.begin(), found.end(), v) == found.end()) found.push_back(v);
    }
  }
  return found;
}

// Returns the value, or the values that can be kept instead of it: as long as all that is computed
// of one is computed of it alone and is together no larger, as the activated parts of gates.
Values BodyGradient::made_alone_of(const Value& value, const Users& users) const {
  Values kept;
  Values open{value};
  while (!open.empty()) {
    const Value v = open.back();
    open.pop_back();
    const auto of = users.find(v);
    bool alone = of != users.end() && v.shape().known();
    Values made;
    size_t bytes = 0;
    for (size_t i = 0; alone && i < of->second.size(); ++i) {
      const Node& user = whole_.node(of->second[i]);
      alone = user.id() < first_gradient_ && user.inputs().size() == 1 && user.bodies().empty();
      for (size_t o = 0; alone && o < user.types().size(); ++o) {
        alone = user.type(o).shape.known();
        if (!users.contains(user.output(o))) continue;
        made.push_back(user.output(o));
        if (alone) bytes += user.type(o).shape.num_bytes(user.type(o).dtype);
      }
    }
    if (alone && bytes <= v.shape().num_bytes(v.dtype()))
      open.insert(open.end(), made.rbegin(), made.rend());
    else
      kept.push_back(v);
  }
  return kept;
}

Value emit_op(const char* op, const std::vector<Operand>& operands, const AttributeList& attributes,
              CallSite site) {
  if (attributes.empty()) return emit(op, operands, site);
  const Graph& graph = graph_of_call(operands, op);
  return emit(op, operands, graph.ops().at(op).attributes->parse(attributes), site);
}

Value filled(Graph& graph, const Type& type, double number, CallSite site) {
  const Value one = graph.constant(Tensor::full(type.dtype, Shape{}, number), site);
  if (type.shape.rank() == 0) return one;
  return emit_op("broadcast_to", {Operand(one, site)}, {{"shape", type.shape}}, site);
}

}  // namespace keel
