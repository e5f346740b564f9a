#include "keel/ops/parts/part_rules.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "keel/ops/conv.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"
#include "keel/ops/parts/draws_of_rows.h"
#include "keel/ops/parts/part_axes.h"
#include "keel/ops/products/product_matrices.h"
#include "keel/ops/products/product_phases.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/sums/part_sums.h"

namespace keel {
namespace {

using Axis = std::optional<size_t>;
using MaybeRule = std::optional<PartRule>;

const Shape& shape_of(const PartNode& p, size_t input) { return p.node.input(input).shape(); }

// The node's op with other attributes; one result, with rows along `result`, or their sum.
PartRule same_op(const PartNode& p, std::vector<Axis> axes, Axis result, Attributes attributes) {
  return {p.node.op_name(), std::move(attributes), std::move(axes),
          std::vector<Axis>(p.node.types().size(), result)};
}
PartRule same_op(const PartNode& p, std::vector<Axis> axes, Axis result) {
  return same_op(p, std::move(axes), result, p.node.attributes());
}

// The number of the first input that has rows, and their axis.
struct FirstRows {
  size_t input = 0, axis = 0;
};
std::optional<FirstRows> first_rows(const PartNode& p) {
  for (size_t i = 0; i < p.inputs.size(); ++i)
    if (const Axis axis = p.axis(i)) return FirstRows{i, *axis};
  return std::nullopt;
}

// ---- by trait

// Shapes are aligned at their last axes; a dimension of 1 repeats.
MaybeRule elementwise_rule(const PartNode& p) {
  const auto rows = first_rows(p);
  const Shape& result = p.node.type().shape;
  const size_t axis = rows->axis + result.rank() - shape_of(p, rows->input).rank();
  if (result[axis] != shape_of(p, rows->input)[rows->axis]) return std::nullopt;
  std::vector<Axis> axes;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Shape& shape = shape_of(p, i);
    const size_t lead = result.rank() - shape.rank();
    const bool reaches = axis >= lead && (p.axis(i) || shape[axis - lead] != 1);
    if (p.axis(i) && !reaches) return std::nullopt;
    axes.push_back(reaches ? Axis(axis - lead) : Axis());
  }
  return same_op(p, axes, axis);
}

// Inputs and results have a row's elements, one for each row, or none of either.
MaybeRule row_wise_rule(const PartNode& p) {
  const size_t axis = first_rows(p)->axis, rank = shape_of(p, 0).rank();
  if (axis + 1 >= rank) return std::nullopt;
  std::vector<Axis> axes;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Shape& shape = shape_of(p, i);
    const bool has_rows =
        shape.rank() > axis && shape.rank() + 1 >= rank && shape[axis] == shape_of(p, 0)[axis];
    axes.push_back(has_rows ? Axis(axis) : Axis());
  }
  return same_op(p, axes, axis);
}

// Scale and shift have a row's elements, whatever else has as many.
MaybeRule norm_rule(const PartNode& p) {
  if (!p.axis(0) || *p.axis(0) + 1 >= shape_of(p, 0).rank()) return std::nullopt;
  std::vector<Axis> axes(p.inputs.size());
  axes[0] = p.axis(0);
  for (size_t i = 1; i < p.inputs.size(); ++i) {
    if (p.axis(i)) return std::nullopt;
  }
  return same_op(p, axes, axes[0]);
}

// ---- shapes

MaybeRule view_rule(const PartNode& p) {
  const size_t axis = *p.axis(0);
  const Shape& shape = p.node.type().shape;
  const Axis result = axis_of_view(shape_of(p, 0), axis, shape);
  if (!result) return std::nullopt;
  const Shape whole = shape.with_dim(*result, shape[*result] * p.parts);
  PartRule rule = same_op(p, {axis}, result, Attributes::of(ShapeAttributes{whole}));
  rule.op = "reshape";
  return rule;
}

// Which checked the sizes of a part, and does so of all parts.
MaybeRule same_dims_rule(const PartNode& p) {
  if (!p.axis(0) || !p.axis(1)) return std::nullopt;
  return same_op(p, {p.axis(0), p.axis(1)}, p.axis(0));
}

MaybeRule broadcast_rule(const PartNode& p) {
  const size_t axis = *p.axis(0);
  const Shape& shape = p.node.type().shape;
  const size_t result = axis + shape.rank() - shape_of(p, 0).rank();
  if (shape[result] != shape_of(p, 0)[axis]) return std::nullopt;
  const Shape whole = shape.with_dim(result, shape[result] * p.parts);
  return same_op(p, {axis}, result, Attributes::of(ShapeAttributes{whole}));
}

MaybeRule transpose_rule(const PartNode& p) {
  const auto& perm = p.node.as<TransposeAttributes>().perm;
  const auto axis = static_cast<int64_t>(*p.axis(0));
  const auto at = std::find(perm.begin(), perm.end(), axis);
  return same_op(p, {p.axis(0)}, static_cast<size_t>(at - perm.begin()));
}

MaybeRule concat_rule(const PartNode& p) {
  const size_t axis = first_rows(p)->axis;
  if (static_cast<int64_t>(axis) == p.node.as<ConcatAttributes>().axis) return std::nullopt;
  return same_op(p, std::vector<Axis>(p.inputs.size(), axis), axis);
}

// The rows are taken whole.
MaybeRule slice_rule(const PartNode& p) {
  const size_t axis = *p.axis(0);
  SliceAttributes a = p.node.as<SliceAttributes>();
  const SliceBounds bounds = slice_bounds(a, axis, shape_of(p, 0)[axis]);
  if (bounds.first != 0 || bounds.stride != 1 || bounds.size != shape_of(p, 0)[axis])
    return std::nullopt;
  // A begin that counts from the end would be another row of the whole.
  if (axis < a.begin.size()) a.begin[axis] = 0;
  if (axis < a.end.size()) a.end[axis] = kToEnd;
  // Any stride takes a single row whole.
  if (axis < a.strides.size()) a.strides[axis] = 1;
  return same_op(p, {axis}, axis, Attributes::of(a));
}

// ---- by index

MaybeRule gather_rule(const PartNode& p) {
  const auto axis = static_cast<size_t>(p.node.as<GatherAttributes>().axis);
  if (p.axis(0)) {
    const size_t rows = *p.axis(0);
    if (p.axis(1) || rows == axis) return std::nullopt;
    const size_t result = rows < axis ? rows : rows - 1 + shape_of(p, 1).rank();
    return same_op(p, {rows, Axis()}, result);
  }
  return same_op(p, {Axis(), p.axis(1)}, axis + *p.axis(1));
}

MaybeRule first_input_rule(const PartNode& p) { return same_op(p, {p.axis(0)}, p.axis(0)); }

// ---- reductions

bool reduces(const ReduceAttributes& a, size_t rank, size_t axis) {
  return reduced_axes(a.axes, rank)[axis];
}

// Rows stay, and another axis is reduced.
MaybeRule kept_rows_rule(const PartNode& p, const std::vector<bool>& reduced, bool keepdims) {
  const size_t axis = *p.axis(0);
  if (reduced[axis]) return std::nullopt;
  const auto before =
      std::count(reduced.begin(), reduced.begin() + static_cast<int64_t>(axis), true);
  return same_op(p, {axis}, keepdims ? axis : axis - static_cast<size_t>(before));
}

MaybeRule reduce_rule(const PartNode& p) {
  const auto& a = p.node.as<ReduceAttributes>();
  return kept_rows_rule(p, reduced_axes(a.axes, shape_of(p, 0).rank()), a.keepdims);
}

MaybeRule sum_rule(const PartNode& p) {
  ReduceAttributes a = p.node.as<ReduceAttributes>();
  const size_t axis = *p.axis(0);
  if (!reduces(a, shape_of(p, 0).rank(), axis)) return reduce_rule(p);
  if (!p.summed || axis != 0 || !has_part_sums(p.node.type().dtype)) return std::nullopt;
  a.parts = p.parts;
  return same_op(p, {axis}, Axis(), Attributes::of(a));
}

MaybeRule argmax_rule(const PartNode& p) {
  const auto& a = p.node.as<ArgmaxAttributes>();
  std::vector<bool> reduced(shape_of(p, 0).rank());
  reduced[static_cast<size_t>(a.axis)] = true;
  return kept_rows_rule(p, reduced, a.keepdims);
}

// ---- products

// Products with a vector are summed in orders of their own.
bool is_vector(const Shape& product) { return product.back() == 1; }

MaybeRule matmul_rule(const PartNode& p) {
  MatmulAttributes a = p.node.as<MatmulAttributes>();
  const Axis left = p.axis(0), right = p.axis(1);
  const size_t rank = shape_of(p, 0).rank();
  if (left && right) {
    const bool sums = a.transpose_a && !a.transpose_b && rank == 2 && shape_of(p, 1).rank() == 2;
    if (!sums || is_vector(p.node.type().shape) || *left != 0 || *right != 0 || !p.summed ||
        !has_part_sums(p.node.type().dtype))
      return std::nullopt;
    a.parts = p.parts;
    a.rows_alone = true;
    return same_op(p, {left, right}, Axis(), Attributes::of(a));
  }
  const bool rows = left && !a.transpose_a && *left + 1 < rank && shape_of(p, 1).rank() == 2;
  if (!rows || is_vector(p.node.type().shape)) return std::nullopt;
  a.rows_alone = true;
  return same_op(p, {left, Axis()}, left, Attributes::of(a));
}

// A convolution that is not computed as matrices is made of other ops, which know no rows.
MaybeRule conv_rule(const PartNode& p) {
  if (p.axis(0) != Axis(0) || p.axis(1) || !why_no_matrices(p.node).empty()) return std::nullopt;
  Conv2dAttributes a = p.node.as<Conv2dAttributes>();
  a.rows_alone = true;
  return same_op(p, {0, Axis()}, 0, Attributes::of(a));
}

MaybeRule conv_input_gradient_rule(const PartNode& p) {
  if (p.axis(0) != Axis(0) || p.axis(1)) return std::nullopt;
  // Where phases are no products of their own, they are made of convolutions, which know rows.
  if (!why_no_matrices(p.node).empty() && !why_no_phases(p.node).empty()) return std::nullopt;
  Conv2dGradientAttributes a = p.node.as<Conv2dGradientAttributes>();
  a.rows_alone = true;
  return same_op(p, {0, Axis()}, 0, Attributes::of(a));
}

MaybeRule conv_weight_gradient_rule(const PartNode& p) {
  const bool sums = p.axis(0) == Axis(0) && p.axis(1) == Axis(0) && p.summed &&
                    has_part_sums(p.node.type().dtype);
  if (!sums || !why_no_matrices(p.node).empty()) return std::nullopt;
  Conv2dGradientAttributes a = p.node.as<Conv2dGradientAttributes>();
  a.parts = p.parts;
  a.rows_alone = true;
  return same_op(p, {0, 0}, Axis(), Attributes::of(a));
}

// Each image is computed by itself.
MaybeRule images_rule(const PartNode& p) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    if (p.axis(i) && *p.axis(i) != 0) return std::nullopt;
    axes.emplace_back(0);
  }
  return same_op(p, axes, 0);
}

// ---- random numbers

// Elements follow each other in the order of parts where these lie along the first axis.
MaybeRule random_like_rule(const PartNode& p) {
  if (p.axis(0) || p.axis(1) != Axis(0)) return std::nullopt;
  return same_op(p, {Axis(), 0}, 0, attributes_of_part(p, 0));
}

using Rule = MaybeRule (*)(const PartNode&);

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> all = {
      {"reshape", view_rule},
      {"squeeze", view_rule},
      {"expand_dims", view_rule},
      {"same_dims", same_dims_rule},
      {"broadcast_to", broadcast_rule},
      {"transpose", transpose_rule},
      {"concat", concat_rule},
      {"slice", slice_rule},
      {"gather", gather_rule},
      {"one_hot", first_input_rule},
      {"sum", sum_rule},
      {"mean", reduce_rule},
      {"max", reduce_rule},
      {"min", reduce_rule},
      {"prod", reduce_rule},
      {"logsumexp", reduce_rule},
      {"argmax", argmax_rule},
      {"matmul", matmul_rule},
      {"conv2d", conv_rule},
      {"conv2d_input_gradient", conv_input_gradient_rule},
      {"conv2d_weight_gradient", conv_weight_gradient_rule},
      {"max_pool2d", images_rule},
      {"max_pool2d_gradient", images_rule},
      {"avg_pool2d", images_rule},
      {"avg_pool2d_gradient", images_rule},
      {"layer_norm", norm_rule},
      {"rms_norm", norm_rule},
      {"uniform_like", random_like_rule},
      {"normal_like", random_like_rule},
      {"bernoulli_like", random_like_rule}};
  return all;
}

bool has_sums(const PartNode& p) {
  return std::any_of(p.inputs.begin(), p.inputs.end(),
                     [](const Spread& s) { return s.kind == Spread::Kind::kSum; });
}

}  // namespace

std::optional<size_t> PartNode::axis(size_t input) const {
  const Spread& spread = inputs[input];
  return spread.kind == Spread::Kind::kRows ? std::optional(spread.axis) : std::nullopt;
}

MaybeRule part_rule(const PartNode& p) {
  if (has_sums(p)) return same_op(p, std::vector<Axis>(p.inputs.size()), Axis());
  if (!first_rows(p)) return std::nullopt;
  if (const auto rule = rules().find(p.node.op_name()); rule != rules().end())
    return rule->second(p);
  if (p.node.has(kElementwise)) return elementwise_rule(p);
  if (p.node.has(kRowWise)) return row_wise_rule(p);
  return std::nullopt;
}

bool is_exactly_linear(const Node& node) {
  const bool views = node.has(kView) && node.inputs().size() == 1;
  return views || node.op_name() == "transpose" || node.op_name() == "neg";
}

Values summed_form_of(const PartNode& p) {
  if (p.node.op_name() != "mean" || !p.axis(0) || !has_part_sums(p.node.type().dtype)) return {};
  const auto& a = p.node.as<ReduceAttributes>();
  const Shape& shape = shape_of(p, 0);
  if (*p.axis(0) != 0 || !reduces(a, shape.rank(), 0) || p.node.type().shape.num_elements() == 0)
    return {};
  const int64_t terms = shape.num_elements() / p.node.type().shape.num_elements();
  const auto count = static_cast<double>(terms);
  const CallSite site = p.node.site();
  return {sum(div(p.node.input(0), count, site), a.axes, a.keepdims, site)};
}

Attributes attributes_of_part(const PartNode& p, int64_t part) {
  return is_random_like(p.node) ? draws_of_part(p.node, p.first_part + part) : p.node.attributes();
}

std::optional<Value> repeated_along(const Value& value, size_t axis, int64_t parts) {
  const Node& node = value.node();
  const Shape& shape = value.shape();
  if (node.has(kBroadcast)) {
    const Shape& from = node.input(0).shape();
    const size_t lead = shape.rank() - from.rank();
    if (axis >= lead && from[axis - lead] != 1) return std::nullopt;
    const Shape longer = shape.with_dim(axis, shape[axis] * parts);
    return broadcast_to(node.input(0), longer, node.site());
  }
  if (!node.has(kElementwise) || node.types().size() != 1) return std::nullopt;
  Values inputs;
  for (const Value& v : node.inputs()) {
    const size_t lead = shape.rank() - v.shape().rank();
    const bool reaches = axis >= lead && v.shape()[axis - lead] != 1;
    const auto longer = reaches ? repeated_along(v, axis - lead, parts) : v;
    if (!longer) return std::nullopt;
    inputs.push_back(*longer);
  }
  const Value made = value.graph().add(node.op(), inputs, node.attributes(), node.site()).output();
  // No operand reaches along the axis where a part has one row.
  const Shape longer = shape.with_dim(axis, shape[axis] * parts);
  return made.shape() == longer ? made : broadcast_to(made, longer, node.site());
}

}  // namespace keel
