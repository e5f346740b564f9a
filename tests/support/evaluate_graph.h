// Runs a graph with the ops' reference functions, for tests of passes: bodies of fused nodes and
// loops included, states from a map by name, no updates.
#ifndef KEEL_TESTS_SUPPORT_EVALUATE_GRAPH_H
#define KEEL_TESTS_SUPPORT_EVALUATE_GRAPH_H

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel_test {

using Feeds = std::map<std::string, keel::Tensor>;

class GraphEvaluator {
 public:
  // The outputs, then the next values of the updates.
  static std::vector<keel::Tensor> run(const keel::Graph& graph, const Feeds& feeds) {
    GraphEvaluator evaluator;
    for (const keel::Node& node : graph.nodes()) {
      const bool named = node.is(keel::OpRole::kInput) || node.is(keel::OpRole::kState);
      if (named) evaluator.values_[node.output()] = feeds.at(keel::name_of(node));
    }
    return evaluator.results(graph);
  }

 private:
  static std::vector<keel::Tensor> run_body(const keel::Graph& graph,
                                            const std::vector<keel::Tensor>& inputs) {
    GraphEvaluator evaluator;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      evaluator.values_[graph.inputs()[i]] = inputs.at(i);
    }
    return evaluator.results(graph);
  }

  std::vector<keel::Tensor> results(const keel::Graph& graph) {
    for (const keel::Node& node : graph.nodes()) visit(node);
    std::vector<keel::Tensor> out;
    for (const keel::Value& v : graph.outputs()) out.push_back(values_.at(v));
    for (const keel::Assignment& a : graph.updates()) out.push_back(values_.at(a.next));
    return out;
  }

  void visit(const keel::Node& node) {
    const std::string& op = node.op_name();
    if (op == "input" || op == "state") return;
    if (op == "constant") {
      values_[node.output()] = node.as<keel::ConstantAttributes>().value;
      return;
    }
    std::vector<keel::Tensor> inputs;
    for (const keel::Value& v : node.inputs()) inputs.push_back(values_.at(v));
    std::vector<keel::Tensor> outputs;
    if (op == "fused") {
      outputs = run_body(*node.bodies()[0], inputs);
    } else if (op == "while_loop") {
      outputs = run_while(node, inputs);
    } else {
      for (const keel::Type& t : node.types()) outputs.emplace_back(t.dtype, t.shape);
      node.op().reference({node.op(), node.attributes(), inputs, outputs});
    }
    for (size_t i = 0; i < outputs.size(); ++i) values_[node.output(i)] = outputs[i];
  }

  static std::vector<keel::Tensor> run_while(const keel::Node& node,
                                             std::vector<keel::Tensor> variables) {
    while (run_body(*node.bodies()[0], variables)[0].item<bool>()) {
      const std::vector<keel::Tensor> next = run_body(*node.bodies()[1], variables);
      for (size_t i = 0; i < next.size(); ++i) variables[i] = next[i];
    }
    variables.resize(node.types().size());
    return variables;
  }

  std::unordered_map<keel::Value, keel::Tensor, keel::ValueHash> values_;
};

inline std::vector<keel::Tensor> evaluate(const keel::Graph& graph, const Feeds& feeds = {}) {
  return GraphEvaluator::run(graph, feeds);
}

inline bool all_bit_equal(const std::vector<keel::Tensor>& a, const std::vector<keel::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!keel::bit_equal(a[i], b[i])) return false;
  }
  return true;
}

inline size_t count_op(const keel::Graph& graph, const std::string& op) {
  size_t count = 0;
  for (const keel::Node& node : graph.nodes()) count += node.op_name() == op ? 1 : 0;
  return count;
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_EVALUATE_GRAPH_H
