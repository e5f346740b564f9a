// A strict run refused a scatter_add that met NaNs of both signs: the kernel added a single row in
// f32, the plan in f64, and these keep another NaN of the two.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/keel.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a strict run takes a scatter_add of NaNs of both signs") {
  std::unique_ptr<Backend> strict;
  setenv("KEEL_NPU_STRICT", "1", 1);
  for (const BackendFactory& factory : builtin_backends())
    if (std::string(factory.name) == "npu") strict = factory.make();
  unsetenv("KEEL_NPU_STRICT");
  const float nan = std::numeric_limits<float>::quiet_NaN(), other = std::copysign(nan, -1.0f);
  constexpr int64_t kColumns = 37;
  std::vector<float> rows, updates;
  for (int64_t i = 0; i < 3 * kColumns; ++i) {
    rows.push_back(i % 3 == 0 ? nan : i % 3 == 1 ? other : 1);
    updates.push_back(i % 5 == 0 ? other : i % 5 == 1 ? nan : 2);
  }
  Graph g;
  const Value x = g.input("x", f32, {3, kColumns}), u = g.input("u", f32, {3, kColumns}),
              ids = g.input("ids", i64, {3});
  const Value out = scatter_add(x, ids, u);
  Session session(g, Device(strict.get(), 0)), plain(g, device("npu"));
  for (const std::vector<int64_t>& names : {std::vector<int64_t>{2, 0, 1}, {1, 1, 0}}) {
    const Feeds feeds{{x, Tensor::of<float>({3, kColumns}, rows)},
                      {u, Tensor::of<float>({3, kColumns}, updates)},
                      {ids, Tensor::of<int64_t>({3}, names)}};
    CHECK(bit_equal(session.run(out, feeds), plain.run(out, feeds)));
  }
}

TEST_SUITE_END();

}  // namespace keel
