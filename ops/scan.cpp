#include "keel/ops/scan.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/slice.h"
#include "keel/ops/wide_floats.h"

namespace keel {
namespace {

std::vector<Type> infer_scan(const InferContext& c) {
  require_dtypes(c, 0, kNumbers);
  require_axis(c, "axis", c.as<ScanAttributes>().axis, c.inputs[0].shape.rank());
  return {c.inputs[0]};
}

// out[i] = step(... step(start, x[0]) ..., x[i]) along the axis.
template <class Step>
void reference_scan(const ReferenceContext& c, int start, Step step) {
  const auto& a = c.as<ScanAttributes>();
  const Shape& shape = c.inputs[0].shape();
  if (shape.num_elements() == 0) return;
  const int64_t count = shape[static_cast<size_t>(a.axis)];
  const int64_t stride = shape.strides()[static_cast<size_t>(a.axis)];
  visit_dtype(c.inputs[0].dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      const T* x = c.inputs[0].data<T>().data();
      T* out = c.outputs[0].data<T>().data();
      for (int64_t line = 0; line < shape.num_elements() / count; ++line) {
        const int64_t first = line / stride * stride * count + line % stride;
        auto total = static_cast<Computed<T>>(start);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t at = first + (a.reverse ? count - 1 - i : i) * stride;
          if (a.exclusive) store(out, at, total);
          // The first element is itself: 0 + -0 would be 0.
          total = i == 0 && !a.exclusive ? load(x, at) : step(total, load(x, at));
          if (!a.exclusive) store(out, at, total);
        }
      }
    }
  });
}

// Combines as decompositions do: doubling the number of elements that each result covers in each of
// log2(n) rounds, so that neither memory nor rounding grows with n as in one long sum.
class Rounds {
 public:
  // `neutral` is what stands before the first element.
  Rounds(const BuildContext& c, double neutral)
      : attributes_(c.as<ScanAttributes>()), neutral_(neutral), site_(c.site) {
    count_ = c.inputs[0].shape()[static_cast<size_t>(attributes_.axis)];
  }

  bool exclusive() const { return attributes_.exclusive; }
  std::vector<int64_t> distances() const {
    std::vector<int64_t> result;
    for (int64_t by = 1; by < count_; by *= 2) result.push_back(by);
    return result;
  }
  // Returns each element moved on by so many places in the direction of the scan.
  Value later(Value x, int64_t by) const { return moved(x, by, !attributes_.reverse, neutral_); }
  // Returns the gradient of that: moved back, 0 where nothing came from.
  Value earlier(Value x, int64_t by) const { return moved(x, by, attributes_.reverse, 0); }

 private:
  Value moved(Value x, int64_t by, bool to_the_end, double filled) const {
    const size_t rank = x.shape().rank();
    const auto axis = static_cast<size_t>(attributes_.axis);
    const int64_t kept = std::max<int64_t>(count_ - by, 0);
    std::vector<int64_t> begin(rank, 0), end(rank, kToEnd), low(rank, 0), high(rank, 0);
    if (to_the_end) {
      end[axis] = kept;
      low[axis] = count_ - kept;
    } else {
      begin[axis] = count_ - kept;
      high[axis] = count_ - kept;
    }
    return pad(slice(x, begin, end, {}, site_), low, high, filled, site_);
  }

  const ScanAttributes& attributes_;
  double neutral_;
  CallSite site_;
  int64_t count_ = 0;
};

// Returns the value before each round, and behind them the result.
Values rounds_of(const BuildContext& c, const Rounds& rounds,
                 Value (*combine)(Operand, Operand, CallSite)) {
  Value x = widened(c.inputs[0], c.site);
  if (rounds.exclusive()) x = rounds.later(x, 1);
  Values values{x};
  for (const int64_t by : rounds.distances()) {
    const Value& last = values.back();
    values.push_back(combine(last, rounds.later(last, by), c.site));
  }
  return values;
}

Values decompose_cumsum(const BuildContext& c) {
  return {narrowed(c, rounds_of(c, Rounds(c, 0), add).back())};
}

Values decompose_cumprod(const BuildContext& c) {
  return {narrowed(c, rounds_of(c, Rounds(c, 1), mul).back())};
}

Values gradient_cumsum(const BuildContext& c) {
  const auto& a = c.as<ScanAttributes>();
  return {cumsum(c.output_gradients[0], a.axis, {a.exclusive, !a.reverse}, c.site)};
}

// The rounds backwards: no division by elements, which may be 0.
Values gradient_cumprod(const BuildContext& c) {
  const Rounds rounds(c, 1);
  const Values values = rounds_of(c, rounds, mul);
  const std::vector<int64_t> distances = rounds.distances();
  Value flow = widened(c.output_gradients[0], c.site);
  for (size_t i = distances.size(); i-- > 0;) {
    const Value& before = values[i];
    const Value to_later = rounds.earlier(mul(flow, before, c.site), distances[i]);
    flow = add(mul(flow, rounds.later(before, distances[i]), c.site), to_later, c.site);
  }
  if (rounds.exclusive()) flow = rounds.earlier(flow, 1);
  return {narrowed(c, flow)};
}

// Draws factors for products: near 1 in magnitude, so that some hundreds neither overflow nor
// vanish, and zeros among them.
Tensor draw_factors_with_zeros(SampleSource& source, const Shape& shape) {
  if (!is_float(source.dtype())) return source.values(shape, -3, 3);
  Tensor t = source.values(shape, 0.75, 1.25);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (source.integer(0, 9) == 0)
      t.set(i, 0);
    else if (source.coin())
      t.set(i, -t.at(i));
  }
  return t;
}

using ScanBuilder = Value (*)(Operand, int64_t, ScanOptions, CallSite);

Sample sample_scan(SampleSource& source, ScanBuilder build, bool factors) {
  if (!is_number(source.dtype())) return {};
  const Shape shape = source.shape(1, 4);
  const int64_t axis = source.integer(0, static_cast<int64_t>(shape.rank()) - 1);
  const ScanOptions options{source.coin(), source.coin()};
  return {{factors ? draw_factors_with_zeros(source, shape) : source.values(shape)},
          [=](Graph&, const Values& in) { return Values{build(in[0], axis, options, {})}; }};
}

Value scan(const char* op, const Operand& x, int64_t axis, const ScanOptions& options,
           CallSite site) {
  ScanAttributes attributes{axis, options.exclusive, options.reverse};
  if (!x.is_literal()) attributes.axis = axis_from_front(axis, x.value().shape().rank());
  return emit(op, {x}, Attributes::of(attributes), site);
}

}  // namespace

Value cumsum(Operand x, int64_t axis, ScanOptions options, CallSite site) {
  return scan("cumsum", x, axis, options, site);
}

Value cumprod(Operand x, int64_t axis, ScanOptions options, CallSite site) {
  return scan("cumprod", x, axis, options, site);
}

void register_scan(OpTable& table) {
  OpDef op;
  op.name = "cumsum";
  op.summary = "the sums of each element and all before it along an axis";
  op.input_names = {"x"};
  op.attributes = &attributes_schema<ScanAttributes>();
  op.infer = infer_scan;
  op.reference = [](const ReferenceContext& c) {
    reference_scan(c, 0, [](auto a, auto b) { return scalar::add(a, b); });
  };
  op.gradient = gradient_cumsum;
  op.decompose = decompose_cumsum;
  op.traits = kReduction;
  op.mix_class = MixClass::kBlack;
  op.bound = {.ulps = 1, .k = 4};
  op.sample = [](SampleSource& source) { return sample_scan(source, cumsum, false); };
  table.add(op);

  op.name = "cumprod";
  op.summary = "the products of each element and all before it along an axis";
  op.reference = [](const ReferenceContext& c) {
    reference_scan(c, 1, [](auto a, auto b) { return scalar::mul(a, b); });
  };
  op.gradient = gradient_cumprod;
  op.decompose = decompose_cumprod;
  op.bound = {.ulps = 4, .k = 16};
  op.sample = [](SampleSource& source) { return sample_scan(source, cumprod, true); };
  table.add(std::move(op));
}

}  // namespace keel
