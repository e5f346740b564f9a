// Variables, and what assigns to them. A node that assigns gives the next value of its variable.
#include "keel/core/base/printable.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/translate.h"
#include "keel/ops/exchange/onnx/import_indices.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using onnx::StateUse;

Values variable(NodeContext& c) {
  c.ignore("shape");
  if (!c.has(0)) c.refuse("the graph says no initial value of it");
  const std::optional<Tensor> initial = c.known(0);
  if (!initial)
    c.refuse(
        "its initial value is not known before the run; give the graph an initial value of it "
        "that follows from constants and random numbers");
  const bool trained = is_float(initial->dtype()) && !c.has_attribute(kUntrained);
  return {c.state(c.node().name, *initial, trained ? StateUse::kTrained : StateUse::kKept)};
}

bool may_be(const Shape& shape, const Shape& wanted) {
  if (shape.rank() != wanted.rank()) return false;
  for (size_t i = 0; i < shape.rank(); ++i)
    if (shape[i] >= 0 && wanted[i] >= 0 && shape[i] != wanted[i]) return false;
  return true;
}

// An operand that has an element for each of the variable's: a gradient, or what is remembered.
Value elementwise(NodeContext& c, size_t i) {
  const Shape shape = c.in(i).shape({}), wanted = c.in(0).shape({});
  if (!may_be(shape, wanted))
    c.refuse("its operand " + std::to_string(i) + " is of the shape " + to_string(shape) +
             ", and its variable of " + to_string(wanted));
  return c.in(i);
}

// A rate, or another number that holds for all elements.
Value scalar(NodeContext& c, size_t i) {
  const Shape shape = c.in(i).shape({});
  if (shape.rank() != 0)
    c.refuse("its operand " + std::to_string(i) + " is of the shape " + to_string(shape) +
             ", and has to be a scalar");
  return c.in(i);
}

// Makes the values what the variables that a node assigns to are after it, in the order of its
// operands; they are its results.
Values assigned(NodeContext& c, Values next) {
  const onnx::AttributeProto* variables = c.find_attribute(kVariables);
  for (size_t i = 0; i < next.size(); ++i) {
    if (variables == nullptr || i >= variables->strings.size() || variables->strings[i].empty())
      c.refuse("what it assigns to is no variable");
    const Value state = c.value_named(variables->strings[i]);
    const Type type = next[i].type({}), wanted = state.type({});
    if (type.dtype != wanted.dtype || !may_be(type.shape, wanted.shape))
      c.refuse("the next value is " + to_string(type) + ", and its variable " +
               printable(variables->strings[i], 200) + " is " + to_string(wanted));
    c.assign(state, next[i]);
  }
  return next;
}

Values assign(NodeContext& c) {
  c.ignore(0);
  return assigned(c, {c.in(1)});
}
Values assign_add(NodeContext& c) { return assigned(c, {add(c.in(0), elementwise(c, 1), {})}); }
Values assign_sub(NodeContext& c) { return assigned(c, {sub(c.in(0), elementwise(c, 1), {})}); }

// ---- rows of a variable

// What a node puts into rows of its variable or adds to them: a row for each index. A scalar stands
// for all of their elements.
Value updates_of_rows(NodeContext& c) {
  const Value state = c.in(0), places = c.in(1), rows = c.in(2);
  const bool alone = rows.shape({}).rank() == 0;
  const Shape shape = alone ? c.known_shape(state, "its variable") : state.shape({});
  const Shape indices = alone ? c.known_shape(places, "its indices") : places.shape({});
  if (shape.rank() == 0) c.refuse("its variable has no rows");
  std::vector<int64_t> wanted(indices.begin(), indices.end());
  wanted.insert(wanted.end(), shape.begin() + 1, shape.end());
  if (alone) return broadcast_to(rows, Shape(wanted), {});
  c.require_shape(rows, Shape(wanted), "its updates are");
  return rows;
}

Values scatter_add_rows(NodeContext& c) {
  return assigned(c, {scatter_add(c.in(0), c.in(1), updates_of_rows(c), {})});
}
Values scatter_sub_rows(NodeContext& c) {
  return assigned(c, {scatter_add(c.in(0), c.in(1), neg(updates_of_rows(c), {}), {})});
}

// Rows put into a variable in place of its own; the last one where several go to one place.
Values scatter_update_rows(NodeContext& c) {
  const Value state = c.in(0), places = c.in(1), rows = updates_of_rows(c);
  const Shape shape = c.known_shape(state, "its variable");
  const Shape indices = c.known_shape(places, "its indices");
  const int64_t size = shape[0] == 0 ? 0 : shape.num_elements() / shape[0];
  const Value made =
      onnx::scatter_rows(c, reshape(state, Shape{shape[0], size}, {}),
                         reshape(cast(places, i64, {}), Shape{indices.num_elements()}, {}),
                         reshape(rows, Shape{indices.num_elements(), size}, {}), "last");
  return assigned(c, {reshape(made, shape, {})});
}

// In a step every variable has a value; what draws initial values finds none.
Values is_initialized(NodeContext& c) {
  c.ignore(size_t{0});
  return {c.result(Tensor::full(boolean, {}, c.has_attribute(kInitial) ? 0 : 1))};
}

Values shape_of_variable(NodeContext& c) {
  const Shape shape = c.known_shape(c.in(0), "its variable");
  const Tensor dims = Tensor::of<int64_t>({static_cast<int64_t>(shape.rank())},
                                          std::vector<int64_t>(shape.begin(), shape.end()));
  return {c.result(dims.cast(c.dtype_attribute("out_type", i32), {}))};
}

// ---- optimizers; formulas of TensorFlow 1.15's training_ops

Values gradient_descent(NodeContext& c) {
  const Value state = c.in(0);
  return assigned(c, {sub(state, mul(scalar(c, 1), elementwise(c, 2), {}), {})});
}

Values momentum(NodeContext& c) {
  const Value state = c.in(0), sum = elementwise(c, 1), rate = scalar(c, 2),
              gradient = elementwise(c, 3), share = scalar(c, 4);
  const Value next_sum = add(mul(sum, share, {}), gradient, {});
  Value step = next_sum;
  if (c.attribute("use_nesterov", int64_t{0}) != 0)
    step = add(gradient, mul(next_sum, share, {}), {});
  return assigned(c, {sub(state, mul(rate, step, {}), {}), next_sum});
}

// Its momentum has the rate inside.
Values keras_momentum(NodeContext& c) {
  const Value state = c.in(0), sum = elementwise(c, 1), rate = scalar(c, 2),
              gradient = elementwise(c, 3), share = scalar(c, 4);
  const Value own = mul(rate, gradient, {});
  const Value next_sum = sub(mul(sum, share, {}), own, {});
  const bool nesterov = c.attribute("use_nesterov", int64_t{0}) != 0;
  const Value step = nesterov ? sub(mul(next_sum, share, {}), own, {}) : next_sum;
  return assigned(c, {add(state, step, {}), next_sum});
}

// A mean that moves a share of the way to x.
Value moved(const Value& mean, const Value& x, const Value& kept) {
  return add(mean, mul(sub(x, mean, {}), 1 - kept, {}), {});
}

Values adam(NodeContext& c) {
  const Value state = c.in(0), first = elementwise(c, 1), second = elementwise(c, 2);
  const Value power1 = scalar(c, 3), power2 = scalar(c, 4), rate = scalar(c, 5);
  const Value beta1 = scalar(c, 6), beta2 = scalar(c, 7), epsilon = scalar(c, 8),
              gradient = elementwise(c, 9);
  const Value next_first = moved(first, gradient, beta1);
  const Value next_second = moved(second, square(gradient, {}), beta2);
  const Value corrected = div(mul(rate, sqrt(1 - power2, {}), {}), 1 - power1, {});
  Value step = next_first;
  if (c.attribute("use_nesterov", int64_t{0}) != 0)
    step = add(mul(beta1, next_first, {}), mul(1 - beta1, gradient, {}), {});
  const Value root = add(sqrt(next_second, {}), epsilon, {});
  return assigned(
      c, {sub(state, div(mul(corrected, step, {}), root, {}), {}), next_first, next_second});
}

Values rms_prop(NodeContext& c) {
  const Value state = c.in(0), squares = elementwise(c, 1), sum = elementwise(c, 2),
              rate = scalar(c, 3);
  const Value decay = scalar(c, 4), share = scalar(c, 5), epsilon = scalar(c, 6),
              gradient = elementwise(c, 7);
  const Value next_squares = moved(squares, square(gradient, {}), decay);
  const Value own = div(mul(rate, gradient, {}), sqrt(add(next_squares, epsilon, {}), {}), {});
  const Value next_sum = add(mul(sum, share, {}), own, {});
  return assigned(c, {sub(state, next_sum, {}), next_squares, next_sum});
}

Values adagrad(NodeContext& c) {
  const Value state = c.in(0), squares = elementwise(c, 1), rate = scalar(c, 2),
              gradient = elementwise(c, 3);
  const bool counts = c.attribute("update_slots", int64_t{1}) != 0;
  const Value next = counts ? add(squares, square(gradient, {}), {}) : squares;
  return assigned(c, {sub(state, div(mul(rate, gradient, {}), sqrt(next, {}), {}), {}), next});
}

Values adadelta(NodeContext& c) {
  const Value state = c.in(0), squares = elementwise(c, 1), steps = elementwise(c, 2),
              rate = scalar(c, 3);
  const Value decay = scalar(c, 4), epsilon = scalar(c, 5), gradient = elementwise(c, 6);
  const Value next_squares = moved(squares, square(gradient, {}), decay);
  const Value ratio =
      div(sqrt(add(steps, epsilon, {}), {}), sqrt(add(next_squares, epsilon, {}), {}), {});
  const Value step = mul(ratio, gradient, {});
  return assigned(c, {sub(state, mul(rate, step, {}), {}), next_squares,
                      moved(steps, square(step, {}), decay)});
}

Values centered_rms_prop(NodeContext& c) {
  const Value state = c.in(0), means = elementwise(c, 1), squares = elementwise(c, 2),
              sum = elementwise(c, 3), rate = scalar(c, 4);
  const Value decay = scalar(c, 5), share = scalar(c, 6), epsilon = scalar(c, 7),
              gradient = elementwise(c, 8);
  const Value next_squares = moved(squares, square(gradient, {}), decay);
  const Value next_means = moved(means, gradient, decay);
  const Value variance = add(sub(next_squares, square(next_means, {}), {}), epsilon, {});
  const Value own = div(mul(rate, gradient, {}), sqrt(variance, {}), {});
  const Value next_sum = add(mul(sum, share, {}), own, {});
  return assigned(c, {sub(state, next_sum, {}), next_means, next_squares, next_sum});
}

Values ada_max(NodeContext& c) {
  const Value state = c.in(0), first = elementwise(c, 1), largest = elementwise(c, 2),
              power = scalar(c, 3);
  const Value rate = scalar(c, 4), beta1 = scalar(c, 5), beta2 = scalar(c, 6),
              epsilon = scalar(c, 7);
  const Value gradient = elementwise(c, 8);
  const Value next_first = moved(first, gradient, beta1);
  const Value next_largest = maximum(mul(beta2, largest, {}), abs(gradient, {}), {});
  const Value step = div(next_first, add(next_largest, epsilon, {}), {});
  return assigned(
      c, {sub(state, mul(div(rate, 1 - power, {}), step, {}), {}), next_first, next_largest});
}

// Follow the regularized leader; McMahan et al., Ad Click Prediction, 2013.
Values ftrl(NodeContext& c) {
  const Value state = c.in(0), squares = elementwise(c, 1), linear = elementwise(c, 2),
              gradient = elementwise(c, 3);
  const Value rate = scalar(c, 4), l1 = scalar(c, 5), l2 = scalar(c, 6),
              power = neg(scalar(c, 7), {});
  if (c.attribute("multiply_linear_by_lr", int64_t{0}) != 0) c.refuse("it multiplies by the rate");
  const Value next_squares = add(squares, square(gradient, {}), {});
  const Value root = pow(next_squares, power, {});
  const Value change = div(sub(root, pow(squares, power, {}), {}), rate, {});
  const Value next_linear = add(linear, sub(gradient, mul(change, state, {}), {}), {});
  const Value curvature = add(div(root, rate, {}), 2 * l2, {});
  const Value moves = sub(mul(sign(next_linear, {}), l1, {}), next_linear, {});
  const Value next =
      select(greater(abs(next_linear, {}), l1, {}), div(moves, curvature, {}), 0.0, {});
  return assigned(c, {next, next_squares, next_linear});
}

// How many of the first operands an op assigns to: the variable, and what is remembered of it.
class Adding {
 public:
  explicit Adding(OpRules& rules) : rules_(rules) {}
  // In its form with references, and in that with resources, which stands for no value.
  void optimizer(const std::string& name, onnx::ImportRule make, size_t assigned) {
    assigning("Apply" + name, make, false, assigned);
    assigning("ResourceApply" + name, make, true, assigned);
  }
  void assigning(const std::string& op, onnx::ImportRule make, bool gives_nothing,
                 size_t assigned = 1) {
    OpRule rule{.make = make, .folding = onnx::Folding::kNever, .gives_nothing = gives_nothing};
    for (size_t operand = 0; operand < assigned; ++operand) rule.assigns.push_back(operand);
    rules_.add(op, std::move(rule));
  }

 private:
  OpRules& rules_;
};

}  // namespace

void register_graphdef_variables(OpRules& rules) {
  for (const char* op : {"Variable", "VariableV2", "VarHandleOp"})
    rules.add(op, {.make = variable, .folding = onnx::Folding::kNever, .variable = true});
  for (const char* op : {"IsVariableInitialized", "VarIsInitializedOp"})
    rules.add(op, is_initialized);
  rules.add("VariableShape", shape_of_variable);
  Adding adding(rules);
  adding.assigning("Assign", assign, false);
  adding.assigning("AssignAdd", assign_add, false);
  adding.assigning("AssignSub", assign_sub, false);
  adding.assigning("AssignVariableOp", assign, true);
  adding.assigning("AssignAddVariableOp", assign_add, true);
  adding.assigning("AssignSubVariableOp", assign_sub, true);
  adding.assigning("ScatterAdd", scatter_add_rows, false);
  adding.assigning("ScatterSub", scatter_sub_rows, false);
  adding.assigning("ResourceScatterAdd", scatter_add_rows, true);
  adding.assigning("ResourceScatterSub", scatter_sub_rows, true);
  adding.assigning("ScatterUpdate", scatter_update_rows, false);
  adding.assigning("ResourceScatterUpdate", scatter_update_rows, true);
  adding.optimizer("GradientDescent", gradient_descent, 1);
  adding.optimizer("Momentum", momentum, 2);
  adding.optimizer("Adam", adam, 3);
  adding.optimizer("RMSProp", rms_prop, 3);
  adding.optimizer("Adagrad", adagrad, 2);
  adding.optimizer("Adadelta", adadelta, 3);
  adding.optimizer("CenteredRMSProp", centered_rms_prop, 4);
  adding.optimizer("AdaMax", ada_max, 3);
  adding.optimizer("Ftrl", ftrl, 3);
  adding.assigning("ResourceApplyKerasMomentum", keras_momentum, true, 2);
}

}  // namespace keel::graphdef
