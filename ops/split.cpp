#include "keel/ops/split.h"

#include <string>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/called_as.h"
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
  const int64_t dim = x.shape[axis];
  const std::string expected =
      dim < 0 ? "sizes >= 0" : "sizes >= 0 that add up to " + std::to_string(dim);
  int64_t total = 0;
  std::vector<Type> parts;
  for (const int64_t size : a.sizes) {
    if (size < 0) c.fail("sizes", expected, "a negative size");
    total = checked_add(total, size, "split");
    parts.push_back({x.dtype, x.shape.with_dim(axis, size)});
  }
  if (a.sizes.empty() || (dim >= 0 && total != dim)) {
    c.fail("sizes", expected, a.sizes.empty() ? "none" : "a sum of " + std::to_string(total));
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

// Parts that nothing flows back to are zeros: around the others, or between them.
Values gradient_split(const BuildContext& c) {
  const auto& a = c.as<SplitAttributes>();
  const auto axis = static_cast<size_t>(a.axis);
  const Type& x = c.inputs[0].type();
  const auto zeros = [&](int64_t size) {
    return zeros_of(c.graph, {x.dtype, x.shape.with_dim(axis, size)}, c.site);
  };
  Values parts;
  std::vector<int64_t> low(x.shape.rank(), 0), high = low;
  int64_t missing = 0;  // since the last part with a gradient
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.sizes[i] == 0) continue;
    const Value& part = c.output_gradients[i];
    if (!part.valid()) {
      missing += a.sizes[i];
      continue;
    }
    if (parts.empty())
      low[axis] = missing;
    else if (missing != 0)
      parts.push_back(zeros(missing));
    parts.push_back(part);
    missing = 0;
  }
  if (parts.empty()) return {zeros(x.shape[axis])};
  high[axis] = missing;
  const Value joined = parts.size() == 1 ? parts[0] : concat(parts, a.axis, c.site);
  if (low[axis] == 0 && high[axis] == 0) return {joined};
  return {pad(joined, low, high, 0, c.site)};
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

// The most parts that a call may ask for by a number. Each is a value of the graph, so that more
// take all of the memory before they are of use.
constexpr int64_t kMostParts = int64_t{1} << 20;

void require_few_parts(const char* op, const char* argument, int64_t parts, const Shape& shape,
                       const char* fix, CallSite site) {
  if (parts <= kMostParts) return;
  throw Error({.op = op,
               .argument = argument,
               .expected = "at most " + std::to_string(kMostParts) + " parts",
               .got = std::to_string(parts) + " parts of " + to_string(shape),
               .fix = fix,
               .site = site});
}

// An axis that x is cut along, counted from the front, and its dimension.
struct CutAxis {
  int64_t axis = 0, dim = 0;
};

// Throws Error where x has no such axis.
CutAxis cut_axis(const char* op, const Operand& x, int64_t axis, CallSite site) {
  const Shape& shape = require_value(x, op, "x", site).shape();
  const int64_t at = axis_from_front(axis, shape.rank());
  if (at < 0 || at >= static_cast<int64_t>(shape.rank())) {
    throw Error({.op = op,
                 .argument = "axis",
                 .expected = "an axis of x, which has shape " + to_string(shape),
                 .got = std::to_string(axis),
                 .site = site});
  }
  return {at, shape[static_cast<size_t>(at)]};
}

}  // namespace

Values split(Operand x, int64_t parts, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const CutAxis cut = cut_axis("split", x, axis, line);
  if (parts < 1 || cut.dim < 0 || cut.dim % parts != 0) {
    throw Error({.op = "split",
                 .argument = "parts",
                 .expected = cut.dim < 0 ? "an axis of known dimension"
                                         : "a divisor of " + std::to_string(cut.dim),
                 .got = std::to_string(parts) + " parts of " + to_string(x.value().shape()),
                 .fix = "use split_sizes",
                 .site = line});
  }
  require_few_parts("split", "parts", parts, x.value().shape(), "take fewer parts", line);
  const std::vector<int64_t> sizes(static_cast<size_t>(parts), cut.dim / parts);
  return split_sizes(x, sizes, cut.axis, line);
}

Values split_sizes(Operand x, const std::vector<int64_t>& sizes, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const CutAxis cut = cut_axis("split_sizes", x, axis, line);
  if (sizes.empty() && cut.dim == 0) return {};
  const Attributes attributes = Attributes::of(SplitAttributes{sizes, cut.axis});
  require_operands_of("split", {"split_sizes", {"x"}}, {x.value().type()}, attributes, line);
  return emit_all("split", {x}, attributes, line);
}

Values unstack(Operand x, int64_t axis, CallSite site) {
  const CallSite line = site.known() ? site : x.site();
  const CutAxis cut = cut_axis("unstack", x, axis, line);
  if (cut.dim < 0) {
    throw Error({.op = "unstack",
                 .argument = "axis",
                 .expected = "an axis of known dimension",
                 .got = "axis " + std::to_string(axis) + " of " + to_string(x.value().shape()),
                 .site = line});
  }
  require_few_parts("unstack", "axis", cut.dim, x.value().shape(),
                    "work on x as a whole, or gather the parts that are needed", line);
  Values parts;
  const std::vector<int64_t> ones(static_cast<size_t>(cut.dim), 1);
  for (const Value& part : split_sizes(x, ones, cut.axis, line)) {
    parts.push_back(squeeze(part, {cut.axis}, line));
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
