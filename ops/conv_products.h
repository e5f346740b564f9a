// Convolutions as graphs of products, which is how they run on backends without a kernel of their
// own. Images are NHWC, weights HWIO, all dimensions known and no tensor empty. Each function adds
// nodes to the graph of its operands.
//
// The windows become one matrix, with a row for each window and a column for each tap and channel.
// A convolution is then one product with K = taps * channels in, for each group. The alternative,
// one product for each tap and a sum of them, needs no such matrix, which is `taps` times as large
// as the image. But it reads and writes the results once for each tap, its products are short (K is
// 1 or 3 in a first layer), and it rounds 16-bit results once for each tap. The forward pass and
// the gradient of the weights share the matrix. A depthwise convolution has K = taps, too short for
// products: it is a sum of element-wise multiplications, which fuse.
#ifndef KEEL_OPS_CONV_PRODUCTS_H
#define KEEL_OPS_CONV_PRODUCTS_H

#include <algorithm>
#include <cstdint>

#include "keel/ops/conv_rules.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"
#include "keel/ops/wide_floats.h"
#include "keel/ops/window_taps.h"

namespace keel {

// The windows' matrix, [windows, taps * channels].
inline Value windows_matrix(const Value& x, const ConvGeometry& g, CallSite site) {
  const ImageAxes axes = image_axes(kChannelsLast);
  const Value padded = padded_image(x, g.windows, axes, 0, site);
  Values taps;
  for (int64_t a = 0; a < g.windows[0].taps; ++a) {
    for (int64_t b = 0; b < g.windows[1].taps; ++b)
      taps.push_back(window_tap(padded, g.windows, axes, {a, b}, site));
  }
  const Value whole = taps.size() == 1 ? taps[0] : concat(taps, 3, site);
  return reshape(whole, {g.rows(), g.taps() * g.groups * g.in}, site);
}

// The same with a matrix for each group, [groups, windows, taps * channels of a group].
inline Value grouped_windows(const Value& x, const ConvGeometry& g, CallSite site) {
  const Value split =
      reshape(windows_matrix(x, g, site), {g.rows(), g.taps(), g.groups, g.in}, site);
  return reshape(transpose(split, {2, 0, 1, 3}, site), {g.groups, g.rows(), g.taps() * g.in}, site);
}

// [rows, groups * n] as [groups, rows, n], and back.
inline Value group_columns(const Value& x, int64_t rows, int64_t groups, int64_t n, CallSite site) {
  return transpose(reshape(x, {rows, groups, n}, site), {1, 0, 2}, site);
}
inline Value ungroup_columns(const Value& x, int64_t rows, int64_t groups, int64_t n,
                             CallSite site) {
  return reshape(transpose(x, {1, 0, 2}, site), {rows, groups * n}, site);
}

inline Shape results_shape(const ConvGeometry& g) {
  return {g.batch, g.windows[0].out, g.windows[1].out, g.groups * g.out};
}

// x with an axis behind the channels: each channel makes `out` results.
inline Value with_multiplier(const Value& x, CallSite site) { return expand_dims(x, {-1}, site); }

inline Value depthwise_product(const Value& x, const Value& weights, const ConvGeometry& g,
                               CallSite site) {
  const ImageAxes axes = image_axes(kChannelsLast);
  const Value padded = padded_image(widened(x, site), g.windows, axes, 0, site);
  const Value each = reshape(widened(weights, site), {g.taps(), g.groups, g.out}, site);
  Value total;
  for (int64_t a = 0; a < g.windows[0].taps; ++a) {
    for (int64_t b = 0; b < g.windows[1].taps; ++b) {
      const int64_t k = a * g.windows[1].taps + b;
      const Value factor = squeeze(slice(each, {k}, {k + 1}, {}, site), {0}, site);
      const Value tap = with_multiplier(window_tap(padded, g.windows, axes, {a, b}, site), site);
      const Value term = mul(tap, factor, site);
      total = total.valid() ? add(total, term, site) : term;
    }
  }
  return reshape(total, results_shape(g), site);
}

inline Value depthwise_weight_gradient(const Value& x, const Value& dy, const ConvGeometry& g,
                                       CallSite site) {
  const ImageAxes axes = image_axes(kChannelsLast);
  const Value padded = padded_image(widened(x, site), g.windows, axes, 0, site);
  const Value each = reshape(widened(dy, site),
                             {g.batch, g.windows[0].out, g.windows[1].out, g.groups, g.out}, site);
  Values taps;
  for (int64_t a = 0; a < g.windows[0].taps; ++a) {
    for (int64_t b = 0; b < g.windows[1].taps; ++b) {
      const Value tap = with_multiplier(window_tap(padded, g.windows, axes, {a, b}, site), site);
      taps.push_back(sum(mul(tap, each, site), {0, 1, 2}, false, site));
    }
  }
  return stack(taps, 0, site);
}

// conv2d of NHWC images, [batch, height, width, channels out].
inline Value conv_product(const Value& x, const Value& weights, const ConvGeometry& g, bool wide,
                          CallSite site) {
  if (g.depthwise()) return depthwise_product(x, weights, g, site);
  const int64_t k = g.taps() * g.in;
  const MatmulAttributes options{.wide = wide};
  if (g.groups == 1) {
    const Value matrix = reshape(weights, {k, g.out}, site);
    return reshape(matmul(windows_matrix(x, g, site), matrix, options, site), results_shape(g),
                   site);
  }
  const Value matrices = group_columns(weights, k, g.groups, g.out, site);
  const Value y = matmul(grouped_windows(x, g, site), matrices, options, site);
  return reshape(ungroup_columns(y, g.rows(), g.groups, g.out, site), results_shape(g), site);
}

// The gradient of its weights, HWIO.
inline Value conv_weight_product(const Value& x, const Value& dy, const ConvGeometry& g, bool wide,
                                 CallSite site) {
  const Shape shape{g.windows[0].taps, g.windows[1].taps, g.in, g.groups * g.out};
  if (g.depthwise()) return reshape(depthwise_weight_gradient(x, dy, g, site), shape, site);
  const MatmulAttributes options{.transpose_a = true, .wide = wide};
  if (g.groups == 1) {
    const Value matrix = reshape(dy, {g.rows(), g.out}, site);
    return reshape(matmul(windows_matrix(x, g, site), matrix, options, site), shape, site);
  }
  const Value matrices = group_columns(dy, g.rows(), g.groups, g.out, site);
  const Value dw = matmul(grouped_windows(x, g, site), matrices, options, site);
  return reshape(ungroup_columns(dw, g.taps() * g.in, g.groups, g.out, site), shape, site);
}

// ---- the way back to the images
//
// dx is the convolution, with a stride of 1, of dy with stride - 1 zeros between its elements by
// the turned kernel. With a stride most products would be with those zeros. But an element of dx
// meets only every stride-th element of a kernel, so that it is one of stride * stride convolutions
// of dy itself, each by a part of the kernel; their results lie stride apart. A kernel of one tap
// has one such part, and the zeros come in behind its product.

// The weights of such a convolution: each kernel turned by 180 degrees, in and out swapped within
// each group.
inline Value turned_weights(const Value& weights, const ConvGeometry& g, CallSite site) {
  const int64_t height = weights.shape()[0], width = weights.shape()[1];
  const Value turned = height * width == 1
                           ? weights
                           : slice(weights, {kToEnd, kToEnd}, {kToStart, kToStart}, {-1, -1}, site);
  const Value split = reshape(turned, {height, width, g.in, g.groups, g.out}, site);
  return reshape(transpose(split, {0, 1, 4, 3, 2}, site), {height, width, g.out, g.groups * g.in},
                 site);
}

// dx by dy with zeros between its elements.
inline Value spread_product_back(const Value& dy, const Value& weights, const ConvGeometry& g,
                                 const Conv2dAttributes& back, CallSite site) {
  Pair interior{}, low{}, high{};
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& w = g.windows[i];
    interior[i] = w.out > 1 ? w.stride - 1 : 0;
    low[i] = w.extent() - 1 - w.low;
    high[i] = w.in + w.low - ((w.out - 1) * w.stride + 1);
  }
  const Value spread = spread_image(dy, image_axes(kChannelsLast), interior, low, high, site);
  return conv2d(spread, turned_weights(weights, g, site), back, site);
}

// conv2d with zeros around the image that are the convolution's own padding; negative numbers in
// front and behind cut elements off instead.
inline Value conv2d_around(const Value& image, const Value& weights, Pair low, Pair high,
                           Conv2dAttributes options, CallSite site) {
  Pair cut_low{}, cut_high{};
  for (size_t i = 0; i < 2; ++i) {
    cut_low[i] = std::min<int64_t>(low[i], 0);
    cut_high[i] = std::min<int64_t>(high[i], 0);
    options.pads.push_back(low[i] - cut_low[i]);
    options.pads.push_back(high[i] - cut_high[i]);
  }
  options.padding = "explicit";
  const Value cut = spread_image(image, image_axes(kChannelsLast), {}, cut_low, cut_high, site);
  return conv2d(cut, weights, options, site);
}

// The elements of the padded dx at positions t * stride + phase, t from 0 to count - 1. REQUIRES a
// kernel that reaches the phase.
inline Value phase_back(const Value& dy, const Value& weights, const ConvGeometry& g, Pair phase,
                        Pair count, const Conv2dAttributes& back, CallSite site) {
  const Value part = slice(weights, {phase[0], phase[1]}, {kToEnd, kToEnd},
                           {g.windows[0].stride, g.windows[1].stride}, site);
  Pair low{}, high{};
  for (size_t i = 0; i < 2; ++i) {
    low[i] = (part.shape()[i] - 1) * g.windows[i].dilation;
    high[i] = count[i] - g.windows[i].out;
  }
  return conv2d_around(dy, turned_weights(part, g, site), low, high, back, site);
}

// dx of kernels of one tap: a product for each window, with zeros between these.
inline Value one_tap_product_back(const Value& dy, const Value& weights, const ConvGeometry& g,
                                  const Conv2dAttributes& back, CallSite site) {
  Pair interior{}, low{}, high{};
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& w = g.windows[i];
    interior[i] = w.out > 1 ? w.stride - 1 : 0;
    low[i] = -w.low;
    high[i] = w.in + w.low - ((w.out - 1) * w.stride + 1);
  }
  const Value products = conv2d(dy, turned_weights(weights, g, site), back, site);
  return spread_image(products, image_axes(kChannelsLast), interior, low, high, site);
}

// dx by its phases. REQUIRES no dilation along axes with a stride.
inline Value phased_product_back(const Value& dy, const Value& weights, const ConvGeometry& g,
                                 const Conv2dAttributes& back, DType dtype, CallSite site) {
  const WindowAxis &rows = g.windows[0], &columns = g.windows[1];
  const auto phases = [](const WindowAxis& w) { return (w.low + w.in - 1) / w.stride + 1; };
  const Pair count{phases(rows), phases(columns)};
  const int64_t channels = g.groups * g.in;
  const Shape part{g.batch, count[0], count[1], channels};
  std::vector<Values> parts(static_cast<size_t>(rows.stride));
  for (int64_t i = 0; i < rows.stride; ++i) {
    for (int64_t j = 0; j < columns.stride; ++j) {
      // Where the stride is larger than the kernel, some elements have no part in any window.
      const bool reached = i < rows.taps && j < columns.taps;
      parts[static_cast<size_t>(i)].push_back(
          reached ? phase_back(dy, weights, g, {i, j}, count, back, site)
                  : zeros_of(dy.graph(), {dtype, part}, site));
    }
  }
  const ImageAxes axes = image_axes(kChannelsLast);
  return without_padding(interleaved(parts, axes, site), g.windows, axes, site);
}

// The gradient of conv2d for its images; `dtype` is its own.
inline Value conv_product_back(const Value& dy, const Value& weights, const ConvGeometry& g,
                               const Conv2dAttributes& a, DType dtype, CallSite site) {
  // The parts sum their terms, as the bound of a gradient with a stride has it.
  Conv2dAttributes back{.dilation = {g.windows[0].dilation, g.windows[1].dilation},
                        .groups = g.groups,
                        .wide = a.wide,
                        .algorithm = kDirectAlgorithm,
                        .rows_alone = a.rows_alone};
  bool strided = false, both = false;
  for (const WindowAxis& w : g.windows) {
    strided = strided || w.stride > 1;
    both = both || (w.stride > 1 && w.dilation > 1);
  }
  if (g.taps() == 1) return one_tap_product_back(dy, weights, g, back, site);
  return strided && !both ? phased_product_back(dy, weights, g, back, dtype, site)
                          : spread_product_back(dy, weights, g, back, site);
}

}  // namespace keel

#endif  // KEEL_OPS_CONV_PRODUCTS_H
