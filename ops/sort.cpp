#include "keel/ops/sort.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

std::vector<Type> values_and_indices(const InferContext& c, const Shape& shape) {
  return {{c.inputs[0].dtype, shape}, {i64, shape}};
}

std::vector<Type> infer_sort(const InferContext& c) {
  require_dtypes(c, 0, kNumbers);
  require_axis(c, "axis", c.as<SortAttributes>().axis, c.inputs[0].shape.rank());
  return values_and_indices(c, c.inputs[0].shape);
}

std::vector<Type> infer_top_k(const InferContext& c) {
  require_dtypes(c, 0, kNumbers);
  const auto& a = c.as<TopKAttributes>();
  const Shape& x = c.inputs[0].shape;
  const size_t axis = require_axis(c, "axis", a.axis, x.rank());
  if (a.k < 0 || (x[axis] >= 0 && a.k > x[axis])) {
    c.fail("k",
           x[axis] < 0 ? "a number >= 0"
                       : "a number from 0 to " + std::to_string(x[axis]) + ", the size of axis " +
                             std::to_string(axis),
           std::to_string(a.k));
  }
  return values_and_indices(c, x.with_dim(axis, a.k));
}

// Computes the first `kept` of each line along the axis, in order.
void reference_order(const ReferenceContext& c, int64_t axis_number, bool descending) {
  const auto axis = static_cast<size_t>(axis_number);
  const Shape& shape = c.inputs[0].shape();
  const int64_t count = shape[axis], stride = shape.strides()[axis];
  const int64_t kept = c.outputs[0].shape()[axis];
  if (shape.num_elements() == 0) return;
  visit_dtype(c.inputs[0].dtype(), [&]<class T>() {
    const T* x = c.inputs[0].data<T>().data();
    T* values = c.outputs[0].data<T>().data();
    int64_t* indices = c.outputs[1].data<int64_t>().data();
    std::vector<int64_t> order(static_cast<size_t>(count));
    for (int64_t line = 0; line < shape.num_elements() / count; ++line) {
      const int64_t outer = line / stride, inner = line % stride;
      const auto element = [&](int64_t i) { return load(x, (outer * count + i) * stride + inner); };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const int way = ascending_order(element(a), element(b));
        return descending ? way > 0 : way < 0;
      });
      for (int64_t i = 0; i < kept; ++i) {
        const int64_t from = order[static_cast<size_t>(i)];
        const int64_t to = (outer * kept + i) * stride + inner;
        values[to] = x[(outer * count + from) * stride + inner];
        indices[to] = from;
      }
    }
  });
}

// Each value's gradient goes where its index says, along the axis; the rest is 0.
Values gradient_order(const BuildContext& c, int64_t axis) {
  const CallSite site = c.site;
  const Value dy = c.output_gradients[0];
  if (!dy.valid()) return {Value()};
  const Shape& shape = c.inputs[0].shape();
  const size_t rank = shape.rank();
  std::vector<int64_t> swapped(rank);
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[static_cast<size_t>(axis)], swapped[rank - 1]);
  // One line after the other, the axis last.
  const int64_t count = shape[static_cast<size_t>(axis)];
  Shape lines;
  int64_t number = 1;
  for (const int64_t i : swapped) lines.push_back(shape[static_cast<size_t>(i)]);
  for (size_t i = 0; i + 1 < rank; ++i) number = checked_mul(number, lines[i]);
  const int64_t kept = dy.shape()[static_cast<size_t>(axis)];
  const auto by_line = [&](const Value& v) {
    return reshape(transpose(v, swapped, site), {number, kept}, site);
  };
  const Value start = mul(iota(c.graph, i64, {number, 1}, 0, site), count, site);
  const Value places = add(by_line(c.outputs[1]), start, site);
  const Value none = zeros_of(c.graph, {dy.dtype(), {checked_mul(number, count)}}, site);
  const Value flat = scatter_add(none, places, by_line(dy), site);
  return {transpose(reshape(flat, lines, site), swapped, site)};
}

Values decompose_top_k(const BuildContext& c) {
  const auto& a = c.as<TopKAttributes>();
  const Sorted all = sort(c.inputs[0], a.axis, true, c.site);
  std::vector<int64_t> begin(c.inputs[0].shape().rank(), 0), end(begin.size(), kToEnd);
  end[static_cast<size_t>(a.axis)] = a.k;
  return {slice(all.values, begin, end, {}, c.site), slice(all.indices, begin, end, {}, c.site)};
}

struct OrderCase {
  Tensor x;
  int64_t axis = 0;
  bool ties = false;
};

OrderCase draw_order(SampleSource& source) {
  const Shape shape = source.shape(1, 4);
  OrderCase drawn{.axis = source.integer(0, static_cast<int64_t>(shape.rank()) - 1),
                  .ties = source.coin()};
  drawn.x = drawn.ties ? source.values(shape, -3, 3) : source.separated_values(shape);
  if (drawn.ties && is_float(source.dtype())) {
    for (int64_t i = 0; i < drawn.x.num_elements(); ++i) {
      drawn.x.set(i, source.integer(0, 9) == 0 ? NAN : std::round(drawn.x.at(i)));
    }
  }
  return drawn;
}

Sample sample_sort(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const OrderCase drawn = draw_order(source);
  return {{drawn.x},
          [axis = drawn.axis, descending = source.coin()](Graph&, const Values& in) {
            const Sorted sorted = sort(in[0], axis, descending);
            return Values{sorted.values, sorted.indices};
          },
          {!drawn.ties}};
}

Sample sample_top_k(SampleSource& source) {
  if (!is_number(source.dtype())) return {};
  const OrderCase drawn = draw_order(source);
  const int64_t k = source.integer(0, drawn.x.shape()[static_cast<size_t>(drawn.axis)]);
  return {{drawn.x},
          [axis = drawn.axis, k](Graph&, const Values& in) {
            const Sorted sorted = top_k(in[0], k, axis);
            return Values{sorted.values, sorted.indices};
          },
          {!drawn.ties}};
}

int64_t front_axis(const Operand& x, int64_t axis) {
  return x.is_literal() ? axis : axis_from_front(axis, x.value().shape().rank());
}

}  // namespace

Sorted sort(Operand x, int64_t axis, bool descending, CallSite site) {
  const SortAttributes attributes{front_axis(x, axis), descending};
  const Values both = emit_all("sort", {x}, Attributes::of(attributes), site);
  return {both[0], both[1]};
}

Sorted top_k(Operand x, int64_t k, int64_t axis, CallSite site) {
  const TopKAttributes attributes{k, front_axis(x, axis)};
  const Values both = emit_all("top_k", {x}, Attributes::of(attributes), site);
  return {both[0], both[1]};
}

void register_sort(OpTable& table) {
  table.add(
      {.name = "sort",
       .summary = "elements in order along an axis, and their indices",
       .input_names = {"x"},
       .attributes = &attributes_schema<SortAttributes>(),
       .infer = infer_sort,
       .reference =
           [](const ReferenceContext& c) {
             const auto& a = c.as<SortAttributes>();
             reference_order(c, a.axis, a.descending);
           },
       .gradient =
           [](const BuildContext& c) { return gradient_order(c, c.as<SortAttributes>().axis); },
       .sample = sample_sort});
  table.add(
      {.name = "top_k",
       .summary = "the k largest elements along an axis, and their indices",
       .input_names = {"x"},
       .attributes = &attributes_schema<TopKAttributes>(),
       .infer = infer_top_k,
       .reference =
           [](const ReferenceContext& c) { reference_order(c, c.as<TopKAttributes>().axis, true); },
       .gradient =
           [](const BuildContext& c) { return gradient_order(c, c.as<TopKAttributes>().axis); },
       .decompose = decompose_top_k,
       .sample = sample_top_k});
}

}  // namespace keel
