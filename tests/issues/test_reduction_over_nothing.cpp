// A fused reduction over an empty axis between two others divided by zero.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a fused reduction over an empty middle axis gives zeros") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    for (const Shape& shape : {Shape{64, 0, 4096}, Shape{4096, 0, 64}}) {
      Graph g;
      const Value x = g.input("x", f32, shape);
      Session session(g, device(where));
      const Tensor result = session.run({sum(exp(x) * x, {1})}, {{x, Tensor(f32, shape)}})[0];
      CHECK(bit_equal(result, Tensor::full(f32, {shape[0], shape[2]}, 0)));
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
