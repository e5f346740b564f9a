// Element-wise rules: how element-wise OpDefs are made: inference by broadcasting, reference by
// applying a rule to each element, samples of broadcasting shapes. What differs between ops (the
// rule, the gradient, the bound) is given by their families.
#ifndef KEEL_OPS_ELEMENTWISE_RULES_H
#define KEEL_OPS_ELEMENTWISE_RULES_H

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reference_loops.h"

namespace keel {

using GradientFunction = std::function<Values(const BuildContext&)>;
using DrawFunction = std::function<Tensor(SampleSource&, const Shape&)>;

// Returns the gradient of ops whose result does not change with small changes of the inputs.
inline Values no_gradient(const BuildContext& ctx) { return Values(ctx.inputs.size()); }

// out[i] = rule(a[i]) for inputs whose dtype is in kAllowed, computed in double or the integer
// type.
template <unsigned kAllowed, class Rule>
std::function<void(const ReferenceContext&)> unary_reference(Rule rule) {
  return [rule](const ReferenceContext& ctx) {
    visit_dtype(ctx.inputs[0].dtype(), [&]<class T>() {
      if constexpr (contains(kAllowed, dtype_of<T>)) {
        const T* in = ctx.inputs[0].data<T>().data();
        T* out = ctx.outputs[0].data<T>().data();
        for (int64_t i = 0; i < ctx.outputs[0].num_elements(); ++i)
          store(out, i, rule(load(in, i)));
      }
    });
  };
}

// out[i] = rule(a[i], b[i]), broadcast. A rule that gives bool makes a bool tensor.
template <unsigned kAllowed, class Rule>
std::function<void(const ReferenceContext&)> binary_reference(Rule rule) {
  return [rule](const ReferenceContext& ctx) {
    visit_dtype(ctx.inputs[0].dtype(), [&]<class T>() {
      if constexpr (contains(kAllowed, dtype_of<T>)) {
        using Result = decltype(rule(Computed<T>{}, Computed<T>{}));
        using Out = std::conditional_t<std::is_same_v<Result, bool>, bool, T>;
        const T* a = ctx.inputs[0].data<T>().data();
        const T* b = ctx.inputs[1].data<T>().data();
        Out* out = ctx.outputs[0].data<Out>().data();
        for_each_broadcast<2>(ctx.outputs[0].shape(),
                              {ctx.inputs[0].shape(), ctx.inputs[1].shape()},
                              [&](int64_t i, const auto& from) {
                                store(out, i, rule(load(a, from[0]), load(b, from[1])));
                              });
      }
    });
  };
}

// Inference for inputs of one dtype out of `allowed`; the result has it too, or is bool.
inline std::function<std::vector<Type>(const InferContext&)> elementwise_infer(
    unsigned allowed, bool gives_bool = false) {
  return [allowed, gives_bool](const InferContext& ctx) {
    ctx.require_same_dtype();
    require_dtypes(ctx, 0, allowed);
    return std::vector<Type>{{gives_bool ? boolean : ctx.inputs[0].dtype, broadcast_inputs(ctx)}};
  };
}

// Values from [low, high].
inline DrawFunction draw(double low, double high) {
  return [low, high](SampleSource& source, const Shape& shape) {
    return source.values(shape, low, high);
  };
}
// Values of either sign with a magnitude from [low, high]: away from a pole at 0. Integers are
// drawn from -high on.
inline DrawFunction draw_signed(double low, double high) {
  return [low, high](SampleSource& source, const Shape& shape) {
    if (!is_float(source.dtype())) return source.values(shape, -high, high);
    Tensor t = source.values(shape, low, high);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if (source.coin()) t.set(i, -t.at(i));
    }
    return t;
  };
}
// Values away from each other and from 0: for ops with kinks there.
inline DrawFunction draw_separated() {
  return [](SampleSource& source, const Shape& shape) { return source.separated_values(shape); };
}

inline std::function<Sample(SampleSource&)> unary_sample(const std::string& name, unsigned allowed,
                                                         DrawFunction draw_x) {
  return [name, allowed, draw_x = std::move(draw_x)](SampleSource& source) -> Sample {
    if (!contains(allowed, source.dtype())) return {};
    return {.inputs = {draw_x(source, source.shape(0, 4))},
            .build = [name](Graph&, const Values& v) -> Values {
              return {emit(name, {v[0]}, v[0].node().site())};
            }};
  };
}

// Two inputs that broadcast; either of them may be the smaller one.
inline std::function<Sample(SampleSource&)> binary_sample(const std::string& name, unsigned allowed,
                                                          DrawFunction draw_a,
                                                          DrawFunction draw_b) {
  return [name, allowed, draw_a = std::move(draw_a),
          draw_b = std::move(draw_b)](SampleSource& source) -> Sample {
    if (!contains(allowed, source.dtype())) return {};
    Shape a = source.shape(0, 4);
    Shape b = source.broadcastable_to(a);
    if (source.coin()) std::swap(a, b);
    Tensor first = draw_a(source, a);
    Tensor second = draw_b(source, b);
    return {.inputs = {std::move(first), std::move(second)},
            .build = [name](Graph&, const Values& v) -> Values {
              return {emit(name, {v[0], v[1]}, v[0].node().site())};
            }};
  };
}

// Holds what one element-wise op has beside its rule.
struct ElementwiseSpec {
  std::string name;
  std::string summary;
  GradientFunction gradient = no_gradient;
  bool commutes = false;
  bool cheap = false;                  // kCheap
  std::optional<double> neutral = {};  // OpDef::neutral
  OpRole role = OpRole::kNone;
  MixClass mix_class = MixClass::kGray;
  ErrorBound bound = {};
  DrawFunction draw_a = draw(-2, 2);
  DrawFunction draw_b = draw(-2, 2);
  std::function<Values(const BuildContext&)> decompose = {};  // empty: a primitive

  uint32_t traits() const {
    return kElementwise | (commutes ? uint32_t{kCommutes} : 0) | (cheap ? uint32_t{kCheap} : 0);
  }
};

// `sample` replaces the one that draw_a makes.
template <unsigned kAllowed, class Rule>
void add_unary(OpTable& table, ElementwiseSpec spec, Rule rule,
               std::function<Sample(SampleSource&)> sample = nullptr) {
  OpDef op;
  op.name = spec.name;
  op.summary = spec.summary;
  op.input_names = {"x"};
  op.infer = elementwise_infer(kAllowed);
  op.reference = unary_reference<kAllowed>(rule);
  op.gradient = std::move(spec.gradient);
  op.decompose = std::move(spec.decompose);
  op.traits = spec.traits();
  op.mix_class = spec.mix_class;
  op.bound = spec.bound;
  op.sample = sample != nullptr ? std::move(sample)
                                : unary_sample(spec.name, kAllowed, std::move(spec.draw_a));
  table.add(std::move(op));
}

// `sample` replaces the one that draw_a and draw_b make.
template <unsigned kAllowed, class Rule>
void add_binary(OpTable& table, ElementwiseSpec spec, Rule rule,
                std::function<Sample(SampleSource&)> sample = nullptr) {
  OpDef op;
  op.name = spec.name;
  op.summary = spec.summary;
  op.input_names = {"a", "b"};
  using Element = std::conditional_t<kAllowed == kBools, bool, double>;
  op.infer =
      elementwise_infer(kAllowed, std::is_same_v<decltype(rule(Element{}, Element{})), bool>);
  op.reference = binary_reference<kAllowed>(rule);
  op.gradient = std::move(spec.gradient);
  op.decompose = std::move(spec.decompose);
  op.traits = spec.traits();
  op.mix_class = spec.mix_class;
  op.neutral = spec.neutral;
  op.role = spec.role;
  op.bound = spec.bound;
  op.sample = sample != nullptr ? std::move(sample)
                                : binary_sample(spec.name, kAllowed, std::move(spec.draw_a),
                                                std::move(spec.draw_b));
  table.add(std::move(op));
}

}  // namespace keel

#endif  // KEEL_OPS_ELEMENTWISE_RULES_H
