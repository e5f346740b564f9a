#include "keel/ops/nn/layers.h"

#include <utility>

#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/random.h"

namespace keel {
namespace {

Graph& root_of(Graph& graph) {
  Graph* root = &graph;
  while (root->parent() != nullptr) root = root->parent();
  return *root;
}

std::string free_name(const Graph& graph, const std::string& wanted) {
  std::string name = wanted;
  for (int i = 1; graph.find_state(name + "/w").valid(); ++i)
    name = wanted + "_" + std::to_string(i);
  return name;
}

[[noreturn]] void fail(const std::string& argument, const std::string& expected,
                       const std::string& got, CallSite site) {
  throw Error(
      {.op = "dense", .argument = argument, .expected = expected, .got = got, .site = site});
}

}  // namespace

Value dense(Operand x, int64_t units, const DenseOptions& options, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const Value input = require_value(x, "dense", "x", line);
  input.graph().require_open("dense", "x", input, line);
  const Type type = input.type();
  if (!is_float(type.dtype))
    fail("x", "a float dtype (convert it with cast)", name_of(type.dtype), line);
  if (type.shape.rank() < 2 || type.shape.back() < 0) {
    fail("x", "shape [..., features] with a known number of features", to_string(type.shape), line);
  }
  if (units < 1) fail("units", "at least 1", std::to_string(units), line);

  Graph& root = root_of(input.graph());
  const std::string name = options.name.empty() ? free_name(root, "dense") : options.name;
  const Value w =
      root.state(name + "/w", options.weights({type.shape.back(), units}, type.dtype), {}, line);
  const Value product = matmul(x, Operand(w, line), {}, line);
  if (!options.use_bias) return product;
  const Value b = root.state(name + "/b", options.bias({units}, type.dtype), {}, line);
  return add(product, b, line);
}

Layer dense_layer(int64_t units, DenseOptions options) {
  return [units, options = std::move(options)](Value x, CallSite line) {
    return dense(x, units, options, line);
  };
}

Layer dropout_layer(double rate, bool training) {
  return [rate, training](Value x, CallSite line) { return dropout(x, rate, training, line); };
}

Layer activation(Value (*function)(Operand, CallSite)) {
  return [function](Value x, CallSite line) { return function(x, line); };
}

Value sequential(Operand x, const std::vector<Layer>& layers, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  Value value = require_value(x, "sequential", "x", line);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == nullptr) {
      throw Error({.op = "sequential",
                   .argument = "layer " + std::to_string(i),
                   .expected = "a function",
                   .got = "none",
                   .fix = "make it with dense_layer(), activation() or a lambda",
                   .site = line});
    }
    value = layers[i](value, line);
  }
  return value;
}

}  // namespace keel
