// Parts of values and values put together: slice, split, concat, pad.
#include <algorithm>
#include <numeric>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_integers.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/gather.h"
#include "keel/ops/slice.h"
#include "keel/ops/split.h"

namespace keel::onnx {
namespace {

using Ints = std::vector<int64_t>;

Values concat_of(NodeContext& c) {
  const int64_t axis = c.attribute("axis", int64_t{1});
  return {concat(c.all(), axis, {})};
}

// A slice that goes backwards from before the first element begins at it, where Keel's own slice
// has no elements.
int64_t backward_start(NodeContext& c, int64_t start, int64_t dim) {
  if (start >= -1) return start;
  if (c.is_open(dim)) {
    c.refuse("it goes backwards from " + std::to_string(start) +
             ", and whether its axis begins behind that is not known before the run");
  }
  return start < -dim ? 0 : start;
}

// Bounds are attributes before version 10, inputs from it on.
Values slice_of(NodeContext& c) {
  const Value x = c.in(0);
  const size_t rank = x.shape({}).rank();
  Ints starts, ends, axes, steps;
  if (c.version() < 10) {
    starts = c.attribute("starts", Ints{});
    ends = c.attribute("ends", Ints{});
    axes = c.attribute("axes", Ints{});
  } else {
    starts = c.list(1, "starts");
    ends = c.list(2, "ends");
    if (c.has(3)) axes = c.list(3, "axes");
    if (c.has(4)) steps = c.list(4, "steps");
  }
  if (axes.empty()) axes = axes_from(0, starts.size());
  axes = front_axes(c, axes, rank);
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.refuse("its starts, ends, axes and steps are not of one length");
  Ints begin(rank, 0), end(rank, kToEnd), stride(rank, 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    begin[axis] = steps[i] < 0 ? backward_start(c, starts[i], x.shape({})[axis]) : starts[i];
    end[axis] = ends[i];
    stride[axis] = steps[i];
  }
  return {slice(x, begin, end, stride, {})};
}

// Returns the sizes of `parts` pieces of an axis, as equal as can be, the last one the smallest.
Ints equal_parts(int64_t size, int64_t parts) {
  const int64_t each = (size + parts - 1) / parts;
  Ints sizes;
  for (int64_t left = size; static_cast<int64_t>(sizes.size()) < parts; left -= sizes.back())
    sizes.push_back(std::min(each, left));
  return sizes;
}

Values split_of(NodeContext& c) {
  const Value x = c.in(0);
  const size_t axis = front_axis(c, c.attribute("axis", int64_t{0}), x.shape({}).rank());
  Ints sizes;
  if (c.version() < 13)
    sizes = c.attribute("split", Ints{});
  else if (c.has(1))
    sizes = c.list(1, "the sizes");
  const int64_t parts = c.attribute("num_outputs", static_cast<int64_t>(c.outputs()));
  if (parts != static_cast<int64_t>(c.outputs()))
    c.refuse("it has " + std::to_string(c.outputs()) + " outputs for num_outputs of " +
             std::to_string(parts));
  if (sizes.empty()) {
    const int64_t size = x.shape({})[axis];
    if (size < 0 || parts < 1) c.refuse("the size of its axis is not known before the run");
    if (c.version() < 18 && size % parts != 0)
      c.refuse("an axis of " + std::to_string(size) + " has no " + std::to_string(parts) +
               " equal parts");
    sizes = equal_parts(size, parts);
  }
  return split_sizes(x, sizes, static_cast<int64_t>(axis), {});
}

// ---- padding

// For each place of the padded axis the element that it copies.
Ints copied_elements(NodeContext& c, const std::string& mode, int64_t size, int64_t low,
                     int64_t high) {
  if (size < 1) c.refuse("it repeats the elements of an empty axis");
  constexpr int64_t kMost = 1 << 24;
  if (size > kMost || low > kMost || high > kMost)
    c.refuse("an axis with its padding has more than 2^24 elements");
  const auto source_of = [&](int64_t i) {
    if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
    if (mode == "wrap") return ((i % size) + size) % size;
    const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
    const int64_t at = ((i % period) + period) % period;
    return at < size ? at : period - at;
  };
  Ints from;
  for (int64_t i = -low; i < size + high; ++i) from.push_back(source_of(i));
  return from;
}

struct Pads {
  Ints low, high;
};

Pads pads_of(NodeContext& c, size_t rank) {
  const char* const name = c.version() < 2 ? "paddings" : "pads";
  const Ints given = c.version() < 11 ? c.attribute(name, Ints{}) : c.list(1, "the pads");
  Ints axes = axes_from(0, rank);
  if (c.has(3)) axes = front_axes(c, c.list(3, "the axes"), rank);
  if (given.size() != 2 * axes.size()) c.refuse("its pads do not fit its axes");
  Pads pads{Ints(rank, 0), Ints(rank, 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    pads.low[static_cast<size_t>(axes[i])] = given[i];
    pads.high[static_cast<size_t>(axes[i])] = given[i + axes.size()];
  }
  return pads;
}

// Negative pads cut elements off.
Value cropped(const Value& x, Pads& pads) {
  const size_t rank = pads.low.size();
  Ints begin(rank, 0), end(rank, kToEnd);
  bool any = false;
  for (size_t i = 0; i < rank; ++i) {
    if (pads.low[i] < 0) begin[i] = -pads.low[i];
    if (pads.high[i] < 0) end[i] = pads.high[i];
    any = any || pads.low[i] < 0 || pads.high[i] < 0;
    pads.low[i] = std::max<int64_t>(pads.low[i], 0);
    pads.high[i] = std::max<int64_t>(pads.high[i], 0);
  }
  return any ? slice(x, begin, end, {}, {}) : x;
}

Values pad_of(NodeContext& c) {
  Value x = c.in(0);
  const size_t rank = x.shape({}).rank();
  const std::string mode = c.attribute("mode", "constant");
  Pads pads = pads_of(c, rank);
  x = cropped(x, pads);
  if (mode == "constant") {
    double value = 0;
    if (c.version() < 11)
      value = c.attribute("value", 0.0);
    else if (c.has(2))
      value = exact_number(c, 2, "the value of the padding");
    return {pad(x, pads.low, pads.high, value, {})};
  }
  c.ignore("value");
  if (c.version() >= 11) c.ignore(size_t{2});  // files may have one that no mode but constant reads
  if (mode != "edge" && mode != "reflect" && mode != "wrap") c.refuse("its mode is '" + mode + "'");
  for (size_t axis = 0; axis < rank; ++axis) {
    if (pads.low[axis] == 0 && pads.high[axis] == 0) continue;
    const Shape shape = c.known_shape(x, "its input");
    const Ints from = copied_elements(c, mode, shape[axis], pads.low[axis], pads.high[axis]);
    const Value indices = c.result(Tensor::of<int64_t>({static_cast<int64_t>(from.size())}, from));
    x = gather(x, indices, static_cast<int64_t>(axis), {});
  }
  return {x};
}

}  // namespace

void register_import_parts(ImportRules& rules) {
  rules.add("Concat", concat_of);
  rules.add("Slice", slice_of);
  rules.add("Split", split_of);
  rules.add("Pad", pad_of);
}

}  // namespace keel::onnx
