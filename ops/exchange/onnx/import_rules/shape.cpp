// Other shapes and orders of the same elements, and what is known of a shape.
#include "keel/ops/shape.h"

#include <algorithm>

#include "keel/ops/composed/rearrange.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_indices.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/split.h"

namespace keel::onnx {
namespace {

using Ints = std::vector<int64_t>;

Values identity(NodeContext& c) { return {c.in(0)}; }

Values shape_of(NodeContext& c) {
  const Shape shape = c.known_shape(c.in(0), "its input");
  const auto rank = static_cast<int64_t>(shape.rank());
  const auto bound = [&](const char* name, int64_t otherwise) {
    const int64_t at = c.attribute(name, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = bound("start", 0), end = bound("end", rank);
  Ints dims;
  for (int64_t i = start; i < end; ++i) dims.push_back(shape[static_cast<size_t>(i)]);
  return {c.result_of_sizes(Tensor::of<int64_t>({static_cast<int64_t>(dims.size())}, dims), i64)};
}

Values size_of_value(NodeContext& c) {
  const Shape shape = c.known_shape(c.in(0), "its input");
  return {c.result_of_sizes(Tensor::scalar<int64_t>(shape.num_elements()), i64)};
}

// A 0 keeps the input's dimension, unless allowzero says that it means what it is.
Values reshape_of(NodeContext& c) {
  SizeNumbers target;
  if (c.version() < 5) {
    target.values = c.attribute("shape", Ints{});
    target.origins.assign(target.values.size(), Origin::kFile);
  } else {
    target = c.sizes(1, "the shape");
  }
  Ints& dims = target.values;
  const bool zeros = c.attribute("allowzero", int64_t{0}) != 0;
  c.ignore("consumed_inputs");
  const Value x = c.in(0);
  size_t kept = dims.size();  // a dimension that is not known
  for (size_t i = 0; i < dims.size() && !zeros; ++i) {
    if (dims[i] != 0) continue;
    c.fixed(target, i);
    if (i >= x.shape({}).rank()) c.refuse("its shape keeps a dimension that is not there");
    dims[i] = x.shape({})[i];
    if (dims[i] < 0) kept = i;
  }
  if (kept < dims.size() && std::count(dims.begin(), dims.end(), kUnknownDim) > 1) {
    c.refuse("its shape keeps dimension " + std::to_string(kept) + " of " + to_string(x.shape({})) +
             ", which is not known before the run, beside another open one");
  }
  return {reshaped(c, x, target)};
}

Values transpose_of(NodeContext& c) {
  const Ints perm = c.attribute("perm", Ints{});
  return {transpose(c.in(0), perm, {})};
}

// Axes of squeeze and unsqueeze: an attribute before version 13, an input from it on.
Ints listed_axes(NodeContext& c) {
  if (c.version() < 13) return c.attribute("axes", Ints{});
  return c.has(1) ? c.list(1, "axes") : Ints{};
}

Values squeeze_of(NodeContext& c) {
  const Value x = c.in(0);
  const Ints axes = front_axes(c, listed_axes(c), x.shape({}).rank());
  return {squeezed(c, x, axes)};
}

Values unsqueeze_of(NodeContext& c) {
  const Value x = c.in(0);
  Ints axes = listed_axes(c);
  axes = front_axes(c, axes, x.shape({}).rank() + axes.size());
  std::sort(axes.begin(), axes.end());
  return {axes.empty() ? x : expand_dims(x, axes, {})};
}

// The axes before `axis` become the first one, the others the second.
Values flatten(NodeContext& c) {
  const Value x = c.in(0);
  const auto rank = static_cast<int64_t>(x.shape({}).rank());
  int64_t axis = c.attribute("axis", int64_t{1});
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) c.refuse("there is no axis " + std::to_string(axis));
  return {flattened_from(c, x, static_cast<size_t>(axis))};
}

Values expand(NodeContext& c) {
  const Value x = c.in(0);
  const Shape& shape = x.shape({});
  Ints wanted = c.list(1, "the shape");
  if (wanted.size() < shape.rank()) wanted.insert(wanted.begin(), shape.rank() - wanted.size(), 1);
  // A 1 keeps the input's own dimension.
  const size_t added = wanted.size() - shape.rank();
  for (size_t i = added; i < wanted.size(); ++i)
    if (wanted[i] == 1) wanted[i] = shape[i - added];
  return {broadcast_to(x, Shape(wanted), {})};
}

Values tile_of(NodeContext& c) {
  const Value x = c.in(0);
  if (c.version() >= 6) return {tile(x, c.list(1, "repeats"), {})};
  Ints repeats(x.shape({}).rank(), 1);
  const int64_t axis = c.integer(2, "the axis");
  repeats[front_axis(c, axis, repeats.size())] = c.integer(1, "tiles");
  return {tile(x, repeats, {})};
}

// ---- blocks of an image that become channels, and back

constexpr int64_t kMostBlock = 1 << 16;

Values depth_to_space(NodeContext& c) {
  const int64_t block = c.attribute("blocksize", int64_t{0});
  const std::string mode = c.choice("mode", {"DCR", "CRD"});
  const Value x = c.in(0);
  const Shape s = c.known_shape(x, "its input");
  if (s.rank() != 4 || block < 1 || block > kMostBlock || s[1] % (block * block) != 0)
    c.refuse("its input " + to_string(s) + " does not fit blocks of " + std::to_string(block));
  const int64_t depth = s[1] / (block * block);
  const bool depth_first = mode == "CRD";
  const Value parts = depth_first
                          ? reshape(x, Shape{s[0], depth, block, block, s[2], s[3]}, {})
                          : transpose(reshape(x, Shape{s[0], block, block, depth, s[2], s[3]}, {}),
                                      {0, 3, 1, 2, 4, 5}, {});
  return {reshape(transpose(parts, {0, 1, 4, 2, 5, 3}, {}),
                  Shape{s[0], depth, s[2] * block, s[3] * block}, {})};
}

Values space_to_depth(NodeContext& c) {
  const int64_t block = c.attribute("blocksize", int64_t{0});
  const Value x = c.in(0);
  const Shape s = c.known_shape(x, "its input");
  if (s.rank() != 4 || block < 1 || block > kMostBlock || s[2] % block != 0 || s[3] % block != 0)
    c.refuse("its input " + to_string(s) + " does not fit blocks of " + std::to_string(block));
  const Value parts = reshape(x, Shape{s[0], s[1], s[2] / block, block, s[3] / block, block}, {});
  return {reshape(transpose(parts, {0, 3, 5, 1, 2, 4}, {}),
                  Shape{s[0], s[1] * block * block, s[2] / block, s[3] / block}, {})};
}

}  // namespace

void register_import_shape(ImportRules& rules) {
  rules.add("Identity", identity);
  rules.add("Shape", shape_of);
  rules.add("Size", size_of_value);
  rules.add("Reshape", reshape_of);
  rules.add("Transpose", transpose_of);
  rules.add("Squeeze", squeeze_of);
  rules.add("Unsqueeze", unsqueeze_of);
  rules.add("Flatten", flatten);
  rules.add("Expand", expand);
  rules.add("Tile", tile_of);
  rules.add("DepthToSpace", depth_to_space);
  rules.add("SpaceToDepth", space_to_depth);
}

}  // namespace keel::onnx
