// Sizes that no memory holds overflowed, left as exceptions of the standard library, or took time
// and memory where there was nothing to compute.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

constexpr int64_t kHuge = int64_t{1} << 62;

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("layers of sequences refuse sizes whose multiples do not fit") {
  Graph g;
  const Scope root(g);
  const std::string lstm_error = error_of([&] { Lstm(root / "l", 3, kHuge); });
  CHECK(contains(lstm_error, "lstm l: units: 4 * 4611686018427387904 does not fit in 64 bits"));
  CHECK(contains(lstm_error, "test_sizes_of_nothing.cpp"));
  const std::string gru_error = error_of([&] { Gru(root / "g", 3, kHuge); });
  CHECK(contains(gru_error, "gru g: units: 3 * 4611686018427387904 does not fit in 64 bits"));
  CHECK(contains(gru_error, "test_sizes_of_nothing.cpp"));
  const std::string block = error_of([&] { TransformerBlock(root / "t", kHuge, 1); });
  CHECK(contains(block, "transformer block t: width: 4 * 4611686018427387904 does not fit"));
  CHECK(contains(block, "test_sizes_of_nothing.cpp"));
  CHECK(g.size() == 0);
}

TEST_CASE("a cut into more parts than memory holds is refused") {
  Graph g;
  const Value none = g.input("none", f32, {0, 2});
  const std::string parts = error_of([&] { split(none, kHuge, 0); });
  CHECK(contains(parts,
                 "split: parts: expected at most 1048576 parts, got 4611686018427387904 parts of "
                 "[0, 2]"));
  CHECK(contains(parts, "test_sizes_of_nothing.cpp"));
  CHECK(split(none, 4, 0).size() == 4);
  const Value line = g.input("line", u8, {int64_t{1} << 33});
  const std::string elements = error_of([&] { unstack(line); });
  CHECK(contains(elements, "unstack: axis: expected at most 1048576 parts, got 8589934592 parts"));
  CHECK(contains(elements, "test_sizes_of_nothing.cpp"));
}

TEST_CASE("images without elements are resized in no time") {
  const int64_t height = int64_t{1} << 40;
  for (const char* backend : {"ref", "cpu", "npu"}) {
    for (const char* mode : {"nearest", "bilinear"}) {
      CAPTURE(backend);
      CAPTURE(mode);
      Graph g;
      const Value x = g.input("x", f32, {0, 2, 2, 1});
      const Value y = resize(x, {.size = {height, 1}, .mode = mode});
      const Value slope = gradients(sum(y), {x})[0];
      Session session(g, device(backend));
      const auto results = session.run(Values{y, slope}, {{x, Tensor(f32, {0, 2, 2, 1})}});
      CHECK(results[0].shape() == Shape{0, height, 1, 1});
      CHECK(results[1].shape() == Shape{0, 2, 2, 1});
    }
  }
}

TEST_CASE("the gradient of an image that is resized to nothing is zero") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {1, 2, 2, 1});
    const Value y = resize(x, {.size = {0, 3}, .mode = "bilinear"});
    const Value slope = gradients(sum(y), {x})[0];
    Session session(g, device(backend));
    const Tensor result = session.run(slope, {{x, Tensor::full(f32, {1, 2, 2, 1}, 5)}});
    REQUIRE(result.num_elements() == 4);
    for (int64_t i = 0; i < 4; ++i) CHECK(result.at(i) == 0);
  }
}

TEST_SUITE_END();

}  // namespace keel
