#include "keel/ops/split.h"

#include <string>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/axes.h"
#include "keel/ops/reference_copy.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

std::vector<Type> infer_split(const InferContext& c) {
  const auto& a = c.as<SplitAttributes>();
  const Type& x = c.inputs[0];
  const size_t axis = require_axis(c, "axis", a.axis, x.shape.rank());
  int64_t total = 0;
  std::vector<Type> parts;
  for (const int64_t size : a.sizes) {
    if (size < 0) c.fail("sizes", "sizes >= 0", std::to_string(size));
    total = checked_add(total, size, "split");
    parts.push_back({x.dtype, x.shape.with_dim(axis, size)});
  }
  if (a.sizes.empty()) c.fail("sizes", "at least one part", "none");
  if (x.shape[axis] >= 0 && total != x.shape[axis]) {
    c.fail("sizes", "sizes that add up to " + std::to_string(x.shape[axis]),
           "a sum of " + std::to_string(total));
  }
  return parts;
}

void reference_split(const ReferenceContext& c) {
  const auto axis = static_cast<size_t>(c.as<SplitAttributes>().axis);
  Placement read{c.inputs[0].shape().strides()};
  for (Tensor& part : c.outputs) {
    copy_elements(part.shape(), c.inputs[0], read, part, {part.shape().strides()});
    read.start += part.shape()[axis] * read.strides[axis];
  }
}

Values decompose_split(const BuildContext& c) {
  const auto& a = c.as<SplitAttributes>();
  const auto axis = static_cast<size_t>(a.axis);
  const size_t rank = c.inputs[0].shape().rank();
  std::vector<int64_t> begin(rank, 0), end(rank, kToEnd);
  Values parts;
  for (const int64_t size : a.sizes) {
    end[axis] = begin[axis] + size;
    parts.push_back(slice(c.inputs[0], begin, end, {}, c.site));
    begin[axis] = end[axis];
  }
  return parts;
}

// Parts that nothing flows back to get zeros.
Values gradient_split(const BuildContext& c) {
  Values parts;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    Value part = c.output_gradients[i];
    if (!part.valid()) {
      const Type& type = c.outputs[i].type();
      const Value zero = c.graph.constant(Tensor::full(type.dtype, {}, 0), c.site);
      part = broadcast_to(zero, type.shape, c.site);
    }
    parts.push_back(part);
  }
  return {concat(parts, c.as<SplitAttributes>().axis, c.site)};
}

Sample sample_split(SampleSource& source) {
  const Shape shape = source.shape(1, 4);
  const int64_t axis = source.integer(0, static_cast<int64_t>(shape.rank()) - 1);
  std::vector<int64_t> sizes;
  int64_t left = shape[static_cast<size_t>(axis)];
  for (int64_t n = source.integer(0, 3); n > 0; --n) {
    sizes.push_back(source.integer(0, left));
    left -= sizes.back();
  }
  sizes.push_back(left);
  return {{source.values(shape)},
          [sizes, axis](Graph&, const Values& in) { return split_sizes(in[0], sizes, axis); }};
}

// Returns the dimension of `axis` (from the front). Throws Error where `x` has no such axis.
int64_t split_dim(const char* op, const Operand& x, int64_t axis, CallSite site) {
  const Shape shape = require_value(x, op, "x", site).shape();
  if (axis < 0 || axis >= static_cast<int64_t>(shape.rank())) {
    throw Error({.op = op,
                 .argument = "axis",
                 .expected = "an axis of x, which has shape " + to_string(shape),
                 .got = std::to_string(axis),
                 .site = site});
  }
  return shape[static_cast<size_t>(axis)];
}

int64_t split_axis(const Operand& x, int64_t axis) {
  return x.is_literal() ? axis : axis_from_front(axis, x.value().shape().rank());
}

}  // namespace

Values split(Operand x, int64_t parts, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  axis = split_axis(x, axis);
  const int64_t dim = split_dim("split", x, axis, line);
  if (parts < 1 || dim < 0 || dim % parts != 0) {
    throw Error(
        {.op = "split",
         .argument = "parts",
         .expected = dim < 0 ? "an axis of known dimension" : "a divisor of " + std::to_string(dim),
         .got = std::to_string(parts) + " parts of " + to_string(x.value().shape()),
         .fix = "use split_sizes",
         .site = line});
  }
  return split_sizes(x, std::vector<int64_t>(static_cast<size_t>(parts), dim / parts), axis, line);
}

Values split_sizes(Operand x, const std::vector<int64_t>& sizes, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  axis = split_axis(x, axis);
  const int64_t dim = split_dim("split", x, axis, line);
  int64_t total = 0;
  bool negative = false;
  for (const int64_t size : sizes) {
    negative = negative || size < 0;
    total = checked_add(total, size, "split");
  }
  if (negative || total != dim) {
    throw Error({.op = "split",
                 .argument = "sizes",
                 .expected = dim < 0 ? "an axis of known dimension"
                                     : "sizes >= 0 that add up to " + std::to_string(dim),
                 .got = negative ? "a negative size" : "a sum of " + std::to_string(total),
                 .site = line});
  }
  if (sizes.empty()) return {};
  const Node& node = emit("split", {x}, Attributes::of(SplitAttributes{sizes, axis}), line).node();
  Values parts;
  for (uint32_t i = 0; i < sizes.size(); ++i) parts.push_back(node.output(i));
  return parts;
}

Values unstack(Operand x, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  axis = split_axis(x, axis);
  const int64_t dim = split_dim("unstack", x, axis, line);
  if (dim < 0) {
    throw Error({.op = "unstack",
                 .argument = "axis",
                 .expected = "an axis of known dimension",
                 .got = "axis " + std::to_string(axis) + " of " + to_string(x.value().shape()),
                 .site = line});
  }
  Values parts;
  for (const Value& part :
       split_sizes(x, std::vector<int64_t>(static_cast<size_t>(dim), 1), axis, line)) {
    parts.push_back(squeeze(part, {axis}, line));
  }
  return parts;
}

void register_split(OpTable& table) {
  table.add({.name = "split",
             .summary = "the parts of a value along an axis",
             .input_names = {"x"},
             .attributes = &attributes_schema<SplitAttributes>(),
             .infer = infer_split,
             .reference = reference_split,
             .gradient = gradient_split,
             .decompose = decompose_split,
             .sample = sample_split});
}

}  // namespace keel
