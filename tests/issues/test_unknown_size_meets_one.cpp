// Where a size was declared as -1, einsum and the losses took a 1 for any size at run time and
// broadcast it in silence, though they refuse the same shapes when both are known.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/ir/rewriter.h"
#include "keel/graph/passes/passes.h"
#include "keel/keel.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

Tensor tenths(const Shape& shape) {
  Tensor t(f32, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, 0.1 * static_cast<double>(i + 1));
  return t;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("einsum takes no 1 for a size that another operand declares as unknown") {
  for (const char* backend : {"ref", "cpu"}) {
    CAPTURE(backend);
    Graph g;
    const Value a = g.input("a", f32, {-1, 3}), b = g.input("b", f32, {-1, 3});
    const Value rows = einsum("bi,bi->b", {a, b}), all = einsum("bi,bj->ij", {a, b});
    Session session(g, device(backend));
    CHECK(session.run({rows}, {{a, tenths({4, 3})}, {b, tenths({4, 3})}})[0].shape() == Shape{4});
    CHECK(session.run({all}, {{a, tenths({4, 3})}, {b, tenths({4, 3})}})[0].shape() == Shape{3, 3});
    for (const Value& fetch : {rows, all}) {
      const std::string error = error_of([&] {
        session.run({fetch}, {{a, tenths({4, 3})}, {b, tenths({1, 3})}});
      });
      CHECK_MESSAGE(contains(error, "einsum: operand 1: expected size 4 along axis 0"), error);
      CHECK_MESSAGE(contains(error, "test_unknown_size_meets_one.cpp"), error);
    }
  }
}

TEST_CASE("losses take no 1 for a size that is declared as unknown") {
  using Build = Value (*)(Value, Value);
  const std::vector<std::pair<std::string, Build>> losses = {
      {"mean_squared_error", [](Value x, Value y) { return mean_squared_error(x, y); }},
      {"mean_absolute_error", [](Value x, Value y) { return mean_absolute_error(x, y); }},
      {"huber", [](Value x, Value y) { return huber_loss(x, y); }},
      {"sigmoid_cross_entropy", [](Value x, Value y) { return binary_cross_entropy(x, y); }},
      {"hinge", [](Value x, Value y) { return hinge_loss(x, y); }},
      {"kl_divergence", [](Value x, Value y) { return kl_divergence_loss(x, y); }}};
  for (const auto& loss : losses) {
    const std::string& name = loss.first;
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", f32, {-1, 3}), y = g.input("y", f32, {-1, 3});
    const Value value = loss.second(x, y), slope = gradients(value, {x})[0];
    Session session(g, device("cpu"));
    CHECK(session.run({slope}, {{x, tenths({4, 3})}, {y, tenths({4, 3})}})[0].shape() ==
          Shape{4, 3});
    const std::string error = error_of([&] {
      session.run({value}, {{x, tenths({4, 3})}, {y, tenths({1, 3})}});
    });
    CHECK_MESSAGE(contains(error, name + ": "), error);
    CHECK_MESSAGE(contains(error, "expected size 4 along axis 0"), error);
  }
}

TEST_CASE("class ids of one row do not stand for all rows of an unknown batch") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3}), ids = g.input("ids", i64, {-1});
  const Value loss = nll_loss(x, ids), hits = accuracy(x, ids);
  Session session(g, device("cpu"));
  const Tensor four = Tensor::of<int64_t>({4}, {0, 1, 2, 0}), one = Tensor::of<int64_t>({1}, {0});
  CHECK(session.run({loss, hits}, {{x, tenths({4, 3})}, {ids, four}}).size() == 2);
  for (const Value& fetch : {loss, hits}) {
    const std::string error = error_of([&] {
      session.run({fetch}, {{x, tenths({4, 3})}, {ids, one}});
    });
    CHECK_MESSAGE(contains(error, "ids: expected size 4 along axis 0"), error);
  }
}

TEST_CASE("the check of unknown sizes leaves no node behind") {
  const auto nodes = [](int64_t batch) {
    Graph g;
    const Value x = g.input("x", f32, {batch, 3}), y = g.input("y", f32, {batch, 3});
    SpecialiseRequest request;
    request.graph = &g;
    request.fetches = {mean_squared_error(relu(x), y)};
    request.input_types = {{"x", {f32, {4, 3}}}, {"y", {f32, {4, 3}}}};
    const auto folded = fold(*specialise(request));
    const std::vector<bool> live = live_nodes(*folded);
    return std::count(live.begin(), live.end(), true);
  };
  CHECK(nodes(-1) == nodes(4));
}

}  // namespace keel
