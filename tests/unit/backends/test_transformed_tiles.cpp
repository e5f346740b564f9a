// Convolutions by transformed tiles: the matrices, random shapes of all three products against
// plain sums in double, which products go so, sums over parts, how far what is not finite reaches,
// and that the gradient of a weight without terms is 0.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/vector/host_isa.h"
#include "keel/backends/common/vector/winograd.h"
#include "keel/core/base/parallel_for.h"
#include "keel/graph/ir/emit.h"
#include "keel/ops/conv_rules.h"
#include "keel/ops/products/winograd.h"

#include "drawn_steps_for_tests.h"
#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::Draws;
using testing::run_case;
using testing::StepCase;

template <size_t kOutputs, size_t kTaps>
void check_matrices() {
  constexpr WinogradMatrices<kOutputs, kTaps> m;
  constexpr size_t kPoints = kOutputs + kTaps - 1;
  for (int64_t seed = 1; seed < 20; ++seed) {
    std::array<double, kTaps> g{};
    std::array<double, kPoints> d{};
    for (size_t i = 0; i < kTaps; ++i)
      g[i] = static_cast<double>((seed * 7 + 3 * static_cast<int64_t>(i)) % 11 - 5);
    for (size_t i = 0; i < kPoints; ++i)
      d[i] = static_cast<double>((seed * 5 + 4 * static_cast<int64_t>(i)) % 13 - 6);
    for (size_t o = 0; o < kOutputs; ++o) {
      double got = 0, expected = 0;
      for (size_t p = 0; p < kPoints; ++p) {
        double of_g = 0, of_d = 0;
        for (size_t i = 0; i < kTaps; ++i) of_g += m.weights[p][i] * g[i];
        for (size_t i = 0; i < kPoints; ++i) of_d += m.input[p][i] * d[i];
        got += m.output[o][p] * of_g * of_d;
      }
      for (size_t i = 0; i < kTaps; ++i) expected += d[o + i] * g[i];
      CHECK(std::fabs(got - expected) < 1e-11);
    }
  }
}

struct TiledConv {
  Conv2dAttributes options;
  Shape images, weights, results;
};

TiledConv draw_tiled_conv(Draws& draws, int64_t taps) {
  TiledConv conv;
  conv.options.padding = "explicit";
  for (int i = 0; i < 4; ++i) conv.options.pads.push_back(draws.integer(0, taps));
  const int64_t in = draws.integer(12, 37), out = draws.integer(12, 37);
  const Pair size{draws.integer(taps, 13), draws.integer(taps, 13)};
  conv.options.stride = conv.options.dilation = {1, 1};
  conv.images = Shape{draws.integer(1, 4), size[0], size[1], in};
  conv.weights = Shape{taps, taps, in, out};
  const Windows windows = windows_of(window_settings(conv.options), size, {taps, taps});
  conv.results = Shape{conv.images[0], windows[0].out, windows[1].out, out};
  return conv;
}

// The three products of a convolution as plain sums, in double.
std::vector<std::vector<double>> sums_of(const TiledConv& conv, const Tensor& x, const Tensor& w,
                                         const Tensor& dy) {
  const ConvGeometry g(conv.options, conv.images, conv.weights);
  std::vector<std::vector<double>> sums = {
      std::vector<double>(static_cast<size_t>(dy.num_elements()), 0),
      std::vector<double>(static_cast<size_t>(x.num_elements()), 0),
      std::vector<double>(static_cast<size_t>(w.num_elements()), 0)};
  for_each_term(g, [&](const std::array<int64_t, 3>& at) {
    const double image = x.at(at[kImages]), weight = w.at(at[kWeights]), up = dy.at(at[kResults]);
    sums[0][static_cast<size_t>(at[kResults])] += image * weight;
    sums[1][static_cast<size_t>(at[kImages])] += up * weight;
    sums[2][static_cast<size_t>(at[kWeights])] += up * image;
  });
  return sums;
}

// The convolution and its two gradients.
Values three_products(const TiledConv& conv, const Value& x, const Value& w, const Value& dy,
                      bool wide) {
  Conv2dAttributes options = conv.options;
  options.wide = wide;
  return {conv2d(x, w, options),
          conv2d_input_gradient(dy, w, options, {conv.images[1], conv.images[2]}),
          conv2d_weight_gradient(x, dy, {conv.weights[0], conv.weights[1]}, options)};
}

StepCase step_of(const TiledConv& conv, const Tensor& x, const Tensor& w, const Tensor& dy) {
  return {[conv](Graph& g) {
            const Value images = g.input("x", f32, conv.images);
            const Value weights = g.input("w", f32, conv.weights);
            const Value up = g.input("dy", f32, conv.results);
            return std::pair<Update, Values>{Update(),
                                             three_products(conv, images, weights, up, false)};
          },
          {x, w, dy}};
}

bool has_matrix_tiles() {
  return product_kernels().of(vector::ShapeClass::kSquare) == vector::ProductKernel::kTiles;
}

// Errors relative to what the largest terms may sum to: elements are below 1.
void check_sums(const TiledConv& conv, const std::vector<Tensor>& got,
                const std::vector<std::vector<double>>& expected) {
  const auto taps = static_cast<double>(conv.weights[0] * conv.weights[1]);
  const double terms[] = {taps * static_cast<double>(conv.images[3]),
                          taps * static_cast<double>(conv.weights[3]),
                          static_cast<double>(conv.results.num_elements() / conv.results[3])};
  for (size_t i = 0; i < 3; ++i) {
    double worst = 0;
    for (int64_t e = 0; e < got[i].num_elements(); ++e)
      worst = std::max(worst, std::fabs(got[i].at(e) - expected[i][static_cast<size_t>(e)]));
    CAPTURE(i);
    CHECK(worst <= 4e-6 * std::sqrt(terms[i]));
  }
}

// Returns the form of a convolution of these operands, if it is computed by tiles.
std::optional<WinogradForm> form_of(const Conv2dAttributes& options, const Shape& x, const Shape& w,
                                    DType dtype = f32) {
  Graph g;
  const Value y = conv2d(g.input("x", dtype, x), g.input("w", dtype, w), options);
  return winograd_form(product_matrices(y.node()), dtype);
}
bool has_form(const Conv2dAttributes& options, const Shape& x, const Shape& w, DType dtype = f32) {
  return form_of(options, x, w, dtype).has_value();
}

Value weight_gradient(const Value& x, const Value& dy, Conv2dAttributes options, int64_t taps,
                      int64_t parts = 1) {
  Conv2dGradientAttributes own;
  options.stride = options.dilation = {1, 1};
  static_cast<Conv2dAttributes&>(own) = std::move(options);
  own.size = {taps, taps};
  own.parts = parts;
  return emit("conv2d_weight_gradient", {Operand(x), Operand(dy)}, Attributes::of(own),
              CallSite::here());
}
// The same for the gradient of the weights, dy as large as x, with `out` channels.
bool sums_by_tiles(const Shape& x, int64_t out, int64_t taps, int64_t parts = 1) {
  Graph g;
  const Value dy = g.input("dy", f32, x.with_dim(3, out));
  const Value dw = weight_gradient(g.input("x", f32, x), dy, {.padding = "same"}, taps, parts);
  return winograd_form(product_matrices(dw.node()), f32).has_value();
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("transformed tiles: the matrices give the sums over taps") {
  check_matrices<2, 3>();
  check_matrices<4, 3>();
  check_matrices<2, 5>();
  check_matrices<4, 5>();
}

TEST_CASE("transformed tiles: no other tile has matrices") {
  const auto points = [](const auto& down, const auto& across) {
    return std::array{down.kPoints, across.kPoints};
  };
  CHECK(with_winograd_matrices({2, 2}, 3, points) == std::array<size_t, 2>{4, 4});
  CHECK(with_winograd_matrices({4, 4}, 3, points) == std::array<size_t, 2>{6, 6});
  CHECK(with_winograd_matrices({2, 2}, 5, points) == std::array<size_t, 2>{6, 6});
  CHECK(with_winograd_matrices({2, 4}, 5, points) == std::array<size_t, 2>{6, 8});
  CHECK_THROWS_WITH_AS(with_winograd_matrices({4, 4}, 5, points),
                       doctest::Contains("4 x 4 results of 5 taps"), Error);
  CHECK_THROWS_AS(with_winograd_matrices({2, 4}, 3, points), Error);
  CHECK_THROWS_AS(with_winograd_matrices({3, 3}, 3, points), Error);
}

TEST_CASE("transformed tiles: random shapes agree with plain sums on any number of threads") {
  Draws draws(31);
  for (int i = 0; i < 60; ++i) {
    const TiledConv conv = draw_tiled_conv(draws, i % 2 == 0 ? 3 : 5);
    CAPTURE(to_string(conv.images));
    CAPTURE(to_string(conv.weights));
    CAPTURE(to_string(Shape(conv.options.pads)));
    const Tensor x = draws.tensor(conv.images), w = draws.tensor(conv.weights);
    const Tensor dy = draws.tensor(conv.results);
    const auto expected = sums_of(conv, x, w, dy);
    const StepCase step = step_of(conv, x, w, dy);
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(std::string(where));
      const ComputeThreads one(1);
      const auto got = run_case(step, where, true);
      check_sums(conv, got, expected);
      const ComputeThreads three(3);
      CHECK(all_equal(run_case(step, where, false), got));
    }
  }
}

// In f32 the same numbers have the same tiles, so that bits are equal up to the last rounding. Only
// matrix tiles multiply bf16 in another way.
TEST_CASE("transformed tiles: operands of 16 bits have the bits of widened ones") {
  Draws draws(36);
  for (int i = 0; i < 24; ++i) {
    const DType low = i % 4 < 2 ? bf16 : f16;
    if (low == bf16 && has_matrix_tiles()) continue;
    TiledConv conv = draw_tiled_conv(draws, i % 2 == 0 ? 3 : 5);
    conv.images = conv.images.with_dim(0, draws.integer(1, 11));
    conv.results = conv.results.with_dim(0, conv.images[0]);
    CAPTURE(to_string(conv.images));
    CAPTURE(to_string(conv.weights));
    CAPTURE(to_string(Shape(conv.options.pads)));
    CAPTURE(name_of(low));
    for (const bool stored : {false, true}) {  // in 16 bits, or in f32 and rounded by the product
      const DType dtype = stored ? low : f32;
      const auto drawn = [&](const Shape& shape) { return draws.tensor(shape).cast(dtype); };
      const StepCase step{[&](Graph& g) {
                            const Value x = cast(g.input("x", dtype, conv.images), low);
                            const Value w = cast(g.input("w", dtype, conv.weights), low);
                            const Value dy = cast(g.input("dy", dtype, conv.results), low);
                            Values values = three_products(conv, x, w, dy, false);
                            for (Value& v : values) v = relu(v);  // rounded, then an epilogue
                            for (const Value& v : three_products(conv, x, w, dy, true))
                              values.push_back(v);
                            for (const Value& v : three_products(conv, cast(x, f32), cast(w, f32),
                                                                 cast(dy, f32), false))
                              values.push_back(v);
                            return std::pair<Update, Values>{Update(), values};
                          },
                          {drawn(conv.images), drawn(conv.weights), drawn(conv.results)}};
      for (const char* where : {"npu:0", "cpu:0"}) {
        CAPTURE(std::string(where));
        CAPTURE(stored);
        const ComputeThreads one(1);
        std::string tasks;
        const auto got = run_case(step, where, true, &tasks);
        if (!stored && low == bf16) CHECK(testing::contains(tasks, "cast + cast + conv2d"));
        for (size_t product = 0; product < 3; ++product) {
          CAPTURE(product);
          const Tensor &rounded = got[product], &wide = got[3 + product],
                       &expected = got[6 + product];
          CHECK(bit_equal(wide, expected));
          CHECK(rounded.dtype() == low);
          int64_t wrong = 0;
          const Tensor once = expected.cast(low);
          for (int64_t e = 0; e < once.num_elements(); ++e)
            wrong += rounded.at(e) == std::max(once.at(e), 0.0) ? 0 : 1;
          CHECK(wrong == 0);
        }
        const ComputeThreads three(3);
        CHECK(all_equal(run_case(step, where, false), got));
      }
    }
  }
}

TEST_CASE("transformed tiles: which convolutions go so") {
  const Conv2dAttributes same{.padding = "same"};
  CHECK(has_form(same, {2, 8, 8, 16}, {3, 3, 16, 16}));
  CHECK(has_form(same, {2, 7, 9, 12}, {5, 5, 12, 40}));
  CHECK_FALSE(has_form(same, {2, 8, 8, 16}, {3, 5, 16, 16}));
  CHECK_FALSE(has_form(same, {2, 8, 8, 16}, {1, 1, 16, 16}));
  CHECK_FALSE(has_form(same, {2, 8, 8, 3}, {3, 3, 3, 16}));
  CHECK(has_form(same, {1, 3, 1024, 64}, {3, 3, 64, 64}));
  CHECK_FALSE(has_form(same, {1, 3, 4096, 64}, {3, 3, 64, 64}));  // 16 MiB for a line of tiles
  CHECK_FALSE(has_form({}, {2, 3, 3, 16}, {3, 3, 16, 16}));       // one result of a tile's four
  CHECK_FALSE(has_form({.stride = {2}, .padding = "same"}, {2, 8, 8, 16}, {3, 3, 16, 16}));
  CHECK_FALSE(has_form({.padding = "same", .dilation = {2}}, {2, 8, 8, 16}, {3, 3, 16, 16}));
  CHECK_FALSE(has_form({.padding = "same", .groups = 2}, {2, 8, 8, 32}, {3, 3, 16, 32}));
  CHECK_FALSE(has_form({.padding = "same", .layout = "NCHW"}, {2, 16, 8, 8}, {16, 16, 3, 3}));
  CHECK_FALSE(has_form({.padding = "same", .algorithm = "direct"}, {2, 8, 8, 16}, {3, 3, 16, 16}));
  CHECK(has_form(same, {2, 8, 8, 16}, {3, 3, 16, 16}, bf16));
  CHECK(has_form(same, {2, 8, 8, 16}, {3, 3, 16, 16}, f16));
  CHECK_FALSE(has_form(same, {2, 8, 8, 16}, {3, 3, 16, 16}, f64));
}

TEST_CASE("transformed tiles: the tiles are those of the fewest multiplications") {
  const Conv2dAttributes same{.padding = "same"};
  struct Case {
    int64_t height, width, taps;
    std::array<int64_t, 2> results;  // of a tile
  };
  // With 5 taps 8 results across are 4 tiles of 36 points or 2 of 48, and 2 are one of either. With
  // 3 taps 6 x 6 results are 9 tiles of 16 points or 4 of 36, which are as many.
  for (const Case& c : {Case{8, 14, 3, {4, 4}},
                        {7, 7, 3, {4, 4}},
                        {6, 6, 3, {2, 2}},
                        {2, 14, 3, {2, 2}},
                        {8, 8, 5, {2, 4}},
                        {8, 14, 5, {2, 4}},
                        {8, 9, 5, {2, 4}},
                        {8, 2, 5, {2, 2}}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    CAPTURE(c.taps);
    const auto form = form_of(same, {2, c.height, c.width, 16}, {c.taps, c.taps, 16, 16});
    REQUIRE(form);
    CHECK(form->outputs == c.results);
  }
}

TEST_CASE("transformed tiles: which gradients of weights go so follows from one part") {
  CHECK(sums_by_tiles({1, 14, 14, 16}, 16, 3));
  CHECK(sums_by_tiles({1, 14, 14, 16}, 16, 5));
  CHECK_FALSE(sums_by_tiles({1, 12, 12, 16}, 16, 3));  // 36 tiles
  CHECK(sums_by_tiles({4, 12, 12, 16}, 16, 3));
  CHECK(sums_by_tiles({4, 12, 12, 16}, 16, 3, 2));
  CHECK_FALSE(sums_by_tiles({4, 12, 12, 16}, 16, 3, 4));
  CHECK_FALSE(sums_by_tiles({64, 14, 14, 3}, 16, 3));
  CHECK_FALSE(sums_by_tiles({64, 14, 14, 16}, 16, 1));
  CHECK_FALSE(sums_by_tiles({64, 5, 5, 16}, 16, 5));  // most taps are outside of the images
  CHECK(sums_by_tiles({8, 14, 14, 256}, 256, 3));
  CHECK_FALSE(sums_by_tiles({8, 14, 14, 256}, 260, 3));  // more than 4 MiB of sums
}

// The expected bits are those of the parts by themselves, added by plain ops.
TEST_CASE("transformed tiles: sums over parts are those of parts alone on any number of threads") {
  Draws draws(34);
  struct Sizes {
    int64_t batch, height, width, in, out, taps;
  };
  for (const Sizes s :
       {Sizes{4, 14, 15, 16, 20, 3}, {8, 15, 13, 33, 17, 5}, {36, 7, 9, 96, 12, 3}}) {
    Conv2dAttributes options{.padding = "explicit", .pads = {s.taps / 2, 1, 0, s.taps / 2}};
    const Shape images{s.batch, s.height, s.width, s.in};
    const Shape results{s.batch, s.height + s.taps / 2 + 2 - s.taps,
                        s.width + s.taps / 2 + 1 - s.taps, s.out};
    const Tensor x = draws.tensor(images), dy = draws.tensor(results);
    for (const int64_t parts : {1, 2, 4}) {
      CAPTURE(to_string(images));
      CAPTURE(parts);
      const StepCase step{
          [&](Graph& g) {
            const Value a = g.input("x", f32, images);
            const Value b = g.input("dy", f32, results);
            const Value whole = weight_gradient(a, b, options, s.taps, parts);
            REQUIRE(winograd_form(product_matrices(whole.node()), f32));
            Values sums;
            const int64_t of_part = s.batch / parts;
            for (int64_t i = 0; i < s.batch; i += of_part) {
              sums.push_back(weight_gradient(slice(a, {i}, {i + of_part}),
                                             slice(b, {i}, {i + of_part}), options, s.taps));
            }
            for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
              for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
            }
            return std::pair<Update, Values>{Update(), {whole, sums[0]}};
          },
          {x, dy}};
      for (const char* where : {"npu:0", "cpu:0"}) {
        CAPTURE(std::string(where));
        const ComputeThreads one(1);
        const auto got = run_case(step, where, true);
        CHECK(bit_equal(got[0], got[1]));
        const ComputeThreads two(2);
        CHECK(all_equal(run_case(step, where, false), got));
        const ComputeThreads five(5);
        CHECK(all_equal(run_case(step, where, false), got));
      }
    }
  }
}

// An element that is not finite reaches the tiles over it, and by "direct" its own windows alone.
TEST_CASE("transformed tiles: what is not finite stays within its tiles") {
  Draws draws(32);
  const Shape images{1, 10, 10, 16}, weights{3, 3, 16, 16};
  const Tensor x = draws.tensor(images), w = draws.tensor(weights);
  Tensor spoilt = x.clone();
  spoilt.set((5 * 10 + 5) * 16, std::numeric_limits<double>::infinity());  // pixel (5, 5)
  for (const char* where : {"npu:0", "cpu:0"}) {
    for (const bool direct : {false, true}) {
      CAPTURE(std::string(where));
      CAPTURE(direct);
      const Conv2dAttributes options{.padding = "same",
                                     .algorithm = direct ? kDirectAlgorithm : kAutoAlgorithm};
      const StepCase step{[&](Graph& g) {
                            const Value a = g.input("x", f32, images);
                            const Value b = g.input("w", f32, weights);
                            return std::pair<Update, Values>{Update(), {conv2d(a, b, options)}};
                          },
                          {spoilt, w}};
      const Tensor y = run_case(step, where, true)[0];
      for (int64_t pixel = 0; pixel < 100; ++pixel) {
        const int64_t row = pixel / 10, column = pixel % 10;
        // Windows over row 5 are 4 to 6; tiles with one of these have rows 4 to 7.
        const bool sees = row >= 4 && row <= 6 && column >= 4 && column <= 6;
        const bool beside = !direct && row >= 4 && row <= 7 && column >= 4 && column <= 7;
        CAPTURE(pixel);
        if (sees) CHECK_FALSE(std::isfinite(y.at(pixel * 16)));
        if (!sees && !beside) CHECK(std::isfinite(y.at(pixel * 16)));
      }
    }
  }
}

TEST_CASE("transformed tiles: what is not finite stays with its channels' weights") {
  Draws draws(33);
  const Shape images{4, 8, 8, 16};
  Tensor x = draws.tensor(images);
  const Tensor dy = draws.tensor(images);
  x.set(images.num_elements() / 2 + 5, std::numeric_limits<double>::infinity());
  const StepCase step{
      [&](Graph& g) {
        const Value a = g.input("x", f32, images), b = g.input("dy", f32, images);
        return std::pair<Update, Values>{Update(), {weight_gradient(a, b, {.padding = "same"}, 3)}};
      },
      {x, dy}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(std::string(where));
    const Tensor dw = run_case(step, where, true)[0];
    for (int64_t i = 0; i < dw.num_elements(); ++i)
      CHECK(std::isfinite(dw.at(i)) == (i / 16 % 16 != 5));
  }
}

// adam makes a whole step of a gradient of 1e-9, so a sum of zeros has to be one. Which weights
// have terms is counted on the elements themselves.
TEST_CASE("transformed tiles: a weight that meets zeros alone has no gradient") {
  struct Case {
    int64_t images, taps, parts;
    DType dtype;
  };
  for (const Case& c : {Case{18, 3, 1, f32},
                        {18, 3, 2, f32},
                        {18, 5, 1, f32},
                        {18, 5, 2, f32},
                        {18, 3, 2, f16},
                        {18, 5, 1, bf16},
                        {7, 3, 1, f16},
                        {5, 5, 1, bf16}}) {
    const int64_t taps = c.taps, parts = c.parts;
    if (c.dtype == bf16 && has_matrix_tiles()) continue;
    Draws draws(35);
    const Shape images{c.images, 7, 9, 20}, results{c.images, 8, 8, 70};
    const Shape weights{taps, taps, 20, 70};
    const int64_t pad = taps / 2;
    Conv2dAttributes options{.padding = "explicit", .pads = {pad + 1, pad, pad, pad - 1}};
    options.wide = c.dtype != f32;
    Tensor x = draws.tensor(images), dy = draws.tensor(results);
    const double rounds_to_zero = 1e-42;  // where 16 bits are multiplied
    // A channel in 4 is dense, the others have few elements, or none in one part.
    const auto thin_out = [&](Tensor& t) {
      const int64_t channels = t.shape()[3], half = t.num_elements() / 2;
      for (int64_t i = 0; i < t.num_elements(); ++i) {
        const int64_t kind = i % channels % 4;
        const bool keeps = kind == 0 || (kind == 1 && draws.integer(0, 99) == 0) ||
                           (kind == 2 && i < half && draws.integer(0, 19) == 0) ||
                           (kind == 3 && i >= half && draws.integer(0, 199) == 0);
        if (!keeps) t.set(i, c.dtype != f32 && i % 2 == 0 ? rounds_to_zero : 0);
      }
    };
    thin_out(x);
    thin_out(dy);
    const ConvGeometry geometry({.padding = options.padding, .pads = options.pads}, images,
                                weights);
    const Tensor left = x.cast(c.dtype), right = dy.cast(c.dtype);
    std::vector<int> terms(static_cast<size_t>(weights.num_elements()), 0);
    for_each_term(geometry, [&](const std::array<int64_t, 3>& at) {
      if (left.at(at[kImages]) != 0 && right.at(at[kResults]) != 0)
        ++terms[static_cast<size_t>(at[kWeights])];
    });
    const StepCase step{[&](Graph& g) {
                          const Value a = cast(g.input("x", f32, images), c.dtype),
                                      b = cast(g.input("dy", f32, results), c.dtype);
                          const Value dw = weight_gradient(a, b, options, taps, parts);
                          REQUIRE(winograd_form(product_matrices(dw.node()), c.dtype));
                          return std::pair<Update, Values>{Update(), {dw}};
                        },
                        {x, dy}};
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(std::string(where));
      const Tensor dw = run_case(step, where, true)[0];
      int64_t without = 0, wrong = 0;
      for (int64_t i = 0; i < dw.num_elements(); ++i) {
        const bool has_terms = terms[static_cast<size_t>(i)] != 0;
        without += has_terms ? 0 : 1;
        wrong += (dw.at(i) != 0) == has_terms ? 0 : 1;
      }
      CHECK(wrong == 0);
      CHECK(without > 1000);
      CHECK(without < dw.num_elements() / 4 * 3);
    }
  }
}

TEST_CASE("transformed tiles: common marks are found in all columns on every host ISA") {
  const vector::HostIsa before = vector::host_isa();
  Draws draws(41);
  for (const vector::HostIsa isa : vector::available_host_isas()) {
    vector::select_host_isa(vector::name_of(isa));
    const auto find = vector::find_common_marks();
    for (const size_t columns : std::vector<size_t>{1, 15, 64, 70, 127, 128, 129, 200, 256, 300}) {
      for (const size_t rows : std::vector<size_t>{1, 4, 8, 13}) {
        const size_t lines = 3, count = 5, behind = vector::kMarksBehind;
        std::vector<uint8_t> left(lines * count * rows), right(lines * count * columns + behind);
        const int64_t most = draws.integer(1, 30);
        for (uint8_t& x : left) x = draws.integer(0, most) == 0 ? 1 : 0;
        for (uint8_t& x : right) x = draws.integer(0, 3) == 0 ? 1 : 0;
        std::vector<uint8_t> expected(rows * columns, 0);
        for (size_t i = 0; i < lines * count; ++i)
          for (size_t r = 0; r < rows; ++r)
            for (size_t j = 0; j < columns; ++j)
              if ((left[i * rows + r] & right[i * columns + j]) != 0) expected[r * columns + j] = 1;
        std::vector<uint8_t> common(rows * (columns + behind), 0);
        vector::CommonMarks call;
        call.left = left.data();
        call.right = right.data();
        call.left_step = static_cast<ptrdiff_t>(rows);
        call.right_step = static_cast<ptrdiff_t>(columns);
        call.left_line = static_cast<ptrdiff_t>(count * rows);
        call.right_line = static_cast<ptrdiff_t>(count * columns);
        call.lines = lines;
        call.count = count;
        call.rows = rows;
        call.columns = columns;
        call.common = common.data();
        call.common_row = columns + behind;
        const bool met = find(call);
        CAPTURE(std::string(vector::name_of(isa)));
        CAPTURE(columns);
        CAPTURE(rows);
        size_t wrong = 0;
        for (size_t r = 0; r < rows; ++r)
          for (size_t j = 0; j < columns; ++j)
            wrong += (common[r * call.common_row + j] != 0) != (expected[r * columns + j] != 0);
        CHECK(wrong == 0);
        CHECK(met == (std::count(expected.begin(), expected.end(), uint8_t{0}) == 0));
      }
    }
  }
  vector::select_host_isa(vector::name_of(before));
}

TEST_CASE("transformed tiles: an algorithm that is not there is refused") {
  Graph g;
  const Value x = g.input("x", f32, {2, 8, 8, 16}), w = g.input("w", f32, {3, 3, 16, 16});
  try {
    conv2d(x, w, {.algorithm = "fast"});
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(testing::contains(e.what(), "algorithm"));
    CHECK(testing::contains(e.what(), "auto or direct"));
  }
}

TEST_SUITE_END();

}  // namespace keel
