// Windows over the spatial axes of [batch, channels, spatial...] as ONNX says them: strides,
// dilations, pads that come in three ways, and one more window where sizes are rounded up. Pure
// functions; those that take Values add nodes to the graph of these.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_WINDOWS_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_WINDOWS_H

#include <cstdint>
#include <vector>

#include "keel/ops/exchange/onnx/import_rules.h"

namespace keel::onnx {

// The windows along one spatial axis.
struct SpatialWindow {
  int64_t in = -1;
  int64_t taps = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t low = 0, high = 0;  // as the node says
  int64_t behind = 0;         // what a last window reaches over beyond them, with ceil_mode

  int64_t extent() const { return (taps - 1) * dilation + 1; }
  int64_t out() const { return (low + in + high + behind - extent()) / stride + 1; }
};
using SpatialWindows = std::vector<SpatialWindow>;

// Reads kernel_shape (or takes the shape of weights [out, in, kernel...]), strides, dilations,
// pads, auto_pad and ceil_mode. Dimensions that are not known are allowed where no padding follows
// from them. Throws RefusedNode.
SpatialWindows read_windows(NodeContext& c, const Shape& x, const std::vector<int64_t>& kernel);

// x with the padding of all axes, filled with `value`.
Value padded(const Value& x, const SpatialWindows& windows, double value);

// Returns for each tap of axis `spatial` (0 is the first behind the channels) the elements under
// it, one for each window, of an x that is padded already.
Values taps_along(const Value& x, const SpatialWindows& windows, size_t spatial);

// Returns the elements of all windows side by side along a new first axis, taps in row-major order.
Value window_elements(const Value& x, const SpatialWindows& windows);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_WINDOWS_H
