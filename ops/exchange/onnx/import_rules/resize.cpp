// Resizing by any factor along any axis: a weighted sum of gathered elements, axis by axis.
#include <algorithm>
#include <cmath>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/onnx/import_rules.h"
#include "keel/ops/exchange/onnx/import_shapes.h"
#include "keel/ops/exchange/onnx/import_taps.h"

namespace keel::onnx {
namespace {

// Op set 10, which has no nearest_mode: up where an axis shrinks and down where it grows, as ONNX's
// own tests of it expect. No file can say this name.
constexpr const char* kByScale = "\nby scale";

struct ResizeSettings {
  std::string mode = "nearest";  // linear, cubic
  std::string position = "half_pixel";
  std::string rounding = "round_prefer_floor";
  double cubic = -0.75;
  bool exclude_outside = false;
  double beyond = 0;  // the value outside of the image, with tf_crop_and_resize
};

// One axis: sizes, how many times the result is as large, and the part that is looked at.
struct ResizeAxis {
  int64_t in = 0, out = 0;
  double scale = 1, start = 0, end = 1;
  bool sized = false;  // the node gives `out`, from which the scale follows
};

// Returns where element i of the result lies in the image, computed in `Real`.
template <class Real>
Real position_of(NodeContext& c, const ResizeSettings& s, const ResizeAxis& a, int64_t i) {
  const auto x = static_cast<Real>(i), half = static_cast<Real>(0.5);
  const auto in = static_cast<Real>(a.in), out = static_cast<Real>(a.out);
  const auto scale = static_cast<Real>(a.scale);
  const Real length = a.sized ? out : scale * in;
  // A scale of two sizes is a rounded number, and a quotient by it may miss a whole one.
  const auto unscaled = [&](Real place) { return a.sized ? place * in / out : place / scale; };
  if (s.position == "half_pixel") return unscaled(x + half) - half;
  if (s.position == "pytorch_half_pixel") return out > 1 ? unscaled(x + half) - half : 0;
  // Corners are aligned to the length before it is rounded down, as ONNX's own tests of it expect.
  if (s.position == "align_corners") return out > 1 ? x * (in - 1) / (length - 1) : 0;
  if (s.position == "asymmetric") return unscaled(x);
  if (s.position == "tf_half_pixel_for_nn") return unscaled(x + half);
  // The middle of the result lies in the middle of the image.
  if (s.position == "half_pixel_symmetric") return in / 2 + unscaled(x + half - out / 2) - half;
  if (s.position == "tf_crop_and_resize") {
    const auto start = static_cast<Real>(a.start), end = static_cast<Real>(a.end);
    if (a.out > 1) return start * (in - 1) + x * (end - start) * (in - 1) / (out - 1);
    return half * (start + end) * (in - 1);
  }
  c.refuse("its coordinate_transformation_mode is '" + s.position + "'");
}

int64_t nearest(NodeContext& c, const std::string& rounding, double scale, double x) {
  double whole = 0;
  if (rounding == "round_prefer_floor")
    whole = std::ceil(x - 0.5);
  else if (rounding == "round_prefer_ceil")
    whole = std::floor(x + 0.5);
  else if (rounding == "floor")
    whole = std::floor(x);
  else if (rounding == kByScale)
    whole = scale < 1 ? std::ceil(x) : std::floor(x);
  else if (rounding == "ceil")
    whole = std::ceil(x);
  else
    c.refuse("its nearest_mode is '" + rounding + "'");
  return static_cast<int64_t>(whole);
}

// Weights of the elements from floor(x) - (n / 2 - 1) on, n of them.
std::vector<double> weights_of(const ResizeSettings& s, double fraction) {
  if (s.mode == "linear") return {1 - fraction, fraction};
  const double a = s.cubic;
  const auto near = [&](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  const auto far = [&](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  return {far(1 + fraction), near(fraction), near(1 - fraction), far(2 - fraction)};
}

struct CroppedTaps : Taps {
  std::vector<bool> outside;  // of the image, with tf_crop_and_resize
};

CroppedTaps taps_of(NodeContext& c, const ResizeSettings& s, const ResizeAxis& a) {
  CroppedTaps taps;
  const size_t count = s.mode == "nearest" ? 1 : s.mode == "linear" ? 2 : 4;
  taps.elements.assign(count, {});
  taps.weights.assign(count, {});
  // The nearest element is that of a position in f32, as scales are: 8 / 1.6f is 5 there, and less
  // in f64.
  const bool narrow = count == 1 && !a.sized;
  for (int64_t i = 0; i < a.out; ++i) {
    const double x = narrow ? static_cast<double>(position_of<float>(c, s, a, i))
                            : position_of<double>(c, s, a, i);
    if (!(std::fabs(x) < 0x1p53))
      c.refuse("element " + std::to_string(i) +
               " of an axis of its result lies nowhere in its input");
    taps.outside.push_back(s.position == "tf_crop_and_resize" &&
                           (x < 0 || x > static_cast<double>(a.in - 1)));
    int64_t first = 0;
    std::vector<double> weights{1};
    if (count == 1) {
      first = nearest(c, s.rounding, a.scale, x);
    } else {
      first = static_cast<int64_t>(std::floor(x)) - static_cast<int64_t>(count / 2) + 1;
      weights = weights_of(s, x - std::floor(x));
    }
    double total = 0;
    for (size_t k = 0; k < count; ++k) {
      const int64_t at = first + static_cast<int64_t>(k);
      if (s.exclude_outside && (at < 0 || at >= a.in)) weights[k] = 0;
      total += weights[k];
      taps.elements[k].push_back(std::clamp<int64_t>(at, 0, a.in - 1));
    }
    for (size_t k = 0; k < count; ++k)
      taps.weights[k].push_back(s.exclude_outside ? weights[k] / total : weights[k]);
  }
  return taps;
}

Value resized(NodeContext& c, Value x, const ResizeSettings& s,
              const std::vector<ResizeAxis>& axes) {
  if (s.mode != "nearest" && s.mode != "linear" && s.mode != "cubic")
    c.refuse("its mode is '" + s.mode + "'");
  if (s.mode != "nearest" && !is_float(x.dtype({}))) c.refuse("it interpolates integers");
  Value outside;
  const size_t rank = axes.size();
  for (size_t i = 0; i < rank; ++i) {
    const ResizeAxis& a = axes[i];
    const bool whole = a.in == a.out && a.scale == 1 && s.position != "tf_crop_and_resize";
    if (whole) continue;
    if (a.in < 1) c.refuse("it resizes an empty axis");
    const CroppedTaps taps = taps_of(c, s, a);
    x = tapped_along(c, x, i, taps, s.mode != "nearest");
    if (std::find(taps.outside.begin(), taps.outside.end(), true) == taps.outside.end()) continue;
    Tensor flags(boolean, {a.out});
    for (int64_t k = 0; k < a.out; ++k) flags.set(k, taps.outside[static_cast<size_t>(k)] ? 1 : 0);
    const Value along = along_axis(c.result(flags), i, rank);
    outside = outside.valid() ? logical_or(outside, along, {}) : along;
  }
  return outside.valid() ? select(outside, s.beyond, x, {}) : x;
}

// Says whether the size of an axis that a node gives is the open one that the axis has.
bool keeps_open_size(const SizeNumbers& sizes, size_t i, int64_t in) {
  return sizes.origins[i] == Origin::kPolynomial && sizes.values[i] == in;
}

// The axes from scales, or sizes, or both that a node gives for some of them.
std::vector<ResizeAxis> resize_axes(NodeContext& c, const Shape& shape,
                                    const std::vector<size_t>& axes,
                                    const std::vector<double>& scales, const SizeNumbers& sizes) {
  std::vector<ResizeAxis> result;
  for (const int64_t dim : shape) result.push_back({.in = dim, .out = dim});
  const bool scaled = sizes.values.empty();
  const size_t given = scaled ? scales.size() : sizes.values.size();
  if (given != axes.size()) c.refuse("its scales or sizes do not fit its axes");
  for (size_t i = 0; i < given; ++i) {
    ResizeAxis& a = result[axes[i]];
    if (scaled) {
      a.scale = scales[i];
      if (!(a.scale > 0)) c.refuse("its result would be empty");
      // ONNX's own shapes are of this product in f32: 10 * 0.7 is 7 there, and less in f64.
      const float length = static_cast<float>(a.in) * static_cast<float>(a.scale);
      a.out = static_cast<int64_t>(std::min(std::floor(length), 0x1p62F));
    } else {
      if (keeps_open_size(sizes, i, a.in)) continue;
      a.out = c.fixed(sizes, i);
      a.sized = true;
      a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
    }
    constexpr int64_t kMost = 1 << 24;
    if (a.out < 1 || !(a.scale > 0)) c.refuse("its result would be empty");
    if (a.out > kMost) c.refuse("an axis of its result has more than 2^24 elements");
  }
  return result;
}

Values resize_of(NodeContext& c) {
  ResizeSettings s;
  s.mode = c.attribute("mode", "nearest");
  s.position =
      c.attribute("coordinate_transformation_mode", c.version() < 11 ? "asymmetric" : "half_pixel");
  s.rounding = c.version() < 11 ? kByScale : c.attribute("nearest_mode", "round_prefer_floor");
  s.cubic = c.attribute("cubic_coeff_a", -0.75);
  s.exclude_outside = c.attribute("exclude_outside", int64_t{0}) != 0;
  s.beyond = c.attribute("extrapolation_value", 0.0);
  if (c.attribute("antialias", int64_t{0}) != 0) c.refuse("it smooths what it shrinks");
  if (c.attribute("keep_aspect_ratio_policy", "stretch") != "stretch")
    c.refuse("it keeps the aspect ratio");
  const Value x = c.in(0);
  const Shape shape = c.known_shape(x, "its input");
  std::vector<size_t> axes;
  for (const int64_t axis : c.attribute("axes", axes_from(0, shape.rank())))
    axes.push_back(front_axis(c, axis, shape.rank()));
  const size_t scales_at = c.version() < 11 ? 1 : 2;
  std::vector<double> scales;
  SizeNumbers sizes;
  if (c.has(scales_at)) scales = c.numbers(scales_at, "the scales");
  if (c.version() >= 11 && c.has(3)) sizes = c.sizes(3, "the sizes");
  std::vector<ResizeAxis> resize = resize_axes(c, shape, axes, scales, sizes);
  if (c.version() >= 11) c.ignore(1);  // the region, which cropping alone has
  if (s.position == "tf_crop_and_resize") {
    const std::vector<double> roi = c.numbers(1, "the region");
    if (roi.size() != 2 * axes.size()) c.refuse("its region does not fit its axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      resize[axes[i]].start = roi[i];
      resize[axes[i]].end = roi[i + axes.size()];
    }
  }
  return {resized(c, x, s, resize)};
}

Values upsample(NodeContext& c) {
  ResizeSettings s{
      .mode = c.attribute("mode", "nearest"), .position = "asymmetric", .rounding = "floor"};
  const Value x = c.in(0);
  const Shape shape = c.known_shape(x, "its input");
  std::vector<double> scales;
  if (c.version() >= 9) {
    scales = c.numbers(1, "the scales");
  } else if (const AttributeProto* given = c.find_attribute("scales")) {
    scales.assign(given->floats.begin(), given->floats.end());
  }
  std::vector<size_t> axes;
  for (size_t i = 0; i < shape.rank(); ++i) axes.push_back(i);
  return {resized(c, x, s, resize_axes(c, shape, axes, scales, {}))};
}

}  // namespace

void register_import_resize(ImportRules& rules) {
  rules.add("Resize", resize_of);
  rules.add("Upsample", upsample);
}

}  // namespace keel::onnx
