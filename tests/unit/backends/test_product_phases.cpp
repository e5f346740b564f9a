// Gradients for images with a stride as products of phases: against sums in double, the same bits
// for any number of threads, fused or not and in strict mode, weights that are infinite, and what
// is made of them where there are no phases.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/npu/scheduler/scheduler.h"
#include "keel/core/base/parallel_for.h"
#include "keel/core/base/random.h"
#include "keel/ops/conv_rules.h"
#include "keel/ops/products/product_phases.h"

#include "drawn_steps_for_tests.h"
#include "ops_for_tests.h"
#include "support/strict_npu.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::contains;
using testing::Draws;
using testing::fetches_on;
using testing::kFusingDevices;
using testing::run_case;
using testing::StepCase;

// A gradient with a stride, of which nothing is read off the code under test.
struct Strided {
  Pair size{}, kernel{}, stride{}, dilation{1, 1};
  std::array<int64_t, 4> pads{};  // top, bottom, left, right
  int64_t batch = 1, in = 1, out = 1, groups = 1;

  int64_t results(size_t axis) const {
    const int64_t reach =
        size[axis] + pads[2 * axis] + pads[2 * axis + 1] - (kernel[axis] - 1) * dilation[axis] - 1;
    return reach / stride[axis] + 1;
  }
  Shape images() const { return {batch, size[0], size[1], in * groups}; }
  Shape dy() const { return {batch, results(0), results(1), out * groups}; }
  Shape weights() const { return {kernel[0], kernel[1], in, out * groups}; }
  Conv2dAttributes attributes() const {
    return {.stride = {stride[0], stride[1]},
            .padding = "explicit",
            .pads = {pads.begin(), pads.end()},
            .dilation = {dilation[0], dilation[1]},
            .groups = groups};
  }
};

Strided draw_strided(Draws& draws, int64_t most_channels) {
  Strided s;
  do {
    for (size_t i = 0; i < 2; ++i) {
      s.stride[i] = draws.integer(1, 4);
      s.dilation[i] = draws.integer(1, 3);
      s.kernel[i] = draws.integer(1, 5);
      s.pads[2 * i] = draws.integer(0, 4);
      s.pads[2 * i + 1] = draws.integer(0, 4);
      const int64_t extent = (s.kernel[i] - 1) * s.dilation[i] + 1;
      s.size[i] = std::max<int64_t>(extent - s.pads[2 * i] - s.pads[2 * i + 1], 1);
      s.size[i] += draws.integer(0, 14);
    }
    s.groups = draws.integer(0, 3) == 0 ? draws.integer(2, 3) : 1;
    s.batch = draws.integer(1, 4);
    s.in = draws.integer(s.groups == 1 ? 1 : 2, most_channels);
    s.out = draws.integer(1, most_channels);
  } while (s.stride[0] * s.stride[1] == 1 || std::max(s.results(0), s.results(1)) == 1);
  return s;
}

std::vector<Strided> strided_corners() {
  return {
      {.size = {7, 9}, .kernel = {1, 1}, .stride = {2, 2}, .batch = 2, .in = 16, .out = 32},
      {.size = {8, 8},
       .kernel = {3, 3},
       .stride = {2, 2},
       .pads = {0, 1, 0, 1},
       .in = 20,
       .out = 33},
      {.size = {14, 14},
       .kernel = {3, 3},
       .stride = {2, 2},
       .pads = {1, 1, 1, 1},
       .batch = 9,
       .in = 32,
       .out = 64},
      {.size = {11, 6},
       .kernel = {2, 4},
       .stride = {3, 1},
       .pads = {2, 0, 1, 3},
       .batch = 3,
       .in = 5,
       .out = 7},
      {.size = {13, 17},
       .kernel = {2, 3},
       .stride = {5, 4},
       .pads = {1, 0, 0, 2},
       .in = 3,
       .out = 4},
      {.size = {17, 12},
       .kernel = {3, 4},
       .stride = {2, 3},
       .dilation = {2, 2},
       .pads = {2, 3, 1, 2},
       .batch = 2,
       .in = 18,
       .out = 6},
      {.size = {17, 12},
       .kernel = {3, 4},
       .stride = {4, 3},
       .dilation = {2, 3},
       .pads = {2, 3, 1, 2},
       .in = 6,
       .out = 6,
       .groups = 3},
      // Strips of one image, and several panels of k.
      {.size = {96, 66},
       .kernel = {3, 2},
       .stride = {3, 2},
       .pads = {2, 1, 0, 1},
       .batch = 2,
       .in = 24,
       .out = 3},
      {.size = {9, 9},
       .kernel = {5, 5},
       .stride = {2, 2},
       .pads = {2, 2, 2, 2},
       .batch = 2,
       .in = 40,
       .out = 300},
      // Rows of dy that lie 4096 bytes apart: sums are copied to their pixels.
      {.size = {9, 8},
       .kernel = {3, 2},
       .stride = {2, 2},
       .pads = {1, 0, 1, 1},
       .batch = 2,
       .in = 7,
       .out = 1024},
  };
}

// The sums of all terms in double, and of their sizes.
std::pair<std::vector<double>, std::vector<double>> expected_of(const Strided& s, const Tensor& dy,
                                                                const Tensor& w) {
  const Shape shape = s.images();
  std::vector<double> sums(static_cast<size_t>(shape.num_elements())), sizes(sums.size());
  const int64_t in = s.in * s.groups, out = s.out * s.groups;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t i = 0; i < s.results(0); ++i) {
      for (int64_t j = 0; j < s.results(1); ++j) {
        for (int64_t a = 0; a < s.kernel[0]; ++a) {
          for (int64_t b = 0; b < s.kernel[1]; ++b) {
            const int64_t y = i * s.stride[0] + a * s.dilation[0] - s.pads[0];
            const int64_t x = j * s.stride[1] + b * s.dilation[1] - s.pads[2];
            if (y < 0 || y >= s.size[0] || x < 0 || x >= s.size[1]) continue;
            for (int64_t o = 0; o < out; ++o) {
              const double d = dy.at(((n * s.results(0) + i) * s.results(1) + j) * out + o);
              for (int64_t c = 0; c < s.in; ++c) {
                const int64_t channel = o / s.out * s.in + c;
                const double term = d * w.at(((a * s.kernel[1] + b) * s.in + c) * out + o);
                const auto at =
                    static_cast<size_t>(((n * s.size[0] + y) * s.size[1] + x) * in + channel);
                sums[at] += term;
                sizes[at] += std::fabs(term);
              }
            }
          }
        }
      }
    }
  }
  return {sums, sizes};
}

// The gradient, behind an epilogue where there is a bias.
StepCase step_of(const Strided& s, const Tensor& dy, const Tensor& w, const Tensor* bias) {
  const std::vector<Tensor> added = bias == nullptr ? std::vector<Tensor>{} : std::vector{*bias};
  return {
      [s, added, dtype = dy.dtype()](Graph& g) {
        const Value upstream = g.input("dy", dtype, s.dy());
        const Value weights = g.input("w", dtype, s.weights());
        Value dx = conv2d_input_gradient(upstream, weights, s.attributes(), {s.size[0], s.size[1]});
        if (!added.empty()) dx = relu(dx + g.constant(added[0])) * 0.5;
        return std::pair<Update, Values>{Update(), {dx}};
      },
      {dy, w}};
}

void check(const Strided& s, Draws& draws) {
  CAPTURE(to_string(s.images()));
  CAPTURE(to_string(s.weights()));
  CAPTURE(to_string(Shape(s.attributes().stride)));
  CAPTURE(to_string(Shape(s.attributes().dilation)));
  CAPTURE(to_string(Shape(s.attributes().pads)));
  CAPTURE(s.groups);
  const Tensor dy = draws.tensor(s.dy()), w = draws.tensor(s.weights());
  const auto [sums, sizes] = expected_of(s, dy, w);
  for (const char* where : kFusingDevices) {
    CAPTURE(std::string(where));
    const std::vector<Tensor> got = run_case(step_of(s, dy, w, nullptr), where, true);
    int64_t wrong = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const double value = got[0].at(static_cast<int64_t>(i));
      wrong += !(std::fabs(value - sums[i]) <= 1e-5 * sizes[i]);
    }
    CHECK(wrong == 0);
  }
  const Tensor bias = draws.tensor({s.in * s.groups});
  for (const Tensor* added : {static_cast<const Tensor*>(nullptr), &bias}) {
    const StepCase step = step_of(s, dy, w, added);
    for (const char* where : kFusingDevices) {
      CAPTURE(std::string(where));
      std::vector<Tensor> one;
      {
        const ComputeThreads threads(1);
        one = run_case(step, where, true);
      }
      const ComputeThreads two(2);
      CHECK(all_equal(run_case(step, where, true), one));
      CHECK(all_equal(run_case(step, where, false), one));
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("product phases: corners are the sums in double for any threads and fused or not") {
  Draws draws(1);
  for (const Strided& s : strided_corners()) check(s, draws);
}

TEST_CASE("product phases: random gradients are the sums in double for any threads") {
  Draws draws(2);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    check(draw_strided(draws, i % 4 == 0 ? 40 : 6), draws);
  }
}

TEST_CASE("product phases: operands of 16 bits give what wide sums round to") {
  Draws draws(3);
  for (const DType dtype : {f16, bf16}) {
    CAPTURE(std::string(name_of(dtype)));
    for (const Strided& s : {strided_corners()[1], strided_corners()[5]}) {
      const Tensor dy = draws.tensor(s.dy(), dtype), w = draws.tensor(s.weights(), dtype);
      const auto [sums, sizes] = expected_of(s, dy, w);
      const Tensor bias = draws.tensor({s.in * s.groups}, dtype);
      for (const char* where : kFusingDevices) {
        CAPTURE(std::string(where));
        const std::vector<Tensor> got = run_case(step_of(s, dy, w, nullptr), where, true);
        int64_t wrong = 0;
        for (size_t i = 0; i < sums.size(); ++i) {
          const double bound = 1e-5 * sizes[i] + std::fabs(sums[i]) * (dtype == f16 ? 5e-4 : 4e-3);
          wrong += !(std::fabs(got[0].at(static_cast<int64_t>(i)) - sums[i]) <= bound);
        }
        CHECK(wrong == 0);
        const StepCase step = step_of(s, dy, w, &bias);
        CHECK(all_equal(run_case(step, where, true), run_case(step, where, false)));
      }
    }
  }
}

TEST_CASE("product phases: the same bits in strict mode where weights are finite and infinite") {
  const std::unique_ptr<Backend> strict = keel_test::strict_npu();
  REQUIRE(strict != nullptr);
  Draws draws(4);
  std::vector<Strided> all = strided_corners();
  for (int i = 0; i < 10; ++i) all.push_back(draw_strided(draws, i % 3 == 0 ? 33 : 6));
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const Tensor dy = draws.tensor(all[i].dy());
    Tensor w = draws.tensor(all[i].weights());
    if (i % 2 == 1) w.set(0, std::numeric_limits<double>::infinity());
    const Tensor bias = draws.tensor({all[i].in * all[i].groups});
    const StepCase step = step_of(all[i], dy, w, i % 3 == 0 ? &bias : nullptr);
    CHECK(all_equal(fetches_on(Device(strict.get(), 0), step), fetches_on(device("npu:0"), step)));
  }
}

// Zeros between the elements of dy would be terms with every weight.
TEST_CASE("product phases: an infinite weight reaches the pixels of its phase alone") {
  Draws draws(5);
  const Strided s{.size = {9, 8},
                  .kernel = {3, 3},
                  .stride = {2, 2},
                  .pads = {1, 1, 0, 1},
                  .batch = 2,
                  .in = 5,
                  .out = 6};
  const Tensor dy = draws.tensor(s.dy());
  Tensor w = draws.tensor(s.weights());
  const Tensor finite = run_case(step_of(s, dy, w, nullptr), "npu:0", true)[0];
  // Tap (1, 0) of channel 2: rows y of the images with y + 1 odd, and even columns.
  w.set((3 * s.in + 2) * s.out + 4, std::numeric_limits<double>::infinity());
  const Tensor got = run_case(step_of(s, dy, w, nullptr), "npu:0", true)[0];
  int64_t infinite = 0, wrong = 0;
  for (int64_t e = 0; e < got.num_elements(); ++e) {
    const int64_t channel = e % s.in, x = e / s.in % s.size[1],
                  y = e / s.in / s.size[1] % s.size[0];
    if (channel == 2 && y % 2 == 0 && x % 2 == 0) {
      infinite += !std::isfinite(got.at(e));
    } else {
      wrong += got.at(e) != finite.at(e);
    }
  }
  CHECK(wrong == 0);
  CHECK(infinite == 2 * 5 * 4);
}

TEST_CASE("product phases: one task with what follows and nothing put together") {
  Draws draws(6);
  const Strided s = strided_corners()[2];
  const Tensor bias = draws.tensor({s.in});
  std::string tasks;
  run_case(step_of(s, draws.tensor(s.dy()), draws.tensor(s.weights()), &bias), "npu:0", true,
           &tasks);
  CAPTURE(tasks);
  CHECK(contains(tasks, "conv2d_input_gradient + add + relu"));
  for (const char* apart : {"pad", "concat", "slice", "transpose"})
    CHECK_FALSE(contains(tasks, std::string("  ") + apart));
}

TEST_CASE("product phases: the price counts the terms without the zeros between") {
  const npu::Preset preset = npu::load_preset("ascend910b1");
  Graph g;
  const Value dy = g.input("dy", f16, {64, 14, 14, 64}), w = g.input("w", f16, {3, 3, 32, 64});
  const Conv2dAttributes a{.stride = {2}, .padding = "same"};
  const auto price =
      npu::schedule(preset, conv2d_input_gradient(dy, w, a, {28, 28}).node(), {}).price;
  CHECK(price.flops == 2 * int64_t{64} * 14 * 14 * 9 * 32 * 64);
  CHECK(price.bytes_out == 2 * int64_t{64} * 28 * 28 * 32);
  CHECK(price.bytes_in == 2 * (int64_t{64} * 14 * 14 * 64 + 9 * 32 * 64));
}

TEST_CASE("product phases: gradients without any say why and are composed of others") {
  Draws draws(7);
  Graph g;
  const auto reason = [&](const Shape& dy, const Shape& w, const Conv2dAttributes& a,
                          const std::vector<int64_t>& size) {
    return why_no_phases(
        conv2d_input_gradient(g.constant(Tensor(f32, dy)), g.constant(Tensor(f32, w)), a, size)
            .node());
  };
  CHECK(contains(reason({1, 3, 3, 2}, {3, 3, 2, 2}, {}, {5, 5}), "with a stride"));
  CHECK(contains(reason({1, 2, 3, 3}, {2, 2, 3, 3}, {.stride = {2}, .layout = "NCHW"}, {7, 7}),
                 "NHWC"));
  CHECK(contains(reason({1, 2, 2, 2}, {1, 1, 2, 2}, {.stride = {20}}, {21, 21}), "64"));
  CHECK(contains(reason({1, 3, 3, 4}, {3, 3, 1, 4}, {.stride = {2}, .groups = 4}, {7, 7}),
                 "with a stride"));
  CHECK(contains(reason({0, 3, 3, 2}, {3, 3, 2, 2}, {.stride = {2}}, {7, 7}), "with a stride"));
  CHECK(reason({1, 3, 3, 2}, {3, 3, 2, 2}, {.stride = {2}}, {7, 7}).empty());
  const Strided wide{.size = {21, 20}, .kernel = {2, 1}, .stride = {10, 9}, .in = 3, .out = 4};
  check(wide, draws);
  Strided none = strided_corners()[1];
  none.batch = 0;
  const auto got = run_case(
      step_of(none, Tensor(f32, none.dy()), draws.tensor(none.weights()), nullptr), "npu:0", true);
  CHECK(got[0].shape() == none.images());
}

TEST_SUITE_END();

}  // namespace keel
