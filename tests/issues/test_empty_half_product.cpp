// A product of halves without elements read a workspace argument that it had not asked for, as
// AddressSanitizer shows; nothing came of it.
#include <doctest/doctest.h>

#include "keel/keel.h"

namespace {
using namespace keel;
}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("products of halves without elements") {
  for (const DType dtype : {f16, bf16}) {
    Graph g;
    const Value a = g.input("a", dtype, {0, 3}), b = g.input("b", dtype, {3, 0});
    const Value c = g.input("c", dtype, {2, 0}), d = g.input("d", dtype, {0, 4});
    Session session(g, device("cpu"));
    const auto results =
        session.run(Values{matmul(a, b), cast(matmul(c, d), f32)}, {{a, Tensor(dtype, {0, 3})},
                                                                    {b, Tensor(dtype, {3, 0})},
                                                                    {c, Tensor(dtype, {2, 0})},
                                                                    {d, Tensor(dtype, {0, 4})}});
    CHECK(results[0].shape() == Shape{0, 0});
    CHECK(results[1].shape() == Shape{2, 4});
    for (int64_t i = 0; i < 8; ++i) CHECK(results[1].at(i) == 0);
  }
}

TEST_SUITE_END();
