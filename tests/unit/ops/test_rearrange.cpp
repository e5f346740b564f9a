// reverse, roll, tile and embedding: expected values by hand.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("flatten joins the axes of items") {
  Graph g;
  CHECK(elements(flatten(g.constant(counting({2, 2, 3})))) ==
        elements(g.constant(counting({2, 6}))));
  CHECK(flatten(g.constant(counting({2, 2, 3}))).shape() == Shape{2, 6});
  CHECK(flatten(g.constant(counting({4}))).shape() == Shape{4, 1});
  CHECK(flatten(g.input("batch", f32, {-1, 2, 3})).shape() == Shape{-1, 6});
  CHECK(flatten(g.input("side", f32, {2, -1, 3})).shape() == Shape{2, -1});
  CHECK(flatten(g.constant(Tensor(f32, {0, 2, 3}))).shape() == Shape{0, 6});
  CHECK(flatten(g.constant(Tensor(f32, {2, 0, 3}))).shape() == Shape{2, 0});
  for (const Shape& shape : {Shape{}, Shape{-1, -1, 3}, Shape{-1, 0}, Shape{0, -1}}) {
    CAPTURE(to_string(shape));
    const Value x = g.input("x" + to_string(shape), f32, shape);
    const std::string refused = error_of([&] { flatten(x); });
    CHECK(contains(refused, "flatten: x"));
    CHECK(contains(refused, __FILE__));
  }
}

TEST_CASE("reverse and roll and tile") {
  Graph g;
  const Value x = g.constant(counting({2, 3}));
  CHECK(elements(reverse(x)) == Doubles{5, 4, 3, 2, 1, 0});
  CHECK(elements(reverse(x, {-1})) == Doubles{2, 1, 0, 5, 4, 3});
  CHECK(elements(roll(x, 1)) == Doubles{2, 0, 1, 5, 3, 4});
  CHECK(elements(roll(x, -4)) == Doubles{1, 2, 0, 4, 5, 3});
  CHECK(elements(roll(x, 1, 0)) == Doubles{3, 4, 5, 0, 1, 2});
  CHECK(elements(roll(x, 3)) == elements(x));
  CHECK(elements(tile(x, {1, 2})) == Doubles{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(elements(tile(x, {2, 1})) == Doubles{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(tile(x, {0, 2}).shape() == Shape{0, 6});
  const Value any = g.input("any", f32, {-1, -1});
  CHECK(tile(any, {2, 3}).shape() == Shape{-1, -1});
  CHECK(elements(tile(any, {2, 1}), {{any, counting({1, 2})}}) == Doubles{0, 1, 0, 1});
  const Value rows = g.input("rows", f32, {-1, 2});
  CHECK(elements(tile(rows, {2, 2}), {{rows, counting({1, 2})}}) ==
        Doubles{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(elements(gradients(sum(square(tile(x, {3, 2}))), {x})[0]) ==
        Doubles{0, 12, 24, 36, 48, 60});
  CHECK(contains(error_of([&] { reverse(x, {0, -2}); }), "once"));
  CHECK(contains(error_of([&] { reverse(x, {2}); }), "an axis of x"));
  CHECK(contains(error_of([&] { roll(any, 1); }), "known size"));
  CHECK(contains(error_of([&] { tile(x, {2}); }), "2 numbers"));
  CHECK(contains(error_of([&] { tile(x, {2, -1}); }), ">= 0"));
  CHECK(contains(error_of([&] { tile(x, {2, -1}); }), __FILE__));
}

TEST_CASE("embedding adds up the gradients of repeated ids on every backend") {
  for (const std::string& backend : backend_names()) {
    for (const DType dtype : {i64, i32, u8}) {
      CAPTURE(backend);
      Graph g;
      const Value table = g.input("table", f32, {4, 2}), ids = g.input("ids", dtype, {-1, 3});
      const Value rows = embedding(table, ids);
      CHECK(rows.shape() == Shape{-1, 3, 2});
      const Value weights = g.constant(counting({2, 3, 2}) /* 0 to 11 */);
      const Value d = gradients(sum(rows * weights), {table})[0];
      Session session(g, device(backend));
      Tensor named(dtype, {2, 3});
      const int64_t numbers[] = {1, 3, 1, 1, 0, 3};
      for (int64_t i = 0; i < 6; ++i) named.set(i, static_cast<double>(numbers[i]));
      const auto got = session.run({rows, d}, {{table, counting({4, 2})}, {ids, named}});
      CHECK(elements(got[0]) == Doubles{2, 3, 6, 7, 2, 3, 2, 3, 0, 1, 6, 7});
      CHECK(elements(got[1]) == Doubles{8, 9, 10, 13, 0, 0, 12, 14});
    }
  }
  Graph g;
  const Value table = g.constant(Tensor(f32, {4, 2}));
  CHECK(
      contains(error_of([&] { evaluate(embedding(table, g.constant(counting({5}, i64)))); }), "4"));
  CHECK(contains(error_of([&] { embedding(table, table); }), "integer"));
  CHECK(contains(error_of([&] { embedding(g.constant(Tensor(f32, {4})), table); }), "rows"));
}

}  // namespace

TEST_SUITE_END();
