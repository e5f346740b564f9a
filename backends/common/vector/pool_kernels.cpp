// Pooling by the largest element, and its gradient, over images with channels last. A unit is a
// line of the result, so that any number of threads or cores can share an image.
#include <algorithm>
#include <memory>
#include <string>

#include "keel/backends/common/shared_kernels.h"
#include "keel/backends/common/vector/instructions.h"
#include "keel/backends/common/vector/pool_gradient.h"
#include "keel/backends/common/vector_call.h"
#include "keel/ops/pool_rules.h"

namespace keel {
namespace {

constexpr int64_t kPooledElementsWorthABlock = 16384;

Support supports_layout(const std::string& layout) {
  if (layout == kChannelsLast) return {true, ""};
  return {false, "images in " + layout + " are pooled by slices"};
}

RangeUnits lines_of(const Node& node, int most_blocks) {
  const Shape& shape = node.type().shape;
  return {
      shape.num_elements() == 0 ? 0 : shape[0] * shape[1],
      blocks_worth(node.input(0).shape().num_elements(), kPooledElementsWorthABlock, most_blocks)};
}

// The largest elements of the lines under a line of windows go to the scratch, then the windows
// take theirs from there.
class MaxPoolKernel final : public RangeKernel {
 public:
  MaxPoolKernel(const Node& node, int most_blocks)
      : RangeKernel(node, lines_of(node, most_blocks)),
        g_(node.as<MaxPool2dAttributes>(), node.input(0).shape()),
        size_(size_of(node.type().dtype)),
        maximum_(vector::find_instruction("maximum", node.type().dtype, node.type().dtype)) {}

  size_t scratch_bytes() const override { return line_elements() * size_; }

  void make(void* const* args, int64_t begin, int64_t end, void* scratch) const override {
    const auto& [down, across] = g_.windows;
    const size_t line = line_elements() * size_;
    const auto channels = static_cast<size_t>(g_.channels);
    const size_t pixel = channels * size_;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / down.out, i = unit % down.out;
      const char* lines =
          static_cast<const char*>(args[0]) + static_cast<size_t>(image * down.in) * line;
      join(
          down, i, line_elements(),
          [&](int64_t y) { return lines + static_cast<size_t>(y) * line; }, scratch);
      char* to = static_cast<char*>(args[1]) + static_cast<size_t>(unit * across.out) * pixel;
      for (int64_t j = 0; j < across.out; ++j, to += pixel) {
        join(
            across, j, channels,
            [&](int64_t x) { return static_cast<char*>(scratch) + static_cast<size_t>(x) * pixel; },
            to);
      }
    }
  }

 private:
  size_t line_elements() const { return static_cast<size_t>(g_.windows[1].in * g_.channels); }

  // to = the largest of what the taps of window o lie on, element by element.
  template <class At>
  void join(const WindowAxis& axis, int64_t o, size_t count, const At& at, void* to) const {
    VectorCall call;
    call.dst = to;
    call.n = count;
    for (int64_t tap = 0; tap < axis.taps; ++tap) {
      const int64_t position = axis.position(o, tap);
      if (!axis.inside(position)) continue;
      if (call.src[0] == nullptr) {
        call.src[0] = at(position);
        continue;
      }
      call.src[1] = at(position);
      maximum_(call);
      call.src[0] = to;
    }
    if (call.src[0] == to) return;
    std::copy_n(static_cast<const char*>(call.src[0]), count * size_, static_cast<char*>(to));
  }

  PoolGeometry g_;
  size_t size_;
  VectorInstruction maximum_;
};

// A line of the images gets what the windows that reach it give back, in their order. Where windows
// share no element, all lines under one are made at once, so that each is read once.
class MaxPoolGradientKernel final : public RangeKernel {
 public:
  MaxPoolGradientKernel(const Node& node, int most_blocks)
      : RangeKernel(node, lines_of(node, most_blocks)),
        g_(node.as<MaxPool2dAttributes>(), node.type().shape),
        are_apart_(are_apart(g_.windows[0]) && are_apart(g_.windows[1])),
        are_everywhere_(are_everywhere(g_.windows[0]) && are_everywhere(g_.windows[1])),
        give_(vector::find_max_gradient()) {}

  size_t scratch_bytes() const override {
    return static_cast<size_t>(g_.windows[0].taps) * sizeof(const float*);
  }

  void make(void* const* args, int64_t begin, int64_t end, void* scratch) const override {
    const auto& [down, across] = g_.windows;
    vector::MaxGradientCall call{.writes = are_apart_,
                                 .channels = static_cast<size_t>(g_.channels),
                                 .windows = across.out,
                                 .taps = across.taps,
                                 .stride = across.stride,
                                 .low = across.low,
                                 .in = across.in};
    const int64_t line = across.in * g_.channels;
    auto* lines = static_cast<const float**>(scratch);
    int64_t count = 1;
    for (int64_t unit = begin; unit < end; unit += count) {
      const int64_t image = unit / down.in, y = unit % down.in;
      call.dx = static_cast<float*>(args[2]) + unit * line;
      count = are_apart_ ? std::min(lines_under_window(y), end - unit) : 1;
      call.given_count = static_cast<size_t>(count);
      if (!are_apart_ || !are_everywhere_) std::fill_n(call.dx, count * line, 0.0f);
      // The windows whose taps reach line y.
      const int64_t reach = y + down.low;
      const int64_t first = std::max<int64_t>(0, (reach - down.taps) / down.stride);
      for (int64_t i = first; i < down.out && i * down.stride <= reach; ++i)
        if (reach - i * down.stride < down.taps) give(args, image, i, y, lines, call);
    }
  }

 private:
  static bool are_apart(const WindowAxis& axis) { return axis.stride >= axis.taps; }
  static bool are_everywhere(const WindowAxis& axis) {
    return axis.stride <= axis.taps && axis.position(axis.out - 1, axis.taps - 1) >= axis.in - 1;
  }

  // Returns how many lines from y on lie under the window that has y, or 1 where none has it.
  // REQUIRES that windows are apart.
  int64_t lines_under_window(int64_t y) const {
    const WindowAxis& down = g_.windows[0];
    const int64_t window = (y + down.low) / down.stride;
    const int64_t behind = std::min(down.in, down.position(window, down.taps));
    return window < down.out && behind > y ? behind - y : 1;
  }

  // Line i of windows gives to the lines of the image from y on; `lines` has room for its taps.
  void give(void* const* args, int64_t image, int64_t i, int64_t y, const float** lines,
            vector::MaxGradientCall& call) const {
    const auto& [down, across] = g_.windows;
    call.line_count = 0;
    call.lines = lines;
    for (int64_t tap = 0; tap < down.taps; ++tap) {
      const int64_t position = down.position(i, tap);
      if (!down.inside(position)) continue;
      if (position == y) call.given = call.line_count;
      const int64_t at = (image * down.in + position) * across.in * g_.channels;
      lines[call.line_count++] = static_cast<const float*>(args[0]) + at;
    }
    const int64_t at = (image * down.out + i) * across.out * g_.channels;
    call.dy = static_cast<const float*>(args[1]) + at;
    give_(call);
  }

  PoolGeometry g_;
  bool are_apart_, are_everywhere_;  // windows, along both axes
  vector::MaxGradientInstruction give_;
};

std::unique_ptr<RangeKernel> make_max_pool(const Node& node, int most_blocks) {
  return std::make_unique<MaxPoolKernel>(node, most_blocks);
}
std::unique_ptr<RangeKernel> make_max_pool_gradient(const Node& node, int most_blocks) {
  return std::make_unique<MaxPoolGradientKernel>(node, most_blocks);
}

Support supports_max_pool(const Node& node) {
  return supports_layout(node.as<MaxPool2dAttributes>().layout);
}
Support supports_max_pool_gradient(const Node& node) {
  if (node.type().dtype != f32) {
    return {false, std::string("gradients in ") + name_of(node.type().dtype) +
                       " are put together from slices"};
  }
  return supports_max_pool(node);
}

constexpr SharedKernel kPoolKernels[] = {
    made_in_ranges<make_max_pool>("max_pool2d", supports_max_pool),
    made_in_ranges<make_max_pool_gradient>("max_pool2d_gradient", supports_max_pool_gradient)};

}  // namespace

std::span<const SharedKernel> pool_kernels() { return kPoolKernels; }

}  // namespace keel
