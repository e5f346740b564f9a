#include "keel/ops/gather.h"

#include <limits>
#include <numeric>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/axis_to_front.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/reference_copy.h"
#include "keel/ops/scalar_rules.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

void require_index_dtype(const InferContext& c, size_t input) {
  const DType dtype = c.inputs[input].dtype;
  if (dtype == i64 || dtype == i32) return;
  c.fail(c.input_name(input), "i64 or i32", name_of(dtype), "convert it with cast(x, keel::i32)");
}

// shape without `axis`, with `inserted` in its place.
Shape replace_axis(const Shape& shape, size_t axis, const Shape& inserted) {
  Shape result;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i != axis)
      result.push_back(shape[i]);
    else
      for (const int64_t dim : inserted) result.push_back(dim);
  }
  return result;
}

int64_t elements(const Shape& shape, size_t first, size_t last) {
  int64_t n = 1;
  for (size_t i = first; i < last; ++i) n *= shape[i];
  return n;
}

// Random indices below `size`; none when there is nothing to point at.
Tensor draw_indices(SampleSource& source, DType dtype, const Shape& shape, int64_t size) {
  if (size == 0) return Tensor(dtype, Shape{0});
  return source.values(dtype, shape, 0, static_cast<double>(size - 1));
}

// Thousands of indices of a few short rows: sums in which each index occurs very often.
bool is_crowded(SampleSource& source) { return source.size() > 50 && source.integer(0, 5) == 0; }
Shape few_rows(SampleSource& source) { return {source.integer(1, 3), source.integer(1, 2)}; }
Shape many_indices(SampleSource& source) { return {source.integer(1000, 6000)}; }

// ---- gather

std::vector<Type> infer_gather(const InferContext& c) {
  require_index_dtype(c, 1);
  const Shape& x = c.inputs[0].shape;
  const size_t axis = require_axis(c, "axis", c.as<GatherAttributes>().axis, x.rank());
  return {{c.inputs[0].dtype, replace_axis(x, axis, c.inputs[1].shape)}};
}

void reference_gather(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  const Tensor& indices = c.inputs[1];
  const auto axis = static_cast<size_t>(c.as<GatherAttributes>().axis);
  const int64_t size = x.shape()[axis];
  require_indices(c.op.name, "indices along axis " + std::to_string(axis), "index", indices, size,
                  "slices");
  // Seen as [outer, size, inner].
  const int64_t outer = elements(x.shape(), 0, axis);
  const int64_t inner = elements(x.shape(), axis + 1, x.shape().rank());
  const int64_t count = indices.num_elements();
  for (int64_t i = 0; i < count; ++i) {
    const Shape walked{outer, inner};
    const Placement read{{size * inner, 1}, integer_at(indices, i) * inner};
    const Placement write{{count * inner, 1}, i * inner};
    copy_elements(walked, x, read, c.outputs[0], write);
  }
}

Values gradient_gather(const BuildContext& c) {
  const Value x = c.inputs[0];
  const Value indices = c.inputs[1];
  const auto axis = c.as<GatherAttributes>().axis;
  const auto rank = static_cast<int64_t>(x.shape().rank());
  const auto index_rank = static_cast<int64_t>(indices.shape().rank());
  // dy with the axes of the indices in front; x's own axis likewise.
  const auto to_front = axes_to_front(axis, index_rank, rank - 1 + index_rank);
  Shape rows{x.shape()[static_cast<size_t>(axis)]};
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) rows.push_back(x.shape()[static_cast<size_t>(i)]);
  }
  const Value zeros = zeros_of(c.graph, {x.dtype(), rows}, c.site);
  Value dy = c.output_gradients[0];
  if (axis != 0) dy = transpose(dy, to_front, c.site);
  const Value dx = scatter_add(zeros, indices, dy, c.site);
  if (axis == 0) return {dx, Value()};
  return {transpose(dx, front_to_axis(axis, rank), c.site), Value()};
}

Sample sample_gather(SampleSource& source) {
  const bool crowded = is_crowded(source);
  const Shape shape = crowded ? few_rows(source) : source.shape(1, 3);
  const int64_t axis = source.integer(0, static_cast<int64_t>(shape.rank()) - 1);
  const int64_t size = shape[static_cast<size_t>(axis)];
  const Shape picked = crowded ? many_indices(source) : source.shape(0, 2);
  const Tensor indices = draw_indices(source, source.coin() ? i64 : i32, picked, size);
  return {{source.values(shape), indices},
          [axis](Graph&, const Values& in) { return Values{gather(in[0], in[1], axis)}; }};
}

// ---- scatter_add

std::vector<Type> infer_scatter_add(const InferContext& c) {
  const Type& x = c.inputs[0];
  const Type& updates = c.inputs[2];
  require_dtypes(c, 0, kNumbers);
  require_index_dtype(c, 1);
  c.require_rank(0, 1, Shape::kMaxRank);
  if (updates.dtype != x.dtype) {
    c.fail("updates", name_of(x.dtype) + std::string(" like x"), name_of(updates.dtype),
           std::string("convert one side with cast(x, keel::") + name_of(x.dtype) + ")");
  }
  const Shape expected = replace_axis(x.shape, 0, c.inputs[1].shape);
  Shape row = x.shape;
  bool fits = updates.shape.rank() == expected.rank();
  for (size_t i = 0; fits && i < expected.rank(); ++i) {
    const int64_t got = updates.shape[i];
    fits = got < 0 || expected[i] < 0 || got == expected[i];
    const size_t lead = c.inputs[1].shape.rank();
    if (fits && i >= lead && row[i - lead + 1] < 0) row = row.with_dim(i - lead + 1, got);
  }
  if (!fits) c.fail("updates", "shape " + to_string(expected), to_string(updates.shape));
  return {{x.dtype, row}};
}

void reference_scatter_add(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  const Tensor& indices = c.inputs[1];
  require_indices(c.op.name, "indices", "index", indices, x.shape()[0], "rows");
  const int64_t row = elements(x.shape(), 1, x.shape().rank());
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      std::vector<Computed<T>> sums;
      const auto start = x.data<T>();
      const auto updates = c.inputs[2].data<T>();
      for (const T value : start) sums.push_back(load(&value, 0));
      for (int64_t i = 0; i < indices.num_elements(); ++i) {
        const int64_t to = integer_at(indices, i) * row;
        for (int64_t k = 0; k < row; ++k) {
          auto& total = sums[static_cast<size_t>(to + k)];
          total = scalar::add(total, load(updates.data(), i * row + k));
        }
      }
      const auto out = c.outputs[0].data<T>();
      for (size_t i = 0; i < sums.size(); ++i) store(out.data(), static_cast<int64_t>(i), sums[i]);
    }
  });
}

Values gradient_scatter_add(const BuildContext& c) {
  const Value dy = c.output_gradients[0];
  return {dy, Value(), gather(dy, c.inputs[1], 0, c.site)};
}

Sample sample_scatter_add(SampleSource& source) {
  if (source.dtype() == boolean) return {};
  const bool crowded = is_crowded(source);
  const Shape shape = crowded ? few_rows(source) : source.shape(1, 3);
  const Shape picked = crowded ? many_indices(source) : source.shape(0, 2);
  const Tensor indices = draw_indices(source, source.coin() ? i64 : i32, picked, shape[0]);
  const Shape of_updates = replace_axis(shape, 0, indices.shape());
  // They have one sign, since sums then leave the numbers that are added far below them.
  const Tensor updates = crowded ? source.values(of_updates, 0, 2) : source.values(of_updates);
  return {{source.values(shape), indices, updates},
          [](Graph&, const Values& in) { return Values{scatter_add(in[0], in[1], in[2])}; }};
}

// ---- one_hot

std::vector<Type> infer_one_hot(const InferContext& c) {
  const auto& a = c.as<OneHotAttributes>();
  require_dtypes(c, 0, kIntegers);
  if (a.depth < 1) c.fail("depth", "at least 1", std::to_string(a.depth));
  if (!contains(kAnyDType, a.dtype)) c.fail("dtype", describe_dtypes(kAnyDType), name_of(a.dtype));
  c.require_rank(0, 0, Shape::kMaxRank - 1);
  Shape shape = c.inputs[0].shape;
  shape.push_back(a.depth);
  return {{a.dtype, shape}};
}

void reference_one_hot(const ReferenceContext& c) {
  const auto& a = c.as<OneHotAttributes>();
  const Tensor& ids = c.inputs[0];
  require_indices(c.op.name, "ids", "id", ids, a.depth, "values");
  visit_dtype(a.dtype, [&]<class T>() {
    const auto out = c.outputs[0].data<T>();
    std::fill(out.begin(), out.end(), convert_element<T>(0.0));
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      out[static_cast<size_t>(i * a.depth + integer_at(ids, i))] = convert_element<T>(1.0);
    }
  });
}

Sample sample_one_hot(SampleSource& source) {
  const int64_t depth = source.integer(1, 12);
  const DType ids = source.pick<DType>({i64, i32, u8});
  const Tensor drawn = source.values(ids, source.shape(0, 3), 0, static_cast<double>(depth - 1));
  return {{drawn}, [depth, dtype = source.dtype()](Graph&, const Values& in) {
            return Values{one_hot(in[0], depth, dtype)};
          }};
}

// ---- iota

// Returns the largest n such that the dtype holds all of 0 ... n.
int64_t largest_count(DType dtype) {
  return visit_dtype(dtype, []<class T>() -> int64_t {
    if constexpr (std::is_same_v<T, Half>)
      return int64_t{1} << 11;
    else if constexpr (std::is_same_v<T, BFloat16>)
      return int64_t{1} << 8;
    else if constexpr (std::is_floating_point_v<T>)
      return int64_t{1} << std::numeric_limits<T>::digits;
    else
      return static_cast<int64_t>(std::numeric_limits<T>::max());
  });
}

std::vector<Type> infer_iota(const InferContext& c) {
  const auto& a = c.as<IotaAttributes>();
  if (a.type.size() != 1) c.fail("type", "one type", std::to_string(a.type.size()) + " types");
  const Type& type = a.type[0];
  if (!contains(kNumbers, type.dtype))
    c.fail("dtype", describe_dtypes(kNumbers), name_of(type.dtype));
  if (!type.shape.known()) c.fail("shape", "all dimensions known", to_string(type.shape));
  static_cast<void>(type.shape.num_bytes(type.dtype));
  const size_t axis = require_axis(c, "axis", a.axis, type.shape.rank());
  const int64_t last = std::max<int64_t>(type.shape[axis] - 1, 0);
  if (last > largest_count(type.dtype)) {
    c.fail("dtype", "one that holds every integer up to " + std::to_string(last),
           std::string(name_of(type.dtype)) + ", which does so up to " +
               std::to_string(largest_count(type.dtype)),
           "use a wider dtype, and cast what is computed from it");
  }
  return {type};
}

void reference_iota(const ReferenceContext& c) {
  const auto axis = static_cast<size_t>(c.as<IotaAttributes>().axis);
  const Shape& shape = c.outputs[0].shape();
  const int64_t size = shape[axis];
  const int64_t inner = elements(shape, axis + 1, shape.rank());
  visit_dtype(c.outputs[0].dtype(), [&]<class T>() {
    const auto out = c.outputs[0].data<T>();
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = convert_element<T>(static_cast<int64_t>(i) / inner % size);
    }
  });
}

Sample sample_iota(SampleSource& source) {
  if (source.dtype() == boolean) return {};
  Shape shape = source.shape(1, 4);
  const int64_t axis = source.integer(0, static_cast<int64_t>(shape.rank()) - 1);
  const auto i = static_cast<size_t>(axis);
  shape = shape.with_dim(i, std::min<int64_t>(shape[i], largest_count(source.dtype())));
  return {{}, [shape, axis, dtype = source.dtype()](Graph& graph, const Values&) {
            return Values{iota(graph, dtype, shape, axis)};
          }};
}

}  // namespace

int64_t integer_at(const Tensor& indices, int64_t i) {
  const auto at = static_cast<size_t>(i);
  switch (indices.dtype()) {
    case DType::kI64:
      return indices.data<int64_t>()[at];
    case DType::kI32:
      return indices.data<int32_t>()[at];
    default:
      return indices.data<uint8_t>()[at];
  }
}

void require_indices(const std::string& op, const std::string& argument, const char* what,
                     const Tensor& indices, int64_t size, const char* of) {
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t index = integer_at(indices, i);
    if (index >= 0 && index < size) continue;
    throw Error({.op = op,
                 .argument = argument,
                 .expected = size == 0
                                 ? std::string("none, since there are no ") + of
                                 : std::string(what) + " from 0 to " + std::to_string(size - 1) +
                                       " (" + std::to_string(size) + " " + of + ")",
                 .got = std::string(what) + " " + std::to_string(index) + " at position " +
                        std::to_string(i)});
  }
}

Value gather(Operand x, Operand indices, int64_t axis, CallSite site) {
  GatherAttributes attributes{axis};
  if (!x.is_literal()) attributes.axis = axis_from_front(axis, x.value().shape().rank());
  return emit("gather", {x, indices}, Attributes::of(attributes), site);
}

Value scatter_add(Operand x, Operand indices, Operand updates, CallSite site) {
  return emit("scatter_add", {x, indices, updates}, site);
}

Value one_hot(Operand ids, int64_t depth, DType dtype, CallSite site) {
  return emit("one_hot", {ids}, Attributes::of(OneHotAttributes{depth, dtype}), site);
}

Value iota(Graph& graph, DType dtype, const Shape& shape, int64_t axis, CallSite site) {
  IotaAttributes attributes{{Type{dtype, shape}}, axis_from_front(axis, shape.rank())};
  return graph.add("iota", {}, Attributes::of(std::move(attributes)), site).output();
}

void register_gather(OpTable& table) {
  table.add({.name = "gather",
             .summary = "slices along an axis chosen by indices",
             .input_names = {"x", "indices"},
             .attributes = &attributes_schema<GatherAttributes>(),
             .infer = infer_gather,
             .reference = reference_gather,
             .gradient = gradient_gather,
             .traits = kMovement | kGather,
             .checked_indices = CheckedIndices{1,
                                               [](const Node& node) {
                                                 const auto axis = static_cast<size_t>(
                                                     node.as<GatherAttributes>().axis);
                                                 return node.input(0).shape()[axis];
                                               }},
             .sample = sample_gather});
  table.add({.name = "scatter_add",
             .summary = "adds rows to the rows that indices name",
             .input_names = {"x", "indices", "updates"},
             .infer = infer_scatter_add,
             .reference = reference_scatter_add,
             .gradient = gradient_scatter_add,
             .traits = kReduction | kAddsTo,
             .checked_indices =
                 CheckedIndices{1, [](const Node& node) { return node.input(0).shape()[0]; }},
             .sample = sample_scatter_add});
  table.add(
      {.name = "one_hot",
       .summary = "a new last axis that is 1 at the id and 0 elsewhere",
       .input_names = {"ids"},
       .attributes = &attributes_schema<OneHotAttributes>(),
       .infer = infer_one_hot,
       .reference = reference_one_hot,
       .gradient = [](const BuildContext&) { return Values{Value()}; },
       .checked_indices =
           CheckedIndices{0, [](const Node& node) { return node.as<OneHotAttributes>().depth; }},
       .sample = sample_one_hot});
  table.add({.name = "iota",
             .summary = "0, 1, 2, ... along an axis",
             .attributes = &attributes_schema<IotaAttributes>(),
             .infer = infer_iota,
             .reference = reference_iota,
             .gradient = [](const BuildContext&) { return Values{}; },
             .traits = kNoFold,
             .sample = sample_iota});
}

}  // namespace keel
