// Indexing: expected values from xtensor's views, and from lists of positions for random indices.
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <xtensor/xarray.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xview.hpp>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel::_;
using keel::range;

xt::xarray<double> counting_array(const std::vector<size_t>& shape) {
  xt::xarray<double> x = xt::zeros<double>(shape);
  for (size_t i = 0; i < x.size(); ++i) x.flat(i) = static_cast<double>(i);
  return x;
}

template <class View>
void check_view(Value got, const View& expected) {
  const Tensor tensor = evaluate(got);
  Shape shape;
  for (const auto dim : expected.shape()) shape.push_back(static_cast<int64_t>(dim));
  CHECK(tensor.shape() == shape);
  CHECK(elements(tensor) == Doubles(expected.begin(), expected.end()));
}

TEST_CASE("indexing gives what xtensor's views give") {
  Graph g;
  const Value x = g.constant(counting({3, 4, 5}, f64));
  const auto a = counting_array({3, 4, 5});
  using xt::placeholders::_r;
  check_view(x[1], xt::view(a, 1));
  check_view(x[-1], xt::view(a, 2));
  check_view(x[{1, 2}], xt::view(a, 1, 2));
  check_view(x[{1, -2, 3}], xt::view(a, 1, 2, 3));
  check_view(x[range(1, 3)], xt::view(a, xt::range(1, 3)));
  check_view(x[{_, range(1, 4), -1}], xt::view(a, xt::all(), xt::range(1, 4), 4));
  check_view(x[{ellipsis, 2}], xt::strided_view(a, {xt::ellipsis(), 2}));
  check_view(x[{0, ellipsis, range(1, {})}],
             xt::strided_view(a, {0, xt::ellipsis(), xt::range(1, 5)}));
  check_view(x[{new_axis, range({}, 2), ellipsis, new_axis}],
             xt::strided_view(a, {xt::newaxis(), xt::range(0, 2), xt::ellipsis(), xt::newaxis()}));
  check_view(x[{_, range({}, {}, 2), range(1, {}, 3)}],
             xt::view(a, xt::all(), xt::range(0, 4, 2), xt::range(1, 5, 3)));
  check_view(x[range({}, {}, -1)], xt::view(a, xt::range(_r, _r, -1)));
  check_view(x[{_, _, range(3, 0, -2)}], xt::view(a, xt::all(), xt::all(), xt::range(3, 0, -2)));
  check_view(x[{1, new_axis, 2, new_axis}],
             xt::strided_view(a, {1, xt::newaxis(), 2, xt::newaxis()}));
  check_view(x[Indices(std::vector<Index>{2, _, 1})], xt::view(a, 2, xt::all(), 1));
}

TEST_CASE("indexing that takes everything adds no node") {
  Graph g;
  const Value x = g.constant(counting({3, 1}));
  const size_t nodes = g.size();
  CHECK(x[{_, range(0, {}), ellipsis}] == x[{}]);
  CHECK(x[_] == x);
  CHECK(x[ellipsis] == x);
  CHECK(g.size() == nodes);
}

// Python's positions of begin:end:step on an axis, element by element.
std::vector<int64_t> positions(const Range& r, int64_t dim) {
  std::vector<int64_t> result;
  const auto bound = [dim](int64_t i) { return i < 0 ? i + dim : i; };
  if (r.step > 0) {
    const int64_t end = r.end ? bound(*r.end) : dim;
    for (int64_t i = r.begin ? std::max<int64_t>(0, bound(*r.begin)) : 0; i < end && i < dim;
         i += r.step) {
      result.push_back(i);
    }
  } else {
    const int64_t end = r.end ? std::max<int64_t>(-1, bound(*r.end)) : -1;
    for (int64_t i = r.begin ? std::min(dim - 1, bound(*r.begin)) : dim - 1; i > end && i >= 0;
         i += r.step) {
      result.push_back(i);
    }
  }
  return result;
}

// x[...] and its gradient, one position after the other.
struct Expected {
  Shape shape;
  Doubles values, gradient;
};
Expected expected_part(const Shape& shape, const std::vector<std::vector<int64_t>>& taken,
                       const Shape& result) {
  Expected e{result, {}, Doubles(static_cast<size_t>(shape.num_elements()), 0.0)};
  std::vector<size_t> at(taken.size(), 0);
  for (const auto& axis : taken) {
    if (axis.empty()) return e;
  }
  for (;;) {
    int64_t flat = 0;
    for (size_t i = 0; i < taken.size(); ++i) flat = flat * shape[i] + taken[i][at[i]];
    e.values.push_back(static_cast<double>(flat));
    e.gradient[static_cast<size_t>(flat)] += static_cast<double>(e.values.size());
    size_t axis = taken.size();
    while (axis-- > 0) {
      if (++at[axis] < taken[axis].size()) break;
      at[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return e;
  }
}

TEST_CASE("random indices on known and unknown shapes and their gradients") {
  std::mt19937 random(5);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    Shape shape, result;
    std::vector<Index> indices;
    std::vector<std::vector<int64_t>> taken;
    const int64_t rank = draw(1, 4);
    bool value_used = false;
    Graph g;
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t dim = draw(1, 5);
      shape.push_back(dim);
      const int64_t kind = draw(0, 5);
      if (kind == 0 && result.rank() < 6) {
        indices.emplace_back(new_axis);
        result.push_back(1);
      }
      if (kind == 1) {
        const int64_t at = draw(0, dim - 1);
        indices.emplace_back(draw(0, 1) == 0 ? at : at - dim);
        taken.push_back({at});
      } else if (kind == 2 && !value_used) {
        value_used = true;
        std::vector<int64_t> ids;
        for (int64_t n = draw(0, 4); n > 0; --n) ids.push_back(draw(0, dim - 1));
        Tensor t(i64, {static_cast<int64_t>(ids.size())});
        for (size_t n = 0; n < ids.size(); ++n)
          t.set(static_cast<int64_t>(n), static_cast<double>(ids[n]));
        indices.emplace_back(g.constant(t));
        result.push_back(static_cast<int64_t>(ids.size()));
        taken.push_back(ids);
      } else if (kind <= 4) {
        Range r{draw(-6, 6), draw(-6, 6), draw(1, 3) * (draw(0, 1) == 0 ? 1 : -1)};
        if (draw(0, 2) == 0) r.begin.reset();
        if (draw(0, 2) == 0) r.end.reset();
        indices.emplace_back(r);
        taken.push_back(positions(r, dim));
        result.push_back(static_cast<int64_t>(taken.back().size()));
      } else {
        indices.emplace_back(_);
        taken.push_back(positions({}, dim));
        result.push_back(dim);
      }
    }
    const Expected expected = expected_part(shape, taken, result);
    const bool unknown = round % 2 == 1;
    Shape declared = shape;
    for (size_t i = 0; unknown && i < declared.rank(); ++i) declared = declared.with_dim(i, -1);
    const Value x = g.input("x", f32, declared);
    const Value y = x[indices];
    const Value weights = g.input("weights", f32, y.shape());
    Tensor numbers(f32, result);
    for (int64_t i = 0; i < numbers.num_elements(); ++i) numbers.set(i, static_cast<double>(i + 1));
    const Value dx = gradients(sum(y * weights), {x})[0];
    Session session(g, device("ref"));
    CAPTURE(g);
    const auto out = session.run({y, dx}, {{x, counting(shape)}, {weights, numbers}});
    CHECK(out[0].shape() == expected.shape);
    CHECK(elements(out[0]) == expected.values);
    CHECK(elements(out[1]) == expected.gradient);
  }
}

TEST_CASE("several Values index together and broadcast") {
  Graph g;
  const Value x = g.constant(counting({3, 4, 5}));
  const Value rows = g.constant(Tensor::of<int64_t>({3}, {2, 0, 1}));
  const Value columns = g.constant(Tensor::of<int32_t>({3}, {1, 3, 0}));
  // x[r, c, :] for the pairs (2, 1), (0, 3), (1, 0).
  CHECK(elements(x[{rows, columns}][{_, 2}]) == Doubles{2 * 20 + 5 + 2, 15 + 2, 20 + 2});
  CHECK(x[{rows, columns}].shape() == Shape{3, 5});
  // Apart from each other: their axis comes where the first was.
  const Value apart = x[{rows, range(1, 3), columns}];
  CHECK(apart.shape() == Shape{3, 2});
  CHECK(elements(apart) == Doubles{46, 51, 8, 13, 25, 30});
  const Value column = rows[{_, new_axis}];
  CHECK(elements(x[{column, columns, 0}]) == Doubles{45, 55, 40, 5, 15, 0, 25, 35, 20});
  // Every row's own element of a batch that is not known until the run, and its gradient.
  const Value logits = g.input("logits", f32, {-1, 3});
  const Value which = g.input("which", i64, {-1});
  const Value numbers = g.constant(Tensor::of<int64_t>({2}, {0, 1}));
  const Value picked = logits[{numbers, which}];
  const Feeds feeds{{logits, counting({2, 3})}, {which, Tensor::of<int64_t>({2}, {2, 0})}};
  CHECK(elements(picked, feeds) == Doubles{2, 3});
  CHECK(elements(gradients(sum(square(picked)), {logits})[0], feeds) == Doubles{0, 0, 4, 6, 0, 0});
  // An index beyond its own axis must not reach into the next row.
  const Feeds beyond{{logits, counting({2, 3})}, {which, Tensor::of<int64_t>({2}, {3, 0})}};
  CHECK(contains(error_of([&] { evaluate(picked, beyond); }), "got index 3"));
}

TEST_CASE("an index that is computed while the graph runs") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 2});
  const Value t = g.input("t", i32, {});
  CHECK(x[t].shape() == Shape{2});
  const Feeds feeds{{x, counting({3, 2})}, {t, Tensor::scalar<int32_t>(2)}};
  CHECK(elements(x[t], feeds) == Doubles{4, 5});
  CHECK(elements(x[{t, 1}], feeds) == Doubles{5});
  // In a loop: the running sum of the rows.
  const Values out = while_loop(
      {g.constant(Tensor::scalar<int64_t>(0)), g.constant(Tensor(f32, {2}))},
      [](const Values& v) { return less(v[0], 3); },
      [&](const Values& v) {
        return Values{v[0] + 1, v[1] + x[v[0]]};
      });
  CHECK(elements(out[1], {{x, counting({3, 2})}}) == Doubles{6, 9});
}

TEST_CASE("indexing errors name axis and size and the index and the line") {
  Graph g;
  const Value x = g.constant(counting({3, 4}));
  const int line = __LINE__ + 1;
  const std::string text = error_of([&] { x[{_, 4}]; });
  CHECK(contains(text, "axis 1 of [3, 4]"));
  CHECK(contains(text, "an index from -4 to 3"));
  CHECK(contains(text, "got 4"));
  CHECK(contains(text, "test_indexing.cpp:" + std::to_string(line)));
  CHECK(contains(error_of([&] { x[-4]; }), "an index from -3 to 2"));
  CHECK(contains(error_of([&] { x[{1, 2, 0}]; }), "at most 2 indices"));
  CHECK(contains(error_of([&] { x[{ellipsis, ellipsis}]; }), "at most one ellipsis"));
  CHECK(contains(error_of([&] { x[range(0, 2, 0)]; }), "a step other than 0"));
  CHECK(contains(error_of([&] { x[greater(x, 2)]; }), "select"));
  CHECK(contains(error_of([&] { x[x]; }), "i64 or i32"));
  CHECK(contains(error_of([&] { x[18446744073709551615ull]; }), "an index from -3 to 2"));
  CHECK(contains(error_of([&] { g.constant(counting({0}))[0]; }), "it is empty"));
  // The axis is not known until the run.
  const Value batch = g.input("batch", f32, {-1, 2});
  const Value fifth = batch[4];
  CHECK(fifth.shape() == Shape{2});
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    Session session(g, device(backend));
    const std::string late = error_of([&] { session.run(fifth, {{batch, counting({3, 2})}}); });
    CHECK(contains(late, "axis 0"));
    CHECK(contains(late, "from 0 to 2"));
    CHECK(contains(late, "4 at position 0"));
    CHECK(contains(late, "test_indexing.cpp"));
    CHECK_FALSE(error_of([&] { session.run(batch[-4], {{batch, counting({3, 2})}}); }).empty());
  }
  CHECK(elements(batch[-2], {{batch, counting({3, 2})}}) == Doubles{2, 3});
}

}  // namespace

TEST_SUITE_END();
