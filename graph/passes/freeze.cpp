#include "keel/graph/passes/freeze.h"

#include <algorithm>
#include <set>
#include <variant>

#include "keel/core/base/error.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/scopes.h"

namespace keel {
namespace {

bool draws_numbers(const Node& node) {
  if (node.has(kRandom)) return true;
  return std::any_of(node.bodies().begin(), node.bodies().end(), [](const auto& body) {
    return std::any_of(body->nodes().begin(), body->nodes().end(), draws_numbers);
  });
}

// Returns the names of a queue's fields.
std::vector<std::string> field_names(const Node& dequeue) {
  for (auto& [name, value] : dequeue.attributes().list())
    if (name == "names") return std::get<std::vector<std::string>>(value);
  return {};
}

std::string listed(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

class Freezing {
 public:
  Freezing(const Graph& from, const std::map<std::string, Tensor>& weights,
           const std::vector<std::pair<std::string, Value>>& outputs, CallSite site)
      : from_(from),
        weights_(weights),
        outputs_(outputs),
        site_(site),
        to_(std::make_unique<Graph>(from.ops())),
        rewriter_(from, *to_) {}

  std::unique_ptr<Graph> run() {
    check_outputs();
    needed_ = needed_by_outputs();
    check_random();
    check_weights();
    for (const Value& input : from_.inputs())
      if (needed_[input.node_id()]) rewriter_.clone(input.node());
    for (const Node& node : from_.nodes())
      if (needed_[node.id()]) copy(node);
    Values fresh;
    for (const auto& [name, value] : outputs_)
      fresh.push_back(named_output(rewriter_(value), name));
    to_->set_outputs(fresh, site_);
    return std::move(to_);
  }

 private:
  void check_outputs() {
    if (from_.parent() != nullptr) refuse("graph", "a root graph", "a body of a control op");
    if (outputs_.empty()) refuse("outputs", "at least one", "none");
    for (const auto& [name, value] : outputs_) {
      from_.require_own(value, "freeze", "outputs", site_);
      require_label_text(name, "freeze", "outputs", site_);
      if (name.empty()) refuse("outputs", "a name for each", "an empty one");
      if (!names_.insert(name).second) refuse("outputs", "different names", "'" + name + "' twice");
    }
  }

  std::vector<bool> needed_by_outputs() const {
    std::vector<bool> needed(from_.size(), false);
    for (const auto& output : outputs_) needed[output.second.node_id()] = true;
    for (auto id = static_cast<uint32_t>(from_.size()); id-- > 0;) {
      if (!needed[id]) continue;
      for (const Value& input : from_.node(id).data_inputs()) needed[input.node_id()] = true;
    }
    return needed;
  }

  void check_random() const {
    // The numbers of a call are drawn last, behind the keys that it makes for them.
    std::vector<const Node*> last;
    for (const Node& node : from_.nodes()) {
      if (!needed_[node.id()] || !draws_numbers(node)) continue;
      const auto same_call = [&](const Node* other) {
        return node.site().known() && to_string(other->site()) == to_string(node.site());
      };
      const auto known = std::find_if(last.begin(), last.end(), same_call);
      if (known == last.end())
        last.push_back(&node);
      else
        *known = &node;
    }
    if (last.empty()) return;
    std::vector<std::string> random;
    for (const Node* node : last) {
      random.push_back(full_name(*node) +
                       (node->site().known() ? ", " + to_string(node->site()) : ""));
    }
    throw Error({.op = "freeze",
                 .argument = "outputs",
                 .message = "draw random numbers, as training does: " + listed(random),
                 .fix = "give the outputs of evaluation, which drop nothing",
                 .site = site_});
  }

  void check_weights() const {
    std::vector<std::string> wrong;
    for (const Value& state : from_.states()) {
      if (!needed_[state.node_id()]) continue;
      const std::string& name = name_of(state.node());
      const auto weight = weights_.find(name);
      if (weight == weights_.end()) {
        wrong.push_back("'" + name + "' is missing");
      } else if (weight->second.type() != state.type()) {
        wrong.push_back("'" + name + "' is " + to_string(weight->second.type()) + ", and " +
                        to_string(state.type()) + " in the graph");
      }
    }
    if (wrong.empty()) return;
    throw Error({.op = "freeze",
                 .argument = "weights",
                 .message = "are not those of the graph: " + listed(wrong),
                 .fix = "give the file of a training of this graph",
                 .site = site_});
  }

  void copy(const Node& node) {
    if (node.is(OpRole::kInput)) return;
    if (node.is(OpRole::kState)) return copy_state(node);
    if (node.is(OpRole::kDequeue)) return copy_queue(node);
    const Node& copied = rewriter_.clone(node);
    // An output has its name to itself.
    if (!copied.label().name.empty() && names_.contains(full_name(copied))) name(copied, "");
  }

  void copy_state(const Node& node) {
    const AttributeScope exact(*to_, kFoldAttribute, kExactFold, site_);
    const Value constant = to_->constant(weights_.at(name_of(node)), node.site());
    const bool free =
        !names_.contains(name_of(node)) && name_of(node).find(':') == std::string::npos;
    if (free) name(constant.node(), name_of(node));
    rewriter_.map(node.output(), constant);
  }

  void copy_queue(const Node& node) {
    const std::vector<std::string> names = field_names(node);
    const auto types = node.data_types();
    for (size_t i = 0; i < types.size(); ++i)
      rewriter_.map(node.output(i),
                    to_->input(names.at(i), types[i].dtype, types[i].shape, node.site()));
  }

  // Returns the value that is found by the name: this one, or what shows it and has a node of its
  // own, since a node has one name, which finds its first result, and inputs keep theirs.
  Value named_output(const Value& value, const std::string& name_wanted) {
    const Value input = to_->find_input(name_wanted);
    if (input.valid() && input == value) return value;
    if (input.valid())
      refuse("outputs", "a name other than those of the inputs that are reached",
             "'" + name_wanted + "'");
    const bool apart = value.node().is(OpRole::kInput) || value.output() != 0 ||
                       !named_.insert(value.node_id()).second;
    const Value output = apart ? emit("stop_gradient", {value}, site_) : value;
    name(output.node(), name_wanted);
    return output;
  }

  void name(const Node& node, const std::string& name_wanted) {
    NodeLabel label = node.label();
    if (!name_wanted.empty()) label.scope.clear();
    label.name = name_wanted;
    to_->relabel(node, std::make_shared<const NodeLabel>(std::move(label)));
  }

  [[noreturn]] void refuse(const std::string& argument, const std::string& expected,
                           const std::string& got) const {
    throw Error(
        {.op = "freeze", .argument = argument, .expected = expected, .got = got, .site = site_});
  }

  const Graph& from_;
  const std::map<std::string, Tensor>& weights_;
  const std::vector<std::pair<std::string, Value>>& outputs_;
  const CallSite site_;
  std::unique_ptr<Graph> to_;
  Rewriter rewriter_;
  std::set<std::string> names_;
  std::set<uint32_t> named_;  // nodes of the new graph that have an output's name
  std::vector<bool> needed_;
};

}  // namespace

std::unique_ptr<Graph> freeze(const Graph& graph, const std::map<std::string, Tensor>& weights,
                              const std::vector<std::pair<std::string, Value>>& outputs,
                              CallSite site) {
  return Freezing(graph, weights, outputs, site).run();
}

}  // namespace keel
