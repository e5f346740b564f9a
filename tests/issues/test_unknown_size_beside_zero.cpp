// tile, einsum and group_norm reshaped with a -1 beside a 0, which reshape cannot tell, so that an
// unknown batch of rows without elements was an error; and einsum over more axes than a shape has
// was one of another op.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

Shape shape_of(Graph& g, const Value& fetch, const Value& input, const Shape& fed) {
  Session session(g, device("cpu"));
  return session.run({fetch}, {{input, Tensor(f32, fed)}})[0].shape();
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("tile repeats rows without elements of an unknown batch") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 0, 2});
  CHECK(shape_of(g, tile(x, {1, 1, 3}), x, {5, 0, 2}) == Shape{5, 0, 6});
  CHECK(shape_of(g, tile(x, {2, 1, 1}), x, {5, 0, 2}) == Shape{10, 0, 2});
}

TEST_CASE("group_norm of an unknown batch without elements is itself") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 0, 4});
  const Value scale = g.constant(Tensor::full(f32, {4}, 1)),
              offset = g.constant(Tensor::full(f32, {4}, 0));
  const Value y = group_norm(x, 2, scale, offset);
  CHECK(shape_of(g, y, x, {3, 0, 4}) == Shape{3, 0, 4});
  CHECK(shape_of(g, gradients(sum(y), {x})[0], x, {3, 0, 4}) == Shape{3, 0, 4});
}

TEST_CASE("einsum merges axes of an unknown batch beside a 0") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 2, 0});
  const Value none = g.constant(Tensor(f32, {0, 4, 2})), some = g.constant(Tensor(f32, {2, 5}));
  CHECK(shape_of(g, einsum("bij,jkl->bikl", {x, none}), x, {3, 2, 0}) == Shape{3, 2, 4, 2});
  CHECK(shape_of(g, einsum("bij,ik->bjk", {x, some}), x, {3, 2, 0}) == Shape{3, 0, 5});
  const Value square = g.input("square", f32, {-1, 0, 0});
  CHECK(shape_of(g, einsum("bii->bi", {square}), square, {3, 0, 0}) == Shape{3, 0});
}

TEST_CASE("einsum over more axes than a shape has is an error of einsum") {
  Graph g;
  const Value a = g.input("a", f32, {1, 1, 1, 1, 1}), b = g.input("b", f32, {1, 1, 1, 1});
  const std::string error = error_of([&] { einsum("abcde,fghi->abcdefghi", {a, b}); });
  CHECK_MESSAGE(contains(error, "einsum: equation: expected at most 8 axes"), error);
  CHECK_MESSAGE(contains(error, "test_unknown_size_beside_zero.cpp"), error);
  // Seven axes of a batch leave matmul one axis too few; element by element there is room.
  const Value c = g.constant(Tensor::full(f32, {1, 1, 1, 1, 1, 1, 2, 3}, 1));
  Session session(g, device("cpu"));
  const Tensor sums = session.run({einsum("abcdefgh,abcdefgh->abcdefg", {c, c})})[0];
  CHECK(sums.shape() == Shape{1, 1, 1, 1, 1, 1, 2});
  CHECK(sums.at(0) == 3);
}

}  // namespace keel
