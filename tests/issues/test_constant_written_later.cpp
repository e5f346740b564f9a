// A graph's constant shared the memory of the tensor that it was made from: who wrote into that
// later changed graphs, folded values and compiled programs.
#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

namespace keel {

TEST_SUITE_BEGIN("graph");

TEST_CASE("a constant keeps its value where the caller writes into his tensor later") {
  for (const char* name : {"ref", "cpu", "npu"}) {
    CAPTURE(name);
    Tensor mine = Tensor::of<float>({2}, {1, 2});
    Graph g;
    const Value c = g.constant(mine);
    const Value w = g.state("w", from_tensor(mine));
    mine.set(0, 100);
    Session session(g, device(name));
    CHECK(bit_equal(session.run({c + w})[0], Tensor::of<float>({2}, {2, 4})));
    mine.set(1, 100);
    CHECK(bit_equal(session.run({c + w})[0], Tensor::of<float>({2}, {2, 4})));
  }
}

TEST_SUITE_END();

}  // namespace keel
