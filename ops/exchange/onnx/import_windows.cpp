#include "keel/ops/exchange/onnx/import_windows.h"

#include <algorithm>

#include "keel/ops/slice.h"

namespace keel::onnx {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMostTaps = 1 << 16;
constexpr int64_t kMostStep = int64_t{1} << 31;  // of strides, dilations and padding

Ints list(NodeContext& c, const char* name, size_t count, int64_t otherwise) {
  Ints values = c.attribute(name, Ints(count, otherwise));
  if (values.size() != count)
    c.refuse("its " + std::string(name) + " are not " + std::to_string(count) + " numbers");
  for (const int64_t v : values) {
    if (v < -kMostStep || v > kMostStep)
      c.refuse("its " + std::string(name) + " are beyond " + std::to_string(kMostStep));
  }
  return values;
}

// As many windows as the stride goes into the axis, the odd element of padding at one end.
void pad_same(NodeContext& c, SpatialWindow& w, bool lower) {
  // With a stride of 1, and with a single tap, as much is missing from an axis of any size.
  const bool of_any_size = w.stride == 1 || w.extent() == 1;
  if (!of_any_size && c.is_open(w.in))
    c.refuse("its padding follows from dimensions that are not known before the run");
  const int64_t windows = (w.in + w.stride - 1) / w.stride;
  const int64_t missing = of_any_size
                              ? w.extent() - 1
                              : std::max<int64_t>((windows - 1) * w.stride + w.extent() - w.in, 0);
  w.low = lower ? missing - missing / 2 : missing / 2;
  w.high = missing - w.low;
}

// A last window that begins inside of the image or of the padding in front of it counts.
void round_up(NodeContext& c, SpatialWindow& w) {
  if (w.stride == 1) return;
  if (c.is_open(w.in))
    c.refuse("its windows follow from dimensions that are not known before the run");
  const int64_t reach = w.low + w.in + w.high - w.extent();
  int64_t windows = (reach + w.stride - 1) / w.stride + 1;
  if ((windows - 1) * w.stride >= w.in + w.low) --windows;
  w.behind = std::max<int64_t>((windows - 1) * w.stride - reach, 0);
}

}  // namespace

SpatialWindows read_windows(NodeContext& c, const Shape& x, const Ints& kernel) {
  if (x.rank() < 3) c.refuse("its input " + to_string(x) + " has no spatial axes");
  const size_t count = x.rank() - 2;
  const Ints taps = kernel.empty() ? list(c, "kernel_shape", count, 0) : kernel;
  if (!kernel.empty()) {
    if (kernel.size() != count) c.refuse("its weights have another rank than its input");
    if (c.attribute("kernel_shape", kernel) != kernel)
      c.refuse("its kernel_shape is not that of its weights");
  }
  const Ints strides = list(c, "strides", count, 1), dilations = list(c, "dilations", count, 1);
  const Ints pads = list(c, "pads", 2 * count, 0);
  const std::string automatic = c.attribute("auto_pad", "NOTSET");
  const bool ceil = c.attribute("ceil_mode", int64_t{0}) != 0;
  const bool lower = automatic == "SAME_LOWER", same = lower || automatic == "SAME_UPPER";
  if (!same && automatic != "NOTSET" && automatic != "VALID")
    c.refuse("its auto_pad is '" + automatic + "'");
  SpatialWindows windows;
  for (size_t i = 0; i < count; ++i) {
    if (x[i + 2] > kMostStep) c.refuse("its input " + to_string(x) + " is too large");
    SpatialWindow w{
        .in = x[i + 2], .taps = taps[i], .stride = strides[i], .dilation = dilations[i]};
    if (w.taps > kMostTaps) c.refuse("its window of " + std::to_string(w.taps) + " is too large");
    if (w.taps < 1 || w.stride < 1 || w.dilation < 1)
      c.refuse("its window, strides and dilations are not all at least 1");
    if (same)
      pad_same(c, w, lower);
    else if (automatic == "NOTSET")
      w.low = pads[i], w.high = pads[i + count];
    if (w.low < 0 || w.high < 0) c.refuse("its pads are negative");
    if (ceil) round_up(c, w);
    windows.push_back(w);
  }
  return windows;
}

Value padded(const Value& x, const SpatialWindows& windows, double value) {
  Ints low(2, 0), high(2, 0);
  bool any = false;
  for (const SpatialWindow& w : windows) {
    low.push_back(w.low);
    high.push_back(w.high + w.behind);
    any = any || low.back() != 0 || high.back() != 0;
  }
  return any ? pad(x, low, high, value, {}) : x;
}

Values taps_along(const Value& x, const SpatialWindows& windows, size_t spatial) {
  const SpatialWindow& w = windows[spatial];
  Values taps;
  for (int64_t k = 0; k < w.taps; ++k) {
    Ints begin(spatial + 3, 0), end(spatial + 3, kToEnd), stride(spatial + 3, 1);
    begin.back() = k * w.dilation;
    end.back() = begin.back() + (w.out() - 1) * w.stride + 1;
    stride.back() = w.stride;
    taps.push_back(slice(x, begin, end, stride, {}));
  }
  return taps;
}

Value window_elements(const Value& x, const SpatialWindows& windows) {
  Values elements{x};
  for (size_t axis = 0; axis < windows.size(); ++axis) {
    Values next;
    for (const Value& element : elements) {
      const Values taps = taps_along(element, windows, axis);
      next.insert(next.end(), taps.begin(), taps.end());
    }
    elements = std::move(next);
  }
  return stack(elements, 0, {});
}

}  // namespace keel::onnx
