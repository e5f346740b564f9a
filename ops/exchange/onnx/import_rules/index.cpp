// Elements by index: gather and scatter in their forms, one-hot vectors, the largest k.
#include <algorithm>
#include <limits>

#include "keel/core/base/printable.h"
#include "keel/ops/composed/at_least.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_indices.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/reduce.h"
#include "keel/ops/slice.h"
#include "keel/ops/sort.h"

namespace keel::onnx {
namespace {

// Which elements of an axis constant indices name: those before `head`, and of those that count
// from the end the ones from `tail_begin` to before `tail_end`.
struct NamedEnds {
  int64_t head = 0, tail_begin = 0, tail_end = std::numeric_limits<int64_t>::min();
  int64_t furthest = 0;  // the index that needs most elements

  // Returns how many elements that index needs.
  static int64_t needed(const NodeContext& c, int64_t index) {
    // The bound is beyond all sizes, and so low that no sum of two overflows.
    constexpr int64_t kMost = int64_t{1} << 60;
    if (index < -kMost || index >= kMost) c.refuse("no axis has an index " + std::to_string(index));
    return index < 0 ? -index : index + 1;
  }

  NamedEnds(const NodeContext& c, const Tensor& indices) {
    for (const int64_t index : indices.data<int64_t>()) {
      if (needed(c, index) > needed(c, furthest)) furthest = index;
      if (index < 0) {
        tail_begin = std::min(tail_begin, index);
        tail_end = std::max(tail_end, index + 1);
      } else {
        head = std::max(head, index + 1);
      }
    }
  }
};

// Along an axis whose size only a run knows, constants that count from the end take their elements
// out of the end alone, to which those that others name in front are joined.
Value gather_of_open_axis(NodeContext& c, const Value& x, size_t axis) {
  const auto along = static_cast<int64_t>(axis);
  const Value given = cast(c.in(1), i64, {});
  if (!c.is_constant(1)) return gather(x, given, along, {});
  Tensor indices = c.known(1)->cast(i64, {}).clone();
  const NamedEnds named(c, indices);
  if (named.tail_begin == 0) return gather(x, given, along, {});
  const Value whole = with_at_least(x, axis, NamedEnds::needed(c, named.furthest), c.node().op,
                                    "index " + std::to_string(named.furthest), {});
  const auto part = [&](int64_t first, int64_t last) {
    std::vector<int64_t> begin(axis + 1, 0), end(axis + 1, kToEnd);
    begin[axis] = first;
    end[axis] = last == 0 ? kToEnd : last;
    return slice(whole, begin, end, {}, {});
  };
  Value ends = part(named.tail_begin, named.tail_end);
  if (named.head > 0) ends = concat({part(0, named.head), ends}, along, {});
  for (int64_t& index : indices.data<int64_t>())
    if (index < 0) index += named.head - named.tail_begin;
  return gather(ends, c.result(indices), along, {});
}

Values gather_of(NodeContext& c) {
  const Value x = c.in(0);
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{0}), x.shape({}).rank());
  const int64_t size = x.shape({})[axis];
  if (size < 0) return {gather_of_open_axis(c, x, axis)};
  return {gather(x, front_indices(c, 1, axis, size), static_cast<int64_t>(axis), {})};
}

Values gather_elements(NodeContext& c) {
  const Value x = c.in(0);
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{0}), x.shape({}).rank());
  const Shape shape = c.known_shape(x, "its input");
  const Value places = element_places(c, 1, shape, axis);
  return {gather(reshape(x, Shape{shape.num_elements()}, {}), places, 0, {})};
}

// Returns x with as many leading axes as `shape` has. Of several sizes that are open no reshape
// finds out which is which.
Value with_leading_axes(NodeContext& c, const Value& x, const Shape& shape) {
  if (!shape.known() && shape.rank() == x.shape({}).rank()) return x;
  if (std::count(shape.begin(), shape.end(), int64_t{-1}) > 1)
    c.refuse("too many of its dimensions are not known before the run: " + to_string(shape));
  return reshape(x, shape, {});
}

Values gather_nd(NodeContext& c) {
  const int64_t batch = c.attribute("batch_dims", int64_t{0});
  const Value x = c.in(0);
  const RowPlaces rows = row_places(c, 1, x.shape({}), batch, BelowZero::kFromEnd);
  return {gather(with_leading_axes(c, x, rows.shape_of(rows.rows)), rows.places, 0, {})};
}

// ---- scatter

std::string reduction_of(NodeContext& c) {
  return c.choice("reduction", {"none", "add", "mul", "max", "min"});
}

// Returns the updates of a scatter, one for each of the places: an element, or a row that has the
// axes of x from `row` on. Another shape is none of them, though it may have as many elements.
Value updates_of(NodeContext& c, const Value& places, const Value& x, size_t row) {
  Shape shape = places.shape({});
  const std::vector<int64_t> lead = axes_from(0, shape.rank());
  const std::vector<int64_t> of_x = axes_from(row, x.shape({}).rank());
  for (size_t axis = row; axis < x.shape({}).rank(); ++axis) shape.push_back(x.shape({})[axis]);
  const Value updates = c.in(2);
  c.require_shape(updates, shape, "its updates");
  if (updates.shape({}).known() && shape.known()) return updates;
  const Value counted = same_dims(updates, places, {lead, lead, c.node().op, "updates"}, {});
  const std::vector<int64_t> own = axes_from(lead.size(), shape.rank());
  return same_dims(counted, x, {own, of_x, c.node().op, "updates"}, {});
}

Values scatter_elements(NodeContext& c) {
  const std::string reduction = reduction_of(c);
  const Value x = c.in(0);
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{0}), x.shape({}).rank());
  const Shape shape = c.known_shape(x, "its input");
  const Value places = element_places(c, 1, shape, axis);
  const int64_t count = places.shape({}).num_elements();
  const Value updates = updates_of(c, places, x, shape.rank());
  const Value flat = reshape(x, Shape{shape.num_elements(), 1}, {});
  const Value result = scatter_rows(c, flat, reshape(places, Shape{count}, {}),
                                    reshape(updates, Shape{count, 1}, {}), reduction);
  return {reshape(result, shape, {})};
}

Values scatter_nd(NodeContext& c) {
  const std::string reduction = reduction_of(c);
  const Value x = c.in(0);
  const RowPlaces named = row_places(c, 1, x.shape({}), 0, BelowZero::kFromEnd);
  const int64_t count = named.places.shape({}).num_elements();
  const Value rows = with_leading_axes(c, x, named.shape_of(named.rows));
  const size_t row = x.shape({}).rank() - named.row_shape.rank();
  const Value updates =
      with_leading_axes(c, updates_of(c, named.places, x, row), named.shape_of(count));
  const Value places = reshape(named.places, Shape{count}, {});
  return {with_leading_axes(c, scatter_rows(c, rows, places, updates, reduction), x.shape({}))};
}

// ---- one-hot, largest

// A depth that is no integer is converted to one, as ONNX says.
int64_t depth_of(NodeContext& c) {
  if (!is_float(c.constant(1, "the depth").dtype())) return c.integer(1, "the depth");
  const double depth = c.number(1, "the depth");
  if (!(depth >= 0 && depth < 0x1p63)) c.refuse("its depth is " + printable(depth));
  return static_cast<int64_t>(depth);
}

// Ids below 0 count from the end since op set 11; what is out of range has no 1.
Values one_hot_of(NodeContext& c) {
  const int64_t depth = depth_of(c);
  const Value ids = c.in(0);
  const size_t rank = ids.shape({}).rank();
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{-1}), rank + 1);
  const Value whole = cast(ids, i64, {});
  const Value front =
      c.version() < 11 ? whole : select(less(whole, 0, {}), add(whole, depth, {}), whole, {});
  const Value classes = along_axis(iota(c.graph(), i64, {depth}, 0, {}), axis, rank + 1);
  const Value hit = equal(expand_dims(front, {static_cast<int64_t>(axis)}, {}), classes, {});
  const Value values = c.in(2);
  c.require_shape(values, {2}, "its values");
  const Value off = reshape(slice(values, {0}, {1}, {}, {}), Shape{}, {});
  const Value on = reshape(slice(values, {1}, {2}, {}, {}), Shape{}, {});
  return {select(hit, on, off, {})};
}

Values largest_k(NodeContext& c) {
  const Value x = c.in(0);
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{-1}), x.shape({}).rank());
  const auto at = static_cast<int64_t>(axis);
  c.ignore("sorted");
  const bool largest = c.attribute("largest", int64_t{1}) != 0;
  const int64_t k = c.version() < 10 ? c.attribute("k", int64_t{1}) : c.integer(1, "k");
  if (largest) {
    const Sorted top = top_k(x, k, at, {});
    return {top.values, top.indices};
  }
  const int64_t size = x.shape({})[axis];
  // A slice would take as many as there are, and for a k below 0 all but so many.
  if (k < 0 || (size >= 0 && k > size)) {
    c.refuse("its k is " + std::to_string(k) +
             (size < 0 ? "" : ", and its axis has the size " + std::to_string(size)));
  }
  const Value checked = size >= 0 || k == 0
                            ? x
                            : with_at_least(x, axis, k, c.node().op, "k " + std::to_string(k), {});
  const Sorted sorted = sort(checked, at, false, {});
  std::vector<int64_t> begin(axis + 1, 0), end(axis + 1, kToEnd);
  end[axis] = k;
  return {slice(sorted.values, begin, end, {}, {}), slice(sorted.indices, begin, end, {}, {})};
}

// 1 at the first of the largest elements along an axis, 0 elsewhere. Before version 13 the axes
// from `axis` on are one.
Values hardmax(NodeContext& c) {
  const Value x = c.in(0);
  const bool flat = c.version() < 13;
  const Shape shape = x.shape({});
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{flat ? 1 : -1}), shape.rank());
  const Value rows = flat ? flattened_from(c, x, axis) : x;
  const size_t along = flat ? 1 : axis;
  const int64_t size = rows.shape({})[along];
  if (size < 0) c.refuse("the size of its axis is not known before the run");
  const Value best = argmax(rows, static_cast<int64_t>(along), true, {});
  const Value places =
      along_axis(iota(c.graph(), i64, {size}, 0, {}), along, rows.shape({}).rank());
  const Value result = cast(equal(best, places, {}), x.dtype({}), {});
  return {flat ? reshape(result, shape, {}) : result};
}

// The slices along an axis where a condition that is known at import holds.
Values compress(NodeContext& c) {
  const std::vector<double> condition = c.numbers(1, "the condition");
  Value x = c.in(0);
  std::vector<int64_t> taken;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) taken.push_back(static_cast<int64_t>(i));
  int64_t axis = 0;
  if (c.has_attribute("axis"))
    axis = static_cast<int64_t>(front_axis(c, c.attribute("axis", int64_t{0}), x.shape({}).rank()));
  else
    x = reshape(x, Shape{-1}, {});
  const Tensor indices = Tensor::of<int64_t>({static_cast<int64_t>(taken.size())}, taken);
  return {gather(x, c.result(indices), axis, {})};
}

// Each sequence backwards over its own length.
Values reverse_sequence(NodeContext& c) {
  const Value x = c.in(0);
  const size_t rank = x.shape({}).rank();
  const size_t time = front_axis(c, c.attribute("time_axis", int64_t{0}), rank);
  const size_t batch = front_axis(c, c.attribute("batch_axis", int64_t{1}), rank);
  return {reversed_sequences(c, x, 1, time, batch)};
}

}  // namespace

void register_import_index(ImportRules& rules) {
  rules.add("Gather", gather_of);
  rules.add("GatherElements", gather_elements);
  rules.add("GatherND", gather_nd);
  rules.add("ScatterElements", scatter_elements);
  rules.add("Scatter", scatter_elements);
  rules.add("ScatterND", scatter_nd);
  rules.add("OneHot", one_hot_of);
  rules.add("TopK", largest_k);
  rules.add("Hardmax", hardmax);
  rules.add("Compress", compress);
  rules.add("ReverseSequence", reverse_sequence);
}

}  // namespace keel::onnx
