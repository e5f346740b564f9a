#include "keel/ops/nn/layers.h"

#include <tuple>

#include "keel/ops/composed/losses.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/in_name_of.h"
#include "keel/ops/nn/layer_errors.h"
#include "keel/ops/random.h"

namespace keel {
namespace {

void require_rank_and_features(const Type& type, CallSite site) {
  if (type.shape.rank() >= 2 && type.shape.back() >= 0) return;
  refuse_argument("dense", "x", "shape [..., features] with a known number of features",
                  to_string(type.shape), site);
}

[[noreturn]] void refuse_empty_layer(const std::string& op, size_t place, CallSite site) {
  throw Error({.op = op,
               .argument = "layer " + std::to_string(place),
               .expected = "a function",
               .got = "none",
               .fix = "give it a module, a function such as relu, or a lambda",
               .site = site});
}

}  // namespace

Dense::Dense(const Scope& scope, int64_t features, int64_t units, const DenseOptions& options)
    : Module(scope) {
  require_size("dense", scope, "features", features);
  require_size("dense", scope, "units", units);
  require_float("dense", scope, options.dtype);
  std::tie(weight_, bias_) = make_weight_and_bias(
      "dense", scope, {options.weight_name, options.weights, {options.dtype, {features, units}}},
      {options.bias_name, options.bias, {options.dtype, {units}}}, options.use_bias);
}

Value Dense::operator()(Operand x, CallSite site) const {
  const CallSite line = site.known() ? site : x.site();
  const std::string op = layer_title("dense", scope());
  const Value input = require_own(op, graph(), x, "x", line);
  const Type& type = input.type();
  const int64_t features = weight_.shape()[0];
  const bool fits = type.dtype == weight_.dtype() && type.shape.rank() >= 2 &&
                    (type.shape.back() < 0 || type.shape.back() == features);
  if (!fits) {
    refuse_argument(
        op, "x",
        std::string(name_of(weight_.dtype())) + "[batch, ..., " + std::to_string(features) + "]",
        to_string(type), line);
  }
  const LabelScope here = open_scope();
  const Value product = matmul(x, Operand(weight_, line), {}, line);
  return bias_.valid() ? add(product, bias_, line) : product;
}

Dropout::Dropout(const Scope& scope, double rate) : Module(scope), rate_(rate) {
  require_rate(scope, rate);
}

Value Dropout::operator()(Operand x, Mode mode, CallSite site) const {
  const LabelScope here = open_scope();
  return in_name_of({layer_title("dropout", scope()), {}, "dropout"},
                    [&] { return dropout(x, rate_, mode == Mode::kTraining, site); });
}

void Sequential::append(Layer layer) {
  if (layer.empty()) refuse_empty_layer(layer_title("sequential", scope()), size(), scope().site());
  layers_.push_back(std::move(layer));
}

Value Sequential::operator()(Operand x, Mode mode, CallSite site) const {
  const CallSite line = site.known() ? site : x.site();
  Value value = require_value(x, layer_title("sequential", scope()).c_str(), "x", line);
  const LabelScope here = open_scope();
  for (const Layer& layer : layers_) value = layer(value, mode, line);
  return value;
}

void Residual::set(Layer f, Layer shortcut) {
  if (f.empty()) refuse_empty_layer(layer_title("residual", scope()), 0, scope().site());
  f_ = std::move(f);
  shortcut_ = std::move(shortcut);
}

Value Residual::operator()(Operand x, Mode mode, CallSite site) const {
  const CallSite line = site.known() ? site : x.site();
  const std::string op = layer_title("residual", scope());
  const Value input = require_value(x, op.c_str(), "x", line);
  const LabelScope here = open_scope();
  const Value changed = f_(input, mode, line);
  const Value kept = shortcut_.empty() ? input : shortcut_(input, mode, line);
  const Operand around(kept, line);
  return add(around, same_shape(op.c_str(), around, "f(x)", Operand(changed, line), line), line);
}

Value dense(Operand x, int64_t units, const NamedDenseOptions& options, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const Value input = require_value(x, "dense", "x", line);
  input.graph().require_open("dense", "x", input, line);
  const Type type = input.type();
  if (!is_float(type.dtype))
    refuse_argument("dense", "x", "a float dtype (convert it with cast)", name_of(type.dtype),
                    line);
  require_rank_and_features(type, line);
  const Scope root(input.graph(), "", '/', line);
  std::string name = options.name;
  for (int i = 0; name.empty(); ++i) {
    const std::string tried = i == 0 ? "dense" : "dense_" + std::to_string(i);
    if (!root.graph().find_state(tried + "/w").valid()) name = tried;
  }
  const Dense layer(root / name, type.shape.back(), units,
                    {.use_bias = options.use_bias,
                     .weights = options.weights,
                     .bias = options.bias,
                     .dtype = type.dtype,
                     .weight_name = "w",
                     .bias_name = "b"});
  return layer(x, line);
}

Layer dense_layer(int64_t units, NamedDenseOptions options) {
  return [units, options = std::move(options)](Value x, CallSite line) {
    return dense(x, units, options, line);
  };
}

Layer dropout_layer(double rate, bool training) {
  return [rate, training](Value x, CallSite line) { return dropout(x, rate, training, line); };
}

Layer activation(Value (*function)(Operand, CallSite)) { return function; }

Value sequential(Operand x, const std::vector<Layer>& layers, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  Value value = require_value(x, "sequential", "x", line);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].empty()) refuse_empty_layer("sequential", i, line);
    value = layers[i](value, Mode::kTraining, line);
  }
  return value;
}

}  // namespace keel
