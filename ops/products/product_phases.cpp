#include "keel/ops/products/product_phases.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "keel/ops/conv_rules.h"

namespace keel {
namespace {

using Axis = WindowRows::Axis;

constexpr int64_t kMostPhases = 64;

// With one window, a stride moves nothing on.
int64_t stride_of(const WindowAxis& w) { return w.out > 1 ? w.stride : 1; }

// One axis of a phase: pixels `first`, `first + stride` ..., which taps `tap`, `tap + tap_step` ...
// meet, `taps` of them; and the windows over the results that the first of these taps is in.
struct PhaseAxis {
  int64_t first = 0, pixels = 0;
  int64_t tap = 0, taps = 0, tap_step = 1;
  int64_t window = 0, window_step = 1;  // of tap `tap` for the first pixel; from a tap to the next
};

// Pixel y meets tap a in window (y + low - a * dilation) / stride, where that is a whole number.
PhaseAxis phase_axis(const WindowAxis& w, int64_t first) {
  const int64_t stride = stride_of(w), common = std::gcd(stride, w.dilation);
  PhaseAxis axis;
  axis.first = first;
  axis.pixels = (w.in - 1 - first) / stride + 1;
  axis.tap_step = stride / common;
  axis.window_step = w.dilation / common;
  const auto missed = [&] { return (axis.first + w.low - axis.tap * w.dilation) % stride != 0; };
  while (axis.tap < std::min(axis.tap_step, w.taps) && missed()) ++axis.tap;
  if (axis.tap >= std::min(axis.tap_step, w.taps)) return axis;
  axis.taps = (w.taps - 1 - axis.tap) / axis.tap_step + 1;
  axis.window = (axis.first + w.low - axis.tap * w.dilation) / stride;
  return axis;
}

std::vector<PhaseAxis> phases_along(const WindowAxis& w) {
  std::vector<PhaseAxis> phases;
  for (int64_t first = 0; first < std::min(stride_of(w), w.in); ++first)
    phases.push_back(phase_axis(w, first));
  return phases;
}

// The taps come from the last to the first, so that those of one window lie side by side.
Axis windows_over_results(const WindowAxis& w, const PhaseAxis& phase, int64_t pitch) {
  return {.windows = phase.pixels,
          .taps = phase.taps,
          .size = w.out,
          .first = phase.window - (phase.taps - 1) * phase.window_step,
          .step = 1,
          .tap_step = phase.window_step,
          .pitch = pitch};
}
Axis pixels_apart(const WindowAxis& w, const PhaseAxis& phase, int64_t pitch) {
  return {.windows = phase.pixels,
          .size = w.in,
          .first = phase.first,
          .step = stride_of(w),
          .pitch = pitch};
}

// The rows of B as stored are the channels of the images, so that what its taps are apart across is
// counted in such rows.
WindowRows turned_taps(const ConvGeometry& g, const PhaseAxis& down, const PhaseAxis& across) {
  const ConvGeometry::Places& weights = g.places[kWeights];
  const auto last = [](const PhaseAxis& phase) {
    return phase.tap + (phase.taps - 1) * phase.tap_step;
  };
  return {.axes = {Axis{.taps = down.taps,
                        .size = g.windows[0].taps,
                        .first = last(down),
                        .tap_step = -down.tap_step,
                        .pitch = weights.spatial[0]},
                   Axis{.windows = g.in,
                        .taps = across.taps,
                        .size = g.windows[1].taps * g.in,
                        .first = last(across) * g.in,
                        .step = 1,
                        .tap_step = -across.tap_step * g.in,
                        .pitch = weights.in}},
          .channels = g.out};
}

ProductPhase phase_of(const ConvGeometry& g, const Conv2dAttributes& a, const PhaseAxis& down,
                      const PhaseAxis& across) {
  const ConvGeometry::Places &images = g.places[kImages], &results = g.places[kResults];
  ProductPhase phase;
  phase.pixels = {.axes = {pixels_apart(g.windows[0], down, images.spatial[0]),
                           pixels_apart(g.windows[1], across, images.spatial[1])},
                  .image_pitch = images.batch,
                  .channels = g.in};
  ProductMatrices& p = phase.matrices;
  p.m = g.batch * down.pixels * across.pixels;
  p.n = g.in;
  p.k = down.taps * across.taps * g.out;
  p.wide = a.wide;
  p.direct = true;
  p.rows_alone = a.rows_alone;
  p.a = {.input = 0,
         .windows =
             WindowRows{.axes = {windows_over_results(g.windows[0], down, results.spatial[0]),
                                 windows_over_results(g.windows[1], across, results.spatial[1])},
                        .image_pitch = results.batch,
                        .channels = g.out}};
  p.b = {.input = 1, .transposed = true, .windows = turned_taps(g, down, across)};
  p.c_stride = phase.pixels.axes[1].step * images.spatial[1];
  for (int64_t group = 0; group < g.groups; ++group)
    p.batch.push_back({group * g.out, group * g.out, group * g.in});
  return phase;
}

std::optional<ConvGeometry> geometry_of(const Node& product) {
  if (product.op_name() != "conv2d_input_gradient") return std::nullopt;
  const Shape &dy = product.input(0).shape(), &weights = product.input(1).shape();
  const Shape& images = product.type().shape;
  for (const Shape* shape : {&dy, &weights, &images}) {
    if (!shape->known() || shape->num_elements() == 0) return std::nullopt;
  }
  return ConvGeometry(product.as<Conv2dGradientAttributes>(), images, weights);
}

}  // namespace

int64_t ProductPhase::place_of(int64_t row) const {
  const auto& [down, across] = pixels.axes;
  const int64_t line = row / across.windows;
  return line / down.windows * pixels.image_pitch +
         down.position(line % down.windows, 0) * down.pitch +
         across.position(row % across.windows, 0) * across.pitch;
}

std::string why_no_phases(const Node& product) {
  const auto g = geometry_of(product);
  const auto steps = [](const WindowAxis& w) { return stride_of(w) != 1; };
  if (!g || g->depthwise() || std::none_of(g->windows.begin(), g->windows.end(), steps))
    return "only gradients for images with a stride have phases";
  if (product.as<Conv2dGradientAttributes>().layout != kChannelsLast)
    return "the phases of a stride are products of images in NHWC";
  int64_t phases = 1;
  for (const WindowAxis& w : g->windows) {
    // Dividing, as a product of strides might not be a number.
    const int64_t along = std::min(stride_of(w), w.in);
    if (along > kMostPhases / phases) {
      return "its stride has more phases than " + std::to_string(kMostPhases);
    }
    phases *= along;
  }
  return "";
}

std::vector<ProductPhase> product_phases(const Node& product) {
  const auto g = geometry_of(product);
  const auto& a = product.as<Conv2dGradientAttributes>();
  std::vector<ProductPhase> phases;
  for (const PhaseAxis& down : phases_along(g->windows[0])) {
    for (const PhaseAxis& across : phases_along(g->windows[1]))
      phases.push_back(phase_of(*g, a, down, across));
  }
  return phases;
}

}  // namespace keel
