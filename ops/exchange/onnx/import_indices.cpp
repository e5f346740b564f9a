#include "keel/ops/exchange/onnx/import_indices.h"

#include <vector>

#include "keel/core/base/checked.h"
#include "keel/graph/control/control_flow.h"
#include "keel/ops/composed/filled.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel::onnx {
namespace {

// Returns the places of rows by index tuples, in a shape of `dims`.
Value folded(const Value& tuples, const std::vector<int64_t>& dims) {
  Value place;
  const size_t last = tuples.shape({}).rank() - 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    std::vector<int64_t> begin(last + 1, 0), end(last + 1, kToEnd);
    begin[last] = static_cast<int64_t>(i);
    end[last] = begin[last] + 1;
    const Value part = squeeze(slice(tuples, begin, end, {}, {}), {static_cast<int64_t>(last)}, {});
    const Value front = from_front(part, dims[i]);
    place = place.valid() ? add(mul(place, dims[i], {}), front, {}) : front;
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
// that is out of range is an error of the run.
Value rows_hit(NodeContext& c, const Value& x, const Value& places) {
  const Value ones = broadcast_to(c.result(Tensor::full(i32, {}, 1)), places.shape({}), {});
  const Value none = zeros_of(x.graph({}), {i32, Shape{x.shape({})[0]}}, {});
  return along_axis(greater(scatter_add(none, places, ones, {}), 0, {}), 0, x.shape({}).rank());
}

}  // namespace

Value from_front(const Value& indices, int64_t size) {
  const Value wide = cast(indices, i64, {});
  return size < 0 ? wide : select(less(wide, 0, {}), add(wide, size, {}), wide, {});
}

Value element_places(NodeContext& c, const Value& indices, const Shape& shape, size_t axis) {
  const Shape own = c.known_shape(indices, "its indices");
  if (own.rank() != shape.rank()) c.refuse("its indices have another rank than its input");
  Value place;
  for (size_t i = 0; i < shape.rank(); ++i) {
    const Value at = i == axis ? from_front(indices, shape[i])
                               : along_axis(iota(c.graph(), i64, {own[i]}, 0, {}), i, own.rank());
    place = place.valid() ? add(mul(place, shape[i], {}), at, {}) : at;
  }
  return place;
}

Shape RowPlaces::shape_of(int64_t count) const {
  Shape shape{count};
  for (const int64_t size : row_shape) shape.push_back(size);
  return shape;
}

RowPlaces row_places(NodeContext& c, const Value& indices, const Shape& shape, int64_t batch) {
  const Shape own = c.known_shape(indices, "its indices");
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
    if (i >= first) dims.push_back(shape[i]);
  }
  result.places = folded(indices, dims);
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
  if (reduction != "none") c.refuse("its reduction is '" + reduction + "'");
  const DType dtype = x.dtype({}) == boolean ? u8 : x.dtype({});
  const Value own = cast(x, dtype, {});
  const Value put = scatter_add(zeros_like(own, {}), places, cast(updates, dtype, {}), {});
  return cast(select(rows_hit(c, x, places), put, own, {}), x.dtype({}), {});
}

Value reversed_sequences(NodeContext& c, const Value& x, const Value& given, size_t time,
                         size_t batch) {
  const size_t rank = x.shape({}).rank();
  const Shape shape = c.known_shape(x, "its input");
  const Value lengths = along_axis(cast(given, i64, {}), batch, rank);
  const Value steps = along_axis(iota(c.graph(), i64, {shape[time]}, 0, {}), time, rank);
  const Value turned =
      select(less(steps, lengths, {}), sub(sub(lengths, steps, {}), 1, {}), steps, {});
  const Value places = element_places(c, broadcast_to(turned, shape, {}), shape, time);
  return gather(reshape(x, Shape{shape.num_elements()}, {}), places, 0, {});
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
