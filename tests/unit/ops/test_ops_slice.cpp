// slice, split, pad and concat: expected values by hand, NumPy's rules for bounds.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

TEST_CASE("slice takes NumPy's bounds") {
  Graph g;
  const Value x = g.constant(counting({7}));
  CHECK(elements(slice(x, {2}, {5})) == Doubles{2, 3, 4});
  CHECK(elements(slice(x, {-3}, {kToEnd})) == Doubles{4, 5, 6});
  CHECK(elements(slice(x, {0}, {-5})) == Doubles{0, 1});
  CHECK(elements(slice(x, {1}, {7}, {3})) == Doubles{1, 4});
  CHECK(elements(slice(x, {0}, {100}, {2})) == Doubles{0, 2, 4, 6});
  CHECK(elements(slice(x, {-100}, {2})) == Doubles{0, 1});
  CHECK(elements(slice(x, {5}, {3})).empty());
  CHECK(elements(slice(x, {9}, {12})).empty());
}

TEST_CASE("slice goes backwards with negative strides") {
  Graph g;
  const Value x = g.constant(counting({7}));
  CHECK(elements(slice(x, {kToEnd}, {kToStart}, {-1})) == Doubles{6, 5, 4, 3, 2, 1, 0});
  CHECK(elements(slice(x, {5}, {1}, {-2})) == Doubles{5, 3});
  CHECK(elements(slice(x, {-2}, {-8}, {-3})) == Doubles{5, 2});
  CHECK(elements(slice(x, {100}, {4}, {-1})) == Doubles{6, 5});
  CHECK(elements(slice(x, {2}, {5}, {-1})).empty());
  CHECK(elements(slice(x, {-8}, {kToStart}, {-1})).empty());
  CHECK(elements(slice(g.constant(counting({0})), {kToEnd}, {kToStart}, {-1})).empty());
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  CHECK(elements(slice(x, {3}, {kToStart}, {-kFar})) == Doubles{3});
  CHECK(elements(slice(x, {3}, {kToEnd}, {kFar})) == Doubles{3});
  CHECK(contains(error_of([&] { slice(x, {0}, {1}, {kToStart}); }), "strides other than 0"));
  const Value weights = g.constant(Tensor::of<float>({2}, {5, 7}));
  CHECK(elements(gradients(sum(slice(x, {5}, {1}, {-2}) * weights), {x})[0]) ==
        Doubles{0, 0, 0, 7, 0, 5, 0});
}

TEST_CASE("slice leaves the axes it does not name") {
  Graph g;
  const Value x = g.constant(counting({3, 4}));
  CHECK(elements(slice(x, {1}, {2})) == Doubles{4, 5, 6, 7});
  CHECK(elements(slice(x, {0, 1}, {3, 4}, {2, 2})) == Doubles{1, 3, 9, 11});
  const Value batch = g.input("batch", f32, {-1, 4});
  const Value y = slice(batch, {1, 1}, {kToEnd, 3});
  CHECK(y.shape() == Shape{-1, 2});
  CHECK(elements(y, {{batch, counting({2, 4})}}) == Doubles{5, 6});
  CHECK(contains(error_of([&] { slice(x, {0, 0, 0}, {1}); }), "at most 2 numbers"));
  CHECK(contains(error_of([&] { slice(x, {0}, {1}, {0}); }), "strides other than 0"));
}

TEST_CASE("slice with strides passes gradients back to the elements it took") {
  Graph g;
  const Value x = g.constant(counting({7}));
  const Value weights = g.constant(Tensor::of<float>({2}, {5, 7}));
  CHECK(elements(gradients(sum(slice(x, {1}, {7}, {3}) * weights), {x})[0]) ==
        Doubles{0, 5, 0, 0, 7, 0, 0});
  const Value z = g.constant(counting({3, 4}));
  const Value four = g.constant(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  CHECK(elements(gradients(sum(slice(z, {0, 1}, {3, 4}, {2, 2}) * four), {z})[0]) ==
        Doubles{0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4});
  CHECK(elements(gradients(sum(slice(x, {5}, {5})), {x})[0]) == Doubles(7, 0.0));
}

TEST_CASE("split cuts into equal or given sizes") {
  Graph g;
  const Value x = g.constant(counting({2, 6}));
  const Values halves = split(x, 2, 1);
  REQUIRE(halves.size() == 2);
  CHECK(elements(halves[0]) == Doubles{0, 1, 2, 6, 7, 8});
  CHECK(elements(halves[1]) == Doubles{3, 4, 5, 9, 10, 11});
  const Values parts = split_sizes(x, {1, 0, 5}, -1);
  REQUIRE(parts.size() == 3);
  CHECK(elements(parts[0]) == Doubles{0, 6});
  CHECK(parts[1].shape() == Shape{2, 0});
  CHECK(elements(parts[2]) == Doubles{1, 2, 3, 4, 5, 7, 8, 9, 10, 11});
  CHECK(contains(error_of([&] { split(x, 4, 1); }), "a divisor of 6"));
  CHECK(contains(error_of([&] { split(x, 0, 1); }), "0 parts"));
  CHECK(contains(error_of([&] { split(x, 2, 2); }), "an axis of x"));
  CHECK(contains(error_of([&] { split_sizes(x, {1, 2}, 1); }), "add up to 6"));
  CHECK(contains(error_of([&] { split_sizes(x, {-1, 7}, 1); }), "a negative size"));
  const Value batch = g.input("batch", f32, {-1});
  CHECK(contains(error_of([&] { split(batch, 2); }), "known dimension"));
}

TEST_CASE("pad surrounds with a value") {
  Graph g;
  const Value x = g.constant(counting({2, 2}));
  const Value y = pad(x, {1, 0}, {0, 2}, -1);
  CHECK(elements(y) == Doubles{-1, -1, -1, -1, 0, 1, -1, -1, 2, 3, -1, -1});
  const Value weights = g.constant(counting({3, 4}));
  CHECK(elements(gradients(sum(y * weights), {x})[0]) == Doubles{4, 5, 8, 9});
  const Value bytes = g.constant(counting({2}, u8));
  CHECK(elements(pad(bytes, {1}, {0}, 255)) == Doubles{255, 0, 1});
  CHECK(contains(error_of([&] { pad(bytes, {1}, {0}, 256); }), "a number that fits u8"));
  CHECK(contains(error_of([&] { pad(bytes, {1}, {0}, 0.5); }), "a number that fits u8"));
  CHECK(contains(error_of([&] { pad(x, {-1, 0}, {0, 0}); }), "cut with slice"));
  CHECK(contains(error_of([&] { pad(x, {1}, {0}); }), "at most 2 numbers"));
}

TEST_CASE("pad_interior also puts elements between neighbours") {
  for (const char* where : {"ref:0", "cpu:0", "npu:0"}) {
    CAPTURE(std::string(where));
    Graph g;
    const Value x = g.input("x", f32, {2, 2});
    const Value y = pad_interior(x, {1, 0}, {0, 2}, {1, 2}, -1);
    const Value z = pad_interior(x, {0, 0}, {0, 0}, {0, 1}, 7);
    const Value weights = g.constant(counting({4, 6}));
    const Value dx = gradients(sum(y * weights), {x})[0];
    Session session(g, device(where));
    const auto got = session.run({y, z, dx}, {{x, counting({2, 2})}});
    CHECK(elements(got[0]) == Doubles{-1, -1, -1, -1, -1, -1, 0, -1, -1, 1, -1, -1,
                                      -1, -1, -1, -1, -1, -1, 2, -1, -1, 3, -1, -1});
    CHECK(elements(got[1]) == Doubles{0, 7, 1, 2, 7, 3});
    CHECK(elements(got[2]) == Doubles{6, 9, 18, 21});
  }
  Graph g;
  const Value x = g.constant(counting({3}));
  CHECK(elements(slice(pad_interior(x, {2}, {1}, {3}), {2}, {-1}, {4})) == Doubles{0, 1, 2});
  CHECK(elements(pad_interior(g.constant(counting({0})), {1}, {1}, {5})) == Doubles{0, 0});
  CHECK(elements(pad_interior(x, {0}, {0}, {0})) == Doubles{0, 1, 2});
  CHECK(contains(error_of([&] { pad_interior(x, {0}, {0}, {-1}); }), "interior"));
  CHECK(contains(error_of([&] { pad_interior(x, {0}, {0}, {1, 1}); }), "at most 1 number"));
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  CHECK(contains(error_of([&] { pad_interior(x, {0}, {0}, {kHuge}); }), "64 bits"));
}

TEST_CASE("concat joins along an axis") {
  Graph g;
  const Value a = g.constant(counting({2, 1}));
  const Value b = g.constant(counting({2, 2}));
  CHECK(elements(concat({a, b}, 1)) == Doubles{0, 0, 1, 1, 2, 3});
  CHECK(elements(concat({b, b}, -2)) == Doubles{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(elements(concat({a})) == Doubles{0, 1});
  const Value batch = g.input("batch", f32, {-1, 2});
  CHECK(concat({b, batch}).shape() == Shape{-1, 2});
  CHECK(concat({batch, b}, 1).shape() == Shape{2, 4});
  const Value weights = g.constant(counting({2, 3}));
  const Values grads = gradients(sum(concat({a, b}, 1) * weights), {a, b});
  CHECK(elements(grads[0]) == Doubles{0, 3});
  CHECK(elements(grads[1]) == Doubles{1, 2, 4, 5});
}

TEST_CASE("concat and stack without a list are found without the namespace") {
  Graph g;
  const Value a = g.constant(counting({2, 1}));
  const Value b = g.constant(counting({2, 2}));
  CHECK(elements(concat(a, b, 1)) == Doubles{0, 0, 1, 1, 2, 3});
  CHECK(elements(concat(b, b)) == Doubles{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(elements(concat(a, b, a, b, -1)) == Doubles{0, 0, 1, 0, 0, 1, 1, 2, 3, 1, 2, 3});
  const Values list{b, b};
  CHECK(stack(list, 2).shape() == Shape{2, 2, 2});
  CHECK(elements(stack(b, b, -1)) == Doubles{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(elements(stack({b, b, b})) == Doubles{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  const Value scalar = g.constant(Tensor::scalar(4.0f));
  CHECK(elements(stack(scalar, scalar)) == Doubles{4, 4});
  const int line = __LINE__ + 1;
  const std::string text = error_of([&] { concat(a, b); });
  CHECK(contains(text, "test_ops_slice.cpp:" + std::to_string(line)));
}

TEST_CASE("parts of a split that nothing flows back to have zeros as their gradients") {
  Graph g;
  const Value x = g.input("x", f32, {2, 6});
  const Feeds feeds = {{x, counting({2, 6})}};
  const auto gradient = [&](const std::function<Value(const Values&)>& loss) {
    const Values parts = split_sizes(x, {1, 2, 0, 1, 2}, 1);
    return elements(gradients(loss(parts), {x})[0], feeds);
  };
  const auto row = [](const Doubles& of_row) {
    Doubles both = of_row;
    both.insert(both.end(), of_row.begin(), of_row.end());
    return both;
  };
  CHECK(gradient([](const Values& p) { return sum(p[1]); }) == row({0, 1, 1, 0, 0, 0}));
  CHECK(gradient([](const Values& p) { return sum(p[0]) + sum(p[1]) * 2.0f; }) ==
        row({1, 2, 2, 0, 0, 0}));
  CHECK(gradient([](const Values& p) { return sum(p[4]); }) == row({0, 0, 0, 0, 1, 1}));
  CHECK(gradient([](const Values& p) { return sum(p[0]) + sum(p[4]) * 3.0f; }) ==
        row({1, 0, 0, 0, 3, 3}));
  CHECK(gradient([](const Values& p) { return sum(p[2]); }) == Doubles(12, 0));
  CHECK(gradient([](const Values& p) {
          return sum(p[0]) + sum(p[1]) + sum(p[2]) + sum(p[3]) + sum(p[4]);
        }) == Doubles(12, 1));
}

TEST_CASE("stack refuses what does not fit and unstack undoes it") {
  Graph g;
  const Value a = g.constant(counting({2, 3}));
  const Value b = g.constant(Tensor::of<float>({2, 3}, {5, 4, 3, 2, 1, 0}));
  const Values parts = unstack(stack(a, b, 1), 1);
  REQUIRE(parts.size() == 2);
  CHECK(elements(parts[1]) == elements(b));
  CHECK(unstack(a, -1).size() == 3);
  CHECK(elements(unstack(a)[1]) == Doubles{3, 4, 5});
  const Values grads = gradients(sum(stack(a, b) * stack(b, b)), {a});
  CHECK(elements(grads[0]) == elements(b));
  CHECK(contains(error_of([&] { stack(a, g.constant(counting({3, 2}))); }), "f32[2, 3]"));
  CHECK(contains(error_of([&] { stack(a, g.constant(counting({2, 3}, f64))); }), "value 1"));
  CHECK(contains(error_of([&] { stack({}); }), "at least one value"));
  CHECK(contains(error_of([&] { stack(a, b, 3); }), "axis"));
  CHECK(contains(error_of([&] { unstack(g.input("x", f32, {-1, 2})); }), "known dimension"));
  CHECK(contains(error_of([&] { unstack(a, 2); }), "axis"));
}

TEST_CASE("concat refuses what does not fit") {
  Graph g;
  const Value a = g.constant(counting({2, 1}));
  const Value wide = g.constant(counting({3, 2}));
  CHECK(contains(error_of([&] { concat({a, wide}, 1); }), "only the axis of concatenation"));
  CHECK(contains(error_of([&] { concat({a, g.constant(counting({2}))}, 1); }), "rank 2"));
  CHECK(contains(error_of([&] { concat({a, g.constant(counting({2, 1}, f64))}, 1); }), "cast"));
  CHECK(contains(error_of([&] { concat({a, a}, 2); }), "an axis from 0 to 1"));
  CHECK(contains(error_of([&] { concat({}); }), "at least one value"));
}

}  // namespace

TEST_SUITE_END();
