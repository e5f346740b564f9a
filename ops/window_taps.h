// Windows as graphs of slices: what convolutions and pooling decompose into. Tap (a, b) of all
// windows is one strided slice of the padded image, and its adjoint one pad with zeros between the
// elements. Each function adds nodes to the graph of its operand; all dimensions are known.
#ifndef KEEL_OPS_WINDOW_TAPS_H
#define KEEL_OPS_WINDOW_TAPS_H

#include <vector>

#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/window_rules.h"

namespace keel {

// Returns the image with `value` around it, as wide as the windows reach.
inline Value padded_image(const Value& image, const Windows& windows, const ImageAxes& axes,
                          double value, CallSite site) {
  std::vector<int64_t> low(4, 0), high(4, 0);
  bool none = true;
  for (size_t i = 0; i < 2; ++i) {
    low[axes.spatial[i]] = windows[i].low;
    high[axes.spatial[i]] = windows[i].high;
    none = none && windows[i].low == 0 && windows[i].high == 0;
  }
  return none ? image : pad(image, low, high, value, site);
}

// Returns the part of a padded image that is the image.
inline Value without_padding(const Value& padded, const Windows& windows, const ImageAxes& axes,
                             CallSite site) {
  std::vector<int64_t> begin(4, 0), end(4, kToEnd);
  for (size_t i = 0; i < 2; ++i) {
    begin[axes.spatial[i]] = windows[i].low;
    end[axes.spatial[i]] = windows[i].low + windows[i].in;
  }
  const Pair whole{windows[0].in, windows[1].in};
  if (spatial_dims(padded.shape(), axes) == whole) return padded;
  return slice(padded, begin, end, {}, site);
}

// Windows along spatial axis i alone: each element along the other, of which there are `others`, is
// a window of its own.
inline Windows along_axis(const Windows& windows, size_t i, int64_t others) {
  Windows result = windows;
  result[1 - i] = {.in = others, .out = others};
  return result;
}

// Returns an image with zeros between its elements, in front of them and behind; negative numbers
// in front and behind cut elements off instead.
inline Value spread_image(const Value& image, const ImageAxes& axes, Pair interior, Pair low,
                          Pair high, CallSite site) {
  std::vector<int64_t> before(4, 0), behind(4, 0), between(4, 0), begin(4, 0), end(4, kToEnd);
  bool pads = false, cuts = false;
  for (size_t i = 0; i < 2; ++i) {
    const size_t axis = axes.spatial[i];
    before[axis] = std::max<int64_t>(low[i], 0);
    behind[axis] = std::max<int64_t>(high[i], 0);
    between[axis] = interior[i];
    begin[axis] = std::max<int64_t>(-low[i], 0);
    if (high[i] < 0) end[axis] = high[i];
    pads = pads || low[i] > 0 || high[i] > 0 || interior[i] > 0;
    cuts = cuts || low[i] < 0 || high[i] < 0;
  }
  const Value padded = pads ? pad_interior(image, before, behind, between, 0, site) : image;
  return cuts ? slice(padded, begin, end, {}, site) : padded;
}

// Element `tap` of every window of a padded image.
inline Value window_tap(const Value& padded, const Windows& windows, const ImageAxes& axes,
                        Pair tap, CallSite site) {
  std::vector<int64_t> begin(4, 0), end(4, kToEnd), strides(4, 1);
  bool whole = true;
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& w = windows[i];
    const size_t axis = axes.spatial[i];
    const int64_t size = w.out == 0 ? 0 : (w.out - 1) * w.stride + 1;
    begin[axis] = tap[i] * w.dilation;
    end[axis] = begin[axis] + size;
    strides[axis] = w.stride;
    whole = whole && w.out == padded.shape()[axis];
  }
  return whole ? padded : slice(padded, begin, end, strides, site);
}
// Returns the adjoint: zeros of the padded image's size, with y's elements where the tap takes them
// from.
inline Value window_untap(const Value& y, const Windows& windows, const ImageAxes& axes, Pair tap,
                          CallSite site) {
  std::vector<int64_t> low(4, 0), high(4, 0), interior(4, 0);
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& w = windows[i];
    const size_t axis = axes.spatial[i];
    const int64_t size = w.out == 0 ? 0 : (w.out - 1) * w.stride + 1;
    low[axis] = tap[i] * w.dilation;
    high[axis] = w.padded() - low[axis] - size;
    interior[axis] = w.out > 1 ? w.stride - 1 : 0;
  }
  return pad_interior(y, low, high, interior, 0, site);
}

// Returns the image whose element (t * rows + i, u * columns + j) is element (t, u) of parts[i][j].
// REQUIRES parts of one type.
inline Value interleaved(const std::vector<Values>& parts, const ImageAxes& axes, CallSite site) {
  const auto side_by_side = [&](const Values& values, size_t axis) {
    const Shape& shape = values[0].shape();
    const auto count = static_cast<int64_t>(values.size());
    if (count == 1) return values[0];
    return reshape(stack(values, static_cast<int64_t>(axis) + 1, site),
                   shape.with_dim(axis, shape[axis] * count), site);
  };
  Values rows;
  for (const Values& row : parts) rows.push_back(side_by_side(row, axes.spatial[1]));
  return side_by_side(rows, axes.spatial[0]);
}

}  // namespace keel

#endif  // KEEL_OPS_WINDOW_TAPS_H
