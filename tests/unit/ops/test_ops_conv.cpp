// Convolutions against loops written here, which pad an array and slide a window over it: results
// and both gradients, on every backend. Expected padding is written out, not computed.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/random.h"
#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

// A convolution, its tensors in NHWC and HWIO; `pads` are the zeros that its padding comes to.
struct ConvolutionCase {
  const char* what;
  std::array<int64_t, 4> x;        // n, h, w, c
  std::array<int64_t, 4> weights;  // h, w, in, out
  Conv2dAttributes options;
  std::array<int64_t, 4> pads;  // top, bottom, left, right
};

const std::vector<ConvolutionCase>& convolution_cases() {
  static const std::vector<ConvolutionCase> all = {
      {"1x1", {2, 3, 4, 5}, {1, 1, 5, 3}, {}, {0, 0, 0, 0}},
      {"3x3 same", {2, 6, 5, 3}, {3, 3, 3, 4}, {.padding = "same"}, {1, 1, 1, 1}},
      {"5x5 valid", {1, 8, 9, 2}, {5, 5, 2, 3}, {}, {0, 0, 0, 0}},
      {"even kernel, same, NCHW",
       {2, 5, 6, 2},
       {2, 4, 2, 3},
       {.padding = "same", .layout = "NCHW"},
       {0, 1, 1, 2}},
      {"stride 2 same, odd zero behind",
       {1, 6, 7, 3},
       {3, 3, 3, 2},
       {.stride = {2}, .padding = "same"},
       {0, 1, 1, 1}},
      {"stride beyond the kernel", {1, 9, 8, 2}, {2, 1, 2, 2}, {.stride = {4, 3}}, {0, 0, 0, 0}},
      {"asymmetric pads",
       {2, 4, 5, 2},
       {3, 2, 2, 3},
       {.stride = {1, 2}, .padding = "explicit", .pads = {2, 0, 1, 3}},
       {2, 0, 1, 3}},
      {"dilated",
       {1, 9, 10, 2},
       {3, 3, 2, 2},
       {.stride = {2, 1}, .padding = "same", .dilation = {2, 3}},
       {2, 2, 3, 3}},
      {"groups, NCHW",
       {2, 5, 5, 6},
       {3, 3, 2, 9},
       {.padding = "same", .groups = 3, .layout = "NCHW"},
       {1, 1, 1, 1}},
      {"depthwise with two results for each channel",
       {2, 6, 6, 4},
       {3, 3, 1, 8},
       {.stride = {2}, .padding = "explicit", .pads = {1, 1, 1, 1}, .groups = 4},
       {1, 1, 1, 1}},
      {"one row, pads larger than the kernel",
       {1, 1, 7, 3},
       {1, 2, 3, 2},
       {.padding = "explicit", .pads = {1, 0, 3, 2}},
       {1, 0, 3, 2}},
      {"many channels", {3, 7, 7, 17}, {3, 3, 17, 20}, {.padding = "same"}, {1, 1, 1, 1}},
  };
  return all;
}

// A dense array of four axes.
struct Array {
  explicit Array(std::array<int64_t, 4> s)
      : size(s), values(static_cast<size_t>(s[0] * s[1] * s[2] * s[3]), 0) {}
  double& operator()(int64_t a, int64_t b, int64_t c, int64_t d) {
    return values.at(static_cast<size_t>(((a * size[1] + b) * size[2] + c) * size[3] + d));
  }
  std::array<int64_t, 4> size;
  Doubles values;
};

Array random_array(std::array<int64_t, 4> size, uint64_t key) {
  Array array(size);
  for (size_t i = 0; i < array.values.size(); ++i) {
    const auto words = random_block(key, i);
    array.values[i] = static_cast<double>(words[0] % 129) / 64 - 1;  // exact in every float dtype
  }
  return array;
}

struct PlainConvolution {
  Array y, dx, dw;
};

// y, and the gradients of sum(y * dy) where dy is an array of y's size.
PlainConvolution plain_convolution(const ConvolutionCase& c, Array x, Array w, uint64_t key_of_dy,
                                   Array& dy) {
  const auto& o = c.options;
  const int64_t sh = o.stride[0], sw = o.stride.back();
  const int64_t dh = o.dilation[0], dw_ = o.dilation.back();
  const auto [n, h, width, channels] = c.x;
  Array padded({n, h + c.pads[0] + c.pads[1], width + c.pads[2] + c.pads[3], channels});
  for (int64_t b = 0; b < n; ++b)
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < width; ++j)
        for (int64_t k = 0; k < channels; ++k)
          padded(b, i + c.pads[0], j + c.pads[2], k) = x(b, i, j, k);
  const int64_t rows = (padded.size[1] - ((c.weights[0] - 1) * dh + 1)) / sh + 1;
  const int64_t columns = (padded.size[2] - ((c.weights[1] - 1) * dw_ + 1)) / sw + 1;
  PlainConvolution result{Array({n, rows, columns, c.weights[3]}), Array(c.x), Array(c.weights)};
  Array padded_dx(padded.size);
  dy = random_array(result.y.size, key_of_dy);
  const int64_t in = c.weights[2], out = c.weights[3] / o.groups;
  for (int64_t b = 0; b < n; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t to = 0; to < c.weights[3]; ++to)
          for (int64_t p = 0; p < c.weights[0]; ++p)
            for (int64_t q = 0; q < c.weights[1]; ++q)
              for (int64_t k = 0; k < in; ++k) {
                const int64_t r = i * sh + p * dh, s = j * sw + q * dw_;
                const int64_t from = to / out * in + k;
                result.y(b, i, j, to) += padded(b, r, s, from) * w(p, q, k, to);
                padded_dx(b, r, s, from) += dy(b, i, j, to) * w(p, q, k, to);
                result.dw(p, q, k, to) += padded(b, r, s, from) * dy(b, i, j, to);
              }
  for (int64_t b = 0; b < n; ++b)
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < width; ++j)
        for (int64_t k = 0; k < channels; ++k)
          result.dx(b, i, j, k) = padded_dx(b, i + c.pads[0], j + c.pads[2], k);
  return result;
}

// The array as a tensor whose axis i is the array's axis order[i].
Tensor tensor_of(Array array, DType dtype, std::array<size_t, 4> order) {
  const auto& s = array.size;
  Tensor t(dtype, {s[order[0]], s[order[1]], s[order[2]], s[order[3]]});
  std::array<int64_t, 4> at{};
  int64_t i = 0;
  for (at[0] = 0; at[0] < s[order[0]]; ++at[0])
    for (at[1] = 0; at[1] < s[order[1]]; ++at[1])
      for (at[2] = 0; at[2] < s[order[2]]; ++at[2])
        for (at[3] = 0; at[3] < s[order[3]]; ++at[3]) {
          std::array<int64_t, 4> from{};
          for (size_t k = 0; k < 4; ++k) from[order[k]] = at[k];
          t.set(i++, array(from[0], from[1], from[2], from[3]));
        }
  return t;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.type() == b.type());
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i)
    largest = std::max(largest, std::fabs(a.at(i) - b.at(i)));
  return largest;
}

TEST_CASE("conv2d and its gradients are those of plain loops") {
  for (const ConvolutionCase& c : convolution_cases()) {
    const bool first = c.options.layout == "NCHW";
    const std::array<size_t, 4> image =
        first ? std::array<size_t, 4>{0, 3, 1, 2} : std::array<size_t, 4>{0, 1, 2, 3};
    const std::array<size_t, 4> weight =
        first ? std::array<size_t, 4>{3, 2, 0, 1} : std::array<size_t, 4>{0, 1, 2, 3};
    const Array x = random_array(c.x, 1), w = random_array(c.weights, 2);
    Array dy({0, 0, 0, 0});
    const PlainConvolution plain = plain_convolution(c, x, w, 3, dy);
    for (const std::pair<const char*, DType>& on :
         {std::pair{"ref:0", f64}, std::pair{"cpu:0", f32}, std::pair{"npu:0", f32}}) {
      // A structured binding could not be captured by every compiler.
      const char* const where = on.first;
      const DType dtype = on.second;
      CAPTURE(std::string(c.what));
      CAPTURE(std::string(where));
      Graph g;
      const Value images = g.input("x", dtype, tensor_of(x, dtype, image).shape());
      const Value weights = g.input("w", dtype, tensor_of(w, dtype, weight).shape());
      const Value y = conv2d(images, weights, c.options);
      const Tensor upstream = tensor_of(dy, dtype, image);
      REQUIRE(y.shape() == upstream.shape());
      const Values gradient = gradients(sum(y * g.constant(upstream)), {images, weights});
      Session session(g, device(where));
      const auto got = session.run(
          {y, gradient[0], gradient[1]},
          {{images, tensor_of(x, dtype, image)}, {weights, tensor_of(w, dtype, weight)}});
      // Sums of at most 153 products below 1, or of 147 for the weights.
      const double bound = dtype == f64 ? 1e-12 : 1e-4;
      CHECK(largest_difference(got[0], tensor_of(plain.y, dtype, image)) < bound);
      CHECK(largest_difference(got[1], tensor_of(plain.dx, dtype, image)) < bound);
      CHECK(largest_difference(got[2], tensor_of(plain.dw, dtype, weight)) < bound);
    }
  }
}

TEST_CASE("conv2d keeps dimensions that are not known") {
  Graph g;
  const Value x = g.input("x", f32, {-1, -1, 8, 3});
  const Value w = g.input("w", f32, {3, 3, 3, 5});
  CHECK(conv2d(x, w).shape() == Shape{-1, -1, 6, 5});
  CHECK(conv2d(x, w, {.stride = {2}, .padding = "same"}).shape() == Shape{-1, -1, 4, 5});
  const Value unknown = g.input("k", f32, {-1, 3, -1, 5});
  CHECK(conv2d(x, unknown, {.padding = "same"}).shape() == Shape{-1, -1, 8, 5});
  const Value images = g.input("y", f32, {-1, 4, 4, 5});
  CHECK(conv_transpose2d(images, w, {.stride = {2}, .padding = "same"}).shape() ==
        Shape{-1, 8, 8, 3});
  CHECK(conv_transpose2d(images, w, {.stride = {2}}).shape() == Shape{-1, 9, 9, 3});
  CHECK(conv_transpose2d(images, w, {.stride = {2}}, {10, 9}).shape() == Shape{-1, 10, 9, 3});
}

TEST_CASE("conv2d refuses what does not fit and says what does") {
  Graph g;
  const Value x = g.input("x", f32, {2, 6, 6, 4});
  const Value w = g.input("w", f32, {3, 3, 4, 8});
  const auto refused = [&](const Value& images, const Value& weights, Conv2dAttributes options) {
    return error_of([&] { conv2d(images, weights, std::move(options)); });
  };
  const std::string channels = refused(x, g.input("w3", f32, {3, 3, 3, 8}), {});
  CHECK(contains(channels, "weights: expected shape [3, 3, 4, 8] (HWIO, beside NHWC)"));
  CHECK(contains(channels, "test_ops_conv.cpp:"));
  CHECK(contains(refused(x, w, {.groups = 2}), "[3, 3, 2, 8]"));
  CHECK(contains(refused(x, w, {.groups = 3}), "a multiple of 3 channels"));
  CHECK(contains(refused(x, w, {.groups = 0}), "groups: expected at least 1"));
  CHECK(contains(refused(x, w, {.layout = "NWHC"}), "layout: expected NHWC or NCHW"));
  CHECK(contains(refused(x, w, {.padding = "full"}), "padding: expected valid, same or explicit"));
  CHECK(contains(refused(x, w, {.pads = {1, 1, 1, 1}}), "pads: expected none"));
  CHECK(contains(refused(x, w, {.padding = "explicit", .pads = {1, 1}}), "top, bottom"));
  CHECK(contains(refused(x, w, {.padding = "explicit", .pads = {1, 1, -1, 1}}), "at least 0"));
  CHECK(contains(refused(x, w, {.stride = {0}}), "stride: expected 2 numbers"));
  CHECK(contains(refused(x, w, {.stride = {1, 2, 3}}), "[1, 2, 3]"));
  CHECK(contains(refused(x, w, {.dilation = {3, 1}}), "x: expected height of at least 7"));
  CHECK(contains(refused(x, w, {.wide = true}), "f16 or bf16"));
  CHECK(contains(refused(x, g.input("h", f16, {3, 3, 4, 8}), {}), "cast"));
  CHECK(contains(refused(g.input("r3", f32, {6, 6, 4}), w, {}), "rank 4"));
  CHECK(contains(refused(x, g.input("empty", f32, {0, 3, 4, 8}), {}), "at least one element"));
  constexpr int64_t kHuge = int64_t{1} << 62;
  CHECK(contains(refused(x, w, {.dilation = {kHuge, 1}}), "does not fit in 64 bits"));
  CHECK(contains(refused(x, w, {.padding = "explicit", .pads = {kHuge, kHuge, 0, 0}}),
                 "does not fit in 64 bits"));
  const Value dy = g.input("dy", f32, {2, 4, 4, 8});
  CHECK(contains(error_of([&] {
                   conv2d_input_gradient(dy, w, {}, {7, 6});
                 }),
                 "size: expected a height that conv2d makes 4 of"));
  CHECK(contains(error_of([&] {
                   conv2d_weight_gradient(x, dy, {2, 3});
                 }),
                 "dy: expected shape [2, 5, 4, 8]"));
}

TEST_CASE("conv_transpose2d goes back where conv2d went") {
  // Each element spreads a kernel, strides apart; kernels that overlap add up.
  Graph g;
  const Value x = g.constant(Tensor::of<float>({1, 1, 2, 1}, {2, 3}));
  const Value w = g.constant(Tensor::of<float>({1, 3, 1, 1}, {1, 10, 100}));
  CHECK(elements(conv_transpose2d(x, w, {.stride = {2}})) == Doubles{2, 20, 203, 30, 300});
  CHECK(elements(conv_transpose2d(x, w, {.stride = {2}}, {1, 6})) ==
        Doubles{2, 20, 203, 30, 300, 0});
  CHECK(elements(conv_transpose2d(x, w, {.stride = {1, 2}, .padding = "same"})) ==
        Doubles{2, 20, 203, 30});
  CHECK(elements(conv_transpose2d(x, w, {.stride = {1}, .padding = "same"})) == Doubles{23, 230});
}

TEST_CASE("conv1d is conv2d of one row") {
  Graph g;
  const Value x = g.constant(counting({1, 5, 1}));
  const Value w = g.constant(Tensor::of<float>({2, 1, 1}, {1, 10}));
  CHECK(elements(conv1d(x, w)) == Doubles{10, 21, 32, 43});
  CHECK(elements(conv1d(x, w, {.stride = 2})) == Doubles{10, 32});
  CHECK(elements(conv1d(x, w, {.dilation = 3})) == Doubles{30, 41});
  CHECK(elements(conv1d(x, w, {.padding = "same"})) == Doubles{10, 21, 32, 43, 4});
  CHECK(elements(conv1d(x, w, {.padding = "explicit", .pads = {1, 0}})) ==
        Doubles{0, 10, 21, 32, 43});
  const Value first = g.constant(counting({1, 1, 5}));
  const Value kernel = g.constant(Tensor::of<float>({1, 1, 2}, {1, 10}));
  const Value y = conv1d(first, kernel, {.layout = "NCW"});
  CHECK(y.shape() == Shape{1, 1, 4});
  CHECK(elements(y) == Doubles{10, 21, 32, 43});
  CHECK(contains(error_of([&] { conv1d(x, w, {.layout = "NHWC"}); }), "NWC or NCW"));
  CHECK(contains(error_of([&] { conv1d(w, first.graph().constant(counting({2}))); }), "rank 3"));
  CHECK(contains(error_of([&] { conv1d(x, w, {.padding = "explicit", .pads = {1}}); }),
                 "2 numbers (in front, behind)"));
  CHECK(contains(error_of([&] { conv1d(x, w, {.pads = {1, 1}}); }), "none with padding"));
}

TEST_CASE("convolutions of nothing are empty or zero") {
  Graph g;
  const Value w = g.constant(counting({3, 3, 2, 4}));
  CHECK(evaluate(conv2d(g.constant(Tensor(f32, {0, 5, 5, 2})), w)).shape() == Shape{0, 3, 3, 4});
  const Value empty = g.constant(Tensor(f32, {0, 5, 5, 2}));
  const Value dy = g.constant(Tensor(f32, {0, 3, 3, 4}));
  CHECK(elements(conv2d_weight_gradient(empty, dy, {3, 3})) == Doubles(72, 0.0));
  const Value none = g.constant(Tensor(f32, {1, 5, 5, 0}));
  CHECK(elements(conv2d(none, g.constant(Tensor(f32, {3, 3, 0, 1})))) == Doubles(9, 0.0));
  const Value flat = g.constant(Tensor(f32, {1, 0, 4, 2}));
  CHECK(evaluate(conv2d(flat, w, {.padding = "same"})).shape() == Shape{1, 0, 4, 4});
}

}  // namespace

TEST_SUITE_END();
