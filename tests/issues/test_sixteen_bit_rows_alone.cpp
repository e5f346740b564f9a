// The gradient of a convolution of f16 or bf16 whose rows are to have their bits alone was refused,
// by an op that nobody had called; a mask of known size beside queries of unknown size, too.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a convolution of 16-bit floats with rows_alone has gradients") {
  for (const DType dtype : {f16, bf16, f32}) {
    CAPTURE(name_of(dtype));
    Graph g;
    const Value x = g.input("x", dtype, {2, 3, 3, 1}), w = g.state("w", ones({2, 2, 1, 1}, dtype));
    const Value y = sum(cast(conv2d(x, w, {.rows_alone = true}), f32));
    const Values slopes = gradients(y, {x, w});
    for (const std::string& name : backend_names()) {
      CAPTURE(name);
      Session session(g, device(name));
      const auto got = session.run(slopes, {{x, Tensor::full(dtype, {2, 3, 3, 1}, 1)}});
      // The middle pixel is in all four windows, and each weight meets four windows of two images.
      CHECK(got[0].at(4) == 4);
      CHECK(got[0].at(0) == 1);
      for (int64_t i = 0; i < 4; ++i) CHECK(got[1].at(i) == 8);
    }
  }
}

TEST_CASE("a mask of known size goes with queries of unknown size") {
  Graph g;
  const Value q = g.input("q", f32, {2, -1, 4}), k = g.input("k", f32, {2, 5, 4});
  const Value mask = g.constant(Tensor::full(boolean, {3, 5}, 1));
  const Value y = attention(q, k, k, {.mask = mask});
  const auto feeds = [&](int64_t length) {
    return Feeds{{q, Tensor::full(f32, {2, length, 4}, 1)}, {k, Tensor::full(f32, {2, 5, 4}, 1)}};
  };
  Session session(g, device("cpu"));
  CHECK(session.run(y, feeds(3)).shape() == Shape{2, 3, 4});
  CHECK(keel_test::contains(keel_test::error_of([&] { session.run(y, feeds(2)); }), "mask"));
  const Value one = g.input("one", f32, {2, 1, 4}), open = g.input("open", boolean, {-1, 5});
  const Feeds of_one = {{one, Tensor::full(f32, {2, 1, 4}, 1)},
                        {k, Tensor::full(f32, {2, 5, 4}, 1)},
                        {open, Tensor::full(boolean, {1, 5}, 1)}};
  CHECK(session.run(attention(one, k, k, {.mask = open}), of_one).shape() == Shape{2, 1, 4});
  const Value other = g.input("other", f32, {2, 2, 4});
  CHECK(keel_test::contains(keel_test::error_of([&] { attention(other, k, k, {.mask = mask}); }),
                            "mask"));
}

TEST_SUITE_END();

}  // namespace keel
