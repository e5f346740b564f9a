// gather, scatter_add, one_hot and iota: expected values by hand, and indices out of range.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

Tensor ids(std::vector<int32_t> values) {
  return Tensor::of<int32_t>({static_cast<int64_t>(values.size())}, values);
}

TEST_CASE("gather takes slices by index") {
  Graph g;
  const Value x = g.constant(counting({3, 2}));
  const Value i = g.constant(ids({2, 0, 2}));
  CHECK(elements(gather(x, i)) == Doubles{4, 5, 0, 1, 4, 5});
  const Value columns = gather(x, g.constant(Tensor::of<int64_t>({1, 2}, {1, 0})), -1);
  CHECK(columns.shape() == Shape{3, 1, 2});
  CHECK(elements(columns) == Doubles{1, 0, 3, 2, 5, 4});
  CHECK(elements(gather(x, g.constant(Tensor::scalar<int64_t>(1)))) == Doubles{2, 3});
  CHECK(elements(gradients(sum(gather(x, i)), {x})[0]) == Doubles{1, 1, 0, 0, 2, 2});
  const Value weights = g.constant(Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const Value swapped = gather(x, g.constant(ids({1, 0})), 1);
  CHECK(elements(gradients(sum(swapped * weights), {x})[0]) == Doubles{2, 1, 4, 3, 6, 5});
}

TEST_CASE("gather refuses an index out of range at run time") {
  Graph g;
  const Value x = g.constant(counting({3, 2}));
  const Value i = g.input("i", i32, {-1});
  const Value y = gather(x, i);
  const std::string text = error_of([&] { evaluate(y, {{i, ids({0, 3})}}); });
  CHECK(contains(text, "gather"));
  CHECK(contains(text, "indices"));
  CHECK(contains(text, "index from 0 to 2 (3 slices)"));
  CHECK(contains(text, "index 3 at position 1"));
  CHECK(contains(error_of([&] { evaluate(y, {{i, ids({-1})}}); }), "index -1 at position 0"));
  CHECK(contains(error_of([&] { gather(x, x); }), "i64 or i32"));
  const Value none = gather(g.constant(Tensor(f32, {0, 2})), i);
  CHECK(contains(error_of([&] { evaluate(none, {{i, ids({0})}}); }), "there are no slices"));
  CHECK(evaluate(none, {{i, ids({})}}).shape() == Shape{0, 2});
}

TEST_CASE("scatter_add adds rows that meet") {
  Graph g;
  const Value x = g.constant(counting({3, 2}));
  const Value i = g.constant(ids({1, 1, 0}));
  const Value u = g.constant(Tensor::of<float>({3, 2}, {10, 20, 30, 40, 50, 60}));
  const Value y = scatter_add(x, i, u);
  CHECK(elements(y) == Doubles{50, 61, 42, 63, 4, 5});
  const Value weights = g.constant(counting({3, 2}));
  const Values grads = gradients(sum(y * weights), {x, u});
  CHECK(elements(grads[0]) == Doubles{0, 1, 2, 3, 4, 5});
  CHECK(elements(grads[1]) == Doubles{2, 3, 2, 3, 0, 1});
  const Value bytes = g.constant(Tensor::of<uint8_t>({1}, {250}));
  const Value more = g.constant(Tensor::of<uint8_t>({2}, {4, 4}));
  CHECK(elements(scatter_add(bytes, g.constant(ids({0, 0})), more)) == Doubles{2});
}

TEST_CASE("scatter_add refuses what does not fit") {
  Graph g;
  const Value x = g.constant(counting({3, 2}));
  const Value i = g.constant(ids({1, 1}));
  CHECK(contains(error_of([&] { scatter_add(x, i, x); }), "shape [2, 2]"));
  CHECK(contains(error_of([&] { scatter_add(x, i, g.constant(counting({2, 2}, f64))); }), "cast"));
  const Value far = g.constant(ids({0, 7}));
  const Value y = scatter_add(x, far, g.constant(counting({2, 2})));
  CHECK(contains(error_of([&] { evaluate(y); }), "index 7 at position 1"));
}

TEST_CASE("one_hot marks the id") {
  Graph g;
  const Value x = g.constant(Tensor::of<uint8_t>({2}, {2, 0}));
  CHECK(elements(one_hot(x, 3)) == Doubles{0, 0, 1, 1, 0, 0});
  CHECK(one_hot(x, 3, boolean).dtype() == boolean);
  CHECK(one_hot(g.input("ids", i64, {-1}), 5, f16).type() == Type{f16, {-1, 5}});
  const Value out = one_hot(x, 2);
  CHECK(contains(error_of([&] { evaluate(out); }), "id 2 at position 0"));
  CHECK(contains(error_of([&] { one_hot(x, 0); }), "at least 1"));
  CHECK(contains(error_of([&] { one_hot(g.constant(counting({2})), 3); }), "an integer dtype"));
}

TEST_CASE("iota counts along an axis") {
  Graph g;
  CHECK(elements(iota(g, i32, {2, 3}, 1)) == Doubles{0, 1, 2, 0, 1, 2});
  CHECK(elements(iota(g, f32, {2, 3})) == Doubles{0, 0, 0, 1, 1, 1});
  CHECK(elements(iota(g, u8, {2, 0}, -1)).empty());
  CHECK(contains(error_of([&] { iota(g, u8, {257}); }), "every integer up to 256"));
  CHECK(contains(error_of([&] { iota(g, f32, {-1}); }), "all dimensions known"));
  CHECK(contains(error_of([&] { iota(g, f32, {2}, 1); }),
                 "an axis from 0 to 0, counted from the front"));
  CHECK(contains(error_of([&] { iota(g, boolean, {2}); }), "a number dtype"));
}

}  // namespace

TEST_SUITE_END();
