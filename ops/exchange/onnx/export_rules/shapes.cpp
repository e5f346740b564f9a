// Other shapes and orders, parts of tensors, and indices.
#include <algorithm>
#include <numeric>

#include "keel/ops/exchange/onnx/export_rules.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/split.h"

namespace keel::onnx {
namespace {

using Context = ExportContext;

ExportNames write_reshape(Context& c) { return {c.reshaped(c.in(0), c.result_dims())}; }

ExportNames write_transpose(Context& c) {
  return {c.op("Transpose", {c.in(0)}, {{"perm", c.as<TransposeAttributes>().perm}})};
}

// Returns x, whose dimensions are `from`, repeated to those of `to`.
// Runtimes expand a dimension of 1 to 1 where 0 is asked for: what has no elements is made anew.
std::string expanded(Context& c, const std::string& x, DType dtype, const ExportDimensions& from,
                     ExportDimensions to) {
  for (const ExportDimension& dim : to) {
    if (dim.fixed() && dim.size == 0)
      return c.op("ConstantOfShape", {c.dimensions(to)}, {{"value", Tensor::full(dtype, {1}, 0)}});
  }
  // A dimension that x has already may be 1 here, so that fewer depend on the batch.
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[lead + i] && !from[i].fixed()) to[lead + i] = {.size = 1};
  }
  return c.op("Expand", {x, c.dimensions(to)});
}

ExportNames write_broadcast_to(Context& c) {
  return {expanded(c, c.in(0), c.dtype(0), c.dims(0), c.result_dims())};
}

// Says whether a slice begins at an element of its axis or behind it, whatever the batch.
bool begins_inside(const ExportDimension& begin, const ExportDimension& dim) {
  if (begin.per_batch >= 0 && begin.size >= -1) return true;
  constexpr int64_t kFarBefore = -(int64_t{1} << 62);
  return begin.per_batch + dim.per_batch >= 0 && std::max(begin.size, kFarBefore) + dim.size >= 0;
}

// The bounds of a slice, of which one may follow the batch.
struct Bounds {
  ExportDimensions begin, end, strides;

  int64_t size_of(size_t axis, int64_t dim, int64_t batch) const {
    const SliceAttributes one{.begin = {begin[axis].at(batch)},
                              .end = {end[axis].at(batch)},
                              .strides = {strides[axis].at(batch)}};
    return slice_bounds(one, 0, dim).size;
  }
};

// Returns a batch beyond every number that a slice means to begin or end at: files have 2^31 - 1
// for the end of an axis.
int64_t large_batch(const ExportDimension& dim) {
  constexpr int64_t kLongAxis = int64_t{1} << 30;
  return std::max(kLongAxis / std::max<int64_t>(dim.per_batch, 1), 2 * kProbedBatches.back());
}

// Refuses a slice that ends where its axis does for a small batch and not for those that are
// probed, or for these and not for a large one, so that its size is not what they say of it: what
// is computed from that size would be wrong.
void require_size_of_any_batch(const Context& c, const Bounds& bounds, size_t axis) {
  std::vector<int64_t> dims, sizes;
  for (const Node* twin : c.twins()) {
    dims.push_back(twin->input(0).shape()[axis]);
    sizes.push_back(twin->type().shape[axis]);
  }
  const auto dim = dimension_of(dims), size = dimension_of(sizes);
  // A size that no formula has is refused where somebody asks for it.
  if (!size || !dim || dim->fixed()) return;
  const auto fits = [&, axis](int64_t batch) {
    const int64_t whole = dim->at(batch), due = size->at(batch);
    return whole < 0 || due < 0 || bounds.size_of(axis, whole, batch) == due;
  };
  int64_t batch = 1;
  while (batch < kProbedBatches[0] && fits(batch)) ++batch;
  const bool small = batch < kProbedBatches[0];
  if (small || !fits(large_batch(*dim)))
    c.refuse("how many elements it takes of axis " + std::to_string(axis) +
             " is another number where the batch is " + (small ? "small" : "large") +
             "; export it for one size of the batch");
}

// A slice that goes backwards from before the first element has none, where ONNX has it begin at
// the first one.
ExportNames write_slice(Context& c) {
  const size_t rank = c.rank(0);
  if (rank == 0) return {c.in(0)};
  Bounds bounds{c.attribute_dims("begin"), c.attribute_dims("end"), c.attribute_dims("strides")};
  for (size_t axis = 0; axis < rank; ++axis) require_size_of_any_batch(c, bounds, axis);
  auto& [begin, end, strides] = bounds;
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (strides[axis].size >= 0) continue;
    const ExportDimension dim = c.dims(0)[axis];
    if (begins_inside(begin[axis], dim)) continue;
    if (!begin[axis].fixed() || !dim.fixed())
      c.refuse(
          "whether its slice begins before the first element depends on the size of the batch");
    begin[axis] = end[axis] = {.size = 0};
    strides[axis] = {.size = 1};
  }
  return {c.op("Slice", {c.in(0), c.dimensions(begin), c.dimensions(end), c.integers(axes),
                         c.dimensions(strides)})};
}

// Puts `interior` elements of the padding between every two neighbours along an axis: each element
// becomes a row of itself and the padding, and what follows the last one is cut off.
std::string spread(Context& c, const std::string& x, ExportDimensions& dims, size_t axis,
                   int64_t interior, const std::string& padding) {
  ExportDimensions rows = dims;
  rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(axis) + 1, ExportDimension{.size = 1});
  std::vector<int64_t> pads(2 * rows.size(), 0);
  pads[rows.size() + axis + 1] = interior;
  const std::string padded = c.op("Pad", {c.reshaped(x, rows), c.integers(pads), padding});
  ExportDimension& dim = dims[axis];
  dim = {.size = dim.size * (interior + 1), .per_batch = dim.per_batch * (interior + 1)};
  const std::string flat = c.reshaped(padded, dims);
  dim.size -= interior;
  const auto number = static_cast<int64_t>(axis);
  return c.op("Slice", {flat, c.integers({0}), c.integers({-interior}), c.integers({number})});
}

ExportNames write_pad(Context& c) {
  const DType stored = c.dtype(0), dtype = stored == boolean ? i32 : stored;
  const double value = c.node().as<PadAttributes>().value;
  const std::string padding = c.number(dtype, value);
  std::string x = c.cast(c.in(0), stored, dtype);
  ExportDimensions dims = c.dims(0);
  const ExportDimensions interior = c.attribute_dims("interior");
  for (size_t axis = 0; axis < interior.size(); ++axis) {
    if (!interior[axis].fixed()) c.refuse("its padding depends on the size of the batch");
    const bool empty = dims[axis].fixed() && dims[axis].size == 0;
    if (interior[axis].size == 0 || empty) continue;
    x = spread(c, x, dims, axis, interior[axis].size, padding);
  }
  ExportDimensions pads = c.attribute_dims("low");
  const ExportDimensions high = c.attribute_dims("high");
  pads.insert(pads.end(), high.begin(), high.end());
  if (pads.empty()) return {c.cast(x, dtype, stored)};
  return {c.cast(c.op("Pad", {x, c.dimensions(pads), padding}), dtype, stored)};
}

ExportNames write_concat(Context& c) {
  ExportNames inputs;
  for (size_t i = 0; i < c.inputs(); ++i) inputs.push_back(c.in(i));
  return {c.op("Concat", inputs, {{"axis", c.as<ConcatAttributes>().axis}})};
}

ExportNames write_split(Context& c) {
  const ExportDimensions sizes = c.attribute_dims("sizes");
  return c.ops("Split", {c.in(0), c.dimensions(sizes)}, sizes.size(),
               {{"axis", c.node().as<SplitAttributes>().axis}});
}

// ONNX takes no indices of u8.
ExportNames write_gather(Context& c) {
  const DType index = c.dtype(1);
  return {c.op("Gather", {c.in(0), c.cast(c.in(1), index, index == u8 ? i64 : index)},
               {{"axis", c.as<GatherAttributes>().axis}})};
}

// Floats are added in double and rounded once, in the order of their indices.
ExportNames write_scatter_add(Context& c) {
  const DType dtype = c.dtype(0), index = c.dtype(1);
  ExportDimensions rows = c.dims(1);
  // Rows that meet are rounded once; one alone is rounded once in any dtype.
  const bool one = std::all_of(rows.begin(), rows.end(), [](const ExportDimension& dim) {
    return dim.fixed() && dim.size == 1;
  });
  DType wide = dtype == u8 ? i32 : dtype;
  if (is_float(dtype) && !(one && dtype == f32)) wide = f64;
  rows.push_back({.size = 1});
  const std::string indices = c.reshaped(c.cast(c.in(1), index, i64), rows);
  const std::string sums =
      c.op("ScatterND", {c.cast(c.in(0), dtype, wide), indices, c.cast(c.in(2), dtype, wide)},
           {{"reduction", std::string("add")}});
  return {c.cast(sums, wide, dtype)};
}

ExportNames write_one_hot(Context& c) {
  const DType id = c.dtype(0), wide = id == u8 ? i32 : id;
  const int64_t depth = c.as<OneHotAttributes>().depth;
  Tensor classes(wide, {depth});
  for (int64_t i = 0; i < depth; ++i) classes.set(i, static_cast<double>(i));
  const std::string ids = c.cast(c.in(0), id, wide);
  const std::string column = c.op("Unsqueeze", {ids, c.integers({-1})});
  const std::string hit = c.op("Equal", {column, c.constant(classes)});
  return {c.cast(hit, boolean, c.result_dtype())};
}

ExportNames write_iota(Context& c) {
  const ExportDimensions dims = c.result_dims();
  const auto& axis = c.node().as<IotaAttributes>().axis;
  const std::string zero = c.number(i64, 0), one = c.number(i64, 1);
  const ExportDimension& size = dims[static_cast<size_t>(axis)];
  const std::string limit = c.op("Squeeze", {c.dimensions({size})});
  std::string numbers = c.op("Range", {zero, limit, one});
  if (dims.size() > 1) {
    ExportDimensions along(dims.size(), ExportDimension{.size = 1});
    along[static_cast<size_t>(axis)] = size;
    numbers = expanded(c, c.reshaped(numbers, along), i64, along, dims);
  }
  return {c.cast(numbers, i64, c.result_dtype())};
}

ExportNames write_same_dims(Context& c) { return {c.in(0)}; }

}  // namespace

void register_export_shapes(ExportRules& rules) {
  using enum ExportDtypes;
  rules.add({.op = "reshape", .write = write_reshape});
  rules.add({.op = "transpose", .write = write_transpose});
  rules.add({.op = "broadcast_to", .write = write_broadcast_to, .dtypes = kWide});
  rules.add({.op = "same_dims", .write = write_same_dims});
  rules.add({.op = "slice", .write = write_slice});
  rules.add({.op = "pad", .write = write_pad, .dtypes = kWide});
  rules.add({.op = "concat", .write = write_concat});
  rules.add({.op = "split", .write = write_split});
  rules.add({.op = "gather", .write = write_gather});
  rules.add({.op = "scatter_add", .write = write_scatter_add});
  rules.add({.op = "one_hot", .write = write_one_hot});
  rules.add({.op = "iota", .write = write_iota});
}

}  // namespace keel::onnx
