// Random nodes of every kind that the NPU runs: element-wise work, reductions, rows, movements,
// indexing, orders, random numbers, convolutions and products, each for a random preset. For use
// inside a RapidCheck property.
#ifndef KEEL_TESTS_UNIT_RANDOM_NPU_NODES_FOR_TESTS_H
#define KEEL_TESTS_UNIT_RANDOM_NPU_NODES_FOR_TESTS_H

#include <algorithm>
#include <rapidcheck.h>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/npu/presets/preset.h"
#include "keel/graph/ir/emit.h"
#include "keel/ops/ops.h"

namespace random_npu_nodes {

using namespace keel;
using npu::load_preset;
using npu::Preset;
using npu::preset_names;

inline int64_t pick(int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); }
inline bool coin() { return pick(0, 1) == 1; }

inline DType random_dtype(const Preset& preset) {
  const int64_t n = pick(0, preset.bf16 ? 4 : 3);
  constexpr DType kDrawn[] = {f32, f32, f16, i32, bf16};
  return kDrawn[n];
}

inline Preset random_preset() {
  Preset preset = load_preset(*rc::gen::elementOf(preset_names()));
  // Smaller buffers than any device's, so that small launches have many tiles.
  if (coin()) preset.ub_bytes = npu::kLeastUnifiedBuffer + pick(0, 64) * 1024;
  if (coin()) preset.l0c_bytes = pick(4, 64) * 1024;
  if (coin()) preset.l0a_bytes = preset.l0b_bytes = pick(8, 32) * 1024;
  // The deepest step of L0 has to fit.
  if (coin()) preset.l1_bytes = preset.l0a_bytes + preset.l0b_bytes + pick(0, 64) * 1024;
  if (coin()) preset.task_per_block_ns = pick(1, 20);
  return preset;
}

inline Value random_elementwise(const Value& x, const Value& y) {
  switch (pick(0, 7)) {
    case 0:
      return x * y;
    case 1:
      return x - y;
    case 2:
      return maximum(x, y);
    case 3:
      return select(less(x, y), x, y);
    case 4:
      return square(x) + y;
    case 5:
      return is_float(x.dtype()) ? exp(x) : neg(x);
    case 6:
      return relu(x);
    default:
      return x + y;
  }
}

// Another input that broadcasts to the shape.
inline Value random_partner(Graph& g, const Shape& shape, DType dtype, const std::string& name) {
  Shape own;
  for (const int64_t dim : shape.dims()) own.push_back(pick(0, 3) == 0 ? 1 : dim);
  if (own.rank() > 0 && pick(0, 4) == 0) own = Shape{own.back()};
  if (pick(0, 5) == 0) own = Shape{};
  return g.input(name, dtype, own);
}

inline Shape random_shape(int64_t most_elements) {
  Shape shape;
  int64_t left = most_elements;
  const int64_t rank = pick(0, 3);
  for (int64_t i = 0; i < rank && left > 0; ++i) {
    if (pick(0, 40) == 0) left = 0;
    const int64_t dim = left == 0           ? 0
                        : pick(1, 12) == 12 ? pick(1, left)
                                            : pick(1, std::min<int64_t>(left, 40));
    shape.push_back(dim);
    if (dim > 0) left /= dim;
  }
  return shape;
}

inline void draw_elementwise(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  const Shape shape = random_shape(60000);
  const Value first = g.input("x", dtype, shape);
  Value x = first, other = first;
  const int64_t steps = pick(1, 6);
  for (int64_t i = 0; i < steps; ++i) {
    const Value y = coin() ? random_partner(g, shape, dtype, "y" + std::to_string(i)) : other;
    other = x;
    x = random_elementwise(x, y);
  }
  Values outputs = {pick(0, 3) == 0 ? cast(x, coin() ? f32 : f16) : x};
  if (coin() && other != first) outputs.push_back(other);
  g.set_outputs(outputs);
}

inline void draw_reduction(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  const Shape shape = pick(0, 2) == 0 ? random_shape(200000) : random_shape(20000);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (coin()) axes.push_back(static_cast<int64_t>(i));
  }
  Value x = g.input("x", dtype, shape);
  if (coin()) x = random_elementwise(x, random_partner(g, shape, dtype, "y"));
  // Nothing has no extremes.
  const int64_t op = shape.num_elements() == 0 ? 5 : pick(0, 5);
  Value r = op == 0   ? max(x, axes)
            : op == 1 ? min(x, axes)
            : op == 2 ? prod(x, axes)
                      : sum(x, axes);
  if (coin()) r = r * random_partner(g, r.shape(), dtype, "scale") + r;
  g.set_outputs({r});
}

inline void draw_product(Graph& g, const Preset& preset) {
  constexpr DType kDrawn[] = {f32, f16, bf16};
  const DType dtype = kDrawn[pick(0, preset.bf16 ? 2 : 1)];
  const auto extent = [] { return pick(0, 3) == 0 ? pick(1, 200) : pick(1, 40); };
  const int64_t m = pick(0, 30) == 0 ? 0 : extent(), n = extent();
  const int64_t k = pick(0, 9) == 0 ? pick(1000, 1200) : extent();
  const bool left = coin(), right = coin();
  Shape a = left ? Shape{k, m} : Shape{m, k}, b = right ? Shape{n, k} : Shape{k, n};
  const int64_t form = pick(0, 4);
  if (form == 0) a = left ? Shape{3, k, m} : Shape{3, m, k};
  Value x, y = g.input("b", dtype, b);
  if (form == 1) {
    x = cast(g.input("a", u8, a), f32) / 255.0f;
    y = g.input("w", f32, b);
    if (preset.bf16 && coin()) {
      x = cast(x, bf16);
      y = cast(y, bf16);
    }
  } else if (form == 2 && preset.bf16) {
    x = cast(g.input("a", f32, a), bf16);
    y = cast(g.input("w", f32, b), bf16);
  } else if (form == 3) {
    x = gather(g.input("table", dtype, {50, a[1]}), g.input("rows", i32, {a[0]}), 0);
  } else {
    x = g.input("a", dtype, a);
  }
  Value c = matmul(x, y, {.transpose_a = left, .transpose_b = right});
  if (coin()) c = relu(c + g.input("bias", c.dtype(), {n}));
  if (c.dtype() == f32 && c.shape().rank() == 2 && n >= 4 && coin()) {
    const Value labels = g.input("labels", i32, {c.shape()[0]});
    g.set_outputs({coin() ? softmax(c) : softmax_cross_entropy(c, labels)});
    return;
  }
  if (coin()) c = c * random_partner(g, c.shape(), c.dtype(), "scale");
  g.set_outputs({c});
}

inline void draw_integer_product(Graph& g) {
  constexpr DType kDrawn[] = {i64, i32, u8};
  const DType dtype = kDrawn[pick(0, 2)];
  const auto extent = [] { return pick(0, 3) == 0 ? pick(0, 400) : pick(0, 40); };
  const int64_t m = extent(), n = extent(), k = extent();
  const bool left = coin(), right = coin();
  Shape a = left ? Shape{k, m} : Shape{m, k};
  if (coin()) a = left ? Shape{3, k, m} : Shape{3, m, k};
  const Value x = g.input("a", dtype, a);
  const Value y = g.input("b", dtype, right ? Shape{n, k} : Shape{k, n});
  g.set_outputs({matmul(x, y, {.transpose_a = left, .transpose_b = right})});
}

inline void draw_rows(Graph& g, const Preset& preset) {
  const Shape shape{pick(1, 300), pick(1, 5) == 5 ? pick(1, 3000) : pick(1, 40)};
  constexpr DType kDrawn[] = {f32, f16, bf16};
  const DType dtype = kDrawn[pick(0, preset.bf16 ? 2 : 1)];
  if (coin()) {
    const Value x = g.input("x", dtype, shape);
    g.set_outputs({coin() ? softmax(x) : log_softmax(x)});
    return;
  }
  if (pick(0, 2) == 0) {
    const char* op = coin() ? "softmax_gradient" : "log_softmax_gradient";
    const Value x = g.input("x", dtype, shape), dy = g.input("dy", dtype, shape);
    g.set_outputs({emit(op, {x, dy}, CallSite::here())});
    return;
  }
  // Labels are below 4.
  const Value wide = g.input("wide", dtype, {shape[0], shape[1] + 3});
  const Value labels = g.input("labels", i32, {shape[0]});
  const Value upstream = g.input("upstream", dtype, {shape[0]});
  g.set_outputs({coin() ? softmax_cross_entropy(wide, labels)
                        : softmax_cross_entropy_grad(wide, labels, upstream)});
}

// Returns a random slice, some axes of it backwards.
inline Value random_part(const Value& x) {
  std::vector<int64_t> begin, end, strides;
  for (const int64_t dim : x.shape().dims()) {
    const int64_t first = pick(0, dim / 2), last = pick(std::min(dim, first + 1), dim);
    const bool backwards = dim > 0 && coin();
    begin.push_back(backwards ? last - 1 : first);
    end.push_back(!backwards ? last : first == 0 ? kToStart : first - 1);
    strides.push_back(pick(1, 3) * (backwards ? -1 : 1));
  }
  return slice(x, begin, end, strides);
}

inline Value random_padding(const Value& x) {
  std::vector<int64_t> low, high, interior;
  for (size_t i = 0; i < x.shape().rank(); ++i) {
    low.push_back(pick(0, 3));
    high.push_back(pick(0, 3));
    interior.push_back(pick(0, 4) == 0 ? pick(1, 2) : 0);
  }
  return pad_interior(x, low, high, interior, 2);
}

inline Value random_order(const Value& x) {
  std::vector<int64_t> perm(x.shape().rank());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  for (size_t i = perm.size(); i > 1; --i)
    std::swap(perm[i - 1], perm[static_cast<size_t>(pick(0, static_cast<int64_t>(i) - 1))]);
  return transpose(x, perm);
}

inline void draw_movement(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  Shape shape = random_shape(30000);
  shape.push_back(pick(1, 60));
  const Value x = g.input("x", dtype, shape);
  switch (pick(0, 4)) {
    case 0:
      return g.set_outputs({random_order(x)});
    case 1:
      return g.set_outputs({random_part(x)});
    case 2:
      return g.set_outputs({random_padding(x)});
    case 3:
      return g.set_outputs({concat({x, g.input("y", dtype, shape), x}, pick(0, 1) == 0 ? 0 : -1)});
    default: {
      Shape narrow, wide{pick(1, 5)};
      for (const int64_t dim : shape.dims()) {
        narrow.push_back(dim == 0 || coin() ? dim : 1);
        wide.push_back(dim);
      }
      return g.set_outputs({broadcast_to(g.input("narrow", dtype, narrow), wide)});
    }
  }
}

// Indices are below 4.
inline void draw_indexed(Graph& g, const Preset& preset) {
  const DType dtype = random_dtype(preset);
  const Value numbers = g.input("numbers", coin() ? i32 : i64, {pick(0, 300)});
  switch (pick(0, 5)) {
    case 0:
      return g.set_outputs({one_hot(numbers, pick(4, 200), dtype)});
    case 1:
      return g.set_outputs({iota(g, dtype, {pick(1, 40), pick(1, 300)}, pick(0, 1))});
    case 2:
      return g.set_outputs(
          {gather(g.input("x", dtype, {pick(1, 9), pick(4, 30), pick(1, 20)}), numbers, 1)});
    case 3:
    case 4: {
      const Shape row{pick(1, 4) == 4 ? pick(1, 5000) : pick(1, 50)};
      const DType number = pick(0, 3) == 0 ? i64 : dtype;
      const Value updates = g.input("updates", number, {numbers.shape()[0], row[0]});
      return g.set_outputs(
          {scatter_add(g.input("x", number, {pick(4, 50), row[0]}), numbers, updates)});
    }
    default:
      return g.set_outputs({gather(g.input("x", dtype, {pick(4, 50), pick(1, 70)}), numbers)});
  }
}

inline void draw_ordered(Graph& g, const Preset& preset) {
  const Shape shape{pick(1, 60), pick(1, 3) == 3 ? pick(1, 3000) : pick(1, 60)};
  const Value x = g.input("x", random_dtype(preset), shape);
  switch (pick(0, 4)) {
    case 0:
      return g.set_outputs({sort(x, pick(0, 1), coin()).values});
    case 1:
      return g.set_outputs({top_k(x, pick(1, shape[1])).indices});
    case 2: {
      const Value cube = g.input("cube", x.dtype(), {pick(1, 9), pick(1, 30), pick(1, 20)});
      const int64_t axis = pick(0, 2), most = cube.shape()[static_cast<size_t>(axis)];
      return g.set_outputs({top_k(cube, pick(1, most), axis).values});
    }
    case 3:
      return g.set_outputs({cumsum(x, pick(0, 1), {coin(), coin()})});
    default:
      return g.set_outputs({argmax(x, pick(0, 1))});
  }
}

inline void draw_random_numbers(Graph& g, const Preset& preset) {
  const Shape shape = random_shape(30000);
  const Value key = g.input("key", i64, {}), like = g.input("like", f32, shape);
  const DType dtype = preset.bf16 && coin() ? bf16 : coin() ? f16 : f32;
  switch (pick(0, 3)) {
    case 0:
      return g.set_outputs({uniform_like(key, like, -1, 65504, dtype)});
    case 1:
      return g.set_outputs({normal_like(key, like, 0, coin() ? 1 : 60000, dtype)});
    case 2:
      return g.set_outputs({bernoulli_like(fold_key(key, g.input("data", i64, {})), like, 0.3)});
    default:
      return g.set_outputs({fold_key(key, g.input("data", i64, {}))});
  }
}

inline Conv2dAttributes random_windows(int64_t groups) {
  Conv2dAttributes options;
  options.stride = {pick(1, 3), pick(1, 3)};
  options.dilation = {pick(1, 2), pick(1, 2)};
  options.groups = groups;
  constexpr const char* kPaddings[] = {"valid", "same", "explicit"};
  options.padding = kPaddings[pick(0, 2)];
  if (options.padding == "explicit")
    options.pads = {pick(0, 2), pick(0, 3), pick(0, 1), pick(0, 2)};
  return options;
}

inline void draw_convolution(Graph& g, const Preset& preset) {
  constexpr DType kDrawn[] = {f32, f16, bf16};
  const DType dtype = kDrawn[pick(0, preset.bf16 ? 2 : 1)];
  const int64_t groups = pick(0, 3) == 0 ? 2 : 1, channels = groups * pick(1, 8);
  const int64_t filters = groups * pick(1, 20), height = pick(6, 14), width = pick(6, 14);
  Conv2dAttributes options = random_windows(groups);
  const Shape images{pick(1, 4), height, width, channels};
  const Shape kernel{pick(1, 3), pick(1, 3), channels / groups, filters};
  const bool bytes = dtype != f16 && pick(0, 3) == 0, rounds = dtype == bf16 && coin();
  Value x = bytes ? cast(g.input("bytes", u8, images), f32) / 255.0f
                  : g.input("x", rounds ? f32 : dtype, images);
  if (x.dtype() != dtype) x = cast(x, dtype);
  options.wide = dtype != f32 && coin();
  const Value weights = g.input("weights", dtype, kernel);
  const Value y = conv2d(x, weights, options);
  const Value dy = g.input("dy", dtype, y.shape());
  switch (pick(0, 4)) {
    case 4:
      return g.set_outputs({y + random_partner(g, y.shape(), y.dtype(), "bias")});
    case 0:
      return g.set_outputs({conv2d_weight_gradient(x, dy, {kernel[0], kernel[1]}, options)});
    case 1:
      return g.set_outputs({conv2d_input_gradient(dy, weights, options, {height, width})});
    case 2:
      return g.set_outputs({relu(y + cast(dy, y.dtype()))});
    default:
      return g.set_outputs({y});
  }
}

inline void draw_pooling(Graph& g, const Preset& preset) {
  MaxPool2dAttributes options;
  options.window = {pick(1, 4), pick(1, 4)};
  options.stride = {pick(1, 4), pick(1, 4)};
  if (coin()) {
    options.padding = "explicit";
    for (const int64_t window : options.window) {
      options.pads.push_back(pick(0, window - 1));
      options.pads.push_back(pick(0, window - 1));
    }
  }
  const Shape images{pick(1, 4), pick(4, 30), pick(4, 30), pick(1, 40)};
  const bool gradient = coin();
  const Value x = g.input("x", gradient ? f32 : random_dtype(preset), images);
  const Value y = max_pool2d(x, options);
  if (!gradient) return g.set_outputs({y});
  g.set_outputs({max_pool2d_gradient(x, g.input("dy", f32, y.shape()), options)});
}

inline void draw_node(Graph& g, const Preset& preset) {
  switch (pick(0, 15)) {
    case 0:
    case 1:
      return draw_elementwise(g, preset);
    case 2:
    case 3:
      return draw_reduction(g, preset);
    case 4:
      return draw_rows(g, preset);
    case 5:
    case 6:
      return draw_movement(g, preset);
    case 7:
      return draw_indexed(g, preset);
    case 8:
      return draw_ordered(g, preset);
    case 9:
      return draw_random_numbers(g, preset);
    case 10:
    case 11:
      return draw_convolution(g, preset);
    case 12:
      return draw_integer_product(g);
    case 13:
      return draw_pooling(g, preset);
    default:
      return draw_product(g, preset);
  }
}

}  // namespace random_npu_nodes

#endif  // KEEL_TESTS_UNIT_RANDOM_NPU_NODES_FOR_TESTS_H
