// The calls of an inlined graph shared the marks of its RecomputeScopes, so that all of them were
// one block, of which nothing was forgotten; and constants that a user had folded into a key were
// replaced by the numbers of random ops.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/base/random.h"
#include "keel/core/device/program.h"
#include "keel/graph/autodiff/recompute.h"
#include "keel/graph/graph.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

TEST_SUITE_BEGIN("graph");

namespace {

using namespace keel;

constexpr int kBlocks = 6;

Value weight_of(Graph& g) { return g.state("w", {.type = {f32, {32, 32}}, .a = 0.01}); }

Value block(Value x, const Value& w, bool again) {
  std::optional<RecomputeScope> scope;
  if (again) scope.emplace(x.graph());
  for (int i = 0; i < 4; ++i) x = tanh(matmul(x, w));
  return x;
}

// Returns what a training step through blocks takes, `built` with scopes or not, or inlined with
// them.
ProgramInfo trained(bool again, bool inlined) {
  Graph source, g;
  const Value x = source.input("x", f32, {256, 32});
  const Value y = block(x, weight_of(source), true);
  const Value w = weight_of(g);
  Value h = g.state("begin", {.type = {f32, {256, 32}}, .a = 0.5});
  for (int i = 0; i < kBlocks; ++i)
    h = inlined ? inline_graph(g, source, {y}, {{x, h}})[0] : block(h, w, again);
  const Value loss = mean(square(h));
  const Update update = sgd(0.1).apply({w}, gradients(loss, {w}));
  Session session(g, device("cpu"));
  return session.sink({.update = update, .fetches = {loss}}).program().info();
}

std::string mark_of(const Value& v) {
  const std::string* mark = scoped_attribute(v.node(), kRecomputeAttribute);
  return mark == nullptr ? "" : *mark;
}

uint64_t bits_of(const Tensor& t) { return static_cast<uint64_t>(t.item<int64_t>()); }

}  // namespace

TEST_CASE("each call of an inlined graph is a block that is computed again by itself") {
  const ProgramInfo kept = trained(false, false), blocks = trained(true, false);
  const ProgramInfo inlined = trained(true, true);
  CHECK(inlined.task_count == blocks.task_count);
  CHECK(inlined.scratch_bytes == blocks.scratch_bytes);
  CHECK(inlined.scratch_bytes < kept.scratch_bytes * 2 / 3);
}

TEST_CASE("marks of inlined blocks meet neither each other nor those of the graph around") {
  Graph source, g;
  const auto scoped = [](Value x) {
    const RecomputeScope scope(x.graph());
    return exp(x);
  };
  const Value x = source.input("x", f32, {4});
  const Value first = scoped(x), second = scoped(first);
  // The same number of nodes stands before each of the scopes here, so they have the same marks.
  const Value own_first = scoped(g.input("x", f32, {4})), own_second = scoped(own_first);
  REQUIRE(mark_of(own_first) == mark_of(first));
  REQUIRE(mark_of(own_second) == mark_of(second));

  std::vector<std::string> marks{mark_of(own_first), mark_of(own_second)};
  for (int call = 0; call < 2; ++call) {
    for (const Value& v : inline_graph(g, source, {first, second}, {{x, own_second}}))
      marks.push_back(mark_of(v));
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    CAPTURE(marks[i]);
    CHECK(!marks[i].empty());
    CHECK(std::count(marks.begin(), marks.end(), marks[i]) == 1);
  }
}

TEST_CASE("what a user folds into a key stays as it is where a graph is inlined") {
  Graph source;
  const Value key = source.input("key", i64, {});
  const auto seven = [](Graph& g) { return g.constant(Tensor::scalar<int64_t>(7)); };
  const auto always = [](const Values& v) {
    return v[0].graph().constant(Tensor::full(boolean, {}, 1));
  };
  const Value folded = fold_key(key, seven(source)), again = fold_key(key, seven(source));
  const Value in_turns = while_loop(
      {key}, always, [&](const Values& v) { return Values{fold_key(v[0], seven(v[0].graph()))}; },
      {.trip_count = 2})[0];
  // Keys of the graph's own, from which two that are equal are folded.
  const Value drawn = random_key(source);
  const Value left = fold_key(drawn, seven(source)), right = fold_key(drawn, seven(source));

  Graph g;
  const Value given = g.input("given", i64, {});
  const Values outputs{folded, again, in_turns, left, right};
  const Values one = inline_graph(g, source, outputs, {{key, given}});
  const Values other = inline_graph(g, source, outputs, {{key, given}});
  Session session(g, device("cpu"));
  for (const Values& call : {one, other}) {
    const auto keys = session.run(call, {{given, Tensor::scalar<int64_t>(5)}});
    CHECK(bits_of(keys[0]) == fold_key(uint64_t{5}, uint64_t{7}));
    CHECK(bits_of(keys[1]) == fold_key(uint64_t{5}, uint64_t{7}));
    CHECK(bits_of(keys[2]) == fold_key(fold_key(uint64_t{5}, uint64_t{7}), uint64_t{7}));
    CHECK(bits_of(keys[3]) == bits_of(keys[4]));
  }
  const auto keys = session.run({one[3], other[3]}, {{given, Tensor::scalar<int64_t>(5)}});
  CHECK(bits_of(keys[0]) != bits_of(keys[1]));
}

TEST_CASE("random ops in branches within loops of an inlined graph draw numbers of their own") {
  Graph source;
  const Value start = source.constant(Tensor::full(f32, {4}, 0));
  const auto always = [](const Values& v) {
    return v[0].graph().constant(Tensor::full(boolean, {}, 1));
  };
  const auto with_noise = [](const Values& v) { return Values{v[0] + uniform(v[0].graph(), {4})}; };
  const Value noise = while_loop({start}, always,
                                 [&](const Values& v) {
                                   return cond(less(sum(v[0]), 1e9f), {v[0]}, with_noise,
                                               [](const Values& u) { return Values{neg(u[0])}; });
                                 },
                                 {.trip_count = 3})[0];
  Graph g;
  const Value one = inline_graph(g, source, {noise}, {})[0];
  const Value other = inline_graph(g, source, {noise}, {})[0];
  Session session(g, device("cpu"));
  const auto drawn = session.run({one, other}, {});
  for (int64_t i = 0; i < 4; ++i) CHECK(drawn[0].at(i) != drawn[1].at(i));
}

TEST_SUITE_END();
