// Convolutions with few terms to a result, as first layers have them: forward and the gradient of
// the weights against sums in double, the same bits for any number of threads.
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/parallel_for.h"
#include "keel/ops/conv_rules.h"

#include "drawn_steps_for_tests.h"
#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::Draws;
using testing::run_case;
using testing::StepCase;

struct FirstLayer {
  Pair size, kernel;
  int64_t batch, in, out;
  Conv2dAttributes options;

  Shape images() const { return {batch, size[0], size[1], in}; }
  Shape weights() const { return {kernel[0], kernel[1], in, out}; }
};

std::vector<FirstLayer> layers() {
  return {
      {{28, 28}, {5, 5}, 3, 1, 32, {.padding = "same"}},
      {{28, 28}, {3, 3}, 3, 1, 16, {.padding = "same"}},
      {{32, 32}, {3, 3}, 2, 3, 16, {.padding = "same"}},
      {{28, 28}, {7, 7}, 2, 1, 8, {.padding = "same"}},
      {{27, 29}, {7, 7}, 1, 3, 40, {.stride = {2, 2}, .padding = "same"}},
      {{31, 30}, {4, 2}, 2, 3, 20, {.stride = {2, 3}, .padding = "explicit", .pads = {0, 3, 1, 0}}},
      {{17, 15}, {2, 2}, 1, 1, 33, {.stride = {1, 1}}},
      {{9, 40}, {3, 5}, 1, 2, 17, {.stride = {3, 1}, .padding = "explicit", .pads = {2, 0, 0, 4}}},
      {{6, 5}, {1, 3}, 1, 1, 1, {.stride = {1, 1}, .padding = "same"}},
      {{12, 3}, {3, 3}, 4, 1, 24, {.stride = {1, 2}, .padding = "same"}},
      {{11, 300}, {2, 3}, 1, 1, 7, {.stride = {1, 1}, .padding = "same"}},
      {{14, 13}, {3, 3}, 2, 3, 18, {.stride = {1, 1}, .padding = "same", .dilation = {2, 2}}},
  };
}

// Results of sums in double, and the sums of their terms' magnitudes.
struct Sums {
  std::vector<double> values, magnitudes;
};

Sums sums_of(const ConvGeometry& g, int64_t count, ConvTensor result, const Tensor& a,
             ConvTensor of_a, const Tensor& b, ConvTensor of_b) {
  Sums sums;
  sums.values.resize(static_cast<size_t>(count));
  sums.magnitudes.resize(static_cast<size_t>(count));
  const auto left = a.data<float>(), right = b.data<float>();
  for_each_term(g, [&](const std::array<int64_t, 3>& at) {
    const double term = static_cast<double>(left[static_cast<size_t>(at[of_a])]) *
                        static_cast<double>(right[static_cast<size_t>(at[of_b])]);
    sums.values[static_cast<size_t>(at[result])] += term;
    sums.magnitudes[static_cast<size_t>(at[result])] += std::fabs(term);
  });
  return sums;
}

void check_sums(const Tensor& got, const Sums& expected) {
  // Of the magnitudes: a rounding for each k of a panel, and for each panel.
  constexpr double kBound = 1100 * 0x1p-24;
  int64_t wrong = 0;
  const auto values = got.data<float>();
  REQUIRE(values.size() == expected.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = std::fabs(static_cast<double>(values[i]) - expected.values[i]);
    wrong += !(error <= kBound * expected.magnitudes[i]);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("first layers: results and gradients of weights are sums in double with any threads") {
  Draws draws(21);
  for (FirstLayer layer : layers()) {
    for (auto* both : {&layer.options.stride, &layer.options.dilation})
      *both = for_both_axes(*both);
    CAPTURE(to_string(layer.images()));
    CAPTURE(to_string(layer.weights()));
    const ConvGeometry g(layer.options, layer.images(), layer.weights());
    const Shape results{layer.batch, g.windows[0].out, g.windows[1].out, layer.out};
    const Tensor x = draws.tensor(layer.images()), w = draws.tensor(layer.weights());
    const Tensor dy = draws.tensor(results), bias = draws.tensor(Shape{layer.out});
    const StepCase step{[&](Graph& graph) {
                          const Value images = graph.input("x", f32, layer.images());
                          const Value weights = graph.input("w", f32, layer.weights());
                          const Value given = graph.input("dy", f32, results);
                          const Value y = conv2d(images, weights, layer.options);
                          const Value dw = conv2d_weight_gradient(
                              images, given, {layer.kernel[0], layer.kernel[1]}, layer.options);
                          const Value active =
                              relu(conv2d(images, weights, layer.options) + graph.constant(bias));
                          return std::pair<Update, Values>{Update(), {y, dw, active}};
                        },
                        {x, w, dy}};
    std::vector<Tensor> one;
    {
      const ComputeThreads threads(1);
      one = run_case(step, "npu:0", true);
    }
    check_sums(one[0], sums_of(g, results.num_elements(), kResults, x, kImages, w, kWeights));
    check_sums(one[1],
               sums_of(g, layer.weights().num_elements(), kWeights, x, kImages, dy, kResults));
    const ComputeThreads threads(2);
    CHECK(all_equal(run_case(step, "npu:0", true), one));
    CHECK(all_equal(run_case(step, "npu:0", false), one));
  }
}

TEST_SUITE_END();

}  // namespace keel
