// Names, scopes and scoped attributes: on nodes, through every pass, in texts, errors and lookups.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/scopes.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/precision/apply_precision.h"
#include "keel/graph/precision/keep_dtype.h"

#include "ops_for_tests.h"
#include "support/fusing.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::everything;

// What display_name says of the nodes of one op.
std::vector<std::string> shown(const Graph& graph, const std::string& op) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op_name() == op) names.push_back(display_name(node));
  }
  return names;
}
using Names = std::vector<std::string>;

// A step for `fuse`: the fetches of a graph with known shapes.
std::unique_ptr<Graph> specialised_step(const Graph& g, const Values& fetches) {
  SpecialiseRequest request;
  request.graph = &g;
  request.fetches = fetches;
  for (const Value& input : g.inputs()) request.input_types[name_of(input.node())] = input.type();
  return specialise(request);
}

struct ScopedClassifier {
  Graph g;
  Value x = g.input("x", f32, {8, 6});
  Value y = g.input("y", u8, {8});
  Value loss;
  Update update;
  explicit ScopedClassifier(bool scoped = true) {
    const auto build = [&] {
      const Value h = relu(dense(dropout(x, 0.25), 5, {.name = "hidden1"}));
      return mean(softmax_cross_entropy(dense(h, 3, {.name = "logits"}), y));
    };
    if (scoped) {
      const NameScope model(g, "model");
      const AttributeScope note(g, "owner", "tests");
      loss = named(build(), "loss");
    } else {
      loss = build();
    }
    update = adam(0.01).minimize(loss);
  }
  Feeds feeds() const { return {{x, counting({8, 6})}, {y, Tensor::full(u8, {8}, 1)}}; }
};

}  // namespace

TEST_CASE("nodes carry the scope they were built in") {
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  Value inner, body;
  {
    const NameScope encoder(g, "encoder/0");
    inner = exp(x);
    {
      const NameScope attention(g, "attention");
      // A body's nodes lie in the scopes of the graph around it.
      const auto always = [](const Values& v) { return less(sum(v[0]), 9); };
      while_loop({x}, always, [&](const Values& v) { return Values{body = tanh(v[0])}; },
                 {.trip_count = 2});
    }
    CHECK(full_name(neg(x).node()) == "encoder/0/neg");
    // Names of inputs and states are keys in files: no scope changes them.
    CHECK(full_name(g.state("w", zeros({2})).node()) == "w");
    CHECK(g.find_state("w").valid());
  }
  CHECK(full_name(inner.node()) == "encoder/0/exp");
  CHECK(full_name(body.node()) == "encoder/0/attention/tanh");
  CHECK(full_name(exp(x).node()) == "exp");
  CHECK(full_name(x.node()) == "x");
  // A scope ends with its block also where that is left by an error.
  CHECK(contains(error_of([&] {
                   const NameScope lost(g, "lost");
                   matmul(x, x);
                 }),
                 "lost: matmul"));
  CHECK(full_name(exp(x).node()) == "exp");
}

TEST_CASE("values are found by name") {
  Graph g;
  const Value x = g.input("x", f32, {2, 3});
  const Value w = g.state("hidden/w", ones({3, 4}));
  Value product, loss;
  {
    const NameScope scope(g, "hidden");
    product = matmul(x, w);
  }
  loss = named(mean(product), "loss");
  const Value count = while_loop(
      {x}, [](const Values& v) { return less(sum(v[0]), 9); },
      [](const Values& v) { return Values{v[0] + 1}; }, {.trip_count = 2})[0];
  named(count, "loop");
  CHECK(g.find("loss") == loss);
  CHECK(g.find("loss:0") == loss);
  CHECK(g.find("x") == x);
  CHECK(g.find("x:0") == x);
  CHECK(g.find("hidden/w") == w);
  CHECK(g.find("hidden/matmul") == product);
  CHECK(g.find("hidden/matmul:0") == product);
  CHECK(g.find("loop:1") == count);
  for (const char* none : {"", "los", "loss:1", "loss:", "loss:x", "loss:-1", ":0", "matmul",
                           "hidden", "loss:99999999999", "Loss"}) {
    CAPTURE(none);
    CHECK_FALSE(g.find(none).valid());
  }
  Session session(g, device("ref"));
  CHECK(session.run(g.find("loss:0"), {{x, Tensor::full(f32, {2, 3}, 2)}}).item<float>() == 6);

  {
    const NameScope scope(g, "hidden");
    matmul(x, w);
  }
  const std::string text = error_of([&] { g.find("hidden/matmul"); });
  CHECK(contains(text, "'hidden/matmul', which 2 have"));
  CHECK(contains(text, "test_scopes.cpp:" + std::to_string(__LINE__ - 4)));
  CHECK(contains(text, "named()"));
  g.input("w2", f32, {});
  g.state("w2", zeros({}));
  CHECK(contains(error_of([&] { g.find("w2"); }), "state 'w2'"));
}

TEST_CASE("names that cannot be are refused with the user's line") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value y = named(exp(x), "y");
  CHECK(named(y, "y") == y);
  const auto refused = [](const auto& call, const std::string& part) {
    const std::string text = error_of(call);
    CAPTURE(text);
    CHECK(contains(text, part));
    CHECK(contains(text, "test_scopes.cpp"));
  };
  refused([&] { named(x, "z"); }, "input 'x', which has its name");
  refused([&] { named(y, "z"); }, "'y', made at");
  refused([&] { named(neg(x), "y"); }, "'y', the name of exp");
  refused([&] { named(neg(x), "x"); }, "'x', the name of input");
  refused([&] { named(neg(x), "a:0"); }, "without ':'");
  refused([&] { named(neg(x), ""); }, "without ':'");
  refused([&] { named(neg(x), "a\nb"); }, "control characters");
  refused([&] { named(Value(), "z"); }, "an empty Value");
  refused([&] { NameScope(g, ""); }, "name scope: name");
  refused([&] { NameScope(g, "a//b"); }, "name scope: name");
  refused([&] { NameScope(g, "/a"); }, "name scope: name");
  refused([&] { NameScope(g, "a/"); }, "name scope: name");
  refused([&] { NameScope(g, "\xff"); }, "UTF-8");
  refused([&] { AttributeScope(g, "", "v"); }, "a key");
  refused([&] { AttributeScope(g, "k", "\x1b"); }, "control characters");
  const Value z = neg(x);
  g.freeze();
  refused([&] { named(z, "z"); }, "GRAPH_FROZEN");
}

TEST_CASE("tasks of a training have the names of what they compute") {
  ScopedClassifier c;
  for (const char* on : {"ref", "cpu", "npu"}) {
    CAPTURE(on);
    Session session(c.g, device(on));
    const std::string tasks = session.describe(c.update, {c.loss}, c.feeds());
    CAPTURE(tasks);
    CHECK(contains(tasks, "model/hidden1/matmul"));
    CHECK(contains(tasks, "gradient/model/"));
    CHECK(contains(tasks, "adam/hidden1/w/"));
    CHECK_FALSE(contains(tasks, "%"));
    CHECK_FALSE(contains(tasks, "fused("));
  }
  Session session(c.g, device("npu"));
  CHECK(contains(session.describe(c.update, {c.loss}, c.feeds()),
                 "model/hidden1/matmul + add + model/relu"));
}

TEST_CASE("names enter no result") {
  ScopedClassifier scoped(true), plain(false);
  const auto states_of = [](ScopedClassifier& c, const char* on) {
    Session session(c.g, device(on), {.seed = 9});
    std::string losses;
    for (int i = 0; i < 5; ++i)
      losses += std::to_string(session.run(c.update, c.loss, c.feeds()).item<float>()) + " ";
    CHECK(session.compiles() == 1);
    const std::string tasks = session.describe(c.update, {c.loss}, c.feeds());
    return session.state_sha256() + " " + losses +
           std::to_string(std::count(tasks.begin(), tasks.end(), '\n'));
  };
  for (const char* on : {"ref", "cpu", "npu"}) CHECK(states_of(scoped, on) == states_of(plain, on));
}

TEST_CASE("layers that compute the same share a body and keep their names") {
  Graph g;
  Value x = g.input("x", f32, {4, 4});
  for (int i = 0; i < 3; ++i) {
    const NameScope layer(g, "layer" + std::to_string(i));
    x = tanh(matmul(x, g.state("w" + std::to_string(i), ones({4, 4}))) + 1.0f);
  }
  const auto step = specialised_step(g, {x});
  const auto result = fuse(*step, everything);
  CHECK(shown(*result, "fused") == Names{"layer0/matmul + add + tanh", "layer1/matmul + add + tanh",
                                         "layer2/matmul + add + tanh"});
  std::vector<const Graph*> bodies;
  for (const Node& node : result->nodes()) {
    if (is_fused_node(node)) bodies.push_back(node.bodies()[0].get());
  }
  REQUIRE(bodies.size() == 3);
  // The first one reads what another line made.
  CHECK(bodies[1] == bodies[2]);
}

TEST_CASE("a fused node shows each scope once and knows every member") {
  Graph g;
  const Value x = g.input("x", f32, {4, 4});
  const Value w = g.state("w", ones({4, 4}));
  const Value scaled = x * 2.0f;
  Value h, y;
  {
    const NameScope layer(g, "a");
    h = matmul(scaled, w) + 1.0f;
  }
  {
    const NameScope layer(g, "b");
    y = named(tanh(exp(h)), "top");
  }
  y = neg(y);
  const auto result = fuse(*specialised_step(g, {y}), everything);
  CHECK(shown(*result, "fused") == Names{"mul + a/matmul + add + b/exp + top + neg"});
  for (const Node& node : result->nodes()) {
    if (!is_fused_node(node)) continue;
    REQUIRE(node.label().members.size() == node.bodies()[0]->size());
    for (const Node& inner : node.bodies()[0]->nodes()) {
      const bool has_scope = node.label().members[inner.id()] != nullptr;
      CHECK(has_scope ==
            (!inner.has(kSource) && inner.op_name() != "mul" && inner.op_name() != "neg"));
    }
  }
}

TEST_CASE("what passes make for a named node lies in its scope") {
  Graph g;
  const Value x = g.input("x", f32, {4});
  Value y;
  {
    const NameScope scope(g, "s");
    y = named(softmax(x), "p");
  }
  const auto step = specialised_step(g, {y});
  CHECK(full_name(step->outputs()[0].node()) == "s/p");
  const auto not_softmax = [](const Node& node) {
    return Support{node.op_name() != "softmax", ""};
  };
  const auto simpler = decompose(*step, not_softmax);
  for (const Node& node : simpler->nodes()) {
    if (!node.has(kSource)) CHECK(node.label().scope == "s/p");
  }
  // Constants that are folded stay where they came from.
  Graph h;
  Value z;
  {
    const NameScope scope(h, "c");
    z = h.constant(counting({3})) + 1.0f;
  }
  const auto folded = fold(*specialised_step(h, {z}));
  CHECK(folded->outputs()[0].node().op_name() == "constant");
  CHECK(folded->outputs()[0].node().label().scope == "c");
  // Where two nodes are equal, the name that one has stays.
  Graph k;
  const Value a = k.input("a", f32, {3});
  const Value first = exp(a), second = named(exp(a), "e");
  const auto merged = cse(*specialised_step(k, {first, second}));
  CHECK(shown(*merged, "exp") == Names{"e"});
}

TEST_CASE("scoped attributes survive every pass and keep equal nodes apart") {
  Graph g;
  const Value x = g.input("x", f32, {4, 4});
  const Value w = g.state("w", ones({4, 4}));
  Value plain = exp(matmul(x, w)), marked, again;
  {
    const AttributeScope host(g, "device", "host");
    const AttributeScope other(g, "a", "1");
    marked = exp(matmul(x, w));
    {
      const AttributeScope inner(g, "device", "npu");
      again = exp(matmul(x, w));
    }
  }
  const auto device_of = [](const Value& v) {
    const std::string* found = scoped_attribute(v.node(), "device");
    return found == nullptr ? "" : *found;
  };
  CHECK(device_of(plain) == "");
  CHECK(device_of(marked) == "host");
  CHECK(device_of(again) == "npu");
  CHECK(*scoped_attribute(again.node(), "a") == "1");

  const Value loss = sum(plain) + sum(marked) + sum(again);
  const auto step = specialised_step(g, {loss, gradients(loss, {w})[0]});
  const auto merged = cse(*fold(*decompose(*step, everything)));
  CHECK(shown(*merged, "matmul").size() >= 3);
  size_t hosts = 0, gradients_of_hosts = 0;
  const auto count = [&](const Graph& graph) {
    hosts = gradients_of_hosts = 0;
    for (const Node& node : graph.nodes()) {
      const std::string* found = scoped_attribute(node, "device");
      if (found == nullptr || *found != "host") continue;
      ++hosts;
      if (node.label().scope == "gradient") ++gradients_of_hosts;
    }
  };
  count(*merged);
  CHECK(hosts >= 3);
  CHECK(gradients_of_hosts >= 1);
  // In bodies, and on a fused node where all its members agree.
  const auto fused = fuse(*merged, everything);
  size_t whole = 0, inside = 0;
  for (const Node& node : fused->nodes()) {
    if (!is_fused_node(node)) continue;
    if (device_of(node.output()) == "host") ++whole;
    for (const Node& inner : node.bodies()[0]->nodes())
      inside += device_of(inner.output()) == "host" ? 1 : 0;
  }
  CHECK(whole >= 1);
  CHECK(inside >= 2);
}

TEST_CASE("keep_dtype_scope: what is built in it keeps its dtypes under every mode and fused") {
  const auto train = [](bool keep, const char* precision) {
    Graph g;
    const Value x = g.input("x", f32, {8, 6});
    Value loss;
    const auto build = [&] {
      loss = mean(square(dense(tanh(dense(x, 5, {.name = "a"})), 2, {.name = "b"})));
    };
    if (keep) {
      const KeepDtypeScope exact(g);
      build();
    } else {
      build();
    }
    Session session(g, device("npu"), {.precision = precision});
    const Update update = sgd(0.1).minimize(loss);
    for (int i = 0; i < 3; ++i) session.run(update, loss, {{x, counting({8, 6})}});
    return session.state_sha256();
  };
  const std::string in_f32 = train(false, "fp32");
  CHECK(train(false, "mixed_bf16") != in_f32);
  CHECK(train(true, "mixed_bf16") == in_f32);
  CHECK(train(true, "fp32") == in_f32);

  Graph g;
  const Value x = g.input("x", f32, {8, 6});
  Value kept, wrong;
  {
    const NameScope scope(g, "head");
    const KeepDtypeScope exact(g);
    kept = matmul(x, g.state("w", ones({6, 2})));
  }
  PrecisionReport report;
  apply_precision(*specialised_step(g, {kept}), {.mode = &find_precision_mode("mixed_bf16")},
                  everything, &report);
  REQUIRE(report.decisions.size() == 1);
  CHECK(contains(to_string(report.decisions[0]), "head/matmul: f32 by attribute precision: keep"));
  {
    const AttributeScope exact(g, kPrecisionAttribute, "f64");
    wrong = matmul(x, g.state("v", ones({6, 2})));
  }
  const std::string text = error_of([&] {
    apply_precision(*specialised_step(g, {wrong}), {.mode = &find_precision_mode("mixed_bf16")},
                    everything);
  });
  CHECK(contains(text, "matmul: attribute precision: expected 'keep', got 'f64'"));
}

TEST_CASE("the text of a graph keeps names attributes and members") {
  Graph g;
  const Value x = g.input("x", f32, {4, 4});
  Value y;
  {
    const NameScope scope(g, "enc \"0\"/b");
    const AttributeScope mark(g, "device", "host");
    const AttributeScope other(g, "a b", "1=2");
    y = named(tanh(matmul(x, g.state("w", ones({4, 4}))) * 2.0f), "top");
  }
  y = neg(y);
  for (const bool fused : {false, true}) {
    auto graph = specialised_step(g, {y});
    if (fused) graph = fuse(*graph, everything);
    const std::string text = print_graph(*graph);
    CAPTURE(text);
    CHECK(contains(text, "in \"enc \\\"0\\\"/b\""));
    CHECK(contains(text, "as \"top\""));
    CHECK(contains(text, "\"a b\"=\"1=2\", \"device\"=\"host\""));
    CHECK(contains(text, "members [") == fused);
    const auto parsed = parse_graph(text);
    CHECK(print_graph(*parsed) == text);
    for (const Node& node : graph->nodes())
      CHECK(same_label(node.label(), parsed->node(node.id()).label()));
    if (!fused) CHECK(parsed->find("enc \"0\"/b/top").valid());
    CHECK_FALSE(contains(print_graph(*graph, {.labels = false}), "enc"));
  }
}

TEST_CASE("labels in text are checked") {
  const auto error = [](const std::string& label) {
    return error_of([&] {
      parse_graph("graph {\n  %0 = constant() {value=i64[](3)} : i64[] " + label + "\n}\n");
    });
  };
  CHECK(error("in \"a\" as \"b\" with {\"c\"=\"d\"}") == "");
  CHECK(contains(error("in a"), "a scope in quotes"));
  CHECK(contains(error("as"), "a name in quotes"));
  CHECK(contains(error("in \"a\\x01\""), "control characters"));
  CHECK(contains(error("with {}"), "a key in quotes"));
  CHECK(contains(error("with {\"c\"}"), "="));
  CHECK(contains(error("with {\"c\"=\"d\", \"b\"=\"e\"}"), "keys in their order"));
  CHECK(contains(error("with {\"c\"=\"d\", \"c\"=\"e\"}"), "each once"));
  CHECK(contains(error("members [none]"), "0 members"));
  CHECK(contains(error("members [in \"a\""), "']'"));
  CHECK(contains(error("as \"b\" in \"a\""), "2:"));
}

TEST_CASE("drawings and errors of a run show names") {
  Graph g;
  const Value table = g.state("table", ones({4, 2}));
  const Value ids = g.input("ids", i64, {3});
  Value rows;
  {
    const NameScope scope(g, "embedding");
    rows = gather(table, ids, 0);
  }
  CHECK(contains(to_dot(g), "embedding/gather"));
  CHECK(described(rows) == "the result of embedding/gather");
  for (const char* on : {"ref", "cpu", "npu"}) {
    CAPTURE(on);
    Session session(g, device(on));
    const std::string text = error_of([&] {
      session.run(rows, {{ids, Tensor::full(i64, {3}, 9)}});
    });
    CHECK(contains(text, "(embedding/gather)"));
    CHECK(contains(text, "test_scopes.cpp"));
  }
}

TEST_SUITE_END();
