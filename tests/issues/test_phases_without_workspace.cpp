// The gradient of a convolution with a stride for its images read a workspace that it had not asked
// for where windows meet none of the images' pixels.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a gradient for images whose pixels are in no window is 0") {
  // Windows of one pixel lie on -1 and 1 along each axis, the image's only pixel on 0.
  const Conv2dAttributes options{.stride = {2}, .padding = "explicit", .pads = {1, 1, 1, 1}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    for (const DType dtype : {f32, f16}) {
      Graph g;
      const Shape upstream{2, 2, 2, 5}, kernels{1, 1, 3, 5};
      const Value dy = g.input("dy", dtype, upstream), w = g.input("w", dtype, kernels);
      const Value dx = conv2d_input_gradient(dy, w, options, {1, 1});
      Session session(g, device(where));
      const Tensor result = session.run(
          {dx}, {{dy, Tensor::full(dtype, upstream, 1)}, {w, Tensor::full(dtype, kernels, 1)}})[0];
      CHECK(bit_equal(result, Tensor::full(dtype, {2, 1, 1, 3}, 0)));
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
