// A structured interpreter of graphs with If and While, which also checks their form: names are
// unique, nodes come behind what they read, bodies fit the nodes that run them.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_FUNCTIONAL_INTERPRETER_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_FUNCTIONAL_INTERPRETER_FOR_TESTS_H

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/graphdef/graph_arithmetic_for_tests.h"

namespace keel_test {

class FunctionalInterpreter {
 public:
  using Values = std::map<std::string, Numbers>;

  FunctionalInterpreter(const GraphDef& graph, const Feeds1& feeds) : graph_(graph), feeds_(feeds) {
    check(graph.nodes, {});
    for (const auto& [name, body] : graph.bodies) {
      if (name != body.name) throw std::runtime_error(name + " is called " + body.name);
      const std::set<std::string> known = check(body.nodes, body.arguments);
      for (const std::string& result : body.results)
        if (known.count(result.substr(0, result.find(':'))) == 0)
          throw std::runtime_error(name + " has no result " + result);
    }
    values_ = run(graph.nodes, {});
  }

  Numbers value(const std::string& name) const { return find(values_, name); }

 private:
  static std::set<std::string> check(const std::vector<NodeDef>& nodes,
                                     const std::vector<std::string>& arguments) {
    std::set<std::string> known;
    const auto add = [&](const std::string& name) {
      if (!known.insert(name).second) throw std::runtime_error(name + " is there twice");
    };
    for (const std::string& argument : arguments) add(argument);
    for (const NodeDef& node : nodes) {
      for (const std::string& input : node.inputs) {
        const std::string read = input.front() == '^' ? input.substr(1) : input;
        if (known.count(read.substr(0, read.find(':'))) == 0)
          throw std::runtime_error(node.name + " reads " + input + ", which is not there");
      }
      add(node.name);
    }
    return known;
  }

  static Numbers find(const Values& values, const std::string& name) {
    const size_t colon = name.find(':');
    const bool is_first = colon == std::string::npos || name.substr(colon) == ":0";
    const auto entry = values.find(is_first ? name.substr(0, colon) : name);
    if (entry == values.end()) throw std::runtime_error("there is no value " + name);
    return entry->second;
  }

  Values run(const std::vector<NodeDef>& nodes, Values values) const {
    for (const NodeDef& node : nodes) {
      std::vector<Numbers> inputs;
      for (const std::string& input : node.inputs)
        if (input.front() != '^') inputs.push_back(find(values, input));
      const std::vector<Numbers> outputs = run_node(node, inputs);
      for (size_t port = 0; port < outputs.size(); ++port)
        values[port == 0 ? node.name : node.name + ":" + std::to_string(port)] = outputs[port];
    }
    return values;
  }

  std::vector<Numbers> run_body(const NodeDef& node, const char* attribute,
                                const std::vector<Numbers>& inputs) const {
    const Body& body = graph_.bodies.at(node.attributes.at(attribute).strings.at(0));
    if (body.arguments.size() != inputs.size())
      throw std::runtime_error(body.name + " has other arguments than its node");
    Values values;
    for (size_t i = 0; i < inputs.size(); ++i) values[body.arguments[i]] = inputs[i];
    values = run(body.nodes, std::move(values));
    std::vector<Numbers> results;
    for (const std::string& result : body.results) results.push_back(find(values, result));
    return results;
  }

  std::vector<Numbers> run_node(const NodeDef& node, std::vector<Numbers> inputs) const {
    if (node.op == "If") {
      const bool side = inputs.at(0).elements.at(0) != 0;
      inputs.erase(inputs.begin());
      return run_body(node, side ? "then_branch" : "else_branch", inputs);
    }
    if (node.op != "While") return computed(node, inputs, feeds_);
    for (;;) {
      const std::vector<Numbers> goes_on = run_body(node, "cond", inputs);
      if (goes_on.size() != 1) throw std::runtime_error(node.name + " has no single condition");
      if (goes_on.at(0).elements.at(0) == 0) return inputs;
      std::vector<Numbers> next = run_body(node, "body", inputs);
      if (next.size() != inputs.size()) throw std::runtime_error(node.name + " loses variables");
      inputs = std::move(next);
    }
  }

  const GraphDef& graph_;
  const Feeds1& feeds_;
  Values values_;
};

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_FUNCTIONAL_INTERPRETER_FOR_TESTS_H
