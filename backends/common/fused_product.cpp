#include "keel/backends/common/fused_product.h"

#include <algorithm>

namespace keel {

bool is_identity(const Graph& body) {
  return body.outputs().size() == 1 && body.outputs()[0] == body.inputs()[0];
}

bool is_product(const Node& node) {
  return node.has(kProduct) || node.op_name() == "fused_product";
}

FusedProduct::FusedProduct(const Node& node) : node_(node), product_(&node) {
  if (node.op_name() != "fused_product") return;
  product_ = &node.bodies()[0]->outputs()[0].node();
  if (!is_identity(*node.bodies()[1])) epilogue_ = node.bodies()[1].get();
}

size_t FusedProduct::product_inputs() const noexcept {
  return &node_ == product_ ? node_.inputs().size() : node_.bodies()[0]->inputs().size();
}

std::optional<size_t> FusedProduct::rows_of(size_t operand) const {
  if (&node_ == product_) return std::nullopt;
  const Values& inputs = node_.bodies()[0]->inputs();
  const auto number = [&](const Value& v) {
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
  };
  for (const Node& inner : node_.bodies()[0]->nodes()) {
    if (inner.op_name() == "gather" && number(inner.input(0)) == operand) {
      return number(inner.input(1));
    }
  }
  return std::nullopt;
}

bool FusedProduct::has_load(size_t operand) const {
  return &node_ != product_ && product_->input(operand).node().op_name() != "input";
}

}  // namespace keel
