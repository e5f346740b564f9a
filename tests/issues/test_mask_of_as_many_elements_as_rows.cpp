// Strict runs took an operand behind a product that has as many elements as the product has rows
// for one with a number for each row, also where it is a matrix that all of a batch share.
#include <cstdlib>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/keel.h"

namespace {
using namespace keel;
}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a mask behind a product that has as many elements as there are rows") {
  std::unique_ptr<Backend> strict;
  setenv("KEEL_NPU_STRICT", "1", 1);
  for (const BackendFactory& factory : builtin_backends()) {
    if (std::string(factory.name) == "npu") strict = factory.make();
  }
  unsetenv("KEEL_NPU_STRICT");
  Graph g;
  Tensor a(f32, {2, 3, 4}), b(f32, {2, 4, 2}), mask(boolean, {3, 2});
  for (int64_t i = 0; i < a.num_elements(); ++i) a.set(i, static_cast<double>(i % 5) - 2);
  for (int64_t i = 0; i < b.num_elements(); ++i) b.set(i, static_cast<double>(i % 3) - 1);
  for (int64_t i = 0; i < 6; ++i) mask.set(i, i == 1 || i == 2 ? 0 : 1);
  const Value x = g.input("a", f32, a.shape()), y = g.input("b", f32, b.shape()),
              m = g.input("m", boolean, mask.shape());
  const Value out = softmax(select(m, matmul(x, y), -100));
  const Feeds feeds{{x, a}, {y, b}, {m, mask}};
  Session session(g, Device(strict.get(), 0)), plain(g, device("npu"));
  CHECK(bit_equal(session.run(out, feeds), plain.run(out, feeds)));
}

TEST_SUITE_END();
