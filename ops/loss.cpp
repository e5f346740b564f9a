#include "keel/ops/loss.h"

#include <cmath>
#include <limits>

#include "keel/core/base/printable.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reduce.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/shape.h"
#include "keel/ops/wide_floats.h"

namespace keel {
namespace {

// log(softmax(row)), element by element. The largest element and the logarithm of the sum are
// subtracted one after the other: of their sum a large element would leave nothing of the
// logarithm.
class LogSoftmax {
 public:
  template <class T>
  LogSoftmax(const T* row, int64_t classes) {
    for (int64_t i = 0; i < classes; ++i) {
      const double x = load(row, i);
      if (x > largest_ || std::isnan(x)) largest_ = x;
      if (std::isnan(x)) break;
    }
    double total = 0;
    for (int64_t i = 0; i < classes; ++i) total += std::exp(load(row, i) - largest_);
    log_total_ = std::log(total);
  }
  double operator()(double x) const { return (x - largest_) - log_total_; }

 private:
  double largest_ = -std::numeric_limits<double>::infinity();
  double log_total_ = 0;
};

// Calls body.operator()<T>() for float dtypes.
template <class F>
void visit_float(DType dtype, F&& body) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float(dtype_of<T>)) body.template operator()<T>();
  });
}

Value last_sum(Value x, CallSite site, bool keepdims = true) {
  return sum(x, {-1}, keepdims, site);
}

// ---- softmax and log_softmax along the last axis

std::vector<Type> infer_softmax(const InferContext& c) {
  require_dtypes(c, 0, kFloats);
  c.require_rank(0, 1, Shape::kMaxRank);
  return {c.inputs[0]};
}

void reference_rows(const ReferenceContext& c, double (*rule)(double log_probability)) {
  const Tensor& x = c.inputs[0];
  const int64_t classes = x.shape().back();
  if (x.num_elements() == 0) return;
  visit_float(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    T* out = c.outputs[0].data<T>().data();
    for (int64_t start = 0; start < x.num_elements(); start += classes) {
      const LogSoftmax log_softmax_of(in + start, classes);
      for (int64_t i = start; i < start + classes; ++i) {
        store(out, i, rule(log_softmax_of(load(in, i))));
      }
    }
  });
}

// (dy - sum(dy * y)) * y, with y = softmax(x).
Value softmax_gradient(Value y, Value dy, CallSite site) {
  const Value mean = last_sum(mul(dy, y, site), site);
  return mul(sub(dy, mean, site), y, site);
}

// dy - softmax(x) * sum(dy).
Value log_softmax_gradient(Value x, Value dy, CallSite site) {
  return sub(dy, mul(softmax(x, -1, site), last_sum(dy, site), site), site);
}

// In 16 bits a gradient is one op, so that nothing is rounded but its result; in f32 and f64 it is
// the ops that it is composed of, which join what is around them.
bool is_one_op(Value x) { return x.dtype() == f16 || x.dtype() == bf16; }

Values gradient_softmax(const BuildContext& c) {
  const Value y = c.outputs[0], dy = c.output_gradients[0];
  if (is_one_op(y)) return {emit("softmax_gradient", {y, dy}, c.site)};
  return {softmax_gradient(y, dy, c.site)};
}

Values gradient_log_softmax(const BuildContext& c) {
  const Value x = c.inputs[0], dy = c.output_gradients[0];
  if (is_one_op(x)) return {emit("log_softmax_gradient", {x, dy}, c.site)};
  return {log_softmax_gradient(x, dy, c.site)};
}

// Returns the dimensions of two shapes that have to be the same, of which some are unknown; nothing
// where they differ.
std::optional<Shape> agreed(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return std::nullopt;
  Shape both = a;
  for (size_t i = 0; i < a.rank(); ++i) {
    if (a[i] >= 0 && b[i] >= 0 && a[i] != b[i]) return std::nullopt;
    if (a[i] < 0) both = both.with_dim(i, b[i]);
  }
  return both;
}

std::vector<Type> infer_softmax_gradient(const InferContext& c) {
  require_dtypes(c, 0, kFloats);
  c.require_rank(0, 1, Shape::kMaxRank);
  const auto both = agreed(c.inputs[0].shape, c.inputs[1].shape);
  c.require(1, both && c.inputs[1].dtype == c.inputs[0].dtype, to_string(c.inputs[0]));
  return {{c.inputs[0].dtype, *both}};
}

template <bool kLogarithm>
void reference_softmax_gradient(const ReferenceContext& c) {
  const Tensor& rows = c.inputs[0];
  const int64_t classes = rows.shape().back();
  if (rows.num_elements() == 0) return;
  visit_float(rows.dtype(), [&]<class T>() {
    const T* in = rows.data<T>().data();
    const T* upstream = c.inputs[1].data<T>().data();
    T* out = c.outputs[0].data<T>().data();
    for (int64_t start = 0; start < rows.num_elements(); start += classes) {
      const LogSoftmax log_softmax_of(in + start, classes);
      double total = 0;
      for (int64_t i = start; i < start + classes; ++i)
        total += load(upstream, i) * (kLogarithm ? 1 : load(in, i));
      for (int64_t i = start; i < start + classes; ++i) {
        const double dy = load(upstream, i), x = load(in, i);
        store(out, i, kLogarithm ? dy - std::exp(log_softmax_of(x)) * total : (dy - total) * x);
      }
    }
  });
}

// Differentiates (dy - s) * y with s = sum(dy * y), given g.
Values gradient_of_softmax_gradient(const BuildContext& c) {
  const Value y = c.inputs[0], dy = c.inputs[1], g = c.output_gradients[0];
  const Value s = last_sum(mul(dy, y, c.site), c.site);
  const Value to_s = last_sum(mul(g, y, c.site), c.site);
  const Value to_y = sub(mul(g, sub(dy, s, c.site), c.site), mul(dy, to_s, c.site), c.site);
  return {to_y, softmax_gradient(y, g, c.site)};
}

// Differentiates dy - p * s with p = softmax(x) and s = sum(dy), given g.
Values gradient_of_log_softmax_gradient(const BuildContext& c) {
  const Value dy = c.inputs[1], g = c.output_gradients[0];
  const Value p = softmax(c.inputs[0], -1, c.site);
  const Value s = last_sum(dy, c.site);
  const Value to_s = last_sum(mul(g, p, c.site), c.site);
  return {neg(mul(softmax_gradient(p, g, c.site), s, c.site), c.site), sub(g, to_s, c.site)};
}

Values decompose_softmax_gradient(const BuildContext& c) {
  return {softmax_gradient(c.inputs[0], c.inputs[1], c.site)};
}

Values decompose_log_softmax_gradient(const BuildContext& c) {
  return {log_softmax_gradient(c.inputs[0], c.inputs[1], c.site)};
}

// x - max(x): the same softmax, without overflow.
Value shifted(Value x, CallSite site) { return sub(x, max(x, {-1}, true, site), site); }

Values decompose_softmax(const BuildContext& c) {
  if (c.inputs[0].shape().back() == 0) return {c.inputs[0]};
  const Value e = exp(shifted(c.inputs[0], c.site), c.site);
  return {div(e, last_sum(e, c.site), c.site)};
}

Values decompose_log_softmax(const BuildContext& c) {
  if (c.inputs[0].shape().back() == 0) return {c.inputs[0]};
  const Value x = shifted(c.inputs[0], c.site);
  return {sub(x, log(last_sum(exp(x, c.site), c.site), c.site), c.site)};
}

Sample sample_softmax(SampleSource& source, Value (*build)(Operand, int64_t, CallSite)) {
  if (!is_float(source.dtype())) return {};
  return {{source.values(source.shape(1, 3), -4, 4)}, [build](Graph&, const Values& in) {
            return Values{build(in[0], -1, in[0].node().site())};
          }};
}

Sample sample_softmax_gradient(SampleSource& source, const char* op) {
  if (!is_float(source.dtype())) return {};
  const Shape shape = source.shape(1, 3);
  return {{source.values(shape, -4, 4), source.values(shape, -4, 4)},
          [op](Graph&, const Values& in) {
            return Values{emit(op, {in[0], in[1]}, in[0].node().site())};
          }};
}

// ---- softmax_cross_entropy

bool targets_are_ids(const Type& targets) { return is_integer(targets.dtype); }

// Checks logits, targets and label_smoothing; gives the batch size (-1: unknown).
int64_t infer_cross_entropy_inputs(const InferContext& c) {
  const double smoothing = c.as<CrossEntropyOptions>().label_smoothing;
  if (!(smoothing >= 0 && smoothing < 1)) {
    c.fail("label_smoothing", "a number in [0, 1)", printable(smoothing));
  }
  require_dtypes(c, 0, kFloats);
  const Type& logits = c.inputs[0];
  const Type& targets = c.inputs[1];
  c.require(0, logits.shape.rank() == 2, "shape [batch, classes]");
  if (logits.shape[1] == 0) c.fail("logits", "at least one class", to_string(logits));
  const std::string weights = to_string(logits) + " of class weights";
  if (!targets_are_ids(targets) && targets.dtype != logits.dtype) {
    c.fail("targets", "class ids of an integer dtype, or " + weights, to_string(targets),
           "convert it with cast(x, dtype)");
  }
  const bool ids = targets_are_ids(targets);
  const Shape expected = ids ? Shape{logits.shape[0]} : logits.shape;
  const auto both = agreed(expected, targets.shape);
  if (!both) {
    c.fail("targets", ids ? "class ids of shape " + to_string(expected) : weights,
           to_string(targets));
  }
  return (*both)[0];
}

std::vector<Type> infer_cross_entropy(const InferContext& c) {
  return {{c.inputs[0].dtype, Shape{infer_cross_entropy_inputs(c)}}};
}

std::vector<Type> infer_cross_entropy_grad(const InferContext& c) {
  const int64_t batch = infer_cross_entropy_inputs(c);
  const Type& upstream = c.inputs[2];
  const auto both = agreed(upstream.shape, Shape{batch});
  c.require(2, both && upstream.dtype == c.inputs[0].dtype,
            to_string(Type{c.inputs[0].dtype, Shape{batch}}));
  return {{c.inputs[0].dtype, c.inputs[0].shape.with_dim(0, (*both)[0])}};
}

// Returns the smoothed targets of one row.
template <class T>
std::vector<double> target_row(const Tensor& targets, int64_t row, int64_t classes,
                               double smoothing) {
  std::vector<double> result(static_cast<size_t>(classes), 0.0);
  if (targets_are_ids(targets.type())) {
    result[static_cast<size_t>(integer_at(targets, row))] = 1;
  } else {
    const T* weights = targets.data<T>().data() + row * classes;
    for (int64_t i = 0; i < classes; ++i) result[static_cast<size_t>(i)] = load(weights, i);
  }
  if (smoothing != 0) {
    for (double& t : result) t = (1 - smoothing) * t + smoothing / static_cast<double>(classes);
  }
  return result;
}

void require_class_ids(const ReferenceContext& c) {
  if (!targets_are_ids(c.inputs[1].type())) return;
  require_indices(c.op.name, "targets", "class id", c.inputs[1], c.inputs[0].shape()[1], "classes");
}

void reference_cross_entropy(const ReferenceContext& c) {
  require_class_ids(c);
  const Tensor& logits = c.inputs[0];
  const int64_t classes = logits.shape()[1];
  const double smoothing = c.as<CrossEntropyOptions>().label_smoothing;
  visit_float(logits.dtype(), [&]<class T>() {
    for (int64_t row = 0; row < logits.shape()[0]; ++row) {
      const T* x = logits.data<T>().data() + row * classes;
      const LogSoftmax log_softmax_of(x, classes);
      const std::vector<double> target = target_row<T>(c.inputs[1], row, classes, smoothing);
      double loss = 0;
      for (int64_t i = 0; i < classes; ++i) {
        // A class of weight 0 costs nothing, however impossible (0 * -inf would be NaN).
        const double t = target[static_cast<size_t>(i)];
        if (t != 0) loss -= t * log_softmax_of(load(x, i));
      }
      store(c.outputs[0].data<T>().data(), row, loss);
    }
  });
}

void reference_cross_entropy_grad(const ReferenceContext& c) {
  require_class_ids(c);
  const Tensor& logits = c.inputs[0];
  const int64_t classes = logits.shape()[1];
  const double smoothing = c.as<CrossEntropyOptions>().label_smoothing;
  visit_float(logits.dtype(), [&]<class T>() {
    const T* upstream = c.inputs[2].data<T>().data();
    T* out = c.outputs[0].data<T>().data();
    for (int64_t row = 0; row < logits.shape()[0]; ++row) {
      const T* x = logits.data<T>().data() + row * classes;
      const LogSoftmax log_softmax_of(x, classes);
      const std::vector<double> target = target_row<T>(c.inputs[1], row, classes, smoothing);
      double total = 0;
      for (const double t : target) total += t;
      for (int64_t i = 0; i < classes; ++i) {
        const double probability = std::exp(log_softmax_of(load(x, i)));
        const double slope = probability * total - target[static_cast<size_t>(i)];
        store(out, row * classes + i, slope * load(upstream, row));
      }
    }
  });
}

// Returns the smoothed targets as [batch, classes], widened.
Value dense_targets(const BuildContext& c) {
  const Value logits = c.inputs[0];
  const Value targets = c.inputs[1];
  const double smoothing = c.as<CrossEntropyOptions>().label_smoothing;
  const int64_t classes = logits.shape()[1];
  const Value dense = targets_are_ids(targets.type())
                          ? one_hot(targets, classes, logits.dtype() == f64 ? f64 : f32, c.site)
                          : widened(c.inputs[1], c.site);
  if (smoothing == 0) return dense;
  const Operand rest(smoothing / static_cast<double>(classes), c.site);
  return add(mul(dense, Operand(1 - smoothing, c.site), c.site), rest, c.site);
}

// sum(target) as [batch, 1], or invalid where it is 1.
Value target_total(const BuildContext& c) {
  if (targets_are_ids(c.inputs[1].type())) return {};
  return last_sum(dense_targets(c), c.site);
}

Value scale_by_total(Value x, Value total, CallSite site) {
  return total.valid() ? mul(x, total, site) : x;
}

Values decompose_cross_entropy(const BuildContext& c) {
  const Value log_probability = log_softmax(widened(c.inputs[0], c.site), -1, c.site);
  const Value target = dense_targets(c);
  const Value zero = c.graph.constant(Tensor::full(target.dtype(), {}, 0), c.site);
  const Value weighted = mul(target, log_probability, c.site);
  const Value cost = select(equal(target, zero, c.site), zero, weighted, c.site);
  return {narrowed(c, neg(last_sum(cost, c.site, false), c.site))};
}

Values decompose_cross_entropy_grad(const BuildContext& c) {
  const Value probability =
      scale_by_total(softmax(widened(c.inputs[0], c.site), -1, c.site), target_total(c), c.site);
  const Value upstream = expand_dims(widened(c.inputs[2], c.site), {1}, c.site);
  return {narrowed(c, mul(sub(probability, dense_targets(c), c.site), upstream, c.site))};
}

Values gradient_cross_entropy(const BuildContext& c) {
  const auto& options = c.as<CrossEntropyOptions>();
  const Value dy = c.output_gradients[0];
  const Value logits_gradient =
      softmax_cross_entropy_grad(c.inputs[0], c.inputs[1], dy, options, c.site);
  if (targets_are_ids(c.inputs[1].type())) return {logits_gradient, Value()};
  const Value log_probability = log_softmax(widened(c.inputs[0], c.site), -1, c.site);
  const Value upstream = cast(dy, log_probability.dtype(), c.site);
  const Value scaled =
      mul(expand_dims(upstream, {1}, c.site), Operand(options.label_smoothing - 1, c.site), c.site);
  return {logits_gradient, narrowed(c, mul(log_probability, scaled, c.site))};
}

// Differentiates g = (p * total - target) * u with p = softmax(logits), given dg.
Values gradient_cross_entropy_grad(const BuildContext& c) {
  const CallSite site = c.site;
  const Value upstream = expand_dims(widened(c.inputs[2], c.site), {1}, site);
  const Value p = softmax(widened(c.inputs[0], c.site), -1, site);
  const Value dg = cast(c.output_gradients[0], p.dtype(), site);
  const Value total = target_total(c);
  const Value slope = sub(scale_by_total(p, total, site), dense_targets(c), site);
  const Value to_upstream = last_sum(mul(dg, slope, site), site, false);
  const Value mean = last_sum(mul(dg, p, site), site);
  const Value curved = mul(mul(sub(dg, mean, site), p, site), upstream, site);
  Values result{narrowed(c, scale_by_total(curved, total, site)), Value(),
                narrowed(c, to_upstream)};
  if (!targets_are_ids(c.inputs[1].type())) {
    const Operand kept(1 - c.as<CrossEntropyOptions>().label_smoothing, site);
    result[1] = narrowed(c, mul(mul(sub(mean, dg, site), upstream, site), kept, site));
  }
  return result;
}

struct CrossEntropyCase {
  std::vector<Tensor> inputs;
  CrossEntropyOptions options;
};

CrossEntropyCase draw_cross_entropy(SampleSource& source) {
  const int64_t batch = source.dim();
  const int64_t classes = std::max<int64_t>(source.dim(), 1);
  CrossEntropyCase drawn;
  drawn.options.label_smoothing = source.coin() ? 0 : 0.125;
  drawn.inputs.push_back(source.values({batch, classes}, -4, 4));
  if (source.coin()) {
    drawn.inputs.push_back(source.values({batch, classes}, 0, 1));
  } else {
    const DType ids = source.pick<DType>({i64, i32, u8});
    drawn.inputs.push_back(
        source.values(ids, {batch}, 0, static_cast<double>(std::min<int64_t>(classes - 1, 255))));
  }
  return drawn;
}

Sample sample_cross_entropy(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  const CrossEntropyCase drawn = draw_cross_entropy(source);
  return {drawn.inputs, [options = drawn.options](Graph&, const Values& in) {
            return Values{softmax_cross_entropy(in[0], in[1], options)};
          }};
}

Sample sample_cross_entropy_grad(SampleSource& source) {
  if (!is_float(source.dtype())) return {};
  CrossEntropyCase drawn = draw_cross_entropy(source);
  drawn.inputs.push_back(source.values({drawn.inputs[0].shape()[0]}));
  return {drawn.inputs, [options = drawn.options](Graph&, const Values& in) {
            return Values{softmax_cross_entropy_grad(in[0], in[1], in[2], options)};
          }};
}

// Along another axis: that axis goes last and comes back.
Value along_axis(const char* op, const Operand& x, int64_t axis, CallSite site) {
  const size_t rank = x.is_literal() ? 0 : x.value().shape().rank();
  const int64_t last = static_cast<int64_t>(rank) - 1;
  const int64_t from_front = axis_from_front(axis, rank);
  if (rank > 0 && (from_front < 0 || from_front > last)) {
    throw Error({.op = op,
                 .argument = "axis",
                 .expected = "an axis of x, which has shape " + to_string(x.value().shape()),
                 .got = std::to_string(axis),
                 .site = site.known() ? site : x.site()});
  }
  if (rank == 0 || from_front == last) return emit(op, {x}, site);
  std::vector<int64_t> swapped;
  for (int64_t i = 0; i <= last; ++i)
    swapped.push_back(i == last ? from_front : i == from_front ? last : i);
  const CallSite line = site.known() ? site : x.site();
  return transpose(emit(op, {transpose(x, swapped, line)}, line), swapped, line);
}

}  // namespace

Value softmax(Operand x, int64_t axis, CallSite site) {
  return along_axis("softmax", x, axis, site);
}

Value log_softmax(Operand x, int64_t axis, CallSite site) {
  return along_axis("log_softmax", x, axis, site);
}

Value softmax_cross_entropy(Operand logits, Operand targets, CrossEntropyOptions options,
                            CallSite site) {
  return emit("softmax_cross_entropy", {logits, targets}, Attributes::of(options), site);
}

Value softmax_cross_entropy_grad(Operand logits, Operand targets, Operand upstream,
                                 CrossEntropyOptions options, CallSite site) {
  return emit("softmax_cross_entropy_grad", {logits, targets, upstream}, Attributes::of(options),
              site);
}

void register_loss(OpTable& table) {
  // Targets that are class ids; weights are taken as they come.
  const CheckedIndices class_ids{
      1, [](const Node& node) {
        return is_integer(node.input(1).dtype()) ? node.input(0).shape().back() : -1;
      }};
  table.add({.name = "softmax",
             .summary = "exp(x) / sum(exp(x)) along the last axis",
             .input_names = {"x"},
             .infer = infer_softmax,
             .reference = [](const ReferenceContext& c) { reference_rows(c, std::exp); },
             .gradient = gradient_softmax,
             .decompose = decompose_softmax,
             .traits = kRowWise,
             .mix_class = MixClass::kBlack,
             .bound = {.ulps = 32, .k = 4},
             .sample = [](SampleSource& source) { return sample_softmax(source, softmax); }});
  table.add({.name = "log_softmax",
             .summary = "log(softmax(x)) along the last axis",
             .input_names = {"x"},
             .infer = infer_softmax,
             .reference =
                 [](const ReferenceContext& c) { reference_rows(c, [](double x) { return x; }); },
             .gradient = gradient_log_softmax,
             .decompose = decompose_log_softmax,
             .traits = kRowWise,
             .mix_class = MixClass::kBlack,
             .bound = {.ulps = 8, .k = 8},
             .sample = [](SampleSource& source) { return sample_softmax(source, log_softmax); }});
  table.add({.name = "softmax_gradient",
             .summary = "(dy - sum(dy * y)) * y along the last axis, for x where y = softmax(x)",
             .input_names = {"y", "dy"},
             .infer = infer_softmax_gradient,
             .reference = reference_softmax_gradient<false>,
             .gradient = gradient_of_softmax_gradient,
             .decompose = decompose_softmax_gradient,
             .traits = kRowWise,
             .mix_class = MixClass::kBlack,
             .bound = {.ulps = 32, .k = 16},
             .sample = [](SampleSource& source) {
               return sample_softmax_gradient(source, "softmax_gradient");
             }});
  table.add({.name = "log_softmax_gradient",
             .summary = "dy - softmax(x) * sum(dy) along the last axis, for x of log_softmax(x)",
             .input_names = {"x", "dy"},
             .infer = infer_softmax_gradient,
             .reference = reference_softmax_gradient<true>,
             .gradient = gradient_of_log_softmax_gradient,
             .decompose = decompose_log_softmax_gradient,
             .traits = kRowWise,
             .mix_class = MixClass::kBlack,
             .bound = {.ulps = 32, .k = 16},
             .sample = [](SampleSource& source) {
               return sample_softmax_gradient(source, "log_softmax_gradient");
             }});
  table.add(
      {.name = "softmax_cross_entropy",
       .summary =
           "-sum(target * log_softmax(logits)) for each row; targets are class ids or weights",
       .input_names = {"logits", "targets"},
       .attributes = &attributes_schema<CrossEntropyOptions>(),
       .infer = infer_cross_entropy,
       .reference = reference_cross_entropy,
       .gradient = gradient_cross_entropy,
       .decompose = decompose_cross_entropy,
       .traits = kReduction | kRowWise,
       .mix_class = MixClass::kBlack,
       .checked_indices = class_ids,
       .bound = {.ulps = 16, .k = 16},
       .sample = sample_cross_entropy});
  table.add({.name = "softmax_cross_entropy_grad",
             .summary = "(softmax(logits) * sum(target) - target) * upstream for each row",
             .input_names = {"logits", "targets", "upstream"},
             .attributes = &attributes_schema<CrossEntropyOptions>(),
             .infer = infer_cross_entropy_grad,
             .reference = reference_cross_entropy_grad,
             .gradient = gradient_cross_entropy_grad,
             .decompose = decompose_cross_entropy_grad,
             .traits = kRowWise,
             .mix_class = MixClass::kBlack,
             .checked_indices = class_ids,
             .bound = {.ulps = 32, .k = 16},
             .sample = sample_cross_entropy_grad});
}

}  // namespace keel
