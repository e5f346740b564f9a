// The training ops: gradients, and the updates of three optimizers.
#include <string>

#include "keel/graph/autodiff/gradient.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/reduce.h"

namespace keel::onnx {
namespace {

constexpr const char* kDomain = "ai.onnx.preview.training";

// The inputs of an optimizer: its rate, how often it was applied, and then, one list behind the
// other, the tensors, their gradients and what it remembers of each.
struct Update {
  Value rate, count;
  std::vector<Values> lists;
};

Update update_of(NodeContext& c, size_t lists) {
  if (c.inputs() < 2 || (c.inputs() - 2) % lists != 0)
    c.refuse("its inputs are not a rate, a count and " + std::to_string(lists) + " lists");
  const size_t each = (c.inputs() - 2) / lists;
  Update update{c.in(0), cast(c.in(1), c.in(0).dtype({}), {}), {}};
  for (size_t list = 0; list < lists; ++list) {
    update.lists.emplace_back();
    for (size_t i = 0; i < each; ++i) update.lists.back().push_back(c.in(2 + list * each + i));
  }
  return update;
}

// Puts the results of each tensor behind those of the others, list by list.
Values by_lists(const std::vector<Values>& of_tensors) {
  Values results;
  for (size_t list = 0; !of_tensors.empty() && list < of_tensors[0].size(); ++list)
    for (const Values& of_tensor : of_tensors) results.push_back(of_tensor[list]);
  return results;
}

// The gradient with a share of the tensor added, which makes it smaller.
Value decayed(const Value& gradient, const Value& x, double share) {
  return share == 0 ? gradient : add(gradient, mul(x, share, {}), {});
}

Values adagrad(NodeContext& c) {
  const double decay = c.attribute("decay_factor", 0.0), epsilon = c.attribute("epsilon", 1e-6);
  const double share = c.attribute("norm_coefficient", 0.0);
  const Update u = update_of(c, 3);
  const Value rate = div(u.rate, add(mul(u.count, decay, {}), 1.0, {}), {});
  std::vector<Values> results;
  for (size_t i = 0; i < u.lists[0].size(); ++i) {
    const Value& x = u.lists[0][i];
    const Value gradient = decayed(u.lists[1][i], x, share);
    const Value squares = add(u.lists[2][i], square(gradient, {}), {});
    const Value step = div(gradient, add(sqrt(squares, {}), epsilon, {}), {});
    results.push_back({sub(x, mul(rate, step, {}), {}), squares});
  }
  return by_lists(results);
}

Values adam(NodeContext& c) {
  const double alpha = c.attribute("alpha", 0.9), beta = c.attribute("beta", 0.999);
  const double epsilon = c.attribute("epsilon", 1e-6);
  const double share = c.attribute("norm_coefficient", 0.0);
  const double share_after = c.attribute("norm_coefficient_post", 0.0);
  const Update u = update_of(c, 4);
  const DType dtype = u.rate.dtype({});
  const auto power = [&](double base) {
    return pow(Operand(c.result(Tensor::full(dtype, {}, base))), u.count, {});
  };
  const Value corrected =
      div(mul(u.rate, sqrt(sub(1.0, power(beta), {}), {}), {}), sub(1.0, power(alpha), {}), {});
  const Value rate = select(greater(u.count, 0.0, {}), corrected, u.rate, {});
  std::vector<Values> results;
  for (size_t i = 0; i < u.lists[0].size(); ++i) {
    const Value& x = u.lists[0][i];
    const Value gradient = decayed(u.lists[1][i], x, share);
    const Value first = add(mul(u.lists[2][i], alpha, {}), mul(gradient, 1 - alpha, {}), {});
    const Value second =
        add(mul(u.lists[3][i], beta, {}), mul(square(gradient, {}), 1 - beta, {}), {});
    const Value step = div(first, add(sqrt(second, {}), epsilon, {}), {});
    results.push_back({mul(sub(x, mul(rate, step, {}), {}), 1 - share_after, {}), first, second});
  }
  return by_lists(results);
}

Values momentum(NodeContext& c) {
  const double alpha = c.attribute("alpha", 0.9), beta = c.attribute("beta", 1.0);
  const double share = c.attribute("norm_coefficient", 0.0);
  const std::string mode = c.attribute("mode", "standard");
  if (mode != "standard" && mode != "nesterov") c.refuse("its mode is '" + mode + "'");
  const Update u = update_of(c, 3);
  const Value one = c.result(Tensor::full(u.rate.dtype({}), {}, 1));
  const Value factor = select(greater(u.count, 0.0, {}), mul(one, beta, {}), one, {});
  std::vector<Values> results;
  for (size_t i = 0; i < u.lists[0].size(); ++i) {
    const Value& x = u.lists[0][i];
    const Value gradient = decayed(u.lists[1][i], x, share);
    const Value velocity = add(mul(u.lists[2][i], alpha, {}), mul(gradient, factor, {}), {});
    const Value step = mode == "standard" ? velocity : add(gradient, mul(velocity, alpha, {}), {});
    results.push_back({sub(x, mul(u.rate, step, {}), {}), velocity});
  }
  return by_lists(results);
}

// d sum(y) / d x for each of the first inputs; the others are what is held fixed.
Values gradient_of(NodeContext& c) {
  const AttributeProto* names = c.find_attribute("xs");
  c.find_attribute("zs");
  if (names == nullptr || names->strings.size() > c.inputs()) c.refuse("it lacks its xs");
  Values xs;
  for (size_t i = 0; i < names->strings.size(); ++i) {
    // Results of constants alone are computed at import and depend on nothing any more.
    if (c.is_constant(i)) c.refuse("it is by a constant, '" + c.node().inputs[i] + "'");
    xs.push_back(c.in(i));
  }
  const Value y = c.value_named(c.attribute("y", ""));
  return gradients(y.shape({}).rank() == 0 ? y : sum(y, {}, false, {}), xs, {});
}

}  // namespace

void register_import_training(ImportRules& rules) {
  rules.add(kDomain, "Adagrad", adagrad);
  rules.add(kDomain, "Adam", adam);
  rules.add(kDomain, "Momentum", momentum);
  rules.add(kDomain, "Gradient", gradient_of);
}

}  // namespace keel::onnx
