#include "keel/ops/shape.h"

#include <algorithm>
#include <numeric>

#include "keel/core/base/checked.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/reduce.h"
#include "keel/ops/reference_copy.h"

namespace keel {
namespace {

// ---- views

// The product of the known dimensions, and how many are unknown.
struct Elements {
  int64_t known = 1;
  int unknown = 0;
};

Elements count(const Shape& shape) {
  Elements e;
  for (const int64_t dim : shape) {
    if (dim < 0)
      ++e.unknown;
    else
      e.known = checked_mul(e.known, dim, "number of elements");
  }
  return e;
}

std::vector<Type> infer_reshape(const InferContext& c) {
  const Shape& wanted = c.as<ShapeAttributes>().shape;
  const Elements have = count(c.inputs[0].shape);
  const Elements want = count(wanted);
  if (want.unknown > 1) c.fail("shape", "at most one -1", to_string(wanted));
  const auto mismatch = [&] {
    c.fail("shape", "as many elements as x of shape " + to_string(c.inputs[0].shape),
           to_string(wanted));
  };
  if (have.unknown > 0) {
    // Whatever the unknown dimensions are, the number of elements is a multiple of the known part.
    if (want.unknown == 0 && (have.known == 0 ? want.known != 0 : want.known % have.known != 0))
      mismatch();
    return {{c.inputs[0].dtype, wanted}};
  }
  if (want.unknown == 0) {
    if (have.known != want.known) mismatch();
    return {{c.inputs[0].dtype, wanted}};
  }
  if (want.known == 0 && have.known == 0) {
    c.fail("shape", "no -1 beside a 0, which leaves it undetermined", to_string(wanted),
           "give every dimension");
  }
  if (want.known == 0 || have.known % want.known != 0) mismatch();
  Shape shape;
  for (const int64_t dim : wanted) shape.push_back(dim < 0 ? have.known / want.known : dim);
  return {{c.inputs[0].dtype, shape}};
}

std::vector<Type> infer_squeeze(const InferContext& c) {
  const Shape& x = c.inputs[0].shape;
  const std::vector<bool> dropped = require_axes(c, c.as<AxesAttributes>().axes, x.rank());
  Shape shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (!dropped[i])
      shape.push_back(x[i]);
    else if (x[i] > 1 || x[i] == 0) {
      c.fail("axes", "axes of dimension 1", "axis " + std::to_string(i) + " of " + to_string(x));
    }
  }
  return {{c.inputs[0].dtype, shape}};
}

std::vector<Type> infer_expand_dims(const InferContext& c) {
  const Shape& x = c.inputs[0].shape;
  const auto& axes = c.as<AxesAttributes>().axes;
  const size_t rank = x.rank() + axes.size();
  if (rank > Shape::kMaxRank) {
    c.fail("axes", "a result of rank at most " + std::to_string(Shape::kMaxRank),
           "rank " + std::to_string(rank));
  }
  const std::vector<bool> inserted = require_axes(c, axes, rank);
  Shape shape;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) shape.push_back(inserted[i] ? 1 : x[next++]);
  return {{c.inputs[0].dtype, shape}};
}

void reference_view(const ReferenceContext& c) {
  const size_t bytes = c.outputs[0].num_bytes();
  if (bytes != 0) std::memcpy(c.outputs[0].raw(), c.inputs[0].raw(), bytes);
}

Values gradient_view(const BuildContext& c) {
  return {reshape(c.output_gradients[0], c.inputs[0].shape(), c.site)};
}

Values decompose_squeeze(const BuildContext& c) {
  const Shape& x = c.inputs[0].shape();
  const auto& axes = c.as<AxesAttributes>().axes;
  Shape shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end())
      shape.push_back(x[i]);
  }
  return {reshape(c.inputs[0], shape, c.site)};
}

Values decompose_expand_dims(const BuildContext& c) {
  const auto& axes = c.as<AxesAttributes>().axes;
  Shape shape;
  size_t next = 0;
  for (size_t i = 0; i < c.inputs[0].shape().rank() + axes.size(); ++i) {
    const bool inserted =
        std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    shape.push_back(inserted ? 1 : c.inputs[0].shape()[next++]);
  }
  return {reshape(c.inputs[0], shape, c.site)};
}

Sample sample_reshape(SampleSource& source) {
  const Shape shape = source.shape(0, 5);
  std::vector<int64_t> dims(shape.begin(), shape.end());
  for (size_t i = dims.size(); i > 1; --i) {
    std::swap(dims[i - 1],
              dims[static_cast<size_t>(source.integer(0, static_cast<int64_t>(i) - 1))]);
  }
  if (dims.size() > 1 && source.coin()) {
    dims[1] *= dims[0];
    dims.erase(dims.begin());
  }
  if (!dims.empty() && source.coin() && std::find(dims.begin(), dims.end(), 0) == dims.end()) {
    dims[static_cast<size_t>(source.integer(0, static_cast<int64_t>(dims.size()) - 1))] = -1;
  }
  return {{source.values(shape)}, [wanted = Shape(dims)](Graph&, const Values& in) {
            return Values{reshape(in[0], wanted)};
          }};
}

Sample sample_squeeze(SampleSource& source) {
  Shape shape = source.shape(1, 5);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i != 0 && !source.coin()) continue;
    shape = shape.with_dim(i, 1);
    axes.push_back(static_cast<int64_t>(i) -
                   (source.coin() ? 0 : static_cast<int64_t>(shape.rank())));
  }
  return {{source.values(shape)},
          [axes](Graph&, const Values& in) { return Values{squeeze(in[0], axes)}; }};
}

Sample sample_expand_dims(SampleSource& source) {
  const Shape shape = source.shape(0, 5);
  const auto added = static_cast<size_t>(source.integer(1, 3));
  std::vector<int64_t> axes;
  for (size_t i = 0; i < added; ++i) {
    const auto rank = static_cast<int64_t>(shape.rank() + added);
    const auto axis = static_cast<int64_t>(2 * i) % rank;
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      axes.push_back(axis);
    else
      axes.push_back(rank - 1);
  }
  return {{source.values(shape)},
          [axes](Graph&, const Values& in) { return Values{expand_dims(in[0], axes)}; }};
}

// ---- transpose

std::vector<Type> infer_transpose(const InferContext& c) {
  const Shape& x = c.inputs[0].shape;
  const auto& perm = c.as<TransposeAttributes>().perm;
  std::vector<bool> seen(x.rank(), false);
  Shape shape;
  bool valid = perm.size() == x.rank();
  for (size_t i = 0; valid && i < perm.size(); ++i) {
    const auto axis = static_cast<size_t>(perm[i]);
    valid = axis < x.rank() && !seen[axis];
    if (!valid) break;
    seen[axis] = true;
    shape.push_back(x[axis]);
  }
  if (!valid) {
    std::string got;
    for (const int64_t axis : perm) got += (got.empty() ? "{" : ", ") + std::to_string(axis);
    c.fail("perm", "each of the " + std::to_string(x.rank()) + " axes of x once",
           got.empty() ? "{}" : got + "}");
  }
  return {{c.inputs[0].dtype, shape}};
}

void reference_transpose(const ReferenceContext& c) {
  const auto& perm = c.as<TransposeAttributes>().perm;
  const Strides from = c.inputs[0].shape().strides();
  const Shape& shape = c.outputs[0].shape();
  Placement read;
  for (size_t i = 0; i < perm.size(); ++i) read.strides[i] = from[static_cast<size_t>(perm[i])];
  copy_elements(shape, c.inputs[0], read, c.outputs[0], {shape.strides()});
}

Values gradient_transpose(const BuildContext& c) {
  const auto& perm = c.as<TransposeAttributes>().perm;
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return {inverse.empty() ? c.output_gradients[0]
                          : transpose(c.output_gradients[0], inverse, c.site)};
}

Sample sample_transpose(SampleSource& source) {
  const Shape shape = source.shape(0, 5);
  std::vector<int64_t> perm(shape.rank());
  std::iota(perm.begin(), perm.end(), 0);
  for (size_t i = perm.size(); i > 1; --i) {
    std::swap(perm[i - 1],
              perm[static_cast<size_t>(source.integer(0, static_cast<int64_t>(i) - 1))]);
  }
  return {{source.values(shape)},
          [perm](Graph&, const Values& in) { return Values{transpose(in[0], perm)}; }};
}

// ---- broadcast_to

std::vector<Type> infer_broadcast_to(const InferContext& c) {
  const Shape& x = c.inputs[0].shape;
  const Shape& wanted = c.as<ShapeAttributes>().shape;
  if (wanted.rank() < x.rank()) {
    c.fail("shape", "rank of at least " + std::to_string(x.rank()), to_string(wanted));
  }
  const size_t lead = wanted.rank() - x.rank();
  Shape shape;
  for (size_t i = 0; i < wanted.rank(); ++i) {
    if (wanted[i] < 0 && i < lead) {
      c.fail("shape", "no -1 among the new leading axes", to_string(wanted),
             "-1 keeps a dimension of x, which has shape " + to_string(x));
    }
    const int64_t own = i < lead ? 1 : x[i - lead];
    const int64_t dim = wanted[i] < 0 ? own : wanted[i];
    if (own >= 0 && own != 1 && own != dim) {
      c.fail("shape", "a shape that " + to_string(x) + " broadcasts to", to_string(wanted),
             "only dimensions of 1 repeat");
    }
    shape.push_back(dim);
  }
  return {{c.inputs[0].dtype, shape}};
}

void reference_broadcast_to(const ReferenceContext& c) {
  const Shape& shape = c.outputs[0].shape();
  copy_elements(shape, c.inputs[0], {broadcast_strides(c.inputs[0].shape(), shape)}, c.outputs[0],
                {shape.strides()});
}

Values gradient_broadcast_to(const BuildContext& c) {
  return {sum_to_shape(c.output_gradients[0], c.inputs[0].shape(), c.site)};
}

Sample sample_broadcast_to(SampleSource& source) {
  const Shape shape = source.shape(0, 5);
  return {{source.values(source.broadcastable_to(shape))},
          [shape](Graph&, const Values& in) { return Values{broadcast_to(in[0], shape)}; }};
}

// ---- same_dims

std::vector<Type> infer_same_dims(const InferContext& c) {
  const auto& a = c.as<SameDimsAttributes>();
  const Shape& other = c.inputs[1].shape;
  Shape shape = c.inputs[0].shape;
  if (a.axes.size() != a.other_axes.size()) {
    c.fail("axes", std::to_string(a.other_axes.size()) + ", as many as other_axes",
           std::to_string(a.axes.size()));
  }
  for (size_t i = 0; i < a.axes.size(); ++i) {
    const size_t axis = require_axis(c, "axes", a.axes[i], shape.rank());
    const size_t like = require_axis(c, "other_axes", a.other_axes[i], other.rank());
    if (shape[axis] < 0) shape = shape.with_dim(axis, other[like]);
    if (other[like] < 0 || other[like] == shape[axis]) continue;
    throw Error({.op = a.caller,
                 .argument = a.argument,
                 .expected = "size " + std::to_string(other[like]) + " along axis " +
                             std::to_string(axis) + ", as " + to_string(other) +
                             " has along axis " + std::to_string(like),
                 .got = to_string(c.inputs[0].shape),
                 .site = c.site});
  }
  return {{c.inputs[0].dtype, shape}};
}

Sample sample_same_dims(SampleSource& source) {
  const Shape shape = source.shape(0, 5);
  std::vector<int64_t> axes(shape.rank());
  std::iota(axes.begin(), axes.end(), 0);
  return {{source.values(shape), source.values(shape)}, [axes](Graph&, const Values& in) {
            return Values{same_dims(in[0], in[1], {axes, axes, "sample", "x"})};
          }};
}

}  // namespace

Value reshape(Operand x, const Shape& shape, CallSite site) {
  return emit("reshape", {x}, Attributes::of(ShapeAttributes{shape}), site);
}

Value squeeze(Operand x, const std::vector<int64_t>& axes, CallSite site) {
  AxesAttributes attributes{axes};
  if (!x.is_literal()) {
    const Shape& shape = x.value().shape();
    attributes.axes = axes_from_front(axes, shape.rank());
    for (size_t i = 0; axes.empty() && i < shape.rank(); ++i) {
      if (shape[i] == 1) attributes.axes.push_back(static_cast<int64_t>(i));
    }
    if (attributes.axes.empty()) return x.value();
  }
  return emit("squeeze", {x}, Attributes::of(std::move(attributes)), site);
}

Value expand_dims(Operand x, const std::vector<int64_t>& axes, CallSite site) {
  AxesAttributes attributes{axes};
  if (!x.is_literal())
    attributes.axes = axes_from_front(axes, x.value().shape().rank() + axes.size());
  return emit("expand_dims", {x}, Attributes::of(std::move(attributes)), site);
}

Value transpose(Operand x, const std::vector<int64_t>& perm, CallSite site) {
  TransposeAttributes attributes{perm};
  if (!x.is_literal()) {
    const size_t rank = x.value().shape().rank();
    attributes.perm = axes_from_front(perm, rank);
    for (size_t i = 0; perm.empty() && i < rank; ++i) {
      attributes.perm.push_back(static_cast<int64_t>(rank - 1 - i));
    }
  }
  return emit("transpose", {x}, Attributes::of(std::move(attributes)), site);
}

Value broadcast_to(Operand x, const Shape& shape, CallSite site) {
  return emit("broadcast_to", {x}, Attributes::of(ShapeAttributes{shape}), site);
}

Value zeros_of(Graph& graph, const Type& type, CallSite site) {
  if (!type.shape.known()) {
    throw Error({.op = "zeros_of",
                 .argument = "type",
                 .expected = "a shape whose dimensions are known",
                 .got = to_string(type),
                 .fix = "take zeros_like(x) for a value x of that shape",
                 .site = site});
  }
  return broadcast_to(Operand(graph.constant(Tensor(type.dtype, Shape{}), site), site), type.shape,
                      site);
}

Value same_dims(const Value& x, const Value& other, SameDimsAttributes attributes, CallSite site) {
  return emit("same_dims", {Operand(x, site), Operand(other, site)},
              Attributes::of(std::move(attributes)), site);
}

void register_shape(OpTable& table) {
  table.add({.name = "reshape",
             .summary = "the same elements in row-major order under another shape",
             .input_names = {"x"},
             .attributes = &attributes_schema<ShapeAttributes>(),
             .infer = infer_reshape,
             .reference = reference_view,
             .gradient = gradient_view,
             .traits = kView,
             .sample = sample_reshape});
  table.add({.name = "squeeze",
             .summary = "drops axes of dimension 1",
             .input_names = {"x"},
             .attributes = &attributes_schema<AxesAttributes>(),
             .infer = infer_squeeze,
             .reference = reference_view,
             .gradient = gradient_view,
             .decompose = decompose_squeeze,
             .traits = kView,
             .sample = sample_squeeze});
  table.add({.name = "expand_dims",
             .summary = "inserts axes of dimension 1",
             .input_names = {"x"},
             .attributes = &attributes_schema<AxesAttributes>(),
             .infer = infer_expand_dims,
             .reference = reference_view,
             .gradient = gradient_view,
             .decompose = decompose_expand_dims,
             .traits = kView,
             .sample = sample_expand_dims});
  table.add({.name = "transpose",
             .summary = "permutes axes",
             .input_names = {"x"},
             .attributes = &attributes_schema<TransposeAttributes>(),
             .infer = infer_transpose,
             .reference = reference_transpose,
             .gradient = gradient_transpose,
             .traits = kMovement,
             .sample = sample_transpose});
  table.add({.name = "broadcast_to",
             .summary = "repeats dimensions of 1 and adds leading axes",
             .input_names = {"x"},
             .attributes = &attributes_schema<ShapeAttributes>(),
             .infer = infer_broadcast_to,
             .reference = reference_broadcast_to,
             .gradient = gradient_broadcast_to,
             .traits = kElementwise | kMovement | kBroadcast,
             .sample = sample_broadcast_to});
  table.add({.name = "same_dims",
             .summary = "x, after a check that dimensions are those of another value",
             .input_names = {"x", "other"},
             .attributes = &attributes_schema<SameDimsAttributes>(),
             .infer = infer_same_dims,
             .reference = reference_view,
             .gradient =
                 [](const BuildContext& c) {
                   return Values{c.output_gradients[0], Value()};
                 },
             .traits = kView,
             .sample = sample_same_dims});
}

}  // namespace keel
