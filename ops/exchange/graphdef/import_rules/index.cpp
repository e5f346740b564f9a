// Elements and rows by index: gather, sums of rows, one-hot vectors, the largest k.
#include <algorithm>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_indices.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/sort.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;

void require_no_batch(NodeContext& c) {
  if (c.attribute("batch_dims", int64_t{0}) != 0) c.refuse("its batch_dims are not 0");
}

Values gather_rows(NodeContext& c) {
  require_no_batch(c);
  return {gather(c.in(0), c.in(1), 0, {})};
}

Values gather_along(NodeContext& c) {
  require_no_batch(c);
  const Value x = c.in(0);
  const size_t axis = onnx::front_axis(c, c.integer(2, "the axis"), x.shape({}).rank());
  return {gather(x, c.in(1), static_cast<int64_t>(axis), {})};
}

Values gather_nd(NodeContext& c) {
  const Value x = c.in(0);
  const Shape shape = c.known_shape(x, "its operand");
  const onnx::RowPlaces rows = onnx::row_places(c, 1, shape, 0, onnx::BelowZero::kRefused);
  std::vector<int64_t> dims{rows.rows};
  dims.insert(dims.end(), rows.row_shape.begin(), rows.row_shape.end());
  return {gather(reshape(x, Shape(dims), {}), rows.places, 0, {})};
}

// The sums of the rows of each id; rows of ids below 0 are in none.
Values sum_of_segments(NodeContext& c) {
  const int64_t segments = c.integer(2, "the number of segments");
  Value rows = c.in(0), ids = c.in(1);
  const Shape shape = c.known_shape(rows, "its operand"), named = ids.shape({});
  if (named.rank() > shape.rank() || segments < 0) c.refuse("its operands do not fit");
  // The ids name parts behind their own axes; those of no segment are added to one more.
  std::vector<int64_t> dims{segments + 1}, given{1};
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (axis < named.rank()) {
      if (named[axis] >= 0 && named[axis] != shape[axis]) c.refuse("its operands do not fit");
      given[0] *= shape[axis];
    } else {
      dims.push_back(shape[axis]);
      given.push_back(shape[axis]);
    }
  }
  rows = reshape(rows, Shape(given), {});
  ids = cast(reshape(ids, Shape{given[0]}, {}), i64, {});
  // One more than there are segments would be taken for none.
  const Value checked =
      segments == 0 ? ids : onnx::checked_ids(maximum(ids, 0, {}), "segment ids", 0, segments);
  const Value place = select(less(ids, 0, {}), segments, checked, {});
  const Value zeros = zeros_of(c.graph(), {rows.dtype({}), Shape(dims)}, {});
  const Value sums = scatter_add(zeros, place, rows, {});
  return {slice(sums, {0}, {segments}, {}, {})};
}

// Rows, or elements, put into zeros of a shape; those that meet are added.
Values scatter_into_zeros(NodeContext& c) {
  const Shape shape(c.integers(2, "the shape"));
  const Value updates = c.in(1);
  const onnx::RowPlaces rows = onnx::row_places(c, 0, shape, 0, onnx::BelowZero::kRefused);
  const Shape places = rows.places.shape({});
  std::vector<int64_t> dims{rows.rows}, given{places.num_elements()};
  std::vector<int64_t> wanted(places.begin(), places.end());
  for (const int64_t dim : rows.row_shape) {
    dims.push_back(dim);
    given.push_back(dim);
    wanted.push_back(dim);
  }
  c.require_shape(updates, Shape(wanted), "its updates are");
  const Value zeros = zeros_of(c.graph(), {updates.dtype({}), Shape(dims)}, {});
  const Value flat = reshape(rows.places, Shape{places.num_elements()}, {});
  return {reshape(scatter_add(zeros, flat, reshape(updates, Shape(given), {}), {}), shape, {})};
}

Values reverse_sequence(NodeContext& c) {
  const Value x = c.in(0);
  const size_t rank = x.shape({}).rank();
  const size_t time = onnx::front_axis(c, c.attribute("seq_dim", int64_t{0}), rank);
  const size_t batch = onnx::front_axis(c, c.attribute("batch_dim", int64_t{0}), rank);
  if (time == batch) c.refuse("its seq_dim and batch_dim are the same");
  return {onnx::reversed_sequences(c, x, 1, time, batch)};
}

Values one_hot_of(NodeContext& c) {
  const int64_t depth = c.integer(1, "the depth");
  if (depth < 0) c.refuse("its depth is negative");
  c.require_shape(c.in(2), {}, "its on_value is");
  c.require_shape(c.in(3), {}, "its off_value is");
  // Bytes hold fewer classes than there may be.
  const Value ids = cast(c.in(0), i64, {});
  const size_t rank = ids.shape({}).rank() + 1;
  const size_t axis = onnx::front_axis(c, c.attribute("axis", int64_t{-1}), rank);
  const Value numbers = onnx::along_axis(iota(c.graph(), i64, {depth}, 0, {}), axis, rank);
  const Value hit = equal(expand_dims(ids, {static_cast<int64_t>(axis)}, {}), numbers, {});
  return {select(hit, c.in(2), c.in(3), {})};
}

Values largest_k(NodeContext& c) {
  c.ignore("sorted");
  const Sorted top = top_k(c.in(0), c.integer(1, "k"), -1, {});
  return {top.values, cast(top.indices, c.dtype_attribute("index_type", i32), {})};
}

}  // namespace

void register_graphdef_index(OpRules& rules) {
  rules.add("Gather", {.make = gather_rows, .weights = {0}});
  rules.add("ResourceGather", {.make = gather_rows, .weights = {0}, .reads_handle = true});
  rules.add("GatherV2", {.make = gather_along, .weights = {0}});
  rules.add("GatherNd", gather_nd);
  rules.add("UnsortedSegmentSum", sum_of_segments);
  rules.add("ScatterNd", scatter_into_zeros);
  rules.add("ReverseSequence", reverse_sequence);
  rules.add("OneHot", one_hot_of);
  rules.add("TopKV2", largest_k);
}

}  // namespace keel::graphdef
