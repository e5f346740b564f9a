// Parts of values and values put together: slices, splits, concatenation, padding.
#include <algorithm>
#include <cstdlib>

#include "keel/ops/composed/rearrange.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_integers.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/slice.h"
#include "keel/ops/split.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using Ints = std::vector<int64_t>;

// ---- put together

Values pack(NodeContext& c) {
  const int64_t axis = c.attribute("axis", int64_t{0});
  return {stack(c.all(), axis, {})};
}

void require_known_axis(const NodeContext& c, int64_t size, size_t axis) {
  if (size >= 0) return;
  c.refuse("the size of its axis " + std::to_string(axis) +
           " is not known before the run; --inputs NAME:[DIMS] gives it");
}

Values unpack(NodeContext& c) {
  const Value x = c.in(0);
  const size_t axis = onnx::front_axis(c, c.attribute("axis", int64_t{0}), x.shape({}).rank());
  const int64_t size = x.shape({})[axis];
  require_known_axis(c, size, axis);
  if (c.attribute("num", size) != size) c.refuse("its axis has " + std::to_string(size) + " parts");
  return unstack(x, static_cast<int64_t>(axis), {});
}

// The axis is the last input, or the first one of the older op.
Values concat_at(NodeContext& c, size_t first, size_t axis_input) {
  const int64_t axis = c.integer(axis_input, "the axis");
  Values values;
  for (size_t i = first; i < first + c.inputs() - 1; ++i) values.push_back(c.in(i));
  return {values.size() == 1 ? values[0] : concat(values, axis, {})};
}
Values concat_axis_last(NodeContext& c) {
  if (c.inputs() < 2) c.refuse("it has no operands");
  return concat_at(c, 0, c.inputs() - 1);
}
Values concat_axis_first(NodeContext& c) {
  if (c.inputs() < 2) c.refuse("it has no operands");
  return concat_at(c, 1, 0);
}

Values split_equal(NodeContext& c) {
  const Value x = c.in(1);
  return split(x, c.attribute("num_split", int64_t{1}), c.integer(0, "the axis"), {});
}

// One size may be left open.
Values split_by_sizes(NodeContext& c) {
  const Value x = c.in(0);
  Ints sizes = c.integers(1, "the sizes");
  c.ignore("num_split");
  const size_t axis = onnx::front_axis(c, c.integer(2, "the axis"), x.shape({}).rank());
  int64_t known = 0, open = 0;
  for (const int64_t size : sizes) {
    if (size < -1) c.refuse("one of its sizes is " + std::to_string(size));
    known += std::max<int64_t>(size, 0);
    open += size < 0 ? 1 : 0;
  }
  if (open > 1) c.refuse("it leaves more than one of its sizes open (-1)");
  const int64_t whole = x.shape({})[axis];
  if (open == 1) require_known_axis(c, whole, axis);
  if (open == 1 && whole < known)
    c.refuse("its sizes sum to more than its axis of " + std::to_string(whole));
  for (int64_t& size : sizes)
    if (size < 0) size = whole - known;
  return split_sizes(x, sizes, static_cast<int64_t>(axis), {});
}

// ---- slices

// Far beyond any axis, and far from where sums of two overflow.
constexpr int64_t kMostIndex = int64_t{1} << 40;

// A size of -1 reaches to the end.
Values slice_by_size(NodeContext& c) {
  const Ints begin = c.integers(1, "begin"), size = c.integers(2, "the sizes");
  if (begin.size() != size.size()) c.refuse("its begin and sizes are not of one length");
  const Value x = c.in(0);
  if (begin.size() != x.shape({}).rank()) c.refuse("its begin is not of its operand's rank");
  Ints end;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t dim = x.shape({})[i] < 0 ? kMostIndex : x.shape({})[i];
    if (begin[i] < 0 || begin[i] > dim || size[i] < -1 || size[i] > dim - begin[i])
      c.refuse("its begin and sizes reach out of its operand " + to_string(x.shape({})));
    end.push_back(size[i] < 0 ? kToEnd : begin[i] + size[i]);
  }
  return {begin.empty() ? x : slice(x, begin, end, {}, {})};
}

// x[begin:end:strides], read with the masks that give entries another meaning.
struct StridedSlice {
  Ints begin, end, strides;
  Ints added;    // axes of size 1 in the result, before others are dropped
  Ints dropped;  // axes of the result with one element each
};

StridedSlice strided_slice_of(NodeContext& c, size_t rank) {
  const Ints begin = c.integers(1, "begin"), end = c.integers(2, "end");
  const Ints strides = c.integers(3, "the strides");
  const int64_t begin_mask = c.attribute("begin_mask", int64_t{0});
  const int64_t end_mask = c.attribute("end_mask", int64_t{0});
  const int64_t ellipsis = c.attribute("ellipsis_mask", int64_t{0});
  const int64_t new_axis = c.attribute("new_axis_mask", int64_t{0});
  const int64_t shrink = c.attribute("shrink_axis_mask", int64_t{0});
  if (begin.size() != end.size() || begin.size() != strides.size() || begin.size() > 32)
    c.refuse("its begin, end and strides do not fit each other");
  size_t named = 0;  // axes of x that entries are about
  size_t ellipses = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t bit = int64_t{1} << i;
    named += (ellipsis & bit) == 0 && (new_axis & bit) == 0 ? 1 : 0;
    ellipses += (ellipsis & bit) != 0 ? 1 : 0;
    if (begin[i] > kMostIndex || begin[i] < -kMostIndex) c.refuse("its begin is out of range");
  }
  if (named > rank) c.refuse("it has more entries than its operand axes");
  if (ellipses > 1) c.refuse("it has more than one ellipsis");
  StridedSlice result;
  int64_t place = 0;  // in the result, with what is dropped later
  const auto whole = [&](size_t count) {
    for (size_t i = 0; i < count; ++i, ++place) {
      result.begin.push_back(0);
      result.end.push_back(kToEnd);
      result.strides.push_back(1);
    }
  };
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t bit = int64_t{1} << i;
    if ((ellipsis & bit) != 0) {
      whole(rank - named);
    } else if ((new_axis & bit) != 0) {
      result.added.push_back(place++);
    } else {
      const bool one = (shrink & bit) != 0;
      const bool back = strides[i] < 0;
      const bool from_edge = (begin_mask & bit) != 0 && !one;
      if (one && back) c.refuse("it takes one element of an axis with a negative stride");
      result.begin.push_back(from_edge ? (back ? kToEnd : 0) : begin[i]);
      if (one)
        result.end.push_back(begin[i] == -1 ? kToEnd : begin[i] + 1);
      else
        result.end.push_back((end_mask & bit) != 0 ? (back ? kToStart : kToEnd) : end[i]);
      result.strides.push_back(one ? 1 : strides[i]);
      if (one) result.dropped.push_back(place);
      ++place;
    }
  }
  whole(rank - result.begin.size());
  return result;
}

// An element that is taken alone has to be there.
void require_elements(NodeContext& c, const StridedSlice& what, const Ints& shape) {
  for (const int64_t place : what.dropped) {
    // Axes that are added lie in front of it, and are none of the operand's.
    const auto added = std::count_if(what.added.begin(), what.added.end(),
                                     [&](int64_t axis) { return axis < place; });
    const auto axis = static_cast<size_t>(place - added);
    const int64_t index = what.begin[axis], size = shape[axis];
    if (size >= 0 && (index < -size || index >= size))
      c.refuse("its slice takes element " + std::to_string(index) + " of an axis of " +
               std::to_string(size));
  }
}

Values strided_slice(NodeContext& c) {
  Value x = c.in(0);
  const StridedSlice what = strided_slice_of(c, x.shape({}).rank());
  require_elements(c, what, Ints(x.shape({}).begin(), x.shape({}).end()));
  if (!what.begin.empty()) x = slice(x, what.begin, what.end, what.strides, {});
  if (!what.added.empty()) x = expand_dims(x, what.added, {});
  if (!what.dropped.empty()) x = squeeze(x, what.dropped, {});
  return {x};
}

// The gradient of a slice of a value of the shape that the first operand says: zeros but for the
// elements that the slice took.
Values strided_slice_gradient(NodeContext& c) {
  const Ints shape = c.integers(0, "the shape");
  Value dy = c.in(4);
  const StridedSlice what = strided_slice_of(c, shape.size());
  require_elements(c, what, shape);
  if (!what.dropped.empty()) dy = expand_dims(dy, what.dropped, {});
  if (!what.added.empty()) dy = squeeze(dy, what.added, {});
  c.require_rank(dy, shape.size(), shape.size(), "its slope is");
  const SliceAttributes attributes{what.begin, what.end, what.strides};
  Ints low, high, interior, reversed;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0) c.refuse("a dimension of its shape is negative");
    SliceBounds bounds = slice_bounds(attributes, axis, shape[axis]);
    const int64_t span = bounds.size == 0 ? 0 : (bounds.size - 1) * bounds.stride;
    if (dy.shape({})[axis] != bounds.size)
      c.refuse("its slope " + to_string(dy.shape({})) + " is not of the slice's shape");
    if (bounds.stride < 0) reversed.push_back(static_cast<int64_t>(axis));
    low.push_back(bounds.size == 0 ? 0 : bounds.first + std::min<int64_t>(span, 0));
    interior.push_back(bounds.size == 0 ? 0 : std::abs(bounds.stride) - 1);
    high.push_back(shape[axis] - low.back() - (bounds.size == 0 ? 0 : std::abs(span) + 1));
  }
  if (!reversed.empty()) dy = reverse(dy, reversed, {});
  return {shape.empty() ? dy : pad_interior(dy, low, high, interior, 0, {})};
}

// ---- padding

// [axes, 2]: in front and behind.
struct Paddings {
  Ints low, high;
};
Paddings paddings_of(NodeContext& c) {
  const Ints numbers = c.integers(1, "the paddings");
  const Shape shape = c.known(1)->shape();
  if (shape.rank() != 2 || shape[1] != 2)
    c.refuse("its paddings " + to_string(shape) + " are no [n, 2]");
  Paddings pads;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
    pads.low.push_back(numbers[i]);
    pads.high.push_back(numbers[i + 1]);
  }
  return pads;
}

Values pad_with_value(NodeContext& c) {
  const Value x = c.in(0);
  const Paddings pads = paddings_of(c);
  const double value = c.inputs() > 2 ? onnx::exact_number(c, 2, "the padding") : 0;
  return {pads.low.empty() ? x : pad(x, pads.low, pads.high, value, {})};
}

// Elements in the order of a mirror at each end, which shows the edge itself or not.
Values pad_with_mirror(NodeContext& c) {
  Value x = c.in(0);
  const Paddings pads = paddings_of(c);
  const int64_t beyond = c.choice("mode", {"REFLECT", "SYMMETRIC"}) == "REFLECT" ? 1 : 0;
  for (size_t axis = 0; axis < pads.low.size(); ++axis) {
    if (pads.low[axis] == 0 && pads.high[axis] == 0) continue;
    const int64_t size = axis < x.shape({}).rank() ? x.shape({})[axis] : -1;
    if (size < 0 || pads.low[axis] < 0 || pads.high[axis] < 0 ||
        std::max(pads.low[axis], pads.high[axis]) > size - beyond)
      c.refuse("its paddings do not fit its operand");
    Ints places;
    for (int64_t i = pads.low[axis]; i > 0; --i) places.push_back(i - 1 + beyond);
    for (int64_t i = 0; i < size; ++i) places.push_back(i);
    for (int64_t i = 0; i < pads.high[axis]; ++i) places.push_back(size - 1 - beyond - i);
    const Tensor indices = Tensor::of<int64_t>({static_cast<int64_t>(places.size())}, places);
    x = gather(x, c.result(indices), static_cast<int64_t>(axis), {});
  }
  return {x};
}

}  // namespace

void register_graphdef_parts(OpRules& rules) {
  rules.add("Pack", pack);
  rules.add("Unpack", unpack);
  rules.add("Concat", concat_axis_first);
  rules.add("ConcatV2", concat_axis_last);
  rules.add("Split", split_equal);
  rules.add("SplitV", split_by_sizes);
  rules.add("Slice", slice_by_size);
  rules.add("StridedSlice", strided_slice);
  rules.add("StridedSliceGrad", strided_slice_gradient);
  rules.add("Pad", pad_with_value);
  rules.add("PadV2", pad_with_value);
  rules.add("MirrorPad", pad_with_mirror);
}

}  // namespace keel::graphdef
