// Micro-shards cut every input that has a first axis: of one with other rows than the batch each
// part got a piece, and the loss was another one in silence. Parts of one row did not compile, a
// loop over a batch of fixed size was refused in the words of the loop, and rows that the parts do
// not divide in those of a reshape that nobody wrote.
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/data_parallel.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"
#include "keel/ops/sum_of_parts.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains, keel_test::error_of;

// The loss and the gradient of w in so many micro-shards; none: of the batch as it is.
Values sharded(const Value& loss, const Value& w, int64_t shards) {
  if (shards == 0) return {loss, gradients(loss, {w})[0]};
  const DataParallel parallel(nullptr, {.micro_shards = shards});
  const GlobalGradients global = parallel.gradients(loss, {w});
  return {global.loss, global.gradients[0]};
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an input with other rows than the batch is in no micro-shards") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 2}), scale = g.input("scale", f32, {2});
  const Value w = g.state("w", ones({2})), loss = mean(square(x * scale * w));
  const Tensor rows = Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor factors = Tensor::of<float>({2}, {1, 10});
  const auto run = [&](int64_t shards) {
    Session session(g, device("cpu"));
    return session.run(sharded(loss, w, shards), {{x, rows}, {scale, factors}});
  };
  const std::string refused = error_of([&] { run(2); });
  CAPTURE(refused);
  CHECK(contains(refused, "micro-shards: "));
  CHECK(contains(refused, "x f32[4, 2] and scale f32[2]"));
  // One part is the batch: (1 + 9 + 25 + 49 + 100 (4 + 16 + 36 + 64)) / 8.
  CHECK(run(1)[0].at(0) == 1510.5);
}

TEST_CASE("a batch that micro-shards do not divide is named") {
  const auto of_three = [](int64_t declared) {
    Graph g;
    const Value x = g.input("x", f32, {declared, 2}), w = g.state("w", ones({2}));
    Session session(g, device("cpu"));
    session.run(sharded(mean(square(x * w)), w, 2), {{x, Tensor(f32, {3, 2})}});
  };
  const std::string open = error_of([&] { of_three(-1); });
  CAPTURE(open);
  CHECK(contains(open, "micro-shards: x: expected rows that 2 parts divide, got 3"));
  CHECK(contains(open, "test_rows_of_micro_shards.cpp"));
  const std::string fixed = error_of([&] { of_three(3); });
  CAPTURE(fixed);
  CHECK(contains(fixed, "data_parallel: input 'x': expected rows that 2 micro-shards divide"));
  CHECK_FALSE(contains(fixed, "a state or a constant"));
}

TEST_CASE("an input of a size that micro-shards do not divide may be no batch") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3}), scale = g.input("scale", f32, {3});
  const Value w = g.state("w", ones({3}));
  const std::string refused = error_of([&] { sharded(mean(square(x * scale * w)), w, 2); });
  CAPTURE(refused);
  CHECK(
      contains(refused, "data_parallel: input 'scale': expected rows that 2 micro-shards divide"));
  CHECK(contains(refused, "make what is the same for all rows a state or a constant"));
}

TEST_CASE("a part of other rows is told from rows that parts do not divide") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 2}), part = slice(x, {0}, {1});
  const Value total = sum_of_parts({sum(part)}, {{x, part}}, {.parts = 2})[0];
  const auto run = [&](int64_t rows) {
    Session session(g, device("cpu"));
    return session.run(total, {{x, Tensor::full(f32, {rows, 2}, 1)}});
  };
  const std::string refused = error_of([&] { run(4); });
  CAPTURE(refused);
  CHECK(contains(refused, "part: expected one of 2 parts of f32[4, 2], got f32[1, 2]"));
  CHECK(contains(error_of([&] { run(3); }), "micro-shards: x: expected rows that 2 parts divide"));
  CHECK(run(2).at(0) == 4);
}

TEST_CASE("a micro-shard may be one row") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3}), y = g.input("y", i64, {-1});
  const Value w = g.state("w", normal({3, 3}, 0, 0.5)), weight = g.state("s", constant({}, 0.5));
  const Value loss = mean(softmax_cross_entropy(matmul(x, w), y) * weight) * 2.0f;
  Tensor rows(f32, {8, 3}), labels(i64, {8});
  for (int64_t i = 0; i < 24; ++i)
    rows.data<float>()[static_cast<size_t>(i)] = 0.1f * static_cast<float>(i % 7);
  for (int64_t i = 0; i < 8; ++i) labels.data<int64_t>()[static_cast<size_t>(i)] = i % 3;
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    const auto run = [&](int64_t shards) {
      Session session(g, device(backend));
      return session.run(sharded(loss, w, shards), {{x, rows}, {y, labels}});
    };
    const std::vector<Tensor> whole = run(0);
    for (const int64_t shards : {2, 8}) {
      CAPTURE(shards);
      const std::vector<Tensor> parts = run(shards);
      CHECK(parts[0].at(0) == doctest::Approx(whole[0].at(0)).epsilon(1e-6));
      for (int64_t i = 0; i < 9; ++i)
        CHECK(parts[1].at(i) == doctest::Approx(whole[1].at(i)).epsilon(1e-6));
    }
  }
}

TEST_CASE("a micro-shard of one row is sliced with any stride") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3}), w = g.state("w", normal({3}, 0, 1));
  Tensor rows(f32, {4, 3});
  for (int64_t i = 0; i < 12; ++i)
    rows.data<float>()[static_cast<size_t>(i)] = 0.25f * static_cast<float>(i);
  const auto run = [&](const Value& loss, int64_t shards) {
    Session session(g, device("cpu"));
    return session.run(sharded(loss, w, shards), {{x, rows}});
  };
  // A mean over rows does not depend on their order.
  const std::vector<Tensor> plain = run(mean(square(x * w)), 0);
  const std::vector<Tensor> turned = run(mean(square(reverse(x, {0}) * w)), 4);
  CHECK(turned[0].at(0) == doctest::Approx(plain[0].at(0)).epsilon(1e-6));
  for (int64_t i = 0; i < 3; ++i)
    CHECK(turned[1].at(i) == doctest::Approx(plain[1].at(i)).epsilon(1e-6));
}

TEST_CASE("what is built for a batch of fixed size says so where it is cut") {
  Graph g;
  const auto in_two = [&](const std::string& name, int64_t batch) {
    const Value x = g.input(name, f32, {batch, 2}), w = g.state("w of " + name, ones({2}));
    const auto turn = [&](const Values& v) { return Values{tanh(v[0] * w)}; };
    const auto on = [](const Values& v) {
      return v[0].graph().constant(Tensor::full(boolean, {}, 1));
    };
    return sharded(mean(while_loop({x}, on, turn, {.trip_count = 2})[0]), w, 2);
  };
  CHECK(in_two("open", -1).size() == 2);
  const std::string refused = error_of([&] { in_two("fixed", 8); });
  CAPTURE(refused);
  CHECK(contains(refused, "data_parallel: input 'fixed'"));
  CHECK(contains(refused, "f32[8, 2]"));
  CHECK(contains(refused, "-1"));
}

TEST_SUITE_END();

}  // namespace keel
