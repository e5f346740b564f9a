// Indexing failed in the words of ops inside where sizes are unknown, named the wrong axis, and
// refused Values along two axes where a reshape could not tell the size of both together.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/passes.h"
#include "keel/keel.h"

#include "unit/ops_for_tests.h"

namespace keel {
namespace {

using testing::contains;
using testing::counting;
using testing::elements;
using testing::error_of;

std::string index_refusal(Graph& g, const Value& value, const Feeds& feeds,
                          const char* backend = "cpu") {
  Session session(g, device(backend));
  return error_of([&] { session.run({value}, feeds); });
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a negative index beyond an unknown size names axis and size and index") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, 2}), y = g.input("y", f32, {2, -1});
    const Value fifth = x[-5], apart = y[{1, -4}];
    const int line = __LINE__ - 1;
    const std::string early = index_refusal(g, fifth, {{x, counting({3, 2})}}, backend);
    INFO(early);
    CHECK(early.starts_with("indexing: index -5, for 5 or more along axis 0: expected size 5"));
    CHECK(contains(early, "got [3, 2]"));
    CHECK(contains(early, "refused_in_other_words.cpp:" + std::to_string(line)));
    const std::string late = index_refusal(g, apart, {{y, counting({2, 3})}}, backend);
    INFO(late);
    CHECK(late.starts_with("indexing: index -4, for 4 or more along axis 1: expected size 4"));
    CHECK(contains(late, "got [2, 3]"));
    CHECK(contains(index_refusal(g, x[-1], {{x, counting({0, 2})}}, backend),
                   "indexing: index -1, for"));
    const Value lowest = x[std::numeric_limits<int64_t>::min()];
    CHECK(contains(index_refusal(g, lowest, {{x, counting({3, 2})}}, backend),
                   "index -9223372036854775808"));
    Session session(g, device(backend));
    CHECK(elements(session.run({fifth}, {{x, counting({5, 2})}})[0]) == std::vector<double>{0, 1});
    CHECK(elements(session.run({fifth}, {{x, counting({7, 2})}})[0]) == std::vector<double>{4, 5});
    CHECK(elements(session.run({apart}, {{y, counting({2, 4})}})[0]) == std::vector<double>{4});
    // The gradient of one element among three rows of two.
    const Value slope = gradients(sum(x[{-2, 1}]), {x})[0];
    CHECK(elements(session.run({slope}, {{x, counting({3, 2})}})[0]) ==
          std::vector<double>{0, 0, 0, 1, 0, 0});
  }
}

TEST_CASE("the check of a negative index leaves no node behind") {
  const auto nodes = [](int64_t rows) {
    Graph g;
    const Value x = g.input("x", f32, {rows, 2});
    SpecialiseRequest request;
    request.graph = &g;
    request.fetches = {x[-2]};
    request.input_types = {{"x", {f32, {4, 2}}}};
    const auto folded = fold(*specialise(request));
    const std::vector<bool> live = live_nodes(*folded);
    return std::count(live.begin(), live.end(), true);
  };
  CHECK(nodes(-1) == nodes(4));
}

TEST_CASE("a Value among several that is out of range names its own axis") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {3, 4, 5});
    const Value i = g.input("i", i64, {2}), j = g.input("j", i64, {2});
    const Tensor good = Tensor::of<int64_t>({2}, {2, 0}), bad = Tensor::of<int64_t>({2}, {0, 9});
    const auto along = [&](const Value& value, const Tensor& first, const Tensor& second) {
      const Feeds feeds{{x, counting({3, 4, 5})}, {i, first}, {j, second}};
      return index_refusal(g, value, feeds, backend);
    };
    CHECK(contains(along(x[{i, j}], good, bad), "indices along axis 1"));
    CHECK(contains(along(x[{i, j}], bad, good), "indices along axis 0"));
    CHECK(contains(along(x[{1, i, j}], good, bad), "indices along axis 2"));
    Session session(g, device(backend));
    const Feeds feeds{{x, counting({3, 4, 5})}, {i, good}, {j, good}};
    CHECK(elements(session.run({x[{1, i, j}]}, feeds)[0]) == std::vector<double>{32, 20});
  }
}

TEST_CASE("a table of offsets takes no axis that there is no room for") {
  Graph g;
  const Value x = g.input("x", f32, {1, 1, 1, 1, 1, 1, 2, 3});
  const Value i = g.constant(Tensor::of<int64_t>({2, 1}, {1, 0}));
  const Value j = g.constant(Tensor::of<int64_t>({1, 2}, {2, 1}));
  Session session(g, device("cpu"));
  const Tensor got = session.run({x[{ellipsis, i, j}]}, {{x, counting(x.shape())}})[0];
  CHECK(got.shape() == Shape{1, 1, 1, 1, 1, 1, 2, 2});
  CHECK(elements(got) == std::vector<double>{5, 4, 2, 1});
}

TEST_CASE("Values along two axes beside another unknown size take their pairs") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, -1, 2});
    const Value i = g.input("i", i64, {-1}), j = g.input("j", i32, {2, 1});
    const Value pairs = x[{_, i, i}], table = x[{_, i, j}];
    CHECK(pairs.shape() == Shape{-1, -1});
    Session session(g, device(backend));
    const Tensor ids = Tensor::of<int64_t>({3}, {1, 0, 1}),
                 rows = Tensor::of<int32_t>({2, 1}, {1, 0});
    const Tensor numbers = counting({2, 3, 2});  // 6 b + 2 i + j
    const Feeds feeds{{x, numbers}, {i, ids}, {j, rows}};
    CHECK(elements(session.run({pairs}, feeds)[0]) == std::vector<double>{3, 0, 3, 9, 6, 9});
    const Tensor got = session.run({table}, feeds)[0];
    CHECK(got.shape() == Shape{2, 2, 3});
    CHECK(elements(got) == std::vector<double>{3, 1, 3, 2, 0, 2, 9, 7, 9, 8, 6, 8});
    const Value slope = gradients(sum(pairs), {x})[0];
    CHECK(elements(session.run({slope}, feeds)[0]) ==
          std::vector<double>{1, 0, 0, 2, 0, 0, 1, 0, 0, 2, 0, 0});
    const Tensor beyond = Tensor::of<int64_t>({3}, {1, 2, 1});
    CHECK(contains(index_refusal(g, pairs, {{x, numbers}, {i, beyond}}, backend), "along axis 2"));
  }
}

TEST_CASE("pairs of axes beside unknown sizes keep bools and the axes around them") {
  Graph g;
  const Value x = g.input("x", f32, {2, -1, -1, 3});
  const Value i = g.constant(Tensor::of<int64_t>({2}, {1, 0}));
  const Value j = g.constant(Tensor::of<int64_t>({2}, {0, 2}));
  const Value numbers = x[{i, _, _, j}], large = greater(x, 11)[{i, _, _, j}];
  CHECK(large.dtype() == boolean);
  Session session(g, device("cpu"));
  // 12 i + 6 a + 3 b + j, for (i, j) = (1, 0) and (0, 2).
  const auto out = session.run({numbers, large}, {{x, counting({2, 2, 2, 3})}});
  CHECK(out[0].shape() == Shape{2, 2, 2});
  CHECK(elements(out[0]) == std::vector<double>{12, 15, 18, 21, 2, 5, 8, 11});
  CHECK(elements(out[1]) == std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("Values along an empty axis beside an unknown size") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, 0, 3}), y = g.input("y", f32, {-1, 3, 0});
    const Value i = g.input("i", i64, {-1});
    const Value first = x[{_, i, i}], second = y[{_, i, i}];
    Session session(g, device(backend));
    const Tensor none(i64, {0}), zero = Tensor::of<int64_t>({1}, {0});
    CHECK(session.run({first}, {{x, Tensor(f32, {2, 0, 3})}, {i, none}})[0].shape() == Shape{2, 0});
    CHECK(session.run({second}, {{y, Tensor(f32, {2, 3, 0})}, {i, none}})[0].shape() ==
          Shape{2, 0});
    for (const std::string& error :
         {index_refusal(g, first, {{x, Tensor(f32, {2, 0, 3})}, {i, zero}}, backend),
          index_refusal(g, second, {{y, Tensor(f32, {2, 3, 0})}, {i, zero}}, backend)}) {
      INFO(error);
      CHECK(contains(error, "expected none, since"));
    }
  }
}

TEST_CASE("gather along an empty axis expects no index on any backend") {
  for (const char* backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    Graph g;
    const Value x = g.input("x", f32, {-1, 2}), i = g.input("i", i64, {1});
    const Feeds feeds{{x, Tensor(f32, {0, 2})}, {i, Tensor::of<int64_t>({1}, {0})}};
    const std::string error = index_refusal(g, gather(x, i), feeds, backend);
    INFO(error);
    CHECK(contains(error, "gather: indices along axis 0: expected none, since"));
    CHECK_FALSE(contains(error, "-1"));
  }
}

TEST_SUITE_END();

}  // namespace keel
