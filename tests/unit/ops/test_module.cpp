// Modules, layers and parameter groups, against graphs written by hand.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"

#include "ops_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using Names = std::vector<std::string>;

Tensor batch() { return Tensor::of<float>({2, 3}, {1, -2, 3, 0.5, 4, -1}); }

// The states after some steps, and the loss of the last.
std::string trained_states(Graph& g, const Update& update, Value loss, const Feeds& feeds,
                           const char* on = "cpu", int steps = 3) {
  Session session(g, device(on), {.seed = 5});
  std::string text;
  for (int i = 0; i < steps; ++i)
    text = std::to_string(session.run(update, loss, feeds).item<float>());
  return session.state_sha256() + " " + text;
}

struct Attention : Module {
  Dense query, key;
  Value scale;
  Attention(const Scope& scope, int64_t width)
      : Module(scope),
        query(scope / "query", width, width),
        key(scope / "key", width, width, {.use_bias = false}),
        scale(scope.buffer("scale", ones({width}))) {}
  Value operator()(Value x) const {
    const LabelScope here = open_scope();
    return query(x) * key(x) * scale;
  }
};

struct Encoder : Module {
  std::vector<Attention> blocks;
  Encoder(const Scope& scope, int64_t width, int64_t depth) : Module(scope) {
    for (int64_t i = 0; i < depth; ++i) blocks.emplace_back(scope / i / "attention", width);
  }
  Value operator()(Value x) const {
    const LabelScope here = open_scope();
    for (const Attention& block : blocks) x = block(x);
    return x;
  }
};

// Subtracts the mean over the batch; in evaluation the running one.
struct Centre : Module {
  Value mean_of_training;
  Centre(const Scope& scope, int64_t width)
      : Module(scope), mean_of_training(scope.buffer("running_mean", zeros({width}))) {}
  Value operator()(Value x, Mode mode, CallSite site = CallSite::here()) const {
    if (mode == Mode::kEvaluation) return x - mean_of_training;
    const Value observed = mean(x, {0}, false, site);
    const Value y = x - observed;
    attach_running_mean(y, mean_of_training, observed, 0.75, site);
    return y;
  }
};

}  // namespace

TEST_CASE("modules nest with paths that saved files of others have") {
  Graph g;
  const Encoder encoder(Scope(g) / "encoder", 4, 2);
  CHECK(names_of(encoder.parameters()) ==
        Names{"encoder.0.attention.query.weight", "encoder.0.attention.query.bias",
              "encoder.0.attention.key.weight", "encoder.1.attention.query.weight",
              "encoder.1.attention.query.bias", "encoder.1.attention.key.weight"});
  CHECK(names_of(encoder.buffers()) ==
        Names{"encoder.0.attention.scale", "encoder.1.attention.scale"});
  CHECK(encoder.blocks[1].query.path() == "encoder.1.attention.query");
  CHECK(names_of(encoder.blocks[1].query.parameters()) ==
        Names{"encoder.1.attention.query.weight", "encoder.1.attention.query.bias"});
  // A copy is the same layer.
  const Encoder copy = encoder;
  CHECK(copy.parameters() == encoder.parameters());
  CHECK(g.states().size() == 8);
  // Its nodes lie in the scopes of its modules.
  encoder(g.input("x", f32, {-1, 4}));
  CHECK(g.find("encoder/0/attention/query/matmul").valid());
  CHECK(g.find("encoder/1/attention/key/matmul").valid());
  CHECK(g.states().size() == 8);
}

TEST_CASE("a layer called twice shares its weights as a graph by hand does") {
  const auto loss_of = [](const Value& y) { return sum(square(y)); };
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Dense layer(Scope(g) / "d", 3, 3);
  const Value loss = loss_of(layer(tanh(layer(x))));
  CHECK(g.states().size() == 2);

  Graph by_hand;
  const Value x2 = by_hand.input("x", f32, {-1, 3});
  const Value w = by_hand.state("d.weight", glorot_uniform({3, 3}));
  const Value b = by_hand.state("d.bias", zeros({3}));
  const Value loss2 = loss_of(matmul(tanh(matmul(x2, w) + b), w) + b);

  for (const char* on : {"ref", "cpu", "npu"}) {
    CAPTURE(on);
    const std::string here = trained_states(g, sgd(0.01).minimize(loss), loss, {{x, batch()}}, on);
    CHECK(here == trained_states(by_hand, sgd(0.01).minimize(loss2), loss2, {{x2, batch()}}, on));
  }
}

TEST_CASE("a model called for training and for evaluation has the states of one by hand") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  Sequential model(Scope(g) / "model");
  model.add<Centre>(3).add<Dense>(3, 4).add(relu).add<Dropout>(0.5).add<Dense>(4, 1);
  CHECK(names_of(model.parameters()) ==
        Names{"model.1.weight", "model.1.bias", "model.4.weight", "model.4.bias"});
  CHECK(names_of(model.buffers()) == Names{"model.0.running_mean"});
  const Value loss = mean(square(model(x, Mode::kTraining)));
  const size_t states = g.states().size();
  const Value test = mean(square(model(x, Mode::kEvaluation)));
  CHECK(g.states().size() == states);

  Graph h;
  const Value x2 = h.input("x", f32, {-1, 3});
  const Value running = h.state("model.0.running_mean", zeros({3}), {.trainable = false});
  const Value w1 = h.state("model.1.weight", glorot_uniform({3, 4}));
  const Value b1 = h.state("model.1.bias", zeros({4}));
  const Value w2 = h.state("model.4.weight", glorot_uniform({4, 1}));
  const Value b2 = h.state("model.4.bias", zeros({1}));
  const auto rest = [&](Value y, bool training) {
    return mean(square(matmul(dropout(relu(matmul(y, w1) + b1), 0.5, training), w2) + b2));
  };
  const Value observed = mean(x2, {0});
  const Value loss2 = rest(x2 - observed, true);
  const Value test2 = rest(x2 - running, false);
  Update update2 = sgd(0.1).minimize(loss2);
  update2 += Update{{{running, running * 0.75f + observed * 0.25f}}};

  const Update update = sgd(0.1).minimize(loss);
  for (const char* on : {"ref", "cpu", "npu"}) {
    CAPTURE(on);
    Session session(g, device(on), {.seed = 3}), by_hand(h, device(on), {.seed = 3});
    for (int step = 0; step < 4; ++step) {
      const float a = session.run(update, loss, {{x, batch()}}).item<float>();
      const float b = by_hand.run(update2, loss2, {{x2, batch()}}).item<float>();
      CHECK(a == b);
    }
    CHECK(session.state_sha256() == by_hand.state_sha256());
    const float a = session.run(test, {{x, batch()}}).item<float>();
    CHECK(a == by_hand.run(test2, {{x2, batch()}}).item<float>());
    // An evaluation moves nothing, and gives the same again.
    CHECK(session.run(test, {{x, batch()}}).item<float>() == a);
    CHECK(session.state_sha256() == by_hand.state_sha256());
    // r <- 0.75 r + 0.25 m, four times from 0.
    const Tensor kept = session.read(g.find_state("model.0.running_mean"));
    const Doubles means{0.75, 1, 1};
    for (int64_t i = 0; i < 3; ++i)
      CHECK(kept.at(i) == doctest::Approx(means[static_cast<size_t>(i)] * (1 - std::pow(0.75, 4))));
  }
}

TEST_CASE("statistics move once for each call for training under the loss") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Value z = g.input("z", f32, {-1, 3});
  const Centre centre(Scope(g) / "c", 3);
  const Value w = g.state("w", ones({3}));
  const Value first = sum(centre(x, Mode::kTraining) * w);
  const Value both = first + sum(centre(z, Mode::kTraining) * w);
  const auto after = [&](Value loss) {
    Session session(g, device("ref"));
    session.run(sgd(0.1).minimize(loss), {},
                {{x, Tensor::full(f32, {2, 3}, 4)}, {z, Tensor::full(f32, {2, 3}, 8)}});
    return session.read(centre.mean_of_training).at(0);
  };
  const auto only_first = [&] {
    Session session(g, device("ref"));
    session.run(sgd(0.1).minimize(first), {}, {{x, Tensor::full(f32, {2, 3}, 4)}});
    return session.read(centre.mean_of_training).at(0);
  };
  CHECK(only_first() == 1.0);                   // 0.25 * 4
  CHECK(after(both) == 0.75 * 1.0 + 0.25 * 8);  // and then 8
}

TEST_CASE("a shared module is called in a loop and tied to a second product") {
  Graph g;
  const Value x = g.constant(Tensor::of<float>({1, 2}, {1, 2}));
  const Dense cell(Scope(g) / "cell", 2, 2, {.weights = ones});
  const auto always = [](const Values& v) { return less(sum(v[0]), 1e9); };
  const auto body = [&](const Values& v) { return Values{cell(v[0])}; };
  const Value y = while_loop({x}, always, body, {.trip_count = 2})[0];
  const Value decoded = matmul(cell(x), cell.weight(), {.transpose_b = true});
  CHECK(g.states().size() == 2);
  CHECK(elements(y) == Doubles{6, 6});
  CHECK(elements(decoded) == Doubles{6, 6});
  const Values gradient = gradients(sum(y) + sum(decoded), cell.parameters());
  CHECK(gradient[0].shape() == Shape{2, 2});
  // A scope begun in a body makes its states in the root.
  const auto making = [&](const Values& v) {
    const Dense inner(Scope(v[0].graph()) / "inner", 2, 2, {.weights = ones});
    return Values{inner(v[0])};
  };
  while_loop({x}, always, making, {.trip_count = 1});
  CHECK(g.find_state("inner.weight").valid());
}

TEST_CASE("a module used inside another one counts among its parameters once") {
  Graph g;
  const Dense embedding(Scope(g) / "embedding", 3, 3);
  Sequential model(Scope(g) / "model");
  model.add(embedding).add<Dense>(3, 3).add(embedding);
  CHECK(names_of(model.parameters()) ==
        Names{"embedding.weight", "embedding.bias", "model.1.weight", "model.1.bias"});
  const Value y = model(g.input("x", f32, {-1, 3}), Mode::kTraining);
  CHECK(y.node().label().scope == "model/embedding");
  CHECK(trainable_states(sum(y)).size() == 4);
}

TEST_CASE("parameter groups are two optimizers by hand in one backward pass") {
  struct Model {
    Graph g;
    Value x = g.input("x", f32, {-1, 3});
    Dense first{Scope(g) / "first", 3, 4}, second{Scope(g) / "second", 4, 4},
        third{Scope(g) / "third", 4, 1};
    Value loss = mean(square(third(tanh(second(tanh(first(x)))))));
  };
  Model m, h;
  const Update groups = minimize(m.loss, {{m.first.parameters(), sgd(0.1, {.momentum = 0.9})},
                                          {m.second.parameters(), kFrozen},
                                          {m.third.parameters(), adamw(0.01)}});
  size_t passes = 0;
  for (const Node& node : m.g.nodes()) passes += node.op_name() == "gradient" ? 1 : 0;
  CHECK(passes == 1);

  const Values states{h.first.weight(), h.first.bias(), h.third.weight(), h.third.bias()};
  const Values all = gradients(h.loss, states);
  Update by_hand = sgd(0.1, {.momentum = 0.9}).apply({states[0], states[1]}, {all[0], all[1]});
  by_hand += adamw(0.01).apply({states[2], states[3]}, {all[2], all[3]});

  for (const char* on : {"ref", "cpu", "npu"}) {
    CAPTURE(on);
    CHECK(trained_states(m.g, groups, m.loss, {{m.x, batch()}}, on) ==
          trained_states(h.g, by_hand, h.loss, {{h.x, batch()}}, on));
    Session session(m.g, device(on), {.seed = 5});
    const Tensor before = session.read(m.second.weight());
    session.run(groups, {}, {{m.x, batch()}});
    CHECK(elements(session.read(m.second.weight())) == elements(before));
  }
}

TEST_CASE("groups take the updates that layers attached") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Centre centre(Scope(g) / "c", 3);
  const Dense dense_layer(Scope(g) / "d", 3, 1);
  const Value loss = sum(dense_layer(centre(x, Mode::kTraining)));
  const Update update = minimize(loss, {{dense_layer.parameters(), sgd(0.1)}});
  REQUIRE(update.assignments.size() == 3);
  CHECK(update.assignments[2].state == centre.mean_of_training);
}

TEST_CASE("groups refuse slips") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Dense a(Scope(g) / "a", 3, 3), b(Scope(g) / "b", 3, 1);
  const Value loss = sum(b(a(x)));
  const auto refused = [&](const std::vector<ParameterGroup>& groups, const std::string& part) {
    const size_t before = g.size();
    const int line = __LINE__ + 1;
    const std::string text = error_of([&] { minimize(loss, groups); });
    CAPTURE(text);
    CHECK(contains(text, part));
    CHECK(contains(text, "test_module.cpp:" + std::to_string(line)));
    CHECK(g.size() == before);
  };
  refused({{a.parameters(), sgd(0.1)}}, "state 'b.weight' in none");
  refused({{a.parameters(), sgd(0.1)}, {b.parameters(), kFrozen}, {{a.weight()}, sgd(1)}},
          "group 2: expected parameters that no other group has, got state 'a.weight', which is in "
          "group 0");
  refused({{a.parameters(), kFrozen}, {b.parameters(), kFrozen}}, "frozen or empty ones only");
  refused({}, "in none");
  Graph other;
  const Value foreign = other.state("w", zeros({2}));
  refused({{a.parameters(), sgd(0.1)}, {b.parameters(), sgd(0.1)}, {{foreign}, sgd(1)}},
          "another graph");
  refused({{a.parameters(), sgd(0.1)}, {b.parameters(), sgd(0.1)}, {{Value()}, sgd(1)}},
          "an empty Value");
}

TEST_CASE("layers refuse what does not fit and name the user's line") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Scope root(g);
  const auto line = [](int at) { return "test_module.cpp:" + std::to_string(at); };
  const Dense layer(root / "enc" / 0, 3, 2);
  std::string text = error_of([&] { Dense(Scope(g) / "enc" / 0, 3, 2); });
  CHECK(contains(text, "'enc.0.weight'"));
  CHECK(contains(text, "path of its own"));
  CHECK(contains(text, line(__LINE__ - 3)));
  text = error_of([&] { layer(g.input("wide", f32, {-1, 4})); });
  CHECK(contains(text, "dense enc.0: x: expected f32[batch, ..., 3], got f32[?, 4]"));
  CHECK(contains(text, line(__LINE__ - 2)));
  CHECK(contains(error_of([&] { layer(cast(x, f64)); }), "got f64[?, 3]"));
  CHECK(contains(error_of([&] { layer(1.0); }), "a number"));
  CHECK(contains(error_of([&] { layer(Value()); }), "an empty Value"));
  CHECK(contains(error_of([&] { Dense(root / "z", 0, 2); }), "features: expected at least 1"));
  CHECK(contains(error_of([&] { Dense(root / "z", 2, 0); }), "units: expected at least 1"));
  CHECK(contains(error_of([&] { Dense(root / "z", 2, 2, {.dtype = i32}); }), "a float dtype"));
  CHECK(contains(error_of([&] { Dropout(root / "z", 1); }), "rate: expected a number in [0, 1)"));
  CHECK(contains(error_of([&] { root / ""; }), "an empty one"));
  CHECK(contains(error_of([&] { Dense(root / "a\nb", 2, 2); }), "control characters"));
  CHECK_FALSE(g.find_state("z.weight").valid());

  Sequential model(root / "model");
  Value (*const none)(Operand, CallSite) = nullptr;
  CHECK(contains(error_of([&] { model.add(none); }), "layer 0: expected a function"));
  CHECK(contains(error_of([&] { sequential(x, {relu, none}); }), "layer 1: expected a function"));
  Graph other;
  const Dense foreign(Scope(other) / "far", 3, 3);
  CHECK(contains(error_of([&] { model.add(foreign); }), "'far' of another one"));
  CHECK(model.size() == 0);

  const Value state = g.state("s", zeros({3}), {.trainable = false});
  CHECK(contains(error_of([&] { attach_running_mean(x, state, mean(x, {0}), 1.5); }), "[0, 1]"));
  CHECK(contains(error_of([&] { attach_running_mean(x, state, mean(x), 0.5); }),
                 "expected f32[3], the type of state 's', got f32[]"));
}

TEST_CASE("functions and lambdas are layers of a sequence") {
  Graph g;
  const Value x = g.constant(Tensor::of<float>({1, 2}, {-1, 2}));
  Sequential model(Scope(g) / "m");
  model.add(relu).add([](Value v) { return v * 2.0f; }).add([](Value v, Mode mode, CallSite) {
    return mode == Mode::kTraining ? v + 1.0f : v;
  });
  CHECK(elements(model(x, Mode::kTraining)) == Doubles{1, 5});
  CHECK(elements(model(x, Mode::kEvaluation)) == Doubles{0, 4});
  CHECK(elements(sequential(x, {relu, [](Value v) { return v + 3.0f; }})) == Doubles{3, 5});
}

TEST_SUITE_END();
