// These rules say where the elements of a convolution with known dimensions lie and which of them
// are multiplied. The references of conv2d and of its gradients use them, and so do what these
// decompose into and kernels. Pure functions; any thread.
#ifndef KEEL_OPS_CONV_RULES_H
#define KEEL_OPS_CONV_RULES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "keel/ops/conv.h"
#include "keel/ops/window_rules.h"

namespace keel {

// Where the axes of weights are: HWIO, or OIHW beside images of NCHW.
struct WeightAxes {
  std::array<size_t, 2> spatial = {0, 1};
  size_t in = 2;  // channels of one group
  size_t out = 3;
};
inline WeightAxes weight_axes(const Conv2dAttributes& a) {
  if (a.layout == kChannelsFirst) return {.spatial = {2, 3}, .in = 1, .out = 0};
  return {};
}
inline Shape weight_shape(const WeightAxes& axes, Pair size, int64_t in, int64_t out) {
  std::array<int64_t, 4> dims{};
  dims[axes.spatial[0]] = size[0];
  dims[axes.spatial[1]] = size[1];
  dims[axes.in] = in;
  dims[axes.out] = out;
  return Shape(dims);
}

// Attributes of the nodes that conv2d and its gradients add for the options.
Attributes conv2d_attributes(const Conv2dAttributes& options);
Attributes conv2d_gradient_attributes(const Conv2dAttributes& options,
                                      const std::vector<int64_t>& size);

inline WindowSettings window_settings(const Conv2dAttributes& a) {
  return {a.stride, a.dilation, a.padding, a.pads};
}

// The three tensors of a convolution. Whichever op computes one of them reads the other two.
enum ConvTensor : size_t { kImages, kWeights, kResults };

struct ConvGeometry {
  ConvGeometry(const Conv2dAttributes& a, const Shape& images, const Shape& weights);

  int64_t batch = 0;
  int64_t groups = 1;
  int64_t in = 0;   // channels of one group of the images
  int64_t out = 0;  // and of the results
  Windows windows;
  // Elements to move on for one step along height, width, channels; of weights along in and out.
  struct Places {
    int64_t batch = 0;
    std::array<int64_t, 2> spatial{};
    int64_t in = 0, out = 0;
  };
  std::array<Places, 3> places;  // by ConvTensor

  int64_t taps() const { return windows[0].taps * windows[1].taps; }
  // One row for each window, over the whole batch.
  int64_t rows() const { return batch * windows[0].out * windows[1].out; }
  bool depthwise() const { return groups > 1 && in == 1; }
};

inline ConvGeometry::ConvGeometry(const Conv2dAttributes& a, const Shape& images,
                                  const Shape& weights)
    : groups(a.groups) {
  const ImageAxes image = image_axes(a.layout);
  const WeightAxes weight = weight_axes(a);
  batch = images[0];
  in = weights[weight.in];
  out = weights[weight.out] / groups;
  windows = windows_of(window_settings(a), spatial_dims(images, image),
                       {weights[weight.spatial[0]], weights[weight.spatial[1]]});
  const Shape results =
      image_shape(image, batch, {windows[0].out, windows[1].out}, weights[weight.out]);
  const auto of_image = images.strides(), of_result = results.strides();
  const auto of_weight = weights.strides();
  const auto& [height, width] = image.spatial;
  places[kImages] = {of_image[0], {of_image[height], of_image[width]}, of_image[image.channel], 0};
  places[kWeights] = {0,
                      {of_weight[weight.spatial[0]], of_weight[weight.spatial[1]]},
                      of_weight[weight.in],
                      of_weight[weight.out]};
  places[kResults] = {
      of_result[0], {of_result[height], of_result[width]}, 0, of_result[image.channel]};
}

// Calls body(offsets), offsets by ConvTensor, for each product of an element of the images with one
// of the weights that an element of the results sums; padding is left out. Terms of one result
// come in the order of the taps.
template <class Body>
void for_each_term(const ConvGeometry& g, Body&& body) {
  const auto &images = g.places[kImages], &weights = g.places[kWeights],
             &results = g.places[kResults];
  const auto each_channel = [&](int64_t image, int64_t weight, int64_t result) {
    for (int64_t group = 0; group < g.groups; ++group) {
      for (int64_t o = group * g.out; o < (group + 1) * g.out; ++o) {
        for (int64_t i = 0; i < g.in; ++i) {
          body(std::array<int64_t, 3>{image + (group * g.in + i) * images.in,
                                      weight + i * weights.in + o * weights.out,
                                      result + o * results.out});
        }
      }
    }
  };
  const WindowAxis &rows = g.windows[0], &columns = g.windows[1];
  const auto each_tap = [&](int64_t image, int64_t result, int64_t row, int64_t column) {
    for (int64_t a = 0; a < rows.taps; ++a) {
      const int64_t y = rows.position(row, a);
      if (!rows.inside(y)) continue;
      for (int64_t b = 0; b < columns.taps; ++b) {
        const int64_t x = columns.position(column, b);
        if (!columns.inside(x)) continue;
        each_channel(image + y * images.spatial[0] + x * images.spatial[1],
                     a * weights.spatial[0] + b * weights.spatial[1], result);
      }
    }
  };
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t row = 0; row < rows.out; ++row) {
      for (int64_t column = 0; column < columns.out; ++column) {
        each_tap(n * images.batch,
                 n * results.batch + row * results.spatial[0] + column * results.spatial[1], row,
                 column);
      }
    }
  }
}

}  // namespace keel

#endif  // KEEL_OPS_CONV_RULES_H
