#include "keel/ops/exchange/graphdef/initial_values.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/ops/exchange/graphdef/control_flow/graph.h"
#include "keel/ops/exchange/graphdef/file/values.h"

namespace keel::graphdef {
namespace {

constexpr size_t kNoNode = SIZE_MAX;
constexpr int64_t kReference = 100;  // is added to the number of a type for a reference to it

class Separating {
 public:
  Separating(Selection& selection, const OpRules& rules)
      : selection_(selection), rules_(rules), nodes_(selection.graph.nodes) {}

  void run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      index_.emplace(nodes_[i].name, i);
      const OpRule* rule = rules_.find(nodes_[i].op);
      const std::vector<std::string>& inputs = nodes_[i].inputs;
      if (rule != nullptr && rule->variable && !inputs.empty() && !parse_value(inputs[0]).control)
        initial_.emplace(i, inputs[0]);
    }
    follow_variables();
    find_cone();
    find_readers();
    name_readers();
    std::vector<NodeDef> copies;
    for (const size_t i : readers_) {
      NodeDef made = rewritten(nodes_[i]);
      made.name = names_.at(i);
      if (made.name == nodes_[i].name) {
        nodes_[i] = std::move(made);
        continue;
      }
      selection_.only_initial.insert(made.name);
      const auto place = selection_.places.find(nodes_[i].name);
      if (place != selection_.places.end()) selection_.places.emplace(made.name, place->second);
      copies.push_back(std::move(made));
    }
    for (const auto& entry : initial_) nodes_[entry.first].inputs[0] = rewritten(entry.second);
    for (NodeDef& copy : copies) nodes_.push_back(std::move(copy));
  }

 private:
  size_t node_of(const std::string& input) const {
    const auto entry = index_.find(parse_value(input).node);
    return entry == index_.end() ? kNoNode : entry->second;
  }

  // An initial value that is a variable becomes that variable's own.
  void follow_variables() {
    std::unordered_set<size_t> followed;
    for (const auto& entry : initial_) {
      std::vector<size_t> chain;
      size_t node = entry.first;
      for (; initial_.count(node) != 0 && followed.insert(node).second;
           node = node_of(initial_.at(node)))
        chain.push_back(node);
      const bool comes_back = std::find(chain.begin(), chain.end(), node) != chain.end();
      if (comes_back)
        throw Error({.op = selection_.graph.source,
                     .argument = "node '" + printable(nodes_[node].name) + "'",
                     .message = "its initial value is computed from itself",
                     .fix = "an initial value of its own in the graph"});
      if (chain.empty()) continue;
      const std::string value = initial_.at(initial_.count(node) != 0 ? node : chain.back());
      for (const size_t passed : chain) initial_.at(passed) = value;
    }
  }

  // Collects the nodes that initial values are computed of, up to variables.
  void find_cone() {
    std::vector<size_t> open;
    const auto reach = [&](const std::string& input) {
      const size_t node = node_of(input);
      if (node != kNoNode && initial_.count(node) == 0 && cone_.insert(node).second)
        open.push_back(node);
    };
    for (const auto& entry : initial_) reach(entry.second);
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      for (const std::string& input : nodes_[node].inputs) reach(input);
    }
  }

  // The nodes of the cone that come behind a variable. One that assigns needs the variable itself.
  void find_readers() {
    std::unordered_map<size_t, std::vector<size_t>> users;
    std::vector<size_t> open;
    std::unordered_set<size_t> found;
    const auto add = [&](size_t node) {
      const OpRule* rule = rules_.find(nodes_[node].op);
      if ((rule == nullptr || rule->assigns.empty()) && found.insert(node).second)
        open.push_back(node);
    };
    for (const size_t node : cone_)
      for (const std::string& input : nodes_[node].inputs) {
        const size_t before = node_of(input);
        if (before == kNoNode) continue;
        if (initial_.count(before) == 0)
          users[before].push_back(node);
        else
          add(node);
      }
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      for (const size_t user : users[node]) add(user);
    }
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (found.count(i) != 0) readers_.push_back(i);
  }

  void name_readers() {
    for (const size_t i : readers_) {
      std::string name = nodes_[i].name;
      if (selection_.only_initial.count(name) == 0) {
        name += "/initial";
        while (!index_.emplace(name, kNoNode).second) name += "_";
      }
      names_.emplace(i, name);
    }
  }

  NodeDef rewritten(const NodeDef& node) const {
    NodeDef made = node;
    made.inputs.clear();
    for (const std::string& input : node.inputs)
      if (!parse_value(input).control || initial_.count(node_of(input)) == 0)
        made.inputs.push_back(rewritten(input));
    if (is_reference_form(made.op)) made.op = made.op.substr(std::string("Ref").size());
    // A value stands where the handle did.
    if (made.op == "ReadVariableOp") made.op = "Identity";
    if (made.op == "ResourceGather") made.op = "Gather";
    for (auto& attribute : made.attributes)
      if (attribute.second.kind == AttrValue::Kind::kType && attribute.second.ints[0] > kReference)
        attribute.second.ints[0] -= kReference;
    return made;
  }

  std::string rewritten(const std::string& input) const {
    const auto initial = initial_.find(node_of(input));
    const std::string& value = initial == initial_.end() ? input : initial->second;
    const size_t node = node_of(value);
    const auto name = names_.find(node);
    if (name == names_.end()) return value;
    const ValueName parsed = parse_value(value);
    return parsed.control ? "^" + name->second : value_name(name->second, parsed.output);
  }

  Selection& selection_;
  const OpRules& rules_;
  std::vector<NodeDef>& nodes_;
  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<size_t, std::string> initial_;  // of variables
  std::unordered_set<size_t> cone_;
  std::vector<size_t> readers_;                    // in the order of the nodes
  std::unordered_map<size_t, std::string> names_;  // of readers, for initial values
};

}  // namespace

void separate_initial_values(Selection& selection, const OpRules& rules) {
  Separating(selection, rules).run();
}

}  // namespace keel::graphdef
