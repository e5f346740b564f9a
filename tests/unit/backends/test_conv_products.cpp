// Convolutions as products whose operands are windows: random shapes of all three ops in both
// layouts against `ref`, the same bits for any number of threads, fused or not and in strict mode,
// and no matrix of windows in memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/window_copy.h"
#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/parallel_for.h"
#include "keel/core/base/random.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/ops/conv_rules.h"
#include "keel/ops/nn/image_layers.h"
#include "keel/ops/nn/optimizers.h"
#include "keel/ops/products/product_matrices.h"

#include "drawn_steps_for_tests.h"
#include "ops_for_tests.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::check_close;
using testing::contains;
using testing::Draws;
using testing::fetches_on;
using testing::run_case;
using testing::StepCase;

// A convolution with what its gradients are asked for.
struct Conv {
  Conv2dAttributes options;
  Shape images, weights;
};

Conv conv_of(Pair size, Pair kernel, int64_t batch, int64_t in, int64_t out,
             Conv2dAttributes options) {
  Conv conv{std::move(options), {}, {}};
  conv.options.stride = for_both_axes(conv.options.stride);
  conv.options.dilation = for_both_axes(conv.options.dilation);
  const int64_t groups = conv.options.groups;
  conv.images = image_shape(image_axes(conv.options.layout), batch, size, in * groups);
  conv.weights = weight_shape(weight_axes(conv.options), kernel, in, out * groups);
  return conv;
}

Conv draw_conv(Draws& draws, int64_t most_channels) {
  Conv2dAttributes options;
  Pair size{}, kernel{};
  options.padding = "explicit";
  options.stride.clear();
  options.dilation.clear();
  for (size_t i = 0; i < 2; ++i) {
    kernel[i] = draws.integer(1, 5);
    options.stride.push_back(draws.integer(1, 4));
    options.dilation.push_back(draws.integer(1, 3));
    const int64_t low = draws.integer(0, 4), high = draws.integer(0, 4);
    options.pads.push_back(low);
    options.pads.push_back(high);
    const int64_t extent = (kernel[i] - 1) * options.dilation[i] + 1;
    size[i] = std::max<int64_t>(extent - low - high, 1) + draws.integer(0, 12);
  }
  options.groups = draws.integer(0, 3) == 0 ? draws.integer(2, 3) : 1;
  options.layout = draws.integer(0, 1) == 0 ? kChannelsLast : kChannelsFirst;
  return conv_of(size, kernel, draws.integer(1, 3), draws.integer(1, most_channels),
                 draws.integer(1, most_channels), options);
}

// What none of the draws may leave out.
std::vector<Conv> conv_corners() {
  return {
      conv_of({5, 6}, {1, 1}, 2, 7, 9, {}),
      conv_of({5, 6}, {1, 1}, 2, 20, 33, {.layout = kChannelsFirst}),
      conv_of({8, 8}, {2, 4}, 2, 3, 5, {.padding = "same"}),
      conv_of({9, 8}, {2, 1}, 2, 3, 4, {.stride = {4, 3}}),
      conv_of({1, 1}, {1, 1}, 1, 1, 1, {}),
      conv_of({1, 7}, {1, 3}, 1, 2, 3, {.padding = "explicit", .pads = {1, 0, 3, 2}}),
      conv_of({1, 7}, {1, 3}, 1, 2, 3, {.padding = "same", .layout = kChannelsFirst}),
      conv_of({6, 6}, {3, 3}, 0, 2, 3, {.padding = "same"}),
      conv_of({6, 6}, {3, 3}, 0, 2, 3, {.padding = "same", .layout = kChannelsFirst}),
      conv_of({6, 6}, {3, 3}, 2, 1, 1, {.padding = "same", .groups = 4}),
      conv_of({9, 9}, {3, 3}, 2, 4, 6, {.padding = "same", .dilation = {2}, .groups = 2}),
      // Several panels of k in each of the three products.
      conv_of({9, 9}, {5, 5}, 16, 44, 70, {.padding = "same"}),
      conv_of({9, 9}, {5, 5}, 16, 44, 48, {.padding = "same", .layout = kChannelsFirst}),
  };
}

// y and the gradients of sum(y * dy), behind an epilogue where there is `bias`.
StepCase step_of(const Conv& conv, Draws& draws, bool bias, DType dtype = f32) {
  const Tensor x = draws.tensor(conv.images, dtype), w = draws.tensor(conv.weights, dtype);
  const bool first = conv.options.layout == kChannelsFirst;
  const int64_t out = conv.weights[weight_axes(conv.options).out];
  const Tensor b = draws.tensor(first ? Shape{out, 1, 1} : Shape{out}, dtype);
  return {[conv, bias, dtype, b](Graph& g) {
            const Value images = g.input("x", dtype, conv.images);
            const Value weights = g.input("w", dtype, conv.weights);
            Value y = conv2d(images, weights, conv.options);
            if (bias) y = relu(y + g.constant(b)) * 0.5;
            const Values d = gradients(sum(cast(y * y, f32)), {images, weights});
            return std::pair<Update, Values>{Update(), {y, d[0], d[1]}};
          },
          {x, w}};
}

void check_everywhere(const Conv& conv, Draws& draws) {
  CAPTURE(to_string(conv.images));
  CAPTURE(to_string(conv.weights));
  CAPTURE(to_string(Shape(conv.options.stride)));
  CAPTURE(to_string(Shape(conv.options.dilation)));
  CAPTURE(conv.options.layout);
  CAPTURE(conv.options.groups);
  const StepCase step = step_of(conv, draws, draws.integer(0, 1) == 0);
  const auto expected = run_case(step, "ref:0", false);
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(std::string(where));
    const auto fused = run_case(step, where, true);
    check_close(fused, expected, 2e-5);
    CHECK(all_equal(run_case(step, where, false), fused));
  }
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("windows: any part of the matrix is that of plain loops") {
  Draws draws(11);
  for (int i = 0; i < 200; ++i) {
    WindowRows w;
    for (auto& axis : w.axes) {
      axis = {.windows = draws.integer(1, 5),
              .taps = draws.integer(1, 5),
              .size = draws.integer(1, 7),
              .first = draws.integer(-4, 4),
              .step = draws.integer(1, 3),
              .tap_step = draws.integer(0, 2) == 0 ? -1 : draws.integer(1, 3)};
    }
    w.channels = draws.integer(1, 12);
    const int64_t beside = draws.integer(0, 1);  // channels of another group
    w.axes[1].pitch = w.channels + beside;
    w.axes[0].pitch = w.axes[1].size * w.axes[1].pitch;
    w.image_pitch = w.axes[0].size * w.axes[0].pitch;
    const int64_t columns = w.axes[0].taps * w.axes[1].taps * w.channels;
    const int64_t of_image = w.axes[0].windows * w.axes[1].windows;
    const int64_t first = draws.integer(0, columns - 1);
    const MatrixPart part{draws.integer(0, of_image), draws.integer(1, of_image), first,
                          draws.integer(1, columns - first)};
    std::vector<uint16_t> images(static_cast<size_t>(5 * w.image_pitch));
    for (size_t e = 0; e < images.size(); ++e) images[e] = static_cast<uint16_t>(e + 1);
    const auto stride = static_cast<size_t>(part.columns + 3);
    std::vector<uint16_t> got(static_cast<size_t>(part.rows) * stride, 0xffff);
    copy_windows(w, images.data(), sizeof(uint16_t), part, got.data(), stride);
    int64_t wrong = 0;
    for (int64_t r = 0; r < part.rows; ++r) {
      const int64_t row = part.row + r, image = row / of_image, window = row % of_image;
      for (int64_t c = 0; c < part.columns; ++c) {
        const int64_t column = part.column + c, channel = column % w.channels;
        const int64_t tap = column / w.channels % (w.axes[0].taps * w.axes[1].taps);
        const int64_t y = w.axes[0].position(window / w.axes[1].windows, tap / w.axes[1].taps);
        const int64_t x = w.axes[1].position(window % w.axes[1].windows, tap % w.axes[1].taps);
        uint16_t expected = 0;
        if (w.axes[0].inside(y) && w.axes[1].inside(x)) {
          expected = images.at(static_cast<size_t>(image * w.image_pitch + y * w.axes[0].pitch +
                                                   x * w.axes[1].pitch + channel));
        }
        wrong += got[static_cast<size_t>(r) * stride + static_cast<size_t>(c)] != expected;
      }
      wrong += got[static_cast<size_t>(r) * stride + static_cast<size_t>(part.columns)] != 0xffff;
    }
    CAPTURE(i);
    CHECK(wrong == 0);
  }
}

TEST_CASE("convolution products: corners agree with ref both fused and unfused") {
  Draws draws(1);
  for (const Conv& conv : conv_corners()) check_everywhere(conv, draws);
}

TEST_CASE("convolution products: random shapes agree with ref both fused and unfused") {
  Draws draws(2);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    check_everywhere(draw_conv(draws, i % 4 == 0 ? 40 : 5), draws);
  }
}

TEST_CASE("convolution products: the same bits for any number of threads and blocks") {
  Draws draws(3);
  for (const char* layout : {kChannelsLast, kChannelsFirst}) {
    const Conv conv = conv_of({17, 19}, {3, 5}, 5, 20, 36, {.padding = "same", .layout = layout});
    const StepCase step = step_of(conv, draws, true);
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(std::string(where));
      std::vector<Tensor> one;
      {
        const ComputeThreads threads(1);
        one = run_case(step, where, true);
      }
      for (const int threads : {2, 3}) {
        const ComputeThreads some(threads);
        CHECK(all_equal(run_case(step, where, true), one));
        CHECK(all_equal(run_case(step, where, false), one));
      }
    }
  }
}

TEST_CASE("convolution products: the same bits in strict mode") {
  const std::unique_ptr<Backend> strict = keel_test::strict_npu();
  REQUIRE(strict != nullptr);
  Draws draws(4);
  for (int i = 0; i < 12; ++i) {
    const Conv conv = draw_conv(draws, i % 3 == 0 ? 33 : 6);
    const StepCase step = step_of(conv, draws, i % 2 == 0);
    CAPTURE(i);
    CHECK(all_equal(fetches_on(Device(strict.get(), 0), step), fetches_on(device("npu:0"), step)));
  }
}

TEST_CASE("convolution products: operands of 16 bits") {
  Draws draws(5);
  for (const DType dtype : {f16, bf16}) {
    for (const char* layout : {kChannelsLast, kChannelsFirst}) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(std::string(layout));
      const Conv conv = conv_of({9, 7}, {3, 2}, 2, 5, 18, {.padding = "same", .layout = layout});
      const StepCase step = step_of(conv, draws, true, dtype);
      const auto expected = run_case(step, "ref:0", false);
      for (const char* where : {"npu:0", "cpu:0"}) {
        CAPTURE(std::string(where));
        const auto got = run_case(step, where, true);
        check_close(got, expected, dtype == f16 ? 4e-3 : 3e-2);
        CHECK(all_equal(run_case(step, where, false), got));
      }
    }
  }
}

TEST_CASE("convolution products: one task with bias and activation and no matrix of windows") {
  for (const char* layout : {kChannelsLast, kChannelsFirst}) {
    CAPTURE(std::string(layout));
    const Conv conv = conv_of({16, 16}, {5, 5}, 8, 16, 32, {.padding = "same", .layout = layout});
    Draws draws(6);
    const bool first = std::string(layout) == kChannelsFirst;
    const Tensor bias = draws.tensor(first ? Shape{32, 1, 1} : Shape{32});
    const StepCase step{[&](Graph& g) {
                          const Value x = g.input("x", f32, conv.images);
                          const Value w = g.input("w", f32, conv.weights);
                          const Value y = relu(conv2d(x, w, conv.options) + g.constant(bias));
                          return std::pair<Update, Values>{Update(), {y}};
                        },
                        {draws.tensor(conv.images), draws.tensor(conv.weights)}};
    for (const char* where : {"npu:0", "cpu:0"}) {
      std::string tasks;
      run_case(step, where, true, &tasks);
      CAPTURE(std::string(where));
      CAPTURE(tasks);
      CHECK(contains(tasks, "conv2d + add + relu"));
      for (const char* apart : {"pad", "concat", "slice", "transpose", "matmul"}) {
        // Images of NCHW are turned before and behind the task.
        if (first && std::string(apart) == "transpose") continue;
        CHECK_FALSE(contains(tasks, std::string("  ") + apart));
      }
    }
  }
}

// What evaluation makes of a layer with batch norm: the statistics are states, so what is made of
// channels alone is a task beside the product's.
TEST_CASE("products take batch norm of inference and the activation behind it as one task") {
  Draws draws(9);
  const Conv conv = conv_of({9, 9}, {3, 3}, 4, 8, 20, {.padding = "same"});
  struct Row {
    const char* product;
    Shape x, w;
    std::function<Value(const Value&, const Value&)> make;
  };
  const std::vector<Row> rows = {
      {"conv2d", conv.images, conv.weights,
       [&](const Value& x, const Value& w) { return conv2d(x, w, conv.options); }},
      {"matmul", {30, 18}, {18, 20}, [](const Value& x, const Value& w) { return matmul(x, w); }}};
  for (const Row& row : rows) {
    const StepCase step{[&](Graph& g) {
                          const Value x = g.input("x", f32, row.x), w = g.input("w", f32, row.w);
                          const BatchNorm norm(Scope(g) / "norm", 20);
                          const Value y = relu(norm(row.make(x, w), Mode::kEvaluation));
                          return std::pair<Update, Values>{Update(), {y}};
                        },
                        {draws.tensor(row.x), draws.tensor(row.w)}};
    for (const char* where : {"npu:0", "cpu:0"}) {
      std::string tasks;
      const auto fused = run_case(step, where, true, &tasks);
      CAPTURE(std::string(where));
      CAPTURE(tasks);
      CHECK(contains(tasks, std::string(row.product) + " + norm/sub + mul + add + relu"));
      CHECK(std::count(tasks.begin(), tasks.end(), '\n') == 2);
      CHECK(all_equal(run_case(step, where, false), fused));
      check_close(fused, run_case(step, "ref:0", false), 1e-5);
    }
  }
}

TEST_CASE("convolution products: the update of the weights follows the product of its gradient") {
  Draws draws(7);
  const Conv conv = conv_of({8, 8}, {3, 3}, 4, 3, 20, {.padding = "same"});
  const StepCase step{[&](Graph& g) {
                        const Value x = g.input("x", f32, conv.images);
                        const Value w = g.state("w", normal(conv.weights, 0, 0.2));
                        const Value loss = mean(square(conv2d(x, w, conv.options)));
                        return std::pair<Update, Values>{sgd(0.1).minimize(loss), {loss}};
                      },
                      {draws.tensor(conv.images)}};
  std::string tasks;
  const auto fused = run_case(step, "npu:0", true, &tasks);
  CAPTURE(tasks);
  CHECK(contains(tasks, "conv2d_weight_gradient + "));
  CHECK(all_equal(run_case(step, "npu:0", false), fused));
  check_close(fused, run_case(step, "ref:0", false), 1e-5);
}

TEST_CASE("convolution products: bytes are scaled as windows load them where zero stays zero") {
  Draws draws(8);
  for (const double shift : {0.0, 1.0}) {
    const StepCase step{[&](Graph& g) {
                          const Value x = g.input("x", u8, {3, 9, 9, 2});
                          const Value w = g.input("w", f32, {3, 3, 2, 20});
                          Value scaled = cast(x, f32) / 255.0;
                          if (shift != 0) scaled = scaled - shift;
                          const Value y = conv2d(scaled, w, {.padding = "same"});
                          return std::pair<Update, Values>{Update(), {y}};
                        },
                        {testing::counting({3, 9, 9, 2}, u8), draws.tensor({3, 3, 2, 20})}};
    std::string tasks;
    const auto fused = run_case(step, "npu:0", true, &tasks);
    CAPTURE(tasks);
    CHECK(contains(tasks, "cast + div + conv2d") == (shift == 0));
    CHECK(all_equal(run_case(step, "npu:0", false), fused));
    check_close(fused, run_case(step, "ref:0", false), 1e-5);
  }
}

TEST_CASE("convolution products: what is none says why and is composed of others") {
  const auto npu = device("npu:0");
  Graph g;
  const Value x = g.input("x", f32, {2, 8, 8, 4});
  const auto reason = [&](const Value& v) { return npu.backend().supports(v.node()).reason; };
  const Value depthwise = conv2d(x, g.input("d", f32, {3, 3, 1, 4}), {.groups = 4});
  CHECK(contains(reason(depthwise), "depthwise"));
  const Value dy = g.input("dy", f32, {2, 6, 3, 3});
  const Value back = conv2d_input_gradient(dy, g.input("w", f32, {6, 4, 3, 3}),
                                           {.stride = {2}, .layout = kChannelsFirst}, {8, 8});
  CHECK(contains(reason(back), "channels come first"));
  const Value none = conv2d(g.input("e", f32, {0, 8, 8, 4}), g.input("v", f32, {3, 3, 4, 6}));
  CHECK(contains(reason(none), "without elements"));
}

TEST_CASE("convolution products: images come once from memory and are repeated in L1") {
  const npu::Preset preset = npu::load_preset("ascend910b1");
  Graph g;
  const Value x = g.input("x", f16, {64, 28, 28, 32});
  const Value w = g.input("w", f16, {5, 5, 32, 64});
  const Value y = conv2d(x, w, {.padding = "same"});
  const Value patches = g.input("p", f16, {64 * 28 * 28, 800});
  const Value product = matmul(patches, reshape(w, {800, 64}));
  const auto priced = [&](const Value& v) { return npu::schedule(preset, v.node(), {}).price; };
  const auto conv = priced(y), matrix = priced(product);
  CHECK(conv.bytes_in == 2 * (64 * 28 * 28 * 32 + 5 * 5 * 32 * 64));
  CHECK(conv.flops == matrix.flops);
  CHECK(conv.total_ns < matrix.total_ns);
  CHECK(conv.total_ns >= conv.compute_roof_ns);
  CHECK(conv.total_ns >= conv.memory_roof_ns);
}

TEST_SUITE_END();

}  // namespace keel
