// Pooling: the largest element, the mean or a norm of windows, over any number of axes.
#include "keel/ops/pool.h"

#include <algorithm>
#include <limits>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/exchange/onnx/import_windows.h"
#include "keel/ops/gather.h"
#include "keel/ops/normalization.h"
#include "keel/ops/reduce.h"
#include "keel/ops/slice.h"

namespace keel::onnx {
namespace {

using Combine = Value (*)(Operand, Operand, CallSite);

// Combines the elements of each window, one axis after the other.
Value combined(Value x, const SpatialWindows& windows, Combine combine) {
  for (size_t axis = 0; axis < windows.size(); ++axis) {
    const Values taps = taps_along(x, windows, axis);
    x = taps[0];
    for (size_t k = 1; k < taps.size(); ++k) x = combine(x, taps[k], {});
  }
  return x;
}

// Says whether Keel's own op pools these windows: images, no element skipped, every window with an
// element of the image.
bool is_plain(const SpatialWindows& windows) {
  if (windows.size() != 2) return false;
  for (const SpatialWindow& w : windows) {
    if (w.dilation != 1 || w.behind != 0 || w.low >= w.taps || w.high >= w.taps) return false;
  }
  return true;
}

template <class Attributes>
Attributes plain_attributes(const SpatialWindows& windows) {
  Attributes a;
  a.padding = "explicit";
  a.layout = "NCHW";
  for (const SpatialWindow& w : windows) {
    a.window.push_back(w.taps);
    a.stride.push_back(w.stride);
    a.pads.push_back(w.low);
    a.pads.push_back(w.high);
  }
  return a;
}

double lowest_of(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  if (dtype == u8) return 0;
  return dtype == i32 ? std::numeric_limits<int32_t>::min()
                      : static_cast<double>(std::numeric_limits<int64_t>::min());
}

void require_known(NodeContext& c, const SpatialWindows& windows) {
  for (const SpatialWindow& w : windows)
    if (w.in < 0) c.refuse("its windows follow from dimensions that are not known before the run");
}

// The place of the largest element of each window, in the whole of x laid out in a row; with
// storage_order 1 the last spatial axes are counted as columns.
Value places_of_largest(NodeContext& c, const Value& x, const SpatialWindows& windows,
                        bool by_columns) {
  const Shape shape = c.known_shape(x, "its input");
  constexpr int64_t kMostTaps = 4096;
  int64_t taps_of_window = 1;
  for (const SpatialWindow& w : windows) {
    if (w.taps > kMostTaps / taps_of_window)
      c.refuse("it gives indices, and its windows have more than 4096 elements");
    taps_of_window *= w.taps;
  }
  std::vector<int64_t> perm = axes_from(0, shape.rank());
  std::vector<int64_t> dims(shape.begin(), shape.end());
  if (by_columns) {
    std::reverse(perm.begin() + 2, perm.end());
    std::reverse(dims.begin() + 2, dims.end());
  }
  const Value row = iota(c.graph(), i64, {shape.num_elements()}, 0, {});
  const Value numbers = transpose(reshape(row, Shape(dims), {}), perm, {});
  const Value elements = window_elements(padded(x, windows, lowest_of(x.dtype({}))), windows);
  const Value places = window_elements(padded(numbers, windows, -1), windows);
  const Value taps =
      along_axis(iota(c.graph(), i64, {elements.shape({})[0]}, 0, {}), 0, shape.rank() + 1);
  const auto place_at = [&](const Value& tap) {
    return sum(select(equal(taps, tap, {}), places, 0, {}), {0}, false, {});
  };
  // Padding is as large as the largest element only where all of them are the lowest number: the
  // first of them counts, which padding never does.
  const Value place = place_at(argmax(elements, 0, true, {}));
  const Value first = argmax(cast(greater_equal(places, 0, {}), i32, {}), 0, true, {});
  return select(less(place, 0, {}), place_at(first), place, {});
}

Values max_pool(NodeContext& c) {
  const Value x = c.in(0);
  const SpatialWindows windows = read_windows(c, x.shape({}), {});
  const bool by_columns = c.attribute("storage_order", int64_t{0}) != 0;
  Value result;
  if (is_plain(windows)) {
    result = max_pool2d(x, plain_attributes<MaxPool2dAttributes>(windows), {});
  } else {
    require_known(c, windows);
    result = combined(padded(x, windows, lowest_of(x.dtype({}))), windows, maximum);
  }
  if (!c.wants(1)) return {result};
  require_known(c, windows);
  return {result, places_of_largest(c, x, windows, by_columns)};
}

// How many elements each window has: of the image, or with the padding that the node says.
Value counts_of(NodeContext& c, const SpatialWindows& windows, DType dtype, bool with_padding) {
  Value counts;
  for (size_t axis = 0; axis < windows.size(); ++axis) {
    const SpatialWindow& w = windows[axis];
    constexpr int64_t kMost = 1 << 24;
    if (w.in > kMost || w.low > kMost || w.high > kMost || w.out() > kMost / w.taps)
      c.refuse("its windows along an axis hold more than 2^24 elements");
    const int64_t first = with_padding ? 0 : w.low;
    const int64_t end = w.low + w.in + (with_padding ? w.high : 0);
    std::vector<double> of_axis;
    for (int64_t i = 0; i < w.out(); ++i) {
      double count = 0;
      for (int64_t k = 0; k < w.taps; ++k) {
        const int64_t at = i * w.stride + k * w.dilation;
        count += at >= first && at < end ? 1 : 0;
      }
      of_axis.push_back(count);
    }
    const Tensor tensor =
        Tensor::of<double>({static_cast<int64_t>(of_axis.size())}, of_axis).cast(dtype, {});
    const Value along = along_axis(c.result(tensor), axis + 2, windows.size() + 2);
    counts = counts.valid() ? mul(counts, along, {}) : along;
  }
  return counts;
}

Values average_pool(NodeContext& c) {
  const Value x = c.in(0);
  const SpatialWindows windows = read_windows(c, x.shape({}), {});
  const bool with_padding = c.attribute("count_include_pad", int64_t{0}) != 0;
  if (is_plain(windows)) {
    auto attributes = plain_attributes<AvgPool2dAttributes>(windows);
    attributes.count_padding = with_padding;
    return {avg_pool2d(x, attributes, {})};
  }
  require_known(c, windows);
  const DType dtype = x.dtype({});
  const DType wide = dtype == f64 ? f64 : f32;
  const Value total = combined(padded(cast(x, wide, {}), windows, 0), windows, add);
  return {cast(div(total, counts_of(c, windows, wide, with_padding), {}), dtype, {})};
}

Values norm_pool(NodeContext& c) {
  const int64_t p = c.attribute("p", int64_t{2});
  const DType dtype = c.in(0).dtype({});
  const Value x = widened_for_norm(c.in(0), {});
  const SpatialWindows windows = read_windows(c, x.shape({}), {});
  require_known(c, windows);
  if (p != 1 && p != 2) c.refuse("its p is " + std::to_string(p));
  const Value parts = p == 1 ? abs(x, {}) : square(x, {});
  const Value total = combined(padded(parts, windows, 0), windows, add);
  return {cast(p == 1 ? total : sqrt(total, {}), dtype, {})};
}

Values global_average(NodeContext& c) {
  const Value x = c.in(0);
  c.require_rank(x, 3, Shape::kMaxRank, "its input is");
  return {mean(x, axes_from(2, x.shape({}).rank()), true, {})};
}

Values global_max(NodeContext& c) {
  const Value x = c.in(0);
  c.require_rank(x, 3, Shape::kMaxRank, "its input is");
  return {max(x, axes_from(2, x.shape({}).rank()), true, {})};
}

// The elements of x at their places among zeros, in the value that the windows were taken of. Where
// the node says a larger one, it has more zeros behind.
Values max_unpool(NodeContext& c) {
  const Value x = c.in(0);
  c.require_rank(x, 3, Shape::kMaxRank, "its input is");
  const Shape shape = c.known_shape(x, "its input");
  std::vector<int64_t> dims{shape[0], shape[1]}, behind{0, 0};
  for (const SpatialWindow& w : read_windows(c, shape, {})) {
    if (w.stride < w.taps) c.refuse("its windows overlap, so that they may name a place twice");
    dims.push_back((w.in - 1) * w.stride + w.taps - w.low - w.high);
  }
  const std::vector<int64_t> wanted = c.has(2) ? c.list(2, "the output shape") : dims;
  if (wanted.size() != dims.size()) c.refuse("its output shape has another rank than its input");
  for (size_t i = 2; i < dims.size(); ++i) {
    behind.push_back(wanted[i] - dims[i]);
    if (behind.back() < 0) c.refuse("its output shape is smaller than what its windows reach");
  }
  const Shape whole(dims);
  const Value zeros = zeros_of(c.graph(), {x.dtype({}), Shape{whole.num_elements()}}, {});
  c.require_shape(c.in(1), shape, "its indices");
  const Shape row{shape.num_elements()};
  const Value put = scatter_add(zeros, reshape(c.in(1), row, {}), reshape(x, row, {}), {});
  return {pad(reshape(put, whole, {}), std::vector<int64_t>(dims.size(), 0), behind, 0, {})};
}

}  // namespace

void register_import_pool(ImportRules& rules) {
  rules.add("MaxPool", max_pool);
  rules.add("AveragePool", average_pool);
  rules.add("LpPool", norm_pool);
  rules.add("GlobalAveragePool", global_average);
  rules.add("GlobalMaxPool", global_max);
  rules.add("MaxUnpool", max_unpool);
}

}  // namespace keel::onnx
