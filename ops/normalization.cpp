#include "keel/ops/normalization.h"

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/norm_epsilon.h"
#include "keel/ops/reduce.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/wide_floats.h"

namespace keel {

Value widened_for_norm(Value x, CallSite site) {
  return cast(Operand(x, site), x.dtype() == f64 ? f64 : f32, site);
}

Centred centred(Value x, const std::vector<int64_t>& axes, double epsilon, CallSite site) {
  // Where elements are far from 0, their mean may be off by more than they are apart. So the
  // distances are centred once more: their own mean is small, and so is its error.
  const Value first = mean(x, axes, true, site);
  const Value rough = sub(x, first, site);
  const Value distances = sub(rough, mean(rough, axes, true, site), site);
  const Value variance = mean(square(distances, site), axes, true, site);
  return {first, distances, variance, rsqrt(add(variance, epsilon, site), site)};
}

namespace {

std::vector<Type> infer_norm(const InferContext& c) {
  require_dtypes(c, 0, kFloats);
  c.require_same_dtype();
  c.require_rank(0, 1, Shape::kMaxRank);
  const double epsilon = c.as<NormOptions>().epsilon;
  const std::string of_epsilon = expected_of_epsilon(epsilon, c.inputs[0].dtype);
  if (!of_epsilon.empty()) c.fail("epsilon", of_epsilon, printable(epsilon));
  Shape shape = c.inputs[0].shape;
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const Shape& own = c.inputs[i].shape;
    const int64_t features = shape.back();
    const bool fits = own.rank() == 1 && (own[0] < 0 || features < 0 || own[0] == features);
    c.require(i, fits, "shape " + to_string(Shape{features}) + ", a number for each feature of x");
    if (features < 0) shape = shape.with_dim(shape.rank() - 1, own[0]);
  }
  return {{c.inputs[0].dtype, shape}};
}

// Normalises one row; without `centre` its mean counts as 0.
template <class T>
void normalise_row(const T* x, T* out, int64_t features, bool centre, double epsilon,
                   const T* scale, const T* offset) {
  const auto count = static_cast<double>(features);
  double average = 0, squares = 0;
  for (int64_t i = 0; centre && i < features; ++i) average += load(x, i) / count;
  for (int64_t i = 0; i < features; ++i) {
    const double distance = load(x, i) - average;
    squares += distance * distance / count;
  }
  const double root = std::sqrt(squares + epsilon);
  for (int64_t i = 0; i < features; ++i) {
    const double normal = (load(x, i) - average) / root;
    const double scaled = scale == nullptr ? normal : normal * load(scale, i);
    store(out, i, offset == nullptr ? scaled : scaled + load(offset, i));
  }
}

void reference_norm(const ReferenceContext& c, bool centre) {
  const Tensor& x = c.inputs[0];
  const int64_t features = x.shape().back();
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (is_float(dtype_of<T>)) {
      const auto own = [&](size_t i) -> const T* {
        return c.inputs.size() > i ? c.inputs[i].data<T>().data() : nullptr;
      };
      for (int64_t start = 0; start < x.num_elements(); start += features) {
        normalise_row(x.data<T>().data() + start, c.outputs[0].data<T>().data() + start, features,
                      centre, c.as<NormOptions>().epsilon, own(1), own(2));
      }
    }
  });
}

// Decompositions and gradients begin with these: rows less their mean or as they are, and 1 over
// their root mean square.
struct Rows {
  Value distances;
  Value inverse;
};

Rows layer_rows(const BuildContext& c) {
  const Centred x =
      centred(widened_for_norm(c.inputs[0], c.site), {-1}, c.as<NormOptions>().epsilon, c.site);
  return {x.distances, x.inverse};
}

Rows rms_rows(const BuildContext& c) {
  const Value x = widened_for_norm(c.inputs[0], c.site);
  const Value squares = mean(square(x, c.site), {-1}, true, c.site);
  return {x, rsqrt(add(squares, c.as<NormOptions>().epsilon, c.site), c.site)};
}

Values decompose_norm(const BuildContext& c, const Rows& rows) {
  const CallSite site = c.site;
  Value y = mul(rows.distances, rows.inverse, site);
  if (c.inputs.size() > 1) y = mul(y, widened_for_norm(c.inputs[1], site), site);
  if (c.inputs.size() > 2) y = add(y, widened_for_norm(c.inputs[2], site), site);
  return {narrowed(c, y)};
}

// With n = distances * inverse and g = dy * scale: dx = inverse * (g - n mean(g n)), less the mean
// of that, inverse * mean(g), where the mean of x was subtracted.
Values gradient_norm(const BuildContext& c, const Rows& rows, bool centre) {
  const CallSite site = c.site;
  const Value dy = widened_for_norm(c.output_gradients[0], site);
  const Value normal = mul(rows.distances, rows.inverse, site);
  Value g = dy;
  if (c.inputs.size() > 1) g = mul(g, widened_for_norm(c.inputs[1], site), site);
  const Value along = mean(mul(g, normal, site), {-1}, true, site);
  Value dx = sub(g, mul(normal, along, site), site);
  if (centre) dx = sub(dx, mean(g, {-1}, true, site), site);
  Values result{narrowed(c, mul(rows.inverse, dx, site))};
  if (c.inputs.size() > 1) {
    const Value share = sum_to_shape(mul(dy, normal, site), c.inputs[1].shape(), site);
    result.push_back(narrowed(c, share));
  }
  if (c.inputs.size() > 2) {
    result.push_back(narrowed(c, sum_to_shape(dy, c.inputs[2].shape(), site)));
  }
  return result;
}

// `parameters`: how many of scale and offset there may be.
std::function<Sample(SampleSource&)> sample_norm(std::string op, int64_t parameters) {
  return [op = std::move(op), parameters](SampleSource& source) -> Sample {
    if (!is_float(source.dtype())) return {};
    const Shape shape = source.shape(1, 4);
    std::vector<Tensor> inputs{source.separated_values(shape)};
    const int64_t given = source.integer(0, parameters);
    for (int64_t i = 0; i < given; ++i) inputs.push_back(source.values({shape.back()}));
    const NormOptions options{source.pick<double>({1e-5, 1e-3, 0.5})};
    return {inputs, [op, options](Graph&, const Values& in) {
              const std::vector<Operand> operands(in.begin(), in.end());
              return Values{emit(op, operands, Attributes::of(options), in[0].node().site())};
            }};
  };
}

}  // namespace

Value layer_norm(Operand x, NormOptions options, CallSite site) {
  return emit("layer_norm", {x}, Attributes::of(options), site);
}
Value layer_norm(Operand x, Operand scale, Operand offset, NormOptions options, CallSite site) {
  return emit("layer_norm", {x, scale, offset}, Attributes::of(options), site);
}
Value rms_norm(Operand x, NormOptions options, CallSite site) {
  return emit("rms_norm", {x}, Attributes::of(options), site);
}
Value rms_norm(Operand x, Operand scale, NormOptions options, CallSite site) {
  return emit("rms_norm", {x, scale}, Attributes::of(options), site);
}

void register_normalization(OpTable& table) {
  table.add(
      {.name = "layer_norm",
       .summary = "(x - mean(x)) / sqrt(var(x) + epsilon) along the last axis, scaled",
       .input_names = {"x", "scale", "offset"},
       .optional_inputs = 2,
       .attributes = &attributes_schema<NormOptions>(),
       .infer = infer_norm,
       .reference = [](const ReferenceContext& c) { reference_norm(c, true); },
       .gradient = [](const BuildContext& c) { return gradient_norm(c, layer_rows(c), true); },
       .decompose = [](const BuildContext& c) { return decompose_norm(c, layer_rows(c)); },
       .mix_class = MixClass::kBlack,
       .bound = {.ulps = 16, .k = 32},
       .sample = sample_norm("layer_norm", 2)});
  table.add({.name = "rms_norm",
             .summary = "x / sqrt(mean(x^2) + epsilon) along the last axis, scaled",
             .input_names = {"x", "scale"},
             .optional_inputs = 1,
             .attributes = &attributes_schema<NormOptions>(),
             .infer = infer_norm,
             .reference = [](const ReferenceContext& c) { reference_norm(c, false); },
             .gradient = [](const BuildContext& c) { return gradient_norm(c, rms_rows(c), false); },
             .decompose = [](const BuildContext& c) { return decompose_norm(c, rms_rows(c)); },
             .mix_class = MixClass::kBlack,
             .bound = {.ulps = 16, .k = 8},
             .sample = sample_norm("rms_norm", 1)});
}

}  // namespace keel
