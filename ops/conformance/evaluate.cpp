#include "keel/ops/conformance/evaluate.h"

#include <algorithm>
#include <cmath>

#include "keel/core/base/error.h"

namespace keel::conformance {
namespace {

const Tensor& input_tensor(const Node& node, const NamedTensors& inputs) {
  const auto it = inputs.find(name_of(node));
  if (it == inputs.end() || it->second.type() != node.type()) {
    throw Error({.op = "evaluate",
                 .argument = name_of(node),
                 .expected = to_string(node.type()),
                 .got = it == inputs.end() ? "nothing" : to_string(it->second.type())});
  }
  return it->second;
}

}  // namespace

std::vector<Tensor> evaluate_node(const Node& node, const std::vector<Tensor>& inputs) {
  if (node.op().reference == nullptr) {
    throw Error({.op = "evaluate", .argument = node.op_name(), .message = "has no reference"});
  }
  std::vector<Tensor> outputs;
  for (const Type& type : node.types()) outputs.emplace_back(type.dtype, type.shape);
  node.op().reference({node.op(), node.attributes(), inputs, outputs});
  return outputs;
}

Evaluation::Evaluation(const Graph& graph, const NamedTensors& inputs) : graph_(graph) {
  for (const Node& node : graph.nodes()) {
    if (node.is(OpRole::kInput)) {
      values_.push_back({input_tensor(node, inputs)});
    } else if (node.is(OpRole::kConstant)) {
      values_.push_back({node.as<ConstantAttributes>().value});
    } else {
      std::vector<Tensor> arguments;
      for (const Value& input : node.inputs()) arguments.push_back((*this)(input));
      values_.push_back(evaluate_node(node, arguments));
    }
  }
}

const Tensor& Evaluation::operator()(Value value) const {
  return values_.at(value.node_id()).at(value.output());
}

std::vector<Tensor> Evaluation::outputs() const {
  std::vector<Tensor> tensors;
  for (const Value& output : graph_.outputs()) tensors.push_back((*this)(output));
  return tensors;
}

double Evaluation::largest() const {
  double result = 0;
  for (const auto& outputs : values_) {
    for (const Tensor& tensor : outputs) {
      if (!is_float(tensor.dtype())) continue;
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        if (std::isfinite(tensor.at(i))) result = std::max(result, std::fabs(tensor.at(i)));
      }
    }
  }
  return result;
}

}  // namespace keel::conformance
