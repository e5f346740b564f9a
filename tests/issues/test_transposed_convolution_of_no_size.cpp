// Pads that leave nothing of a transposed convolution's result were refused from a size of -2 on:
// -1 was taken for a size that is not known yet, and 0 for one of a result.
#include <doctest/doctest.h>

#include "keel/graph/ir/graph.h"
#include "keel/ops/ops.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("pads leave something of a transposed convolution's result") {
  for (const int64_t high : {0, 1, 2, 3}) {
    Graph g;
    const Value x = g.input("x", f32, {1, 1, 1, 1}), w = g.input("w", f32, {1, 3, 1, 1});
    const Conv2dAttributes options{.padding = "explicit", .pads = {0, 0, 2, high}};
    INFO(high);
    if (high == 0) {
      CHECK(conv_transpose2d(x, w, options).shape() == Shape{1, 1, 1, 1});
    } else {
      CHECK_THROWS_WITH_AS(conv_transpose2d(x, w, options),
                           doctest::Contains("pads that leave something of the result"), Error);
    }
  }
}

TEST_CASE("a transposed convolution of no windows has no pixels with same padding") {
  Graph g;
  const Value x = g.input("x", f32, {2, 0, 3, 1}), w = g.input("w", f32, {3, 3, 1, 1});
  CHECK(conv_transpose2d(x, w, {.stride = {2}, .padding = "same"}).shape() == Shape{2, 0, 6, 1});
}

TEST_SUITE_END();

}  // namespace keel
