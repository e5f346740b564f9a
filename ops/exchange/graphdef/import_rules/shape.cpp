// Other shapes and orders of the same elements, and what is known of a shape.
#include "keel/ops/shape.h"

#include <algorithm>
#include <numeric>

#include "keel/ops/composed/rearrange.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/slice.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using Ints = std::vector<int64_t>;

Tensor numbers(const Ints& values) {
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
}
Value numbers(NodeContext& c, const Ints& values, DType dtype) {
  return c.result(numbers(values).cast(dtype, {}));
}

Value shape_as_numbers(NodeContext& c, size_t input) {
  const Shape shape = c.known_shape(c.in(input), "its input");
  return c.result_of_sizes(numbers(Ints(shape.begin(), shape.end())),
                           c.dtype_attribute("out_type", i32));
}

Values shape_of(NodeContext& c) { return {shape_as_numbers(c, 0)}; }

Values shapes_of(NodeContext& c) {
  Values shapes;
  for (size_t i = 0; i < c.inputs(); ++i) shapes.push_back(shape_as_numbers(c, i));
  return shapes;
}

Values size_of_value(NodeContext& c) {
  const Shape shape = c.known_shape(c.in(0), "its input");
  const Tensor size = Tensor::scalar<int64_t>(shape.num_elements());
  return {c.result_of_sizes(size, c.dtype_attribute("out_type", i32))};
}

Values rank_of(NodeContext& c) {
  const auto rank = static_cast<int32_t>(c.in(0).shape({}).rank());
  return {c.result(Tensor::scalar<int32_t>(rank))};
}

Values reshape_of(NodeContext& c) { return {onnx::reshaped(c, c.in(0), c.sizes(1, "the shape"))}; }

Values transpose_of(NodeContext& c) {
  const Value x = c.in(0);
  const Ints perm = c.integers(1, "the permutation");
  return {perm.empty() ? x : transpose(x, perm, {})};
}

Values expand(NodeContext& c) {
  const Value x = c.in(0);
  const size_t rank = x.shape({}).rank() + 1;
  const size_t axis = onnx::front_axis(c, c.integer(1, "the axis"), rank);
  return {expand_dims(x, {static_cast<int64_t>(axis)}, {})};
}

Values squeeze_of(NodeContext& c) {
  const Value x = c.in(0);
  const Ints axes = onnx::front_axes(c, c.attribute("squeeze_dims", Ints{}), x.shape({}).rank());
  return {onnx::squeezed(c, x, axes)};
}

Values broadcast(NodeContext& c) {
  return {broadcast_to(c.in(0), Shape(c.integers(1, "the shape")), {})};
}

Values tile_of(NodeContext& c) { return {tile(c.in(0), c.integers(1, "multiples"), {})}; }

Values reverse_of(NodeContext& c) {
  const Value x = c.in(0);
  const Ints axes = onnx::front_axes(c, c.integers(1, "the axes"), x.shape({}).rank());
  return {axes.empty() ? x : reverse(x, axes, {})};
}

// ---- arithmetic on shapes

Values inverse_permutation(NodeContext& c) {
  const Ints perm = c.integers(0, "the permutation");
  Ints inverse(perm.size(), -1);
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] < 0 || perm[i] >= static_cast<int64_t>(perm.size()) ||
        inverse[static_cast<size_t>(perm[i])] >= 0)
      c.refuse("its operand is no permutation");
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  return {numbers(c, inverse, c.known(0)->dtype())};
}

// Two shapes of one rank that broadcast: ones in front of the shorter one.
struct Broadcast {
  Ints shapes[2];
};
Broadcast broadcast_of(NodeContext& c) {
  Broadcast both{{c.integers(0, "a shape"), c.integers(1, "a shape")}};
  const size_t rank = std::max(both.shapes[0].size(), both.shapes[1].size());
  for (Ints& shape : both.shapes) shape.insert(shape.begin(), rank - shape.size(), 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t a = both.shapes[0][axis], b = both.shapes[1][axis];
    if (a != b && a != 1 && b != 1) c.refuse("its shapes do not broadcast");
  }
  return both;
}

// The axes of the result of two operands that broadcast along which each of them was repeated.
// Where both are 1 each of them counts as repeated.
Values broadcast_axes(NodeContext& c) {
  Values axes;
  for (const Ints& shape : broadcast_of(c).shapes) {
    Ints repeated;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] == 1) repeated.push_back(static_cast<int64_t>(axis));
    axes.push_back(numbers(c, repeated, c.known(0)->dtype()));
  }
  return axes;
}

// The shape that two shapes broadcast to.
Values broadcast_shape(NodeContext& c) {
  const Broadcast both = broadcast_of(c);
  Ints dims = both.shapes[0];
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] == 1) dims[axis] = both.shapes[1][axis];
  return {numbers(c, dims, c.known(0)->dtype())};
}

// Where the parts of a concatenation of these shapes begin.
Values concat_offsets(NodeContext& c) {
  const int64_t axis = c.integer(0, "the axis");
  Values offsets;
  int64_t begin = 0;
  for (size_t i = 1; i < c.inputs(); ++i) {
    const Ints shape = c.integers(i, "a shape");
    const size_t front = onnx::front_axis(c, axis, shape.size());
    Ints offset(shape.size(), 0);
    offset[front] = begin;
    begin += shape[front];
    offsets.push_back(numbers(c, offset, i32));
  }
  return offsets;
}

// The dimensions of a row of a piece: what is left of those of its data behind those of its
// indices, of which each one names a row. Dimensions of the data that are not known fit.
Ints row_of_piece(NodeContext& c, const Shape& places, const Shape& data) {
  bool fits = data.rank() >= places.rank();
  for (size_t i = 0; fits && i < places.rank(); ++i) fits = data[i] < 0 || data[i] == places[i];
  if (!fits)
    c.refuse("its data are " + to_string(data) + ", where it takes " + to_string(places) +
             " and the dimensions of a row, as its indices are " + to_string(places));
  return Ints(data.begin() + static_cast<std::ptrdiff_t>(places.rank()), data.end());
}

// Numbers put together from pieces that say where each of theirs goes; of rows where the pieces
// have rows. Later pieces win.
Values stitch(NodeContext& c) {
  const size_t pieces = c.inputs() / 2;
  if (pieces == 0 || c.inputs() % 2 != 0) c.refuse("its indices and data are not in pairs");
  Ints result;
  DType dtype = i32;
  for (size_t piece = 0; piece < pieces; ++piece) {
    const Ints places = c.integers(piece, "the indices");
    const Tensor data = c.constant(pieces + piece, "the data");
    dtype = data.dtype();
    const Ints values = c.integers(pieces + piece, "the data");
    if (!row_of_piece(c, c.known(piece)->shape(), data.shape()).empty())
      c.refuse("it stitches rows");
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] < 0 || places[i] >= int64_t{1} << 16) c.refuse("its indices are out of range");
      const auto place = static_cast<size_t>(places[i]);
      if (place >= result.size()) result.resize(place + 1, 0);
      result[place] = values[i];
    }
  }
  return {numbers(c, result, dtype)};
}

// Rows of pieces that are not known before the run: all of them one behind the other, of which the
// result takes the last one for each place.
Values stitch_rows(NodeContext& c) {
  const size_t pieces = c.inputs() / 2;
  int64_t total = 0;
  for (size_t piece = 0; piece < pieces; ++piece)
    total += c.constant(piece, "the indices").num_elements();
  Values rows;
  Ints last;
  int64_t first = 0;
  for (size_t piece = 0; piece < pieces; ++piece) {
    const Ints places = c.integers(piece, "the indices");
    const Value data = c.in(pieces + piece);
    const Shape shape = c.known_shape(data, "its data");
    const auto count = static_cast<int64_t>(places.size());
    Ints dims = row_of_piece(c, c.known(piece)->shape(), shape);
    dims.insert(dims.begin(), count);
    rows.push_back(reshape(data, Shape(dims), {}));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = places[static_cast<size_t>(i)];
      if (place < 0 || place >= total) c.refuse("its result has rows that are in no piece");
      if (place >= static_cast<int64_t>(last.size()))
        last.resize(static_cast<size_t>(place) + 1, -1);
      last[static_cast<size_t>(place)] = first + i;
    }
    first += count;
  }
  if (std::find(last.begin(), last.end(), -1) != last.end())
    c.refuse("its result has rows that are in no piece");
  return {gather(concat(rows, 0, {}), numbers(c, last, i64), 0, {})};
}

// Known integers may leave places free, which are 0: shapes are put together so.
Values stitch_pieces(NodeContext& c) {
  for (size_t i = c.inputs() / 2; i < c.inputs(); ++i) {
    const std::optional<Tensor> data = c.known(i);
    if (!data || !is_integer(data->dtype())) return stitch_rows(c);
  }
  return stitch(c);
}

Values rolled(NodeContext& c) {
  Value x = c.in(0);
  const Ints shifts = c.integers(1, "the shifts"), axes = c.integers(2, "the axes");
  if (shifts.size() != axes.size()) c.refuse("its shifts and axes do not fit");
  for (size_t i = 0; i < shifts.size(); ++i) {
    const size_t axis = onnx::front_axis(c, axes[i], x.shape({}).rank());
    x = roll(x, shifts[i], static_cast<int64_t>(axis), {});
  }
  return {x};
}

// The elements from so many diagonals below the main one up to so many above; all of them on a side
// where the number is negative.
Values band_of(NodeContext& c) {
  const Value x = c.in(0);
  const int64_t lower = c.integer(1, "the lower diagonals");
  const int64_t upper = c.integer(2, "the upper diagonals");
  const size_t rank = x.shape({}).rank();
  if (rank < 2) c.refuse("its operand is no matrix");
  const int64_t rows = x.shape({})[rank - 2], columns = x.shape({})[rank - 1];
  constexpr int64_t kMost = 1 << 12;
  if (rows < 0 || columns < 0 || rows > kMost || columns > kMost)
    c.refuse("its matrices have to be of known sizes up to 4096");
  Tensor inside(boolean, {rows, columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < columns; ++k) {
      const bool in = (lower < 0 || i - k <= lower) && (upper < 0 || k - i <= upper);
      inside.set(i * columns + k, in ? 1 : 0);
    }
  return {select(c.result(inside), x, zeros_of(c.graph(), {x.dtype({}), {}}, {}), {})};
}

}  // namespace

void register_graphdef_shape(OpRules& rules) {
  rules.add("Shape", shape_of);
  rules.add("ShapeN", shapes_of);
  rules.add("Size", size_of_value);
  rules.add("Rank", rank_of);
  rules.add("Reshape", reshape_of);
  rules.add("Transpose", transpose_of);
  rules.add("ExpandDims", expand);
  rules.add("Squeeze", squeeze_of);
  rules.add("BroadcastTo", broadcast);
  rules.add("Tile", tile_of);
  rules.add("ReverseV2", reverse_of);
  rules.add("InvertPermutation", inverse_permutation);
  rules.add("BroadcastGradientArgs", broadcast_axes);
  rules.add("ConcatOffset", concat_offsets);
  rules.add("DynamicStitch", stitch_pieces);
  rules.add("ParallelDynamicStitch", stitch_pieces);
  rules.add("BroadcastArgs", broadcast_shape);
  rules.add("Roll", rolled);
  rules.add("MatrixBandPart", band_of);
}

}  // namespace keel::graphdef
