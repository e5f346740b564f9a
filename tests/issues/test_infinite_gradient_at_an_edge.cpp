// Strict runs multiplied the zeros around an image by a gradient of the results that is not finite,
// which gave NaN, where the kernel leaves out taps that are outside of the image.
#include <cmath>
#include <limits>
#include <memory>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/strict_npu.h"

namespace {
using namespace keel;
}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an infinite gradient at the edge of an image") {
  const std::unique_ptr<Backend> strict = keel_test::strict_npu();
  Graph g;
  Tensor images(f32, {2, 6, 6, 16}), slopes(f32, {2, 6, 6, 16});
  for (int64_t i = 0; i < images.num_elements(); ++i) {
    images.set(i, static_cast<double>(i % 7) + 1);
    slopes.set(i, static_cast<double>(i % 5) - 2);
  }
  slopes.set(0, std::numeric_limits<double>::infinity());
  const Value x = g.input("x", f32, images.shape()), dy = g.input("dy", f32, slopes.shape());
  const Value dw = conv2d_weight_gradient(x, dy, {3, 3}, {.padding = "same"});
  const Feeds feeds{{x, images}, {dy, slopes}};
  Session planned(g, Device(strict.get(), 0)), plain(g, device("npu")), ref(g, device("ref"));
  const Tensor sums = plain.run(dw, feeds), expected = ref.run(dw, feeds);
  CHECK(bit_equal(planned.run(dw, feeds), sums));
  // In the first corner only four of the nine taps are inside, for each channel of the images.
  int64_t infinite = 0;
  for (int64_t i = 0; i < sums.num_elements(); ++i) {
    infinite += std::isinf(sums.at(i));
    CHECK(std::isinf(sums.at(i)) == std::isinf(expected.at(i)));
    CHECK_FALSE(std::isnan(sums.at(i)));
  }
  CHECK(infinite == 4 * 16);
}

TEST_SUITE_END();
