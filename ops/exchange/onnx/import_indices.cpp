#include "keel/ops/exchange/onnx/import_indices.h"

#include <vector>

#include "keel/core/base/checked.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/scopes.h"
#include "keel/ops/composed/filled.h"
#include "keel/ops/composed/offsets_along.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel::onnx {
namespace {

// The indices that an input gives, i64: tuples along the last axis, or one by one. Constant ones
// are counted from the front and in range already.
struct Given {
  Value values;
  bool in_range = false;
};

// Returns constant tuples counted from the front, whose element i names the axis first + i of that
// size. One that is out of range is refused.
Tensor front_tuples(const NodeContext& c, const Tensor& given, size_t first,
                    const std::vector<int64_t>& sizes, BelowZero below_zero) {
  Tensor front = given.clone();
  const auto indices = front.data<int64_t>();
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t part = i % sizes.size();
    const int64_t size = sizes[part], index = indices[i];
    if (index < 0 && below_zero == BelowZero::kFromEnd) indices[i] = index + size;
    if (indices[i] >= 0 && indices[i] < size) continue;
    c.refuse("there is no index " + std::to_string(index) + " along axis " +
             std::to_string(first + part) + " of size " + std::to_string(size));
  }
  return front;
}

Given given_indices(NodeContext& c, size_t input, size_t first, const std::vector<int64_t>& sizes,
                    BelowZero below_zero) {
  if (!c.is_constant(input)) return {cast(c.in(input), i64, {})};
  const Tensor given = c.known(input)->cast(i64, {});
  const Tensor front = front_tuples(c, given, first, sizes, below_zero);
  // The same indices need no constant of their own.
  return {bit_equal(front, given) ? cast(c.in(input), i64, {}) : c.result(front), true};
}

// Returns indices that only a run knows counted from the front. Those out of range stay what they
// are, for the error to name.
Value from_front(const Value& indices, int64_t size, BelowZero below_zero) {
  if (below_zero == BelowZero::kRefused) return indices;
  const Value counts_back =
      logical_and(less(indices, 0, {}), greater_equal(indices, -size, {}), {});
  return select(counts_back, add(indices, size, {}), indices, {});
}

// Returns what the indices of an axis of this size and stride add to places in several axes made
// one.
Value offsets(const Value& indices, bool in_range, size_t axis, int64_t size, int64_t stride,
              BelowZero below_zero) {
  if (in_range) return stride == 1 ? indices : mul(indices, stride, {});
  return offsets_along(from_front(indices, size, below_zero), axis, size, stride, {});
}

// Returns the places of rows by tuples of indices that name the axes `first` and on of these sizes.
// Where that is the only axis, who takes the places checks them.
Value folded(const Given& tuples, size_t first, const std::vector<int64_t>& sizes,
             BelowZero below_zero) {
  const size_t last = tuples.values.shape({}).rank() - 1;
  const auto part = [&](size_t i) {
    std::vector<int64_t> begin(last + 1, 0), end(last + 1, kToEnd);
    begin[last] = static_cast<int64_t>(i);
    end[last] = begin[last] + 1;
    return squeeze(slice(tuples.values, begin, end, {}, {}), {static_cast<int64_t>(last)}, {});
  };
  if (first == 0 && sizes.size() == 1) {
    const Value only = part(0);
    return tuples.in_range ? only : from_front(only, sizes[0], below_zero);
  }
  Value place;
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride = checked_mul(stride, sizes[i])) {
    const Value offset = offsets(part(i), tuples.in_range, first + i, sizes[i], stride, below_zero);
    place = place.valid() ? add(place, offset, {}) : offset;
  }
  return place;
}

// Adds to the offsets of one axis those of all others: each element's own.
Value with_own_places(NodeContext& c, Value place, const Shape& own, const Shape& shape,
                      size_t axis) {
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i == axis) continue;
    const Value numbers = along_axis(iota(c.graph(), i64, {own[i]}, 0, {}), i, own.rank());
    place = add(place, mul(numbers, shape.strides()[i], {}), {});
  }
  return place;
}

using Combine = Value (*)(Operand, Operand, CallSite);

// One update after the other, so that those which meet in a row are all taken. Null combines a row
// and an update to the update.
Value combine_rows(const Value& x, const Value& places, const Value& updates, Combine combine) {
  const int64_t rows = x.shape({})[0], count = places.shape({})[0];
  const Value numbers = along_axis(iota(x.graph({}), i64, {rows}, 0, {}), 0, x.shape({}).rank());
  const auto always = [](const Values& v) {
    return v[0].graph({}).constant(Tensor::full(boolean, {}, 1), {});
  };
  const auto body = [&](const Values& v) {
    const Value turn = v[0].graph({}).iteration();
    const Value place = gather(places, turn, 0, {});
    Value row = gather(updates, turn, 0, {});
    if (combine != nullptr) row = combine(gather(v[0], place, 0, {}), row, {});
    return Values{select(equal(numbers, place, {}), row, v[0], {})};
  };
  return while_loop({Operand(x)}, always, body, {.trip_count = count}, {})[0];
}

// Says of each row, in a shape that broadcasts to x, whether one of the places names it. A place
// that is no row's is an error of the run; those made of several axes were checked for each axis.
Value rows_hit(NodeContext& c, const Value& x, const Value& places) {
  const Value ones = broadcast_to(c.result(Tensor::full(i32, {}, 1)), places.shape({}), {});
  const Value none = zeros_of(x.graph({}), {i32, Shape{x.shape({})[0]}}, {});
  return along_axis(greater(scatter_add(none, places, ones, {}), 0, {}), 0, x.shape({}).rank());
}

}  // namespace

Value front_indices(NodeContext& c, size_t input, size_t axis, int64_t size) {
  const Given given = given_indices(c, input, axis, {size}, BelowZero::kFromEnd);
  return given.in_range ? given.values : from_front(given.values, size, BelowZero::kFromEnd);
}

Value element_places(NodeContext& c, size_t input, const Shape& shape, size_t axis) {
  const Shape own = c.known_shape(c.in(input), "its indices");
  if (own.rank() != shape.rank()) c.refuse("its indices have another rank than its input");
  for (size_t i = 0; i < own.rank(); ++i) {
    if (i != axis && own[i] > shape[i])
      c.refuse("its indices " + to_string(own) + " do not fit its input " + to_string(shape));
  }
  if (own.rank() == 1) return front_indices(c, input, axis, shape[axis]);
  const Given given = given_indices(c, input, axis, {shape[axis]}, BelowZero::kFromEnd);
  const Value offset = offsets(given.values, given.in_range, axis, shape[axis],
                               shape.strides()[axis], BelowZero::kFromEnd);
  return with_own_places(c, offset, own, shape, axis);
}

Shape RowPlaces::shape_of(int64_t count) const {
  Shape shape{count};
  for (const int64_t size : row_shape) shape.push_back(size);
  return shape;
}

RowPlaces row_places(NodeContext& c, size_t input, const Shape& shape, int64_t batch,
                     BelowZero below_zero) {
  const Shape own = c.known_shape(c.in(input), "its indices");
  const auto first = static_cast<size_t>(batch);
  if (batch < 0 || own.rank() < first + 1 ||
      first + static_cast<size_t>(own.back()) > shape.rank() || own.back() < 1) {
    c.refuse("its indices " + to_string(own) + " do not fit its input " + to_string(shape));
  }
  RowPlaces result;
  std::vector<int64_t> dims;
  for (size_t i = 0; i < shape.rank(); ++i) {
    const bool named = i < first + static_cast<size_t>(own.back());
    if (!named) {
      result.row_shape.push_back(shape[i]);
      continue;
    }
    if (shape[i] < 0)
      c.refuse("the sizes that its indices name are not known before the run: " + to_string(shape));
    result.rows = checked_mul(result.rows, shape[i]);
    if (i >= first)
      dims.push_back(shape[i]);
    else if (own[i] != shape[i])
      c.refuse("its indices " + to_string(own) + " do not fit its input " + to_string(shape));
  }
  result.places = folded(given_indices(c, input, first, dims, below_zero), first, dims, below_zero);
  int64_t inner = 1;
  for (const int64_t dim : dims) inner = checked_mul(inner, dim);
  const size_t rank = own.rank() - 1;
  int64_t stride = inner;
  for (size_t i = first; i-- > 0; stride *= shape[i]) {
    const Value number = along_axis(iota(c.graph(), i64, {shape[i]}, 0, {}), i, rank);
    result.places = add(result.places, mul(number, stride, {}), {});
  }
  return result;
}

Value scatter_rows(NodeContext& c, const Value& x, const Value& places, const Value& updates,
                   const std::string& reduction) {
  if (reduction == "add") return scatter_add(x, places, updates, {});
  if (reduction == "mul") return combine_rows(x, places, updates, mul);
  if (reduction == "max") return combine_rows(x, places, updates, maximum);
  if (reduction == "min") return combine_rows(x, places, updates, minimum);
  // Without the rows' own values nothing else asks whether the places are in range.
  if (reduction == "last")
    return select(rows_hit(c, x, places), combine_rows(x, places, updates, nullptr), x, {});
  const DType dtype = x.dtype({}) == boolean ? u8 : x.dtype({});
  const Value own = cast(x, dtype, {});
  const Value put = scatter_add(zeros_like(own, {}), places, cast(updates, dtype, {}), {});
  return cast(select(rows_hit(c, x, places), put, own, {}), x.dtype({}), {});
}

Value sequence_lengths(NodeContext& c, size_t input, int64_t steps) {
  const Value lengths = cast(c.in(input), i64, {});
  if (!c.is_constant(input)) return checked_ids(lengths, "lengths", 0, checked_add(steps, 1));
  const Tensor known = c.known(input)->cast(i64, {});
  for (const int64_t length : known.data<int64_t>()) {
    if (length >= 0 && length <= steps) continue;
    c.refuse("a length of its sequences is " + std::to_string(length) + ", and they have " +
             std::to_string(steps) + " steps");
  }
  return lengths;
}

Value reversed_sequences(NodeContext& c, const Value& x, size_t input, size_t time, size_t batch) {
  const size_t rank = x.shape({}).rank();
  const Shape shape = c.known_shape(x, "its input");
  const Value lengths = along_axis(sequence_lengths(c, input, shape[time]), batch, rank);
  const Value steps = along_axis(iota(c.graph(), i64, {shape[time]}, 0, {}), time, rank);
  const Value turned =
      select(less(steps, lengths, {}), sub(sub(lengths, steps, {}), 1, {}), steps, {});
  const Value offset = mul(broadcast_to(turned, shape, {}), shape.strides()[time], {});
  const Value places = with_own_places(c, offset, shape, shape, time);
  return gather(reshape(x, Shape{shape.num_elements()}, {}), places, 0, {});
}

Value checked_ids(const Value& ids, const char* what, size_t axis, int64_t count) {
  Graph& graph = ids.graph({});
  const LabelScope here(graph, with_inner_scope(graph.label(), what));
  return offsets_along(ids, axis, count, 1, {});
}

Value flattened_from(NodeContext& c, const Value& x, size_t axis) {
  const Shape& shape = x.shape({});
  int64_t sizes[] = {1, 1};
  for (size_t i = 0; i < shape.rank(); ++i) {
    int64_t& size = sizes[i < axis ? 0 : 1];
    size = size < 0 || shape[i] < 0 ? -1 : checked_mul(size, shape[i]);
  }
  if (sizes[0] < 0 && sizes[1] < 0)
    c.refuse("too many of its dimensions are not known before the run: " + to_string(shape));
  return reshape(x, Shape{sizes[0], sizes[1]}, {});
}

}  // namespace keel::onnx
