#include "keel/ops/slice.h"

#include <algorithm>

#include "keel/core/base/checked.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/reference_copy.h"
#include "keel/ops/shape.h"

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
    if (a.strides[i] < 1) c.fail("strides", "strides >= 1", std::to_string(a.strides[i]));
    shape.push_back(x[i] < 0 ? kUnknownDim : slice_bounds(a, i, x[i]).size);
  }
  return {{c.inputs[0].dtype, shape}};
}

// Where the elements of the slice lie in x.
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

// x with stride - 1 zeros behind each element of an axis.
Value spread(Value x, size_t axis, int64_t stride, CallSite site) {
  int64_t outer = 1;
  int64_t inner = 1;
  const Shape shape = x.shape();
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i < axis) outer = checked_mul(outer, shape[i]);
    if (i > axis) inner = checked_mul(inner, shape[i]);
  }
  const Value apart = reshape(x, {outer, shape[axis], 1, inner}, site);
  const Value spaced = pad(apart, {0, 0, 0, 0}, {0, 0, stride - 1, 0}, 0, site);
  return reshape(spaced, shape.with_dim(axis, checked_mul(shape[axis], stride)), site);
}

Values gradient_slice(const BuildContext& c) {
  const auto& a = c.as<SliceAttributes>();
  const Shape& x = c.inputs[0].shape();
  Value dx = c.output_gradients[0];
  std::vector<int64_t> low(x.rank());
  std::vector<int64_t> high(x.rank());
  for (size_t i = 0; i < x.rank(); ++i) {
    const SliceBounds bounds = slice_bounds(a, i, x[i]);
    int64_t size = bounds.size;
    if (bounds.stride > 1 && size > 0) {
      if (size > 1) dx = spread(dx, i, bounds.stride, c.site);
      // The zeros behind the last element may reach beyond x.
      const int64_t room = std::min(dx.shape()[i], x[i] - bounds.first);
      if (room < dx.shape()[i]) {
        std::vector<int64_t> end(x.rank(), kToEnd);
        end[i] = room;
        dx = slice(dx, std::vector<int64_t>(x.rank(), 0), end, {}, c.site);
      }
      size = room;
    }
    low[i] = bounds.first;
    high[i] = x[i] - bounds.first - size;
  }
  if (dx.shape() == x) return {dx};
  return {pad(dx, low, high, 0, c.site)};
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
  }
  return {{source.values(shape)}, [a](Graph&, const Values& in) {
            return Values{slice(in[0], a.begin, a.end, a.strides)};
          }};
}

// ---- pad

std::vector<Type> infer_pad(const InferContext& c) {
  const auto& a = c.as<PadAttributes>();
  require_one_each(c, "low", a.low);
  require_one_each(c, "high", a.high);
  const DType dtype = c.inputs[0].dtype;
  if (!is_float(dtype) && Tensor::full(dtype, {}, a.value).at(0) != a.value) {
    c.fail("value", std::string("a number that fits ") + name_of(dtype), std::to_string(a.value));
  }
  const Shape& x = c.inputs[0].shape;
  Shape shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (a.low[i] < 0) c.fail("low", "numbers >= 0", std::to_string(a.low[i]), "cut with slice");
    if (a.high[i] < 0) c.fail("high", "numbers >= 0", std::to_string(a.high[i]), "cut with slice");
    const int64_t added = checked_add(a.low[i], a.high[i], "pad");
    shape.push_back(x[i] < 0 ? kUnknownDim : checked_add(x[i], added, "pad"));
  }
  return {{c.inputs[0].dtype, shape}};
}

void reference_pad(const ReferenceContext& c) {
  const auto& a = c.as<PadAttributes>();
  Tensor& out = c.outputs[0];
  const Tensor filled = Tensor::full(out.dtype(), out.shape(), a.value);
  if (out.num_bytes() != 0) std::memcpy(out.raw(), filled.raw(), out.num_bytes());
  Placement write{out.shape().strides()};
  for (size_t i = 0; i < a.low.size(); ++i) write.start += a.low[i] * write.strides[i];
  const Shape& x = c.inputs[0].shape();
  copy_elements(x, c.inputs[0], {x.strides()}, out, write);
}

Values gradient_pad(const BuildContext& c) {
  const auto& a = c.as<PadAttributes>();
  if (a.low.empty()) return {c.output_gradients[0]};
  std::vector<int64_t> end;
  for (size_t i = 0; i < a.low.size(); ++i) end.push_back(a.low[i] + c.inputs[0].shape()[i]);
  return {slice(c.output_gradients[0], a.low, end, {}, c.site)};
}

Sample sample_pad(SampleSource& source) {
  const Shape shape = source.shape(0, 4);
  PadAttributes a;
  for (size_t i = 0; i < shape.rank(); ++i) {
    a.low.push_back(source.integer(0, 2));
    a.high.push_back(source.integer(0, 2));
  }
  a.value = static_cast<double>(source.integer(0, 1));
  return {{source.values(shape)},
          [a](Graph&, const Values& in) { return Values{pad(in[0], a.low, a.high, a.value)}; }};
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
  return {parts, [axis](Graph&, const Values& in) {
            return Values{concat(std::vector<Operand>(in.begin(), in.end()), axis)};
          }};
}

// The dimension that is split. Throws Error when it cannot be known that `x` has that axis.
int64_t split_dim(const Operand& x, int64_t axis, CallSite site) {
  const Shape shape = require_value(x, "split", "x", site).shape();
  if (axis < 0 || axis >= static_cast<int64_t>(shape.rank())) {
    throw Error({.op = "split",
                 .argument = "axis",
                 .expected = "an axis of x, which has shape " + to_string(shape),
                 .got = std::to_string(axis),
                 .site = site});
  }
  return shape[static_cast<size_t>(axis)];
}

int64_t split_axis(const Operand& x, int64_t axis) {
  return x.is_literal() ? axis : axis_from_front(axis, x.value().shape().rank());
}

}  // namespace

SliceBounds slice_bounds(const SliceAttributes& attributes, size_t axis, int64_t dim) {
  const auto resolve = [dim](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + dim : i, 0, dim);
  };
  const int64_t first = resolve(attributes.begin[axis]);
  const int64_t end = resolve(attributes.end[axis]);
  const int64_t stride = attributes.strides[axis];
  const int64_t size = end > first ? (end - first - 1) / stride + 1 : 0;
  return {first, stride, size};
}

Value slice(Operand x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
            const std::vector<int64_t>& strides, CallSite site) {
  SliceAttributes a{begin, end, strides};
  const size_t rank = x.is_literal() ? 0 : x.value().shape().rank();
  // What was left out, up to x's rank; inference reports lists that are too long.
  while (a.begin.size() < rank) a.begin.push_back(0);
  while (a.end.size() < rank) a.end.push_back(kToEnd);
  while (a.strides.size() < rank) a.strides.push_back(1);
  return emit("slice", {x}, Attributes::of(std::move(a)), site);
}

Values split(Operand x, int64_t parts, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  axis = split_axis(x, axis);
  const int64_t dim = split_dim(x, axis, line);
  if (parts < 1 || dim < 0 || dim % parts != 0) {
    throw Error(
        {.op = "split",
         .argument = "parts",
         .expected = dim < 0 ? "an axis of known dimension" : "a divisor of " + std::to_string(dim),
         .got = std::to_string(parts) + " parts of " + to_string(x.value().shape()),
         .fix = "use split_sizes",
         .site = line});
  }
  return split_sizes(x, std::vector<int64_t>(static_cast<size_t>(parts), dim / parts), axis, line);
}

Values split_sizes(Operand x, const std::vector<int64_t>& sizes, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  axis = split_axis(x, axis);
  const int64_t dim = split_dim(x, axis, line);
  int64_t total = 0;
  bool negative = false;
  for (const int64_t size : sizes) {
    negative = negative || size < 0;
    total = checked_add(total, size, "split");
  }
  if (negative || total != dim) {
    throw Error({.op = "split",
                 .argument = "sizes",
                 .expected = dim < 0 ? "an axis of known dimension"
                                     : "sizes >= 0 that add up to " + std::to_string(dim),
                 .got = negative ? "a negative size" : "a sum of " + std::to_string(total),
                 .site = line});
  }
  Values parts;
  const size_t rank = x.value().shape().rank();
  std::vector<int64_t> begin(rank, 0);
  std::vector<int64_t> end(rank, kToEnd);
  for (const int64_t size : sizes) {
    end[static_cast<size_t>(axis)] = begin[static_cast<size_t>(axis)] + size;
    parts.push_back(slice(x, begin, end, {}, line));
    begin[static_cast<size_t>(axis)] += size;
  }
  return parts;
}

Value pad(Operand x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
          double value, CallSite site) {
  return emit("pad", {x}, Attributes::of(PadAttributes{low, high, value}), site);
}

Value concat(const std::vector<Operand>& values, int64_t axis, CallSite site) {
  ConcatAttributes attributes{axis};
  for (const Operand& value : values) {
    if (value.is_literal()) continue;
    attributes.axis = axis_from_front(axis, value.value().shape().rank());
    break;
  }
  return emit("concat", values, Attributes::of(attributes), site);
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
             .summary = "adds elements of one value around a tensor",
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
