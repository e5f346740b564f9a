// Window rules: how a window slides over the two spatial axes of a batch of images: the rules that
// convolutions, pooling and resize share. Attributes name the order of the axes ("NHWC", "NCHW")
// and the padding
// ("valid", "same", "explicit"); ops/README.md says what these mean. Pure functions; any thread.
#ifndef KEEL_OPS_WINDOW_RULES_H
#define KEEL_OPS_WINDOW_RULES_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/core/base/shape.h"
#include "keel/graph/ir/op_def.h"
#include "keel/graph/ir/sample.h"

namespace keel {

inline constexpr const char* kChannelsLast = "NHWC";
inline constexpr const char* kChannelsFirst = "NCHW";
// The order of axes by which transpose makes one of the other.
inline const std::vector<int64_t> kImageToLast = {0, 2, 3, 1}, kImageToFirst = {0, 3, 1, 2};

// Returns the attributes of the same windows over images that are turned to NHWC.
template <class WindowAttributes>
WindowAttributes channels_last(WindowAttributes a) {
  a.layout = kChannelsLast;
  return a;
}

// Height and width, or a number for each of them.
using Pair = std::array<int64_t, 2>;

// Says where the axes of a batch of images are.
struct ImageAxes {
  std::array<size_t, 2> spatial = {1, 2};  // height, width; the batch is axis 0
  size_t channel = 3;
};
// REQUIRES one of the two layouts.
inline ImageAxes image_axes(const std::string& layout) {
  if (layout == kChannelsFirst) return {.spatial = {2, 3}, .channel = 1};
  return {};
}
inline Shape image_shape(const ImageAxes& axes, int64_t batch, Pair size, int64_t channels) {
  std::array<int64_t, 4> dims{};
  dims[0] = batch;
  dims[axes.spatial[0]] = size[0];
  dims[axes.spatial[1]] = size[1];
  dims[axes.channel] = channels;
  return Shape(dims);
}
inline Pair spatial_dims(const Shape& shape, const ImageAxes& axes) {
  return {shape[axes.spatial[0]], shape[axes.spatial[1]]};
}

// The attributes that say how windows slide. Lists hold one number for each spatial axis; pads are
// top, bottom, left, right. Valid as long as the attributes are.
struct WindowSettings {
  const std::vector<int64_t>& stride;
  const std::vector<int64_t>& dilation;
  const std::string& padding;
  const std::vector<int64_t>& pads;
};

// The windows along one spatial axis.
struct WindowAxis {
  int64_t in = kUnknownDim;   // elements of the image
  int64_t out = kUnknownDim;  // windows
  int64_t taps = 1;           // elements of a window
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t low = 0;  // padding in front of the first element and behind the last one
  int64_t high = 0;

  // Returns the distance from the first to the last element of a window.
  int64_t extent() const { return (taps - 1) * dilation + 1; }
  int64_t padded() const { return low + in + high; }
  // Returns the element of the image that tap k of window o lies on. It is padding outside of [0,
  // in).
  int64_t position(int64_t o, int64_t k) const { return o * stride + k * dilation - low; }
  bool inside(int64_t position) const { return position >= 0 && position < in; }
};
using Windows = std::array<WindowAxis, 2>;

// An unknown `in` gives an unknown `out`, and a window that does not fit an `out` of 0. REQUIRES
// settings that require_window_settings accepts and at least one tap. Throws Error on overflow.
inline WindowAxis window_axis(const WindowSettings& settings, size_t axis, int64_t in,
                              int64_t taps) {
  WindowAxis w{
      .in = in, .taps = taps, .stride = settings.stride[axis], .dilation = settings.dilation[axis]};
  const int64_t extent = checked_add(checked_mul(taps - 1, w.dilation, "window"), 1, "window");
  const bool same = settings.padding == "same";
  if (!settings.pads.empty()) {
    w.low = settings.pads[2 * axis];
    w.high = settings.pads[2 * axis + 1];
  }
  if (in < 0) return w;
  if (same) {
    w.out = in == 0 ? 0 : (in - 1) / w.stride + 1;
    const int64_t reach = in == 0 ? 0 : checked_add((w.out - 1) * w.stride, extent, "window");
    const int64_t missing = std::max<int64_t>(reach - in, 0);
    w.low = missing / 2;
    w.high = missing - w.low;
    return w;
  }
  const int64_t padded = checked_add(checked_add(w.low, in, "padding"), w.high, "padding");
  w.out = padded < extent ? 0 : (padded - extent) / w.stride + 1;
  return w;
}
inline Windows windows_of(const WindowSettings& settings, Pair in, Pair taps) {
  return {window_axis(settings, 0, in[0], taps[0]), window_axis(settings, 1, in[1], taps[1])};
}

// ---- checks of inference; each throws Error naming the argument

inline void require_layout(const InferContext& c, const std::string& layout) {
  if (layout == kChannelsLast || layout == kChannelsFirst) return;
  c.fail("layout", "NHWC or NCHW", '"' + layout + '"');
}

// `count` numbers of at least `least`.
inline void require_list(const InferContext& c, const char* argument,
                         const std::vector<int64_t>& list, size_t count, int64_t least) {
  const bool fits = list.size() == count &&
                    std::all_of(list.begin(), list.end(), [&](int64_t n) { return n >= least; });
  if (fits) return;
  std::string got;
  for (const int64_t n : list) got += (got.empty() ? "" : ", ") + std::to_string(n);
  c.fail(argument,
         std::to_string(count) +
             (count == 4 ? " numbers (top, bottom, left, right)"
                         : " numbers (height, width), or one for both,") +
             " of at least " + std::to_string(least),
         "[" + got + "]");
}

// Strides and dilations are at least 1, the padding exists, and there are pads where it is
// "explicit" and nowhere else.
inline void require_window_settings(const InferContext& c, const WindowSettings& settings) {
  require_list(c, "stride", settings.stride, 2, 1);
  require_list(c, "dilation", settings.dilation, 2, 1);
  const std::string& padding = settings.padding;
  if (padding != "valid" && padding != "same" && padding != "explicit") {
    c.fail("padding", "valid, same or explicit", '"' + padding + '"');
  }
  if (padding == "explicit") {
    require_list(c, "pads", settings.pads, 4, 0);
  } else if (!settings.pads.empty()) {
    c.fail("pads", "none with padding \"" + padding + '"',
           std::to_string(settings.pads.size()) + " numbers",
           "say .padding = \"explicit\", or leave the pads out");
  }
}

// At least one window fits along each axis that is known, but "same" takes whatever there is.
// `argument` has the shape that the windows slide over.
inline void require_windows_fit(const InferContext& c, const WindowSettings& settings,
                                const Windows& windows, const std::string& argument,
                                const Shape& shape) {
  static constexpr const char* kNames[] = {"height", "width"};
  for (size_t i = 0; i < windows.size(); ++i) {
    const WindowAxis& w = windows[i];
    if (settings.padding == "same" || w.in < 0 || w.out > 0) continue;
    const std::string pads = w.low + w.high == 0 ? "" : " with its padding";
    c.fail(argument,
           std::string(kNames[i]) + pads + " of at least " + std::to_string(w.extent()) +
               ", which a window of " + std::to_string(w.taps) +
               (w.dilation == 1 ? "" : " with dilation " + std::to_string(w.dilation)) + " takes",
           to_string(shape), "use a smaller window, or pad");
  }
}

// ---- for builders

// One number stands for both axes.
inline std::vector<int64_t> for_both_axes(const std::vector<int64_t>& list) {
  return list.size() == 1 ? std::vector<int64_t>{list[0], list[0]} : list;
}

// ---- for samples

// Random settings: without padding, with "same", or with pads of their own on each side; strides
// may leave gaps between windows.
struct DrawnWindows {
  std::vector<int64_t> stride, dilation, pads;
  std::string padding;
  Pair in{}, taps{};
  WindowSettings settings() const { return {stride, dilation, padding, pads}; }
};
// Draws windows; with `pads_inside`, each pad is smaller than the window.
inline DrawnWindows draw_windows(SampleSource& source, int64_t most_dilation, bool pads_inside) {
  DrawnWindows drawn;
  drawn.padding = source.pick<std::string>({"valid", "same", "explicit"});
  for (size_t i = 0; i < 2; ++i) {
    const int64_t taps = source.integer(1, 3 + source.size() / 50);
    const int64_t dilation = source.coin() ? 1 : source.integer(1, most_dilation);
    Pair pads{};
    if (drawn.padding == "explicit") {
      const int64_t most = pads_inside ? std::min<int64_t>(2, taps - 1) : 2;
      pads = {source.integer(0, most), source.integer(0, most)};
      drawn.pads.insert(drawn.pads.end(), pads.begin(), pads.end());
    }
    const int64_t least =
        drawn.padding == "same" ? 1 : (taps - 1) * dilation + 1 - pads[0] - pads[1];
    const int64_t in = source.integer(0, 4) == 0 ? 1 : source.integer(1, 4 + source.size() / 20);
    drawn.in[i] = std::max({in, least, int64_t{1}});
    drawn.taps[i] = taps;
    drawn.dilation.push_back(dilation);
    drawn.stride.push_back(source.integer(1, 3));
  }
  return drawn;
}

}  // namespace keel

#endif  // KEEL_OPS_WINDOW_RULES_H
