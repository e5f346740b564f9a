// The updates of a layer that was called twice: their copies lost scopes, names and scoped
// attributes such as precision = keep, and where the layer read the state that it moves, what the
// second call had observed was computed again with other values than the loss is made of.
#include <algorithm>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("nn");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

// A layer whose forward pass reads the state m that it moves, called twice in a row on ones.
struct Twice {
  explicit Twice(bool running_mean) {
    const auto call = [&](Value in) {
      const Value out = (in - m) * w;
      const Value observed = mean(in, {0}) + 0.0f * m;
      if (running_mean)
        attach_running_mean(out, m, observed, 0.5);
      else
        g.attach_update(out, m, m * 0.5f + observed * 0.5f);
      return out;
    };
    loss = mean(square(call(call(x))));
  }
  // m after a step that began with m = 2.
  float moved(const Device& on) {
    Session session(g, on);
    session.write(m, Tensor::full(f32, {3}, 2));
    session.run(sgd(0.0).minimize(loss), Values{}, {{x, Tensor::full(f32, {4, 3}, 1)}});
    return static_cast<float>(session.read(m).at(0));
  }
  Graph g;
  Value x = g.input("x", f32, {4, 3});
  Value w = g.state("w", ones({3}));
  Value m = g.state("m", zeros({3}), {.trainable = false});
  Value loss;
};

}  // namespace

TEST_CASE("a layer called twice that reads its running mean observes what the loss is made of") {
  // The first call sees 1, which moves m to 0.5 * 2 + 0.5 * 1; the second sees 1 - 2, which moves
  // it to 0.5 * 1.5 - 0.5 * 1.
  for (const bool running_mean : {true, false}) {
    CAPTURE(running_mean);
    CHECK(Twice(running_mean).moved(device("ref")) == 0.25f);
    CHECK(Twice(running_mean).moved(device("cpu")) == 0.25f);
  }
}

TEST_CASE("a running mean of something that depends on its own state keeps what was observed") {
  Graph g;
  const Value x = g.input("x", f32, {});
  const Value w = g.state("w", ones({}));
  const Value m = g.state("m", zeros({}), {.trainable = false});
  const Value a = x * w, b = x * w * w;
  attach_running_mean(a, m, x - m, 0.5);
  attach_running_mean(b, m, x - 2.0f * m, 0.5);
  Session session(g, device("ref"));
  session.write(m, Tensor::scalar(4.0f));
  session.run(sgd(0.0).minimize(a + b), Values{}, {{x, Tensor::scalar(1.0f)}});
  // 0.5 * 4 + 0.5 * (1 - 4) = 0.5, then 0.5 * 0.5 + 0.5 * (1 - 8).
  CHECK(session.read(m).item<float>() == -3.25f);
}

TEST_CASE("what an attached update observes is printed and parsed and must be of the graph") {
  Twice twice(true);
  const std::string text = print_graph(twice.g);
  CHECK(contains(text, " observing %"));
  const auto parsed = parse_graph(text);
  CHECK(print_graph(*parsed) == text);
  REQUIRE(parsed->attached_updates().size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(parsed->attached_updates()[i].observed.node_id() ==
          twice.g.attached_updates()[i].observed.node_id());
  }
  CHECK(!contains(print_graph(Twice(false).g), "observing"));
  Graph other;
  const Value foreign = other.input("x", f32, {3});
  CHECK(contains(error_of([&] { twice.g.attach_update(twice.x, twice.m, twice.m, foreign); }),
                 "observed"));
  CHECK(twice.g.attached_updates().size() == 2);
}

TEST_CASE("the updates of a layer called twice keep scopes and scoped attributes") {
  const auto product_after = [](int calls) {
    Graph g;
    const Value x = g.input("x", f32, {2, 2});
    const Value w = g.state("w", ones({2, 2}));
    // Halves of bf16's last place, which precision "mixed_bf16" would round away.
    const Value u =
        g.state("u", from_tensor(Tensor::full(f32, {2, 2}, 1.001953125)), {.trainable = false});
    Value loss;
    for (int i = 0; i < calls; ++i) {
      const Value y = x * w;
      const NameScope scope(g, "power");
      const AttributeScope exact(g, "precision", "keep");
      g.attach_update(y, u, matmul(u, u) * 0.5f);
      loss = loss.valid() ? loss + mean(y) : mean(y);
    }
    const Update update = sgd(0.0).minimize(loss);
    for (const Node& node : g.nodes()) {
      if (node.op_name() == "matmul") CHECK(node.label().scope == "power");
    }
    Session session(g, device("ref"), {.precision = "mixed_bf16"});
    session.run(update, Values{}, {{x, Tensor::full(f32, {2, 2}, 1)}});
    return session.read(u).at(0);
  };
  const double u = 1.001953125;
  CHECK(product_after(1) == u * u);
  CHECK(product_after(2) == doctest::Approx(u * u * u * u).epsilon(1e-6));
}

TEST_SUITE_END();
