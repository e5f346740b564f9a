#include "keel/ops/slice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "keel/core/base/checked.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/reference_copy.h"
#include "keel/ops/shape.h"
#include "keel/ops/split.h"

namespace keel {
namespace {

// ---- slice

void require_one_each(const InferContext& c, const char* argument,
                      const std::vector<int64_t>& list) {
  const size_t rank = c.inputs[0].shape.rank();
  if (list.size() == rank) return;
  c.fail(argument,
         "at most " + std::to_string(rank) + " numbers, for x of shape " +
             to_string(c.inputs[0].shape),
         std::to_string(list.size()));
}

std::vector<Type> infer_slice(const InferContext& c) {
  const auto& a = c.as<SliceAttributes>();
  require_one_each(c, "begin", a.begin);
  require_one_each(c, "end", a.end);
  require_one_each(c, "strides", a.strides);
  const Shape& x = c.inputs[0].shape;
  Shape shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    // The opposite of the lowest number is no int64_t.
    constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
    if (a.strides[i] == 0 || a.strides[i] == lowest) {
      c.fail("strides", "strides other than 0 and " + std::to_string(lowest),
             std::to_string(a.strides[i]));
    }
    shape.push_back(x[i] < 0 ? kUnknownDim : slice_bounds(a, i, x[i]).size);
  }
  return {{c.inputs[0].dtype, shape}};
}

// Returns where the elements of the slice lie in x.
Placement slice_placement(const SliceAttributes& a, const Shape& x) {
  Placement placement;
  const Strides own = x.strides();
  for (size_t i = 0; i < x.rank(); ++i) {
    const SliceBounds bounds = slice_bounds(a, i, x[i]);
    placement.start += bounds.first * own[i];
    placement.strides[i] = bounds.stride * own[i];
  }
  return placement;
}

void reference_slice(const ReferenceContext& c) {
  const Shape& shape = c.outputs[0].shape();
  copy_elements(shape, c.inputs[0], slice_placement(c.as<SliceAttributes>(), c.inputs[0].shape()),
                c.outputs[0], {shape.strides()});
}

// x with the given axes in reverse.
Value reversed(Value x, const std::vector<bool>& axes, CallSite site) {
  SliceAttributes a;
  for (const bool reverse : axes) {
    a.begin.push_back(reverse ? kToEnd : 0);
    a.end.push_back(reverse ? kToStart : kToEnd);
    a.strides.push_back(reverse ? -1 : 1);
  }
  return slice(x, a.begin, a.end, a.strides, site);
}

// Returns how far `size` elements reach with `interior` others between every two of them.
int64_t spread_size(int64_t size, int64_t interior) {
  return size == 0 ? 0 : checked_add(checked_mul(size - 1, checked_add(interior, 1)), 1, "pad");
}

Values gradient_slice(const BuildContext& c) {
  const auto& a = c.as<SliceAttributes>();
  const Shape& x = c.inputs[0].shape();
  Value dx = c.output_gradients[0];
  std::vector<SliceBounds> boxes;
  std::vector<bool> backwards;
  for (size_t i = 0; i < x.rank(); ++i) {
    SliceBounds bounds = slice_bounds(a, i, x[i]);
    backwards.push_back(bounds.stride < 0);
    if (bounds.stride < 0) {
      bounds.first += (bounds.size - 1) * bounds.stride;
      bounds.stride = -bounds.stride;
    }
    boxes.push_back(bounds);
  }
  if (std::find(backwards.begin(), backwards.end(), true) != backwards.end()) {
    dx = reversed(dx, backwards, c.site);
  }
  std::vector<int64_t> low(x.rank());
  std::vector<int64_t> high(x.rank());
  std::vector<int64_t> interior(x.rank());
  for (size_t i = 0; i < x.rank(); ++i) {
    const SliceBounds& bounds = boxes[i];
    low[i] = bounds.first;
    interior[i] = bounds.stride - 1;
    high[i] = x[i] - bounds.first - spread_size(bounds.size, interior[i]);
  }
  if (dx.shape() == x) return {dx};
  return {pad_interior(dx, low, high, interior, 0, c.site)};
}

Sample sample_slice(SampleSource& source) {
  const Shape shape = source.shape(1, 4);
  SliceAttributes a;
  for (const int64_t dim : shape) {
    const bool from_back = source.coin();
    const int64_t begin = source.integer(0, dim);
    a.begin.push_back(from_back && begin < dim ? begin - dim : begin);
    a.end.push_back(source.coin() ? kToEnd : source.integer(-dim, dim));
    a.strides.push_back(source.coin() ? 1 : source.integer(1, 3));
    if (source.integer(0, 2) != 0) continue;
    std::swap(a.begin.back(), a.end.back());
    a.strides.back() = -a.strides.back();
    if (source.coin()) a.end.back() = kToStart;
  }
  return {{source.values(shape)}, [a](Graph&, const Values& in) {
            return Values{slice(in[0], a.begin, a.end, a.strides)};
          }};
}

// ---- pad

int64_t interior_of(const PadAttributes& a, size_t axis) {
  return a.interior.empty() ? 0 : a.interior[axis];
}

std::vector<Type> infer_pad(const InferContext& c) {
  const auto& a = c.as<PadAttributes>();
  require_one_each(c, "low", a.low);
  require_one_each(c, "high", a.high);
  const DType dtype = c.inputs[0].dtype;
  const double padded = Tensor::full(dtype, {}, a.value).at(0);
  // The largest i64 is 2^63 as a double.
  const bool fits = is_float(dtype) ? !std::isinf(padded) || std::isinf(a.value)
                                    : padded == a.value && a.value < 0x1p63;
  if (!fits) {
    c.fail("value", std::string("a number that fits ") + name_of(dtype), std::to_string(a.value));
  }
  if (!a.interior.empty()) require_one_each(c, "interior", a.interior);
  const Shape& x = c.inputs[0].shape;
  Shape shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    const int64_t interior = interior_of(a, i);
    if (interior < 0) c.fail("interior", "numbers >= 0", std::to_string(interior));
    if (a.low[i] < 0) c.fail("low", "numbers >= 0", std::to_string(a.low[i]), "cut with slice");
    if (a.high[i] < 0) c.fail("high", "numbers >= 0", std::to_string(a.high[i]), "cut with slice");
    const int64_t added = checked_add(a.low[i], a.high[i], "pad");
    shape.push_back(x[i] < 0 ? kUnknownDim
                             : checked_add(spread_size(x[i], interior), added, "pad"));
  }
  return {{c.inputs[0].dtype, shape}};
}

void reference_pad(const ReferenceContext& c) {
  const auto& a = c.as<PadAttributes>();
  Tensor& out = c.outputs[0];
  const Tensor filled = Tensor::full(out.dtype(), out.shape(), a.value);
  if (out.num_bytes() != 0) std::memcpy(out.raw(), filled.raw(), out.num_bytes());
  Placement write{out.shape().strides()};
  for (size_t i = 0; i < a.low.size(); ++i) {
    write.start += a.low[i] * write.strides[i];
    write.strides[i] *= interior_of(a, i) + 1;
  }
  const Shape& x = c.inputs[0].shape();
  copy_elements(x, c.inputs[0], {x.strides()}, out, write);
}

Values gradient_pad(const BuildContext& c) {
  const auto& a = c.as<PadAttributes>();
  if (a.low.empty()) return {c.output_gradients[0]};
  std::vector<int64_t> end;
  std::vector<int64_t> strides;
  for (size_t i = 0; i < a.low.size(); ++i) {
    const int64_t interior = interior_of(a, i);
    end.push_back(a.low[i] + spread_size(c.inputs[0].shape()[i], interior));
    strides.push_back(interior + 1);
  }
  return {slice(c.output_gradients[0], a.low, end, strides, c.site)};
}

Sample sample_pad(SampleSource& source) {
  const Shape shape = source.shape(0, 4);
  PadAttributes a;
  for (size_t i = 0; i < shape.rank(); ++i) {
    a.low.push_back(source.integer(0, 2));
    a.high.push_back(source.integer(0, 2));
  }
  a.value = static_cast<double>(source.integer(0, 1));
  if (source.coin()) {
    for (size_t i = 0; i < shape.rank(); ++i) a.interior.push_back(source.integer(0, 2));
  }
  return {{source.values(shape)}, [a](Graph&, const Values& in) {
            return Values{a.interior.empty()
                              ? pad(in[0], a.low, a.high, a.value)
                              : pad_interior(in[0], a.low, a.high, a.interior, a.value)};
          }};
}

// ---- concat

std::vector<Type> infer_concat(const InferContext& c) {
  if (c.inputs.empty()) c.fail("values", "at least one value", "none");
  c.require_same_dtype();
  Shape shape = c.inputs[0].shape;
  const size_t axis = require_axis(c, "axis", c.as<ConcatAttributes>().axis, shape.rank());
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const Shape& next = c.inputs[i].shape;
    if (next.rank() != shape.rank()) {
      c.fail(c.input_name(i), "rank " + std::to_string(shape.rank()), to_string(next),
             "reshape it first");
    }
    for (size_t d = 0; d < shape.rank(); ++d) {
      if (d == axis) {
        const bool known = shape[d] >= 0 && next[d] >= 0;
        shape = shape.with_dim(d, known ? checked_add(shape[d], next[d], "concat") : kUnknownDim);
      } else if (shape[d] < 0) {
        shape = shape.with_dim(d, next[d]);
      } else if (next[d] >= 0 && next[d] != shape[d]) {
        c.fail(c.input_name(i), "shape " + to_string(shape.with_dim(axis, kUnknownDim)),
               to_string(next), "only the axis of concatenation may differ");
      }
    }
  }
  return {{c.inputs[0].dtype, shape}};
}

void reference_concat(const ReferenceContext& c) {
  const auto axis = static_cast<size_t>(c.as<ConcatAttributes>().axis);
  Placement write{c.outputs[0].shape().strides()};
  for (const Tensor& part : c.inputs) {
    copy_elements(part.shape(), part, {part.shape().strides()}, c.outputs[0], write);
    write.start += part.shape()[axis] * write.strides[axis];
  }
}

Values gradient_concat(const BuildContext& c) {
  std::vector<int64_t> sizes;
  const int64_t axis = c.as<ConcatAttributes>().axis;
  for (const Value& part : c.inputs) sizes.push_back(part.shape()[static_cast<size_t>(axis)]);
  return split_sizes(c.output_gradients[0], sizes, axis, c.site);
}

Sample sample_concat(SampleSource& source) {
  const Shape shape = source.shape(1, 4);
  const int64_t axis = source.integer(0, static_cast<int64_t>(shape.rank()) - 1);
  std::vector<Tensor> parts;
  for (int64_t n = source.integer(1, 4); n > 0; --n) {
    parts.push_back(source.values(shape.with_dim(static_cast<size_t>(axis), source.dim())));
  }
  return {parts, [axis](Graph&, const Values& in) { return Values{concat(in, axis)}; }};
}

// Returns the new axis, counted from the front. Throws Error unless the result has it, there is a
// value, and all have one type.
int64_t require_stackable(const Values& values, int64_t axis, CallSite site) {
  if (values.empty()) {
    throw Error({.op = "stack", .expected = "at least one value", .got = "none", .site = site});
  }
  const auto rank = static_cast<int64_t>(values[0].shape().rank()) + 1;
  const int64_t at = axis_from_front(axis, static_cast<size_t>(rank));
  if (at < 0 || at >= rank) {
    throw Error({.op = "stack",
                 .argument = "axis",
                 .expected = "an axis from " + std::to_string(-rank) + " to " +
                             std::to_string(rank - 1) + " of the result",
                 .got = std::to_string(axis),
                 .site = site});
  }
  for (size_t i = 1; i < values.size(); ++i) {
    const Type &first = values[0].type(), &next = values[i].type();
    bool same = next.dtype == first.dtype && next.shape.rank() == first.shape.rank();
    for (size_t d = 0; same && d < first.shape.rank(); ++d) {
      same = first.shape[d] < 0 || next.shape[d] < 0 || first.shape[d] == next.shape[d];
    }
    if (same) continue;
    throw Error({.op = "stack",
                 .argument = "value " + std::to_string(i),
                 .expected = to_string(first) + ", the type of the first",
                 .got = to_string(next),
                 .fix = "concat joins values that differ along its axis",
                 .site = site});
  }
  return at;
}

// Returns value i, with a check that it has the first one's shape where that is not known yet.
Value like_first(const Values& values, size_t i, CallSite site) {
  const Shape &shape = values[i].shape(), &first = values[0].shape();
  if (i == 0 || (shape.known() && first.known())) return values[i];
  std::vector<int64_t> axes(shape.rank());
  std::iota(axes.begin(), axes.end(), 0);
  return same_dims(values[i], values[0], {axes, axes, "stack", "value " + std::to_string(i)}, site);
}

}  // namespace

SliceBounds slice_bounds(const SliceAttributes& attributes, size_t axis, int64_t dim) {
  const int64_t stride = attributes.strides[axis];
  // Backwards, what lies before the first element is an end, and the last one the first begin.
  const int64_t lowest = stride < 0 ? -1 : 0;
  const int64_t highest = stride < 0 ? dim - 1 : dim;
  const auto resolve = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + dim : i, lowest, highest);
  };
  const int64_t first = resolve(attributes.begin[axis]);
  const int64_t end = resolve(attributes.end[axis]);
  if (stride < 0) {
    const int64_t size = first > end ? (first - end - 1) / -stride + 1 : 0;
    return {std::max<int64_t>(first, 0), size > 1 ? stride : 1, size};
  }
  const int64_t size = end > first ? (end - first - 1) / stride + 1 : 0;
  return {first, size > 1 ? stride : 1, size};
}

Value slice(Operand x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
            const std::vector<int64_t>& strides, CallSite site) {
  SliceAttributes a{begin, end, strides};
  const size_t rank = x.is_literal() ? 0 : x.value().shape().rank();
  // It fills in what was left out, up to x's rank; inference reports lists that are too long.
  while (a.begin.size() < rank) a.begin.push_back(0);
  while (a.end.size() < rank) a.end.push_back(kToEnd);
  while (a.strides.size() < rank) a.strides.push_back(1);
  return emit("slice", {x}, Attributes::of(std::move(a)), site);
}

Value pad(Operand x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
          double value, CallSite site) {
  return pad_interior(x, low, high, {}, value, site);
}

Value pad_interior(Operand x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
                   const std::vector<int64_t>& interior, double value, CallSite site) {
  PadAttributes a{low, high, value, interior};
  // There is one form for "none", so that equal nodes are equal.
  const bool none = std::all_of(interior.begin(), interior.end(), [](int64_t n) { return n == 0; });
  if (none && interior.size() == low.size()) a.interior.clear();
  return emit("pad", {x}, Attributes::of(std::move(a)), site);
}

Value concat(const Values& values, int64_t axis, CallSite site) {
  if (values.empty()) {
    throw Error({.op = "concat", .expected = "at least one value", .got = "none", .site = site});
  }
  const ConcatAttributes attributes{axis_from_front(axis, values[0].shape().rank())};
  return emit("concat", std::vector<Operand>(values.begin(), values.end()),
              Attributes::of(attributes), site);
}

Value stack(const Values& values, int64_t axis, CallSite site) {
  const int64_t at = require_stackable(values, axis, site);
  Values parts;
  for (size_t i = 0; i < values.size(); ++i)
    parts.push_back(expand_dims(like_first(values, i, site), {at}, site));
  return concat(parts, at, site);
}

void register_slice(OpTable& table) {
  table.add({.name = "slice",
             .summary = "a box of elements, with a stride along each axis",
             .input_names = {"x"},
             .attributes = &attributes_schema<SliceAttributes>(),
             .infer = infer_slice,
             .reference = reference_slice,
             .gradient = gradient_slice,
             .traits = kMovement,
             .sample = sample_slice});
  table.add({.name = "pad",
             .summary = "adds elements of one value around a tensor and between its elements",
             .input_names = {"x"},
             .attributes = &attributes_schema<PadAttributes>(),
             .infer = infer_pad,
             .reference = reference_pad,
             .gradient = gradient_pad,
             .traits = kMovement,
             .sample = sample_pad});
  table.add({.name = "concat",
             .summary = "puts values one after another along an axis",
             .input_names = {"values"},
             .variadic = true,
             .attributes = &attributes_schema<ConcatAttributes>(),
             .infer = infer_concat,
             .reference = reference_concat,
             .gradient = gradient_concat,
             .traits = kMovement,
             .sample = sample_concat});
}

}  // namespace keel
