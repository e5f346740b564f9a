// An interpreter for tests: evaluates a specialised graph node by node with the ops' reference
// functions, without devices, programs or plans. What backends compute is compared with it.
#ifndef KEEL_OPS_CONFORMANCE_EVALUATE_H
#define KEEL_OPS_CONFORMANCE_EVALUATE_H

#include <map>
#include <string>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel::conformance {

// Tensors for inputs, by name.
using NamedTensors = std::map<std::string, Tensor>;

class Evaluation {
 public:
  // Evaluates every node. REQUIRES a graph without states and bodies whose types are all concrete.
  // Throws Error for an input that is missing or has another type, and for a node without a
  // reference.
  Evaluation(const Graph& graph, const NamedTensors& inputs);

  const Tensor& operator()(Value value) const;
  std::vector<Tensor> outputs() const;
  // Returns the largest finite magnitude of any float value.
  double largest() const;

 private:
  const Graph& graph_;
  std::vector<std::vector<Tensor>> values_;  // by node, by output
};

// Evaluates one node on given inputs.
std::vector<Tensor> evaluate_node(const Node& node, const std::vector<Tensor>& inputs);

}  // namespace keel::conformance

#endif  // KEEL_OPS_CONFORMANCE_EVALUATE_H
