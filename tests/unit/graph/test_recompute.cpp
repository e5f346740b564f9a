// Blocks that are computed again for their gradients: the same bits as without, in less memory.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"

#include "support/error_of.h"
#include "support/fusing.h"
#include "support/fusion.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;

constexpr int64_t kRows = 64, kWidth = 32;
constexpr int kBlocks = 6;

using Block = std::function<Value(Value x, const std::string& name)>;

// Several layers, each of which keeps what is as large as what enters the block.
Value dense_block(Value x, const std::string& name) {
  for (const char* layer : {"/a", "/b", "/c", "/d"})
    x = tanh(dense(x, kWidth, {.name = name + layer})) + sin(x);
  return x;
}

struct BlocksOutcome {
  double loss = 0;
  std::string states;
  size_t scratch_bytes = 0;
  int64_t tasks = 0;
};

// Three steps of a chain of blocks, each in a scope of its own or in none.
BlocksOutcome train_blocks(const std::string& backend, const Block& block, bool recompute,
                           bool fuse = true,
                           const Optimizer& optimizer = sgd(0.1, {.momentum = 0.9})) {
  Graph g;
  const Value x = g.input("x", f32, {kRows, kWidth});
  Value y = x;
  for (int i = 0; i < kBlocks; ++i) {
    const std::string name = "block" + std::to_string(i);
    if (recompute) {
      const RecomputeScope scope(g);
      y = block(y, name);
    } else {
      y = block(y, name);
    }
  }
  const Value loss = mean(square(y));
  const Update update = optimizer.minimize(loss);
  Session session(g, device(backend), {.seed = 3, .disabled_passes = keel_test::fusion(fuse)});
  Tensor rows(f32, {kRows, kWidth});
  for (int64_t i = 0; i < rows.num_elements(); ++i)
    rows.set(i, static_cast<double>(i * 37 % 101) / 101 - 0.5);
  BlocksOutcome outcome;
  for (int step = 0; step < 3; ++step)
    outcome.loss = session.run(update, {loss}, {{x, rows}})[0].at(0);
  outcome.states = session.state_sha256();
  const auto loop =
      session.sink({.update = update,
                    .fetches = {loss},
                    .source = feed(Dataset::from_tensors({{"x", rows}}).batch(kRows).repeat(),
                                   session.spec({x}))});
  outcome.scratch_bytes = loop.program().info().scratch_bytes;
  outcome.tasks = loop.program().info().task_count;
  return outcome;
}

TEST_CASE("recomputed blocks give the same bits in less memory") {
  for (const std::string& name : backend_names()) {
    for (const bool fuse : {true, false}) {
      CAPTURE(name);
      CAPTURE(fuse);
      const BlocksOutcome kept = train_blocks(name, dense_block, false, fuse);
      const BlocksOutcome again = train_blocks(name, dense_block, true, fuse);
      CHECK(again.loss == kept.loss);
      CHECK(again.states == kept.states);
      CHECK(again.scratch_bytes * 4 < kept.scratch_bytes * 3);
      CHECK(again.tasks > kept.tasks);
    }
  }
}

// Whose updates wait for scalars that come behind all gradients.
TEST_CASE("recomputed blocks take less memory with schedules and bias corrections") {
  const Optimizer optimizer = adam(cosine_decay(0.01, 100));
  const BlocksOutcome kept = train_blocks("cpu", dense_block, false, true, optimizer);
  const BlocksOutcome again = train_blocks("cpu", dense_block, true, true, optimizer);
  CHECK(again.states == kept.states);
  CHECK(again.scratch_bytes * 4 < kept.scratch_bytes * 3);
}

TEST_CASE("recomputed blocks drop the same elements and keep running statistics") {
  const Block block = [](Value x, const std::string& name) {
    const Scope scope(x.graph(), name);
    const BatchNorm norm(scope / "norm", kWidth);
    x = norm(dense_block(x, name), Mode::kTraining);
    return dropout(relu(x), 0.4) + x;
  };
  const BlocksOutcome kept = train_blocks("cpu", block, false);
  const BlocksOutcome again = train_blocks("cpu", block, true);
  CHECK(again.loss == kept.loss);
  CHECK(again.states == kept.states);
  CHECK(again.scratch_bytes < kept.scratch_bytes);
}

TEST_CASE("recomputed loops keep their turns only while their gradients are computed") {
  const Block block = [](Value x, const std::string& name) {
    const Value w = x.graph().state(name + "/w", xavier_uniform({kWidth, kWidth}));
    const auto always = [](const Values& v) {
      return v[0].graph().constant(Tensor::full(boolean, {}, 1));
    };
    const auto turn = [&](const Values& v) { return Values{tanh(matmul(v[0], w)) + v[0] * 0.5f}; };
    return while_loop({x}, always, turn, {.trip_count = 8})[0];
  };
  for (const char* name : {"ref", "cpu"}) {
    CAPTURE(name);
    const BlocksOutcome kept = train_blocks(name, block, false);
    const BlocksOutcome again = train_blocks(name, block, true);
    CHECK(again.loss == kept.loss);
    CHECK(again.states == kept.states);
    CHECK(again.scratch_bytes < kept.scratch_bytes);
  }
}

TEST_CASE("scopes inside scopes keep the bits and gradients of gradients all but rounding") {
  std::string expected;
  double expected_norm = 0;
  for (const int nested : {0, 1, 2}) {
    Graph g;
    const Value w = g.state("w", xavier_uniform({8, 8}));
    const Value x = g.constant(Tensor::full(f32, {4, 8}, 0.5));
    const auto inner = [&](Value v) { return sin(matmul(tanh(matmul(v, w)), w)); };
    Value y;
    if (nested == 0) {
      y = tanh(inner(inner(x)) + x);
    } else {
      const RecomputeScope outer(g);
      y = inner(x);
      if (nested == 2) {
        const RecomputeScope scope(g);
        y = inner(y);
      } else {
        y = inner(y);
      }
      y = tanh(y + x);
    }
    const Update update = sgd(0.1).minimize(sum(square(y)));
    const Value slope = gradients(sum(square(y)), {w})[0];
    const Value second = sum(gradients(sum(square(slope)), {w})[0]);
    Session session(g, device("cpu"), {.seed = 1});
    const double norm = session.run({second})[0].at(0);
    for (int i = 0; i < 3; ++i) session.run(update, {});
    if (nested == 0) {
      expected = session.state_sha256();
      expected_norm = norm;
    }
    CHECK(session.state_sha256() == expected);
    CHECK(norm == doctest::Approx(expected_norm).epsilon(1e-5));
  }
}

TEST_CASE("a scope that begins where another one does is a block of its own") {
  Graph g;
  const Value w = g.state("w", ones({4}));
  const RecomputeScope outer(g);
  Value first, second;
  {
    const RecomputeScope inner(g);
    const RecomputeScope innermost(g);
    first = exp(w);
  }
  {
    const RecomputeScope inner(g);
    second = exp(first);
  }
  const Value third = exp(second);
  const auto mark = [](const Value& v) { return *scoped_attribute(v.node(), kRecomputeAttribute); };
  CHECK(mark(first) != mark(second));
  CHECK(mark(second) != mark(third));
  CHECK(mark(first) != mark(third));
}

TEST_CASE("scopes in a body are blocks of their own though they name the graph around it") {
  const auto mark = [](const Value& v) { return *scoped_attribute(v.node(), kRecomputeAttribute); };
  std::vector<std::string> marks;
  Graph g;
  const Value w = g.input("w", f32, {4});
  const Value go = g.input("go", boolean, {});
  const auto two_blocks = [&](const Values& v) {
    Value y = v[0];
    for (int block = 0; block < 2; ++block) {
      const RecomputeScope scope(g);
      y = tanh(y * w);
      marks.push_back(mark(y));
    }
    return Values{y};
  };
  const Value x = g.input("x", f32, {4});
  while_loop({x}, {}, two_blocks, {.trip_count = 2});
  cond(go, {x}, two_blocks, [](const Values& v) { return v; });
  REQUIRE(marks.size() == 4);
  CHECK(marks[0] != marks[1]);
  CHECK(marks[2] != marks[3]);
}

TEST_CASE("equal blocks share their fused bodies though each is computed again by itself") {
  Graph g;
  const Value w = g.input("w", f32, {8, 8});
  Value y = g.input("x", f32, {8, 8});
  for (int block = 0; block < 4; ++block) {
    const RecomputeScope scope(g);
    y = tanh(matmul(y, w) + y);
  }
  g.set_outputs({y});
  const auto fused = fuse(g, keel_test::everything);
  std::vector<const Graph*> bodies;
  std::vector<std::string> marks;
  for (const Node& node : fused->nodes()) {
    if (!is_fused_node(node)) continue;
    bodies.push_back(node.bodies()[0].get());
    REQUIRE(scoped_attribute(node, kRecomputeAttribute) != nullptr);
    marks.push_back(*scoped_attribute(node, kRecomputeAttribute));
  }
  REQUIRE(bodies.size() == 4);
  // The first one reads an input, made at another line.
  CHECK(std::count(bodies.begin(), bodies.end(), bodies[1]) == 3);
  CHECK(std::count(marks.begin(), marks.end(), marks[0]) == 1);
}

TEST_CASE("a scope without a gradient changes nothing but labels that text keeps") {
  std::vector<int64_t> tasks;
  for (const bool scoped : {false, true}) {
    Graph g;
    const Value w = g.state("w", ones({4}));
    Value y;
    if (scoped) {
      const RecomputeScope scope(g);
      y = exp(w) * 2.0f;
    } else {
      y = exp(w) * 2.0f;
    }
    Session session(g, device("cpu"));
    const auto loop = session.sink({.update = {{{w, w + y}}}, .fetches = {sum(y)}});
    tasks.push_back(loop.program().info().task_count);
    const std::string text = print_graph(g);
    CHECK((scoped_attribute(y.node(), kRecomputeAttribute) != nullptr) == scoped);
    CHECK(print_graph(*parse_graph(text)) == text);
  }
  CHECK(tasks[0] == tasks[1]);
}

}  // namespace

TEST_SUITE_END();
