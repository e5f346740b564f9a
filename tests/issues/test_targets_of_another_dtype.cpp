// Losses took targets of any dtype up to the op inside that could not, whose error named an op that
// nobody had called and had the logits converted; accuracy took the part in front of the point for
// the class.
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/ir/graph.h"
#include "keel/ops/nn/losses.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("targets of another dtype are refused by the loss that was called") {
  Graph g;
  const Value x = g.input("x", f32, {4, 3}), ids = g.input("ids", i64, {4, 3});
  const auto check = [](const std::string& text, const std::string& op) {
    INFO(text);
    CHECK(keel_test::contains(text, op + ": target"));
    CHECK(keel_test::contains(text, "cast(x, keel::f32)"));
  };
  check(keel_test::error_of([&] { mean_squared_error(x, ids); }), "mean_squared_error");
  check(keel_test::error_of([&] { mean_absolute_error(x, ids); }), "mean_absolute_error");
  check(keel_test::error_of([&] { huber(x, ids); }), "huber");
  check(keel_test::error_of([&] { binary_cross_entropy(x, ids); }), "binary_cross_entropy");
  check(keel_test::error_of([&] { kl_divergence(x, ids); }), "kl_divergence");
  CHECK(keel_test::contains(keel_test::error_of([&] { hinge(x, ids); }), "hinge: labels"));
  CHECK(keel_test::contains(keel_test::error_of([&] { hinge(ids, x); }),
                            "hinge: scores: expected a float dtype"));
}

TEST_CASE("accuracy takes no floats for class ids") {
  Graph g;
  const Value logits = g.input("logits", f32, {2, 3}), floats = g.input("ids", f32, {2});
  CHECK_THROWS_WITH_AS(accuracy(logits, floats), doctest::Contains("accuracy: ids"), Error);
}

TEST_CASE("a delta of huber that its dtype rounds to 0 or infinity is refused") {
  Graph g;
  const Value a = g.input("a", f16, {2}), b = g.input("b", f16, {2});
  CHECK_THROWS_WITH_AS(huber(a, b, 1e-8), doctest::Contains("in f16, got 1e-08"), Error);
  CHECK_THROWS_WITH_AS(huber(a, b, 1e6), doctest::Contains("in f16, got 1e+06"), Error);
  CHECK_NOTHROW(huber(a, b, 1e-3));
}

TEST_SUITE_END();

}  // namespace keel
