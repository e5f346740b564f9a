// Pool rules: what max_pool2d and avg_pool2d share: their windows, the inference of their results,
// and windows as graphs of slices. Pure functions, those that take Values add nodes to the graph of
// these.
#ifndef KEEL_OPS_POOL_RULES_H
#define KEEL_OPS_POOL_RULES_H

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/infer_rules.h"
#include "keel/ops/pool.h"
#include "keel/ops/reference_loops.h"
#include "keel/ops/shape.h"
#include "keel/ops/wide_floats.h"
#include "keel/ops/window_taps.h"

namespace keel {

// ---- windows

template <class A>
WindowSettings pool_settings(const A& a) {
  static const std::vector<int64_t> kDense = {1, 1};
  return {a.stride, kDense, a.padding, a.pads};
}
template <class A>
Windows pooled_windows(const A& a, Pair in) {
  return windows_of(pool_settings(a), in, {a.window[0], a.window[1]});
}

// A pooling with all dimensions known: where the elements of images and results lie.
struct PoolGeometry {
  template <class A>
  PoolGeometry(const A& a, const Shape& images)
      : axes(image_axes(a.layout)),
        windows(pooled_windows(a, spatial_dims(images, axes))),
        batch(images[0]),
        channels(images[axes.channel]),
        results(image_shape(axes, batch, {windows[0].out, windows[1].out}, channels)),
        image_strides(images.strides()),
        result_strides(results.strides()) {}

  ImageAxes axes;
  Windows windows;
  int64_t batch, channels;
  Shape results;
  Strides image_strides, result_strides;

  // Calls body(result, images) for each window of each channel: the element of the results, and
  // those of the images that lie in the window, in row-major order, padding left out.
  template <class Body>
  void for_each_window(Body&& body) const {
    std::vector<int64_t> inside;
    for_each_strided(results, std::array<Strides, 2>{start_strides(), result_strides},
                     [&](const std::array<int64_t, 2>& at) { body(at[1], inside_of(at, inside)); });
  }

 private:
  // Moves along the images as windows do, in front of the padding.
  Strides start_strides() const {
    Strides strides = image_strides;
    for (size_t i = 0; i < 2; ++i) strides[axes.spatial[i]] *= windows[i].stride;
    return strides;
  }
  const std::vector<int64_t>& inside_of(const std::array<int64_t, 2>& at,
                                        std::vector<int64_t>& inside) const {
    inside.clear();
    Pair window{};
    for (size_t i = 0; i < 2; ++i) {
      const size_t axis = axes.spatial[i];
      window[i] = at[1] / result_strides[axis] % windows[i].out;
    }
    for (int64_t a = 0; a < windows[0].taps; ++a) {
      if (!windows[0].inside(windows[0].position(window[0], a))) continue;
      for (int64_t b = 0; b < windows[1].taps; ++b) {
        if (!windows[1].inside(windows[1].position(window[1], b))) continue;
        inside.push_back(at[0] + (a - windows[0].low) * image_strides[axes.spatial[0]] +
                         (b - windows[1].low) * image_strides[axes.spatial[1]]);
      }
    }
    return inside;
  }
};

// ---- inference

// Throws Error for windows that would go on for ever over padding.
inline void require_moderate_windows(const InferContext& c, const Windows& windows) {
  static constexpr const char* kNames[] = {"height", "width"};
  constexpr int64_t kAlways = 1024;
  for (size_t i = 0; i < windows.size(); ++i) {
    const WindowAxis& w = windows[i];
    if (w.in < 0 || w.taps <= kAlways || w.taps / 2 <= w.in) continue;
    c.fail("window",
           "a " + std::string(kNames[i]) + " of at most " +
               std::to_string(std::max(kAlways, 2 * w.in + 1)) + " for images of " +
               std::to_string(w.in),
           std::to_string(w.taps), "use global_max_pool2d or global_avg_pool2d for whole images");
  }
}

// Checks the attributes and that the windows fit images of shape `images`; the results' shape.
template <class A>
Shape infer_pooled(const InferContext& c, const A& a, const Shape& images) {
  require_layout(c, a.layout);
  require_list(c, "window", a.window, 2, 1);
  const WindowSettings settings = pool_settings(a);
  require_window_settings(c, settings);
  for (size_t i = 0; i < a.pads.size(); ++i) {
    if (a.pads[i] < a.window[i / 2]) continue;
    c.fail("pads", "pads smaller than the window, so that each window holds an element of x",
           std::to_string(a.pads[i]) + " beside a window of " + std::to_string(a.window[i / 2]));
  }
  const ImageAxes axes = image_axes(a.layout);
  const Windows windows = pooled_windows(a, spatial_dims(images, axes));
  require_windows_fit(c, settings, windows, "x", images);
  require_moderate_windows(c, windows);
  for (const WindowAxis& w : windows) {
    if (w.in == 0 && w.out > 0) c.fail("x", "an image with elements", to_string(images));
  }
  return image_shape(axes, images[0], {windows[0].out, windows[1].out}, images[axes.channel]);
}

template <class A>
std::vector<Type> infer_pool(const InferContext& c, unsigned dtypes) {
  require_dtypes(c, 0, dtypes);
  c.require_rank(0, 4, 4);
  return {{c.inputs[0].dtype, infer_pooled(c, c.as<A>(), c.inputs[0].shape)}};
}

// Throws Error where dy cannot have the shape of the results.
inline void require_results_shape(const InferContext& c, size_t input, const Shape& expected) {
  const Shape& dy = c.inputs[input].shape;
  for (size_t i = 0; i < 4; ++i) {
    if (expected[i] < 0 || dy[i] < 0 || expected[i] == dy[i]) continue;
    c.fail("dy", "shape " + to_string(expected) + ", which pooling makes of the images",
           to_string(dy));
  }
}

// ---- graphs of the windows' taps

// One axis after the other, so that a window costs height + width slices, not height * width.
template <class Join>
Value join_windows(const Value& padded, const PoolGeometry& g, CallSite site, Join join) {
  Value joined = padded;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    const int64_t others = joined.shape()[g.axes.spatial[1 - i]];
    const Windows windows = along_axis(g.windows, i, others);
    Value result;
    for (int64_t k = 0; k < g.windows[i].taps; ++k) {
      Pair tap{};
      tap[i] = k;
      const Value part = window_tap(joined, windows, g.axes, tap, site);
      result = result.valid() ? join(result, part) : part;
    }
    joined = result;
  }
  return joined;
}

// ---- samples

template <class A>
struct DrawnPool {
  A a;
  Shape images, results;
};

template <class A>
DrawnPool<A> draw_pool(SampleSource& source) {
  const DrawnWindows drawn = draw_windows(source, 1, true);
  DrawnPool<A> pool;
  pool.a.window = {drawn.taps[0], drawn.taps[1]};
  pool.a.stride = drawn.stride;
  pool.a.padding = drawn.padding;
  pool.a.pads = drawn.pads;
  pool.a.layout = source.coin() ? kChannelsLast : kChannelsFirst;
  const int64_t batch = source.integer(0, 7) == 0 ? 0 : source.integer(1, 3);
  pool.images = image_shape(image_axes(pool.a.layout), batch, drawn.in, source.integer(1, 3));
  pool.results = PoolGeometry(pool.a, pool.images).results;
  return pool;
}

// ---- builders

// One number stands for both axes, and the stride is the window's size where it is left out.
template <class A>
A completed(A a) {
  a.window = for_both_axes(a.window);
  a.stride = a.stride.empty() ? a.window : for_both_axes(a.stride);
  return a;
}

}  // namespace keel

#endif  // KEEL_OPS_POOL_RULES_H
