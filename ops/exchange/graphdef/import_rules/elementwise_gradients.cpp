// The gradients of activations and of functions of one number, as a training graph has them: of the
// slope dy, and of the function's result y or operand x.
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/one_shape.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/selu.h"
#include "keel/ops/masked_gradient.h"
#include "keel/ops/reduce.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

Values relu_gradient(NodeContext& c) { return {where_positive(c.in(1), c.in(0), {})}; }

Values relu6_gradient(NodeContext& c) {
  const Value x = c.in(1);
  const Value inside = logical_and(greater(x, 0, {}), less(x, 6, {}), {});
  return {select(inside, c.in(0), 0.0, {})};
}

Values leaky_relu_gradient(NodeContext& c) {
  const Value dy = c.in(0);
  return {select(greater(c.in(1), 0, {}), dy, c.attribute("alpha", 0.2) * dy, {})};
}

// y is exp(x) - 1 where x is negative.
Values elu_gradient(NodeContext& c) {
  const Value dy = c.in(0), y = c.in(1);
  return {select(less(y, 0, {}), mul(dy, y + 1, {}), dy, {})};
}

// y is below 0 where x is.
Values selu_gradient(NodeContext& c) {
  const Value dy = c.in(0), y = c.in(1);
  constexpr double kLeast = kSeluScale * kSeluAlpha;
  return {mul(dy, select(less(y, 0, {}), y + kLeast, kSeluScale, {}), {})};
}

Values sigmoid_gradient(NodeContext& c) {
  const Value y = c.in(0), dy = c.in(1);
  return {mul(mul(dy, y, {}), 1 - y, {})};
}

Values tanh_gradient(NodeContext& c) {
  const Value y = c.in(0), dy = c.in(1);
  return {mul(dy, 1 - square(y, {}), {})};
}

Values softplus_gradient(NodeContext& c) { return {mul(c.in(0), sigmoid(c.in(1), {}), {})}; }

Values softsign_gradient(NodeContext& c) {
  return {div(c.in(0), square(abs(c.in(1), {}) + 1, {}), {})};
}

Values sqrt_gradient(NodeContext& c) { return {div(0.5 * c.in(1), c.in(0), {})}; }

Values rsqrt_gradient(NodeContext& c) {
  const Value y = c.in(0);
  return {mul(mul(-0.5 * c.in(1), square(y, {}), {}), y, {})};
}

Values reciprocal_gradient(NodeContext& c) {
  return {neg(mul(c.in(1), square(c.in(0), {}), {}), {})};
}

// The slope has the shape of what it is the slope of.
template <onnx::ImportRule gradient>
Values of_one_shape(NodeContext& c) {
  require_one_shape(c);
  return gradient(c);
}

Values bias_gradient(NodeContext& c) {
  const Value dy = c.in(0);
  c.require_rank(dy, 2, Shape::kMaxRank, "its slope is");
  const size_t rank = dy.shape({}).rank();
  const bool second = c.choice("data_format", {"NHWC", "NCHW"}) == "NCHW" && rank > 2;
  const size_t channel = second ? 1 : rank - 1;
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < rank; ++axis)
    if (axis != channel) axes.push_back(static_cast<int64_t>(axis));
  return {sum(dy, axes, false, {})};
}

}  // namespace

void register_graphdef_elementwise_gradients(OpRules& rules) {
  rules.add("ReluGrad", of_one_shape<relu_gradient>);
  rules.add("Relu6Grad", of_one_shape<relu6_gradient>);
  rules.add("LeakyReluGrad", of_one_shape<leaky_relu_gradient>);
  rules.add("EluGrad", of_one_shape<elu_gradient>);
  rules.add("SeluGrad", of_one_shape<selu_gradient>);
  rules.add("SigmoidGrad", of_one_shape<sigmoid_gradient>);
  rules.add("TanhGrad", of_one_shape<tanh_gradient>);
  rules.add("SoftplusGrad", of_one_shape<softplus_gradient>);
  rules.add("SoftsignGrad", of_one_shape<softsign_gradient>);
  rules.add("SqrtGrad", of_one_shape<sqrt_gradient>);
  rules.add("RsqrtGrad", of_one_shape<rsqrt_gradient>);
  rules.add("InvGrad", of_one_shape<reciprocal_gradient>);
  rules.add("ReciprocalGrad", of_one_shape<reciprocal_gradient>);
  rules.add("BiasAddGrad", bias_gradient);
}

}  // namespace keel::graphdef
