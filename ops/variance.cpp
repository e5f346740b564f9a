#include "keel/ops/variance.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reduce.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/shape.h"
#include "keel/ops/wide_floats.h"

namespace keel {
namespace {

std::vector<bool> reduced_of(const VarianceAttributes& a, const Shape& shape) {
  return reduced_axes(a.axes, shape.rank());
}

std::vector<Type> infer_variance(const InferContext& c) {
  require_dtypes(c, 0, kFloats);
  const auto& a = c.as<VarianceAttributes>();
  const Shape& shape = c.inputs[0].shape;
  static_cast<void>(require_axes(c, a.axes, shape.rank()));
  return {{c.inputs[0].dtype, reduced_shape(shape, reduced_of(a, shape), a.keepdims)}};
}

// Returns what the sum of squares is divided by; 0, so that the result is NaN, where there is too
// little.
double divisor(const VarianceAttributes& a, const Shape& shape) {
  const std::vector<bool> reduced = reduced_of(a, shape);
  double count = 1;
  for (size_t i = 0; i < shape.rank(); ++i) {
    count *= reduced[i] ? static_cast<double>(shape[i]) : 1.0;
  }
  return std::max(count - (a.sample ? 1 : 0), 0.0);
}

// `finish` makes the result of the variance.
template <class Finish>
void reference_variance(const ReferenceContext& c, Finish finish) {
  const auto& a = c.as<VarianceAttributes>();
  const Tensor& x = c.inputs[0];
  const Shape kept = reduced_shape(x.shape(), reduced_of(a, x.shape()), true);
  const auto results = static_cast<size_t>(c.outputs[0].num_elements());
  std::vector<double> means(results, 0), squares(results, 0);
  const double count =
      results == 0 ? 0 : static_cast<double>(x.num_elements()) / static_cast<double>(results);
  const auto each = [&](auto&& body) {
    for_each_broadcast<1>(x.shape(), {kept}, [&](int64_t i, const auto& to) {
      body(x.at(i), static_cast<size_t>(to[0]));
    });
  };
  each([&](double value, size_t to) { means[to] += value / count; });
  each([&](double value, size_t to) { squares[to] += (value - means[to]) * (value - means[to]); });
  const double by = divisor(a, x.shape());
  for (size_t i = 0; i < results; ++i) {
    c.outputs[0].set(static_cast<int64_t>(i), finish(squares[i] / by));
  }
}

// x - mean(x), widened. Of elements that are far from 0 the mean may be off by more than they are
// apart, so the distances are centred once more: their own mean is small, and so is its error.
Value distances(const BuildContext& c) {
  const auto& axes = c.as<VarianceAttributes>().axes;
  const Value x = widened(c.inputs[0], c.site);
  const Value first = sub(x, mean(x, axes, true, c.site), c.site);
  return sub(first, mean(first, axes, true, c.site), c.site);
}

// Returns a result with the reduced axes as dimensions of 1, widened.
Value kept_wide(const BuildContext& c, const Value& result) {
  const Shape& shape = c.inputs[0].shape();
  const Shape ones = reduced_shape(shape, reduced_of(c.as<VarianceAttributes>(), shape), true);
  return widened(result.shape() == ones ? result : reshape(result, ones, c.site), c.site);
}

Value variance_of(const BuildContext& c) {
  const auto& a = c.as<VarianceAttributes>();
  const Value squares = sum(square(distances(c), c.site), a.axes, a.keepdims, c.site);
  return div(squares, divisor(a, c.inputs[0].shape()), c.site);
}

// d var / d x = 2 (x - mean) / n: what the mean moves by cancels out.
Values gradient_var(const BuildContext& c) {
  const double factor = 2 / divisor(c.as<VarianceAttributes>(), c.inputs[0].shape());
  const Value share = mul(kept_wide(c, c.output_gradients[0]), factor, c.site);
  return {narrowed(c, mul(share, distances(c), c.site))};
}

Values gradient_stddev(const BuildContext& c) {
  const CallSite site = c.site;
  const double by = divisor(c.as<VarianceAttributes>(), c.inputs[0].shape());
  const Value y = kept_wide(c, c.outputs[0]);
  const Value flat = equal(y, 0, site);
  const Value share =
      div(kept_wide(c, c.output_gradients[0]), mul(select(flat, 1, y, site), by, site), site);
  return {narrowed(c, mul(select(flat, 0, share, site), distances(c), site))};
}

Sample sample_variance(SampleSource& source, Value (*build)(Operand, const std::vector<int64_t>&,
                                                            VarianceOptions, CallSite)) {
  if (!is_float(source.dtype())) return {};
  const Shape shape = source.nonempty_shape(0, 4);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (source.coin()) axes.push_back(static_cast<int64_t>(i));
  }
  VarianceOptions options{.keepdims = source.coin(), .sample = source.coin()};
  // The deviation of elements that are all equal has a kink.
  const double count = divisor({axes, false, true}, shape);
  const bool smooth = count > 0 && source.dtype() == f64;
  return {
      .inputs = {source.separated_values(shape)},
      .build = [=](Graph&, const Values& v) -> Values { return {build(v[0], axes, options, {})}; },
      .differentiable = {smooth}};
}

Value reduce(const char* op, const Operand& x, const std::vector<int64_t>& axes,
             const VarianceOptions& options, CallSite site) {
  VarianceAttributes attributes{axes, options.keepdims, options.sample};
  if (!x.is_literal()) {
    attributes.axes = axes_from_front(axes, x.value().shape().rank());
    std::sort(attributes.axes.begin(), attributes.axes.end());
  }
  return emit(op, {x}, Attributes::of(std::move(attributes)), site);
}

}  // namespace

Value var(Operand x, const std::vector<int64_t>& axes, VarianceOptions options, CallSite site) {
  return reduce("var", x, axes, options, site);
}

Value stddev(Operand x, const std::vector<int64_t>& axes, VarianceOptions options, CallSite site) {
  return reduce("stddev", x, axes, options, site);
}

void register_variance(OpTable& table) {
  OpDef op;
  op.name = "var";
  op.summary = "the mean squared distance from the mean along axes";
  op.input_names = {"x"};
  op.attributes = &attributes_schema<VarianceAttributes>();
  op.infer = infer_variance;
  op.reference = [](const ReferenceContext& c) {
    reference_variance(c, [](double variance) { return variance; });
  };
  op.gradient = gradient_var;
  op.decompose = [](const BuildContext& c) { return Values{narrowed(c, variance_of(c))}; };
  op.traits = kReduction;
  op.mix_class = MixClass::kBlack;
  op.bound = {.ulps = 4, .k = 16};
  op.sample = [](SampleSource& source) { return sample_variance(source, var); };
  table.add(op);

  op.name = "stddev";
  op.summary = "the square root of var";
  op.reference = [](const ReferenceContext& c) {
    reference_variance(c, [](double variance) { return std::sqrt(variance); });
  };
  op.gradient = gradient_stddev;
  op.decompose = [](const BuildContext& c) {
    return Values{narrowed(c, sqrt(variance_of(c), c.site))};
  };
  op.sample = [](SampleSource& source) { return sample_variance(source, stddev); };
  table.add(std::move(op));
}

}  // namespace keel
