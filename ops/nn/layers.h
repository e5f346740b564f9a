// Layers: modules (module.h) of one op or a few. Sizes are given where a layer is made, so that its
// states exist, and can be listed, loaded and put into groups, before it is called.
//
//   const Dense hidden(Scope(g) / "hidden", 784, 512);   // "hidden.weight", "hidden.bias"
//   auto h = relu(hidden(x));
// or
//   Sequential model(Scope(g) / "model");
//   model.add<Dense>(784, 512).add(relu).add<Dropout>(0.2).add<Dense>(512, 10);
//   auto loss = cross_entropy(model(x, Mode::kTraining), labels);
//   auto test = accuracy(model(x, Mode::kEvaluation), labels);
// or, for a layer that is called once, in one line with the size of its input taken from x,
//   auto h      = relu(dense(x, 512, {.name = "hidden"}));   // "hidden/w", "hidden/b"
//   auto logits = dense(h, 10, {.name = "logits"});
#ifndef KEEL_OPS_NN_LAYERS_H
#define KEEL_OPS_NN_LAYERS_H

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/module.h"

namespace keel {

struct DenseOptions {
  bool use_bias = true;
  InitializerFunction weights = glorot_uniform;
  InitializerFunction bias = zeros;
  DType dtype = f32;
  // Under the layer's path; others for models whose saved files have others.
  std::string weight_name = "weight";
  std::string bias_name = "bias";
};

// matmul(x, weight) + bias, for x of shape [batch, ..., features]: [batch, ..., units].
class KEEL_API Dense : public Module {
 public:
  // Makes the parameters "weight" [features, units] and "bias" [units]. Throws Error for sizes < 1
  // and a dtype that is no float.
  Dense(const Scope& scope, int64_t features, int64_t units, const DenseOptions& options = {});

  // Throws Error for x without that many features, or of another dtype.
  Value operator()(Operand x, CallSite site = {}) const;

  Value weight() const noexcept { return weight_; }
  Value bias() const noexcept { return bias_; }  // not valid without one

 private:
  Value weight_, bias_;
};

// Dropout: in training each element is 0 with probability `rate`, else divided by 1 - rate, with a
// new mask at each call and step; in evaluation x itself.
class KEEL_API Dropout : public Module {
 public:
  // Throws Error for a rate outside [0, 1).
  Dropout(const Scope& scope, double rate);
  Value operator()(Operand x, Mode mode, CallSite site = {}) const;

 private:
  double rate_;
};

// A layer that is called in one way only: a function, or an object with one operator(), which is no
// template.
template <class L>
concept CalledInOneWay = std::is_pointer_v<L> || requires {
  &L::operator();
};

template <class L>
concept LayerFunction = std::is_invocable_v<const L&, Value, Mode, CallSite> ||
    std::is_invocable_v<const L&, Value, Mode> || std::is_invocable_v<const L&, Value, CallSite> ||
    std::is_invocable_v<const L&, Value>;

// Any layer: a module or a function such as relu, called with a value, the mode where it takes one,
// be it with a default, and the user's line where it takes that.
class Layer {
 public:
  Layer(std::nullptr_t) {}
  template <LayerFunction L>
  requires(!std::same_as<L, Layer>) Layer(L layer) {
    if constexpr (std::is_constructible_v<L, std::nullptr_t>) {
      if (layer == nullptr) return;
    }
    call_ = [layer = std::move(layer)](Value x, Mode mode, CallSite site) -> Value {
      if constexpr (std::is_invocable_v<const L&, Value, Mode, CallSite>)
        return layer(x, mode, site);
      else if constexpr (std::is_invocable_v<const L&, Value, Mode>)
        return layer(input_of<L, Mode>(x, site), mode);
      else if constexpr (std::is_invocable_v<const L&, Value, CallSite>)
        return layer(x, site);
      else
        return layer(input_of<L>(x, site));
    };
  }

  bool empty() const noexcept { return call_ == nullptr; }
  // REQUIRES one that is not empty.
  Value operator()(Value x, Mode mode, CallSite site) const { return call_(x, mode, site); }

 private:
  // An Operand that is made here brings the user's line to a layer that does not take it by itself.
  // Others get the Value: a generic lambda may ask it for its shape.
  template <class L, class... More>
  static auto input_of(Value x, CallSite site) {
    if constexpr (CalledInOneWay<L>) {
      if constexpr (std::is_invocable_v<const L&, Operand, More...>)
        return Operand(x, site);
      else
        return x;
    } else {
      return x;
    }
  }

  std::function<Value(Value, Mode, CallSite)> call_;
};

// One layer after the other. Those that add() makes have the paths "0", "1", ... by their place.
class KEEL_API Sequential : public Module {
 public:
  explicit Sequential(const Scope& scope) : Module(scope) {}

  // Adds a layer of the type L, made here from a scope and these arguments.
  template <std::derived_from<Module> L, class... Arguments>
  Sequential& add(Arguments&&... arguments) {
    layers_.emplace_back(L(next_scope(), std::forward<Arguments>(arguments)...));
    return *this;
  }
  // Adds a function, or a layer that was made elsewhere, whose states are then shared. Throws Error
  // for an empty one, and for a module of another graph.
  template <class L>
  requires std::constructible_from<Layer, L> Sequential& add(L layer) {
    if constexpr (std::derived_from<L, Module>) share(layer);
    append(Layer(std::move(layer)));
    return *this;
  }

  size_t size() const noexcept { return layers_.size(); }
  Value operator()(Operand x, Mode mode, CallSite site = {}) const;

 private:
  Scope next_scope() const { return scope() / static_cast<int64_t>(layers_.size()); }
  void append(Layer layer);

  std::vector<Layer> layers_;
};

// x + f(x), the way around a layer; or shortcut(x) + f(x), where f changes the shape. What follows,
// such as relu, is a layer of its own.
//
//   Sequential f(scope / "f");
//   f.add<Conv2d>(16, 16, kernel).add<BatchNorm>(16).add(relu);
//   model.add(Residual(scope, f));
class KEEL_API Residual : public Module {
 public:
  // Takes a function, or a layer made elsewhere, whose states it shares. Throws Error for an empty
  // one, and for a module of another graph.
  template <class F>
  requires std::constructible_from<Layer, F> Residual(const Scope& scope, F f)
      : Residual(scope, std::move(f), nullptr) {}
  template <class F, class S>
  requires std::constructible_from<Layer, F> && std::constructible_from<Layer, S> Residual(
      const Scope& scope, F f, S shortcut)
      : Module(scope) {
    if constexpr (std::derived_from<F, Module>) share(f);
    if constexpr (std::derived_from<S, Module>) share(shortcut);
    set(Layer(std::move(f)), Layer(std::move(shortcut)));
  }

  // Throws Error where the two that are added differ in type.
  Value operator()(Operand x, Mode mode, CallSite site = {}) const;

 private:
  void set(Layer f, Layer shortcut);

  Layer f_ = nullptr;
  Layer shortcut_ = nullptr;
};

struct NamedDenseOptions {
  // Stands in front of the names of its states; empty: "dense", "dense_1", ... whichever is free.
  std::string name = {};
  bool use_bias = true;
  InitializerFunction weights = glorot_uniform;
  InitializerFunction bias = zeros;
};
// Makes a Dense for the features and the dtype of x, and calls it once. Its states are "<name>/w"
// and "<name>/b". Throws Error where the number of features is not known or a name is taken.
KEEL_API Value dense(Operand x, int64_t units, const NamedDenseOptions& options = {},
                     CallSite site = {});

// Does the same for sequential(), which makes the states when it is called. Layers with a mode are
// called as in training.
KEEL_API Layer dense_layer(int64_t units, NamedDenseOptions options = {});
KEEL_API Layer dropout_layer(double rate, bool training = true);
// Makes a layer of an element-wise function such as relu or tanh.
KEEL_API Layer activation(Value (*function)(Operand, CallSite));
KEEL_API Value sequential(Operand x, const std::vector<Layer>& layers, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_NN_LAYERS_H
