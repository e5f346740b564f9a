// Conversion, choice and clamping.
#include "keel/ops/elementwise.h"

#include "keel/ops/elementwise_rules.h"
#include "keel/ops/reduce.h"
#include "keel/ops/scalar_rules.h"

namespace keel {
namespace {

std::vector<Type> infer_cast(const InferContext& ctx) {
  require_dtypes(ctx, 0, kAnyDType);
  const DType to = ctx.as<CastAttributes>().dtype;
  if (!contains(kAnyDType, to)) ctx.fail("dtype", describe_dtypes(kAnyDType), name_of(to));
  return {{to, ctx.inputs[0].shape}};
}

void reference_cast(const ReferenceContext& ctx) {
  const Tensor& in = ctx.inputs[0];
  Tensor& out = ctx.outputs[0];
  visit_dtype(in.dtype(), [&]<class From>() {
    visit_dtype(out.dtype(), [&]<class To>() {
      const auto from = in.data<From>();
      const auto to = out.data<To>();
      for (size_t i = 0; i < from.size(); ++i) to[i] = convert_element<To>(from[i]);
    });
  });
}

Values cast_gradient(const BuildContext& ctx) {
  const DType from = ctx.inputs[0].dtype();
  if (!is_float(from)) return {Value()};
  return {cast(ctx.output_gradients[0], from, ctx.site)};
}

Sample sample_cast(SampleSource& source) {
  const DType from = source.dtype();
  const DType to = source.pick<DType>({std::begin(kDTypes), std::end(kDTypes)});
  // Beyond the ranges of u8 and f16 too, where the target's rules for that are the point. A
  // gradient through a narrower float would be that of a staircase.
  const bool smooth = is_float(from) && size_of(to) < size_of(from);
  Tensor x = source.coin() ? source.values(source.shape(0, 4), -300, 300)
                           : source.values(source.shape(0, 4), -2, 2);
  return {.inputs = {std::move(x)},
          .build = [to](Graph&, const Values& v) -> Values {
            return {emit("cast", {v[0]}, Attributes::of(CastAttributes{to}), v[0].node().site())};
          },
          .differentiable = {is_float(from) && !smooth && is_float(to)}};
}

std::vector<Type> infer_select(const InferContext& ctx) {
  require_dtypes(ctx, 0, kBools);
  require_dtypes(ctx, 1, kAnyDType);
  if (ctx.inputs[1].dtype != ctx.inputs[2].dtype) {
    ctx.fail("b", name_of(ctx.inputs[1].dtype) + std::string(" like a"),
             name_of(ctx.inputs[2].dtype),
             "there is no silent promotion: convert one side with cast(x, dtype)");
  }
  return {{ctx.inputs[1].dtype, broadcast_inputs(ctx)}};
}

void reference_select(const ReferenceContext& ctx) {
  visit_dtype(ctx.outputs[0].dtype(), [&]<class T>() {
    const bool* predicate = ctx.inputs[0].data<bool>().data();
    const T* a = ctx.inputs[1].data<T>().data();
    const T* b = ctx.inputs[2].data<T>().data();
    T* out = ctx.outputs[0].data<T>().data();
    for_each_broadcast<3>(ctx.outputs[0].shape(),
                          {ctx.inputs[0].shape(), ctx.inputs[1].shape(), ctx.inputs[2].shape()},
                          [&](int64_t i, const auto& from) {
                            out[i] = predicate[from[0]] ? a[from[1]] : b[from[2]];
                          });
  });
}

Values select_gradient(const BuildContext& ctx) {
  const Value& predicate = ctx.inputs[0];
  const Value& g = ctx.output_gradients[0];
  if (!is_float(ctx.inputs[1].dtype())) return Values(3);
  return {Value(), sum_to_shape(select(predicate, g, 0, ctx.site), ctx.inputs[1].shape(), ctx.site),
          sum_to_shape(select(predicate, 0, g, ctx.site), ctx.inputs[2].shape(), ctx.site)};
}

Sample sample_select(SampleSource& source) {
  const Shape full = source.shape(0, 4);
  std::vector<Shape> shapes{full, source.broadcastable_to(full), source.broadcastable_to(full)};
  std::swap(shapes[0], shapes[static_cast<size_t>(source.integer(0, 2))]);
  Tensor predicate = source.values(boolean, shapes[0], 0, 1);
  Tensor a = source.values(shapes[1]);
  Tensor b = source.values(shapes[2]);
  return {.inputs = {std::move(predicate), std::move(a), std::move(b)},
          .build = [](Graph&, const Values& v) -> Values {
            return {emit("select", {v[0], v[1], v[2]}, v[0].node().site())};
          }};
}

void reference_clamp(const ReferenceContext& ctx) {
  visit_dtype(ctx.outputs[0].dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      const T* x = ctx.inputs[0].data<T>().data();
      const T* low = ctx.inputs[1].data<T>().data();
      const T* high = ctx.inputs[2].data<T>().data();
      T* out = ctx.outputs[0].data<T>().data();
      for_each_broadcast<3>(ctx.outputs[0].shape(),
                            {ctx.inputs[0].shape(), ctx.inputs[1].shape(), ctx.inputs[2].shape()},
                            [&](int64_t i, const auto& from) {
                              const auto raised =
                                  scalar::maximum(load(x, from[0]), load(low, from[1]));
                              store(out, i, scalar::minimum(raised, load(high, from[2])));
                            });
    }
  });
}

// x gets the gradient inside the closed range, the limits where they decide.
Values clamp_gradient(const BuildContext& ctx) {
  const CallSite site = ctx.site;
  const Value &x = ctx.inputs[0], &low = ctx.inputs[1], &high = ctx.inputs[2],
              &g = ctx.output_gradients[0];
  const Value below_high = less_equal(maximum(x, low, site), high, site);
  const Value inside = logical_and(greater_equal(x, low, site), below_high, site);
  const Value raised = logical_and(less(x, low, site), below_high, site);
  const Value cut = greater(maximum(x, low, site), high, site);
  const auto where_only = [&](const Value& mask, const Value& input) {
    return sum_to_shape(select(mask, g, 0, site), input.shape(), site);
  };
  return {where_only(inside, x), where_only(raised, low), where_only(cut, high)};
}

Sample sample_clamp(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const Shape full = source.shape(0, 4);
  Tensor x = source.separated_values(full);
  // The limits lie between the multiples of 1/16 (or of 1) that separated_values gives.
  const bool fractions = is_float(source.dtype());
  Tensor low =
      Tensor::full(source.dtype(), source.broadcastable_to(full), fractions ? -0.28125 : 1);
  Tensor high =
      Tensor::full(source.dtype(), source.broadcastable_to(full), fractions ? 0.40625 : 3);
  return {.inputs = {std::move(x), std::move(low), std::move(high)},
          .build = [](Graph&, const Values& v) -> Values {
            return {emit("clamp", {v[0], v[1], v[2]}, v[0].node().site())};
          }};
}

OpDef make_stop_gradient() {
  OpDef op;
  op.name = "stop_gradient";
  op.summary = "x itself; no gradient flows through it";
  op.input_names = {"x"};
  op.infer = elementwise_infer(kAnyDType);
  op.reference = unary_reference<kAnyDType>([](auto x) { return x; });
  op.gradient = no_gradient;
  op.traits = kElementwise | kView;
  op.role = OpRole::kStopGradient;
  // Differentiating here would compare with differences, which see through it.
  op.sample = [](SampleSource& source) -> Sample {
    return {.inputs = {source.values(source.shape(0, 4))},
            .build = [](Graph&, const Values& v) -> Values { return {stop_gradient(v[0])}; },
            .differentiable = {false}};
  };
  return op;
}

}  // namespace

void register_elementwise(OpTable& table) {
  table.add({.name = "cast",
             .summary = "each element converted to another dtype",
             .input_names = {"x"},
             .attributes = &attributes_schema<CastAttributes>(),
             .infer = infer_cast,
             .reference = reference_cast,
             .gradient = cast_gradient,
             .traits = kElementwise | kConversion,
             .sample = sample_cast});
  table.add({.name = "select",
             .summary = "a where the predicate holds, else b",
             .input_names = {"predicate", "a", "b"},
             .infer = infer_select,
             .reference = reference_select,
             .gradient = select_gradient,
             .traits = kElementwise | kCheap,
             .role = OpRole::kSelect,
             .sample = sample_select});
  table.add({.name = "clamp",
             .summary = "minimum(maximum(x, low), high)",
             .input_names = {"x", "low", "high"},
             .infer = elementwise_infer(kNumbers),
             .reference = reference_clamp,
             .gradient = clamp_gradient,
             .decompose = [](const BuildContext& ctx) -> Values {
               const Value raised = maximum(ctx.inputs[0], ctx.inputs[1], ctx.site);
               return {minimum(raised, ctx.inputs[2], ctx.site)};
             },
             .traits = kElementwise,
             .sample = sample_clamp});
  table.add(make_stop_gradient());
}

Value cast(Operand x, DType dtype, CallSite site) {
  if (!x.is_literal() && x.value().dtype() == dtype) return x.value();
  return emit("cast", {x}, Attributes::of(CastAttributes{dtype}), site);
}
Value select(Operand predicate, Operand a, Operand b, CallSite site) {
  return emit("select", {predicate, a, b}, site);
}
Value clamp(Operand x, Operand low, Operand high, CallSite site) {
  return emit("clamp", {x, low, high}, site);
}
Value stop_gradient(Operand x, CallSite site) { return emit("stop_gradient", {x}, site); }

}  // namespace keel
