#include "keel/ops/nn/layer_errors.h"

#include "keel/core/base/printable.h"
#include "keel/graph/ir/initializer.h"
#include "keel/ops/norm_epsilon.h"

namespace keel {
namespace {

Initializer initializer_of(const char* layer, const Scope& scope, const NewParameter& wanted) {
  const auto refuse = [&](const std::string& expected, const std::string& got, const char* fix) {
    throw Error({.op = layer_title(layer, scope),
                 .argument = wanted.name,
                 .expected = expected,
                 .got = got,
                 .fix = fix,
                 .site = scope.site()});
  };
  if (wanted.function == nullptr)
    refuse("a function that gives an initializer", "none", "give it one such as zeros");
  Initializer init = wanted.function(wanted.type.shape, wanted.type.dtype);
  if (init.type != wanted.type)
    refuse("an initializer of " + to_string(wanted.type), "one of " + to_string(init.type),
           "make it for the shape and the dtype that the function is called with");
  try {
    require_initializer(init.kind, init.type.dtype, init.a, init.b);
  } catch (const Error& error) {
    throw error.with_site(scope.site())
        .with_context(layer_title(layer, scope) + ": " + wanted.name);
  }
  return init;
}

}  // namespace

std::string layer_title(const char* layer, const Scope& scope) {
  return scope.path().empty() ? layer : std::string(layer) + " " + scope.path();
}

void refuse_argument(const std::string& layer, const std::string& argument,
                     const std::string& expected, const std::string& got, CallSite site) {
  throw Error({.op = layer, .argument = argument, .expected = expected, .got = got, .site = site});
}

void require_size(const char* layer, const Scope& scope, const char* argument, int64_t size) {
  if (size >= 1) return;
  refuse_argument(layer_title(layer, scope), argument, "at least 1", std::to_string(size),
                  scope.site());
}

void require_float(const char* layer, const Scope& scope, DType dtype) {
  if (is_float(dtype)) return;
  refuse_argument(layer_title(layer, scope), "dtype", "a float dtype", name_of(dtype),
                  scope.site());
}

void require_epsilon(const char* layer, const Scope& scope, double epsilon, DType dtype) {
  const std::string expected = expected_of_epsilon(epsilon, dtype);
  if (expected.empty()) return;
  refuse_argument(layer_title(layer, scope), "epsilon", expected, printable(epsilon), scope.site());
}

void require_rate(const Scope& scope, double rate) {
  if (rate >= 0 && rate < 1) return;
  refuse_argument(layer_title("dropout", scope), "rate", "a number in [0, 1)", printable(rate),
                  scope.site());
}

std::pair<Value, Value> make_weight_and_bias(const char* layer, const Scope& scope,
                                             const NewParameter& weight, const NewParameter& bias,
                                             bool use_bias) {
  const Initializer of_weight = initializer_of(layer, scope, weight);
  if (!use_bias) return {scope.parameter(weight.name, of_weight), {}};
  const Initializer of_bias = initializer_of(layer, scope, bias);
  const Value made = scope.parameter(weight.name, of_weight);
  return {made, scope.parameter(bias.name, of_bias)};
}

void require_groups(const char* layer, const Scope& scope, int64_t groups, int64_t in,
                    int64_t out) {
  require_size(layer, scope, "groups", groups);
  if (in % groups == 0 && out % groups == 0) return;
  const std::string channels =
      in == out ? std::to_string(in) : std::to_string(in) + " and " + std::to_string(out);
  refuse_argument(layer_title(layer, scope), "groups", "a number that divides " + channels,
                  std::to_string(groups), scope.site());
}

std::vector<int64_t> height_and_width(const char* layer, const Scope& scope, const char* argument,
                                      std::vector<int64_t> list) {
  if (list.size() == 1) list.push_back(list[0]);
  if (list.size() != 2) {
    refuse_argument(layer_title(layer, scope), argument, "a height and a width",
                    std::to_string(list.size()) + " numbers", scope.site());
  }
  for (const int64_t size : list) require_size(layer, scope, argument, size);
  return list;
}

Value require_own(const std::string& layer, const Graph& graph, const Operand& x,
                  const char* argument, CallSite site) {
  const Value input = require_value(x, layer.c_str(), argument, site);
  input.graph().require_open(layer, argument, input, site);
  if (&root_of(input.graph()) == &graph) return input;
  throw Error({.op = layer,
               .argument = argument,
               .expected = "a value of the graph that the layer was made in",
               .got = described(input) + " of another graph" + made_at(input),
               .fix = "build both in one graph; a function of a pipeline has no layers with states",
               .site = site});
}

Value require_input(const std::string& layer, const Graph& graph, const Operand& x, DType dtype,
                    size_t rank, int64_t axis, int64_t size, CallSite site) {
  const Value input = require_own(layer, graph, x, "x", site);
  const Type& type = input.type();
  const auto place = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  if (type.dtype == dtype && type.shape.rank() == rank &&
      (type.shape[place] < 0 || type.shape[place] == size)) {
    return input;
  }
  refuse_argument(layer, "x",
                  std::string(name_of(dtype)) + " of rank " + std::to_string(rank) + " with " +
                      std::to_string(size) + " along axis " + std::to_string(axis),
                  to_string(type), site);
}

}  // namespace keel
